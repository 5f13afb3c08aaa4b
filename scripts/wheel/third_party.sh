#!/bin/bash
# Prints what a wheel has inside of others: each package with its version and Debian's record of its copyright and licence.
set -euo pipefail

cat <<'TEXT'
The wheel of Stowage holds, beside Stowage, code of the following packages as Debian distributes them. LLVM, MLIR, lld, protobuf, Abseil,
CBC with Cgl, Clp, Osi and CoinUtils, ONNX's format, zlib, zstd, bzip2, LAPACK, BLAS and GCC's libraries are linked into the compiler;
oneDNN, the OpenCL loader, libgomp, start files of glibc, zlib and GCC's libraries lie beside it, for programs that it links.
TEXT
for package in llvm-22 libmlir-22-dev liblld-22-dev libprotobuf-dev libabsl-dev coinor-libcbc-dev coinor-libcgl-dev coinor-libclp-dev \
  coinor-libosi-dev coinor-libcoinutils-dev libonnx-dev libdnnl2 ocl-icd-libopencl1 nlohmann-json3-dev libcli11-dev zlib1g-dev libzstd-dev \
  libbz2-dev liblapack-dev libblas-dev libgcc-12-dev libstdc++-12-dev libgfortran-12-dev libgomp1 libc6-dev; do
  version=$(dpkg-query -W -f '${Version}' "$package")
  printf '\n%s\n== %s %s\n%s\n\n' "$(printf '=%.0s' {1..100})" "$package" "$version" "$(printf '=%.0s' {1..100})"
  cat "/usr/share/doc/$package/copyright"
done
