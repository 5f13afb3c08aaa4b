#!/bin/bash
# Configures and builds one preset of CMakePresets.json; only what changed is built again.
#
#   scripts/build.sh [release|dev|asan|tsan|gcc] [TARGET...]      default: release, everything
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-release}
[ $# -eq 0 ] || shift
log=$(cmake --preset "$preset" 2>&1) || {
  echo "$log" >&2
  echo "build.sh: preset \"$preset\" does not configure; scripts/install.sh installs what it needs" >&2
  exit 1
}
if [ $# -gt 0 ]; then
  exec cmake --build "build/$preset" --target "$@"
fi
exec cmake --build "build/$preset"
