#!/bin/bash
# Tries the wheel where nothing is: installs it offline into bare systems without a compiler, as a user whose home cannot be written,
# plans, compiles and trains there, and takes it away again.
#
#   scripts/test_wheel.sh [SUITE...]      default: bookworm trixie; any suite of Debian that debootstrap knows
#
# Needs root, the wheel (scripts/wheel.sh) and, the first time, the network. Systems and NumPy stay in build/wheel.
# In bookworm a module trains too, beside PyTorch of today where that is in build/python (scripts/install.sh python), and JAX, imported
# in every order.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "test_wheel.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "needs root, for chroot"
wheels=(build/wheel/stowage-*.whl)
[ -e "${wheels[0]}" ] || fail "no wheel in build/wheel; run scripts/wheel.sh"
[ $# -gt 0 ] || set -- bookworm trixie

torch=build/python/lib/python3.11/site-packages
jax=build/wheel/jax
mounted=()
cleanup() { for place in "${mounted[@]}"; do umount "$place"; done; }
trap cleanup EXIT
mount_in() {
  [ -e "$2" ] || mkdir -p "$2"
  mount --bind ${3:+-o "$3"} "$1" "$2"
  mounted=("$2" "${mounted[@]}")
}

# require_names FILE PATTERN: whatever the file exports matches, and something does.
require_names() {
  local names others
  names=$(nm -D --defined-only "$1" | awk '{ print $3 }')
  others=$(grep -vE "$2" <<<"$names" || true)
  [ -n "$names" ] && [ -z "$others" ] || fail "$1 exports ${others:-nothing}; expected names of the pattern $2 alone"
}

for suite in "$@"; do
  root=build/wheel/roots/$suite
  if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" >"$root.log" 2>&1 || fail "no bare system of $suite: $root.log"
    chroot "$root" useradd --no-create-home --home-dir /srv/guest guest
    install -d -m 555 "$root/srv/guest"
    touch "$root/complete"
  fi
  version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  numpy=build/wheel/numpy/$version
  ls "$numpy"/*.whl >/dev/null 2>&1 || build/wheel/tools/bin/pip download -q --disable-pip-version-check --only-binary=:all: \
    --python-version="$version" --platform=manylinux2014_x86_64 --platform=manylinux_2_27_x86_64 --platform=manylinux_2_28_x86_64 -d "$numpy" numpy
  work=$root/tmp/wheel
  rm -rf "$work"
  install -d -m 755 "$work"
  cp build/wheel/stowage-*.whl "$numpy"/*.whl models/digits_cnn.onnx models/data/digits.npz scripts/wheel/in_bare_system.sh \
    tests/python/wheel_example.py "$work"
  chroot "$root" chown -R guest /tmp/wheel
  mount_in /proc "$root/proc"
  mount_in /dev/null "$root/dev/null"
  if [ "$version" = 3.11 ] && [ -e "$torch" ]; then
    mount_in "$torch" "$root/opt/torch" ro
    [ -e "$jax/complete" ] || {
      rm -rf "$jax"
      build/wheel/tools/bin/pip install -q --disable-pip-version-check --only-binary=:all: --python-version="$version" --target "$jax" jax==0.10.2
      touch "$jax/complete"
    }
    mount_in "$jax" "$root/opt/jax" ro
  fi
  echo "test_wheel.sh: $suite, Python $version, $(chroot "$root" ldd --version | head -1)"
  unshare --net chroot --userspec=guest "$root" env -i HOME=/srv/guest PATH=/usr/bin:/bin bash /tmp/wheel/in_bare_system.sh ||
    fail "the wheel fails in $suite"
  # What a process that loads a program sees of it, and whoever looks into the compiler.
  require_names "$work/libdigits.so" '^stowage_'
  require_names "$work/digits" '^(GOMP|omp)_'
  cleanup
  mounted=()
done
echo "test_wheel.sh: passed in $*"
