#!/bin/bash
# Installs what is missing, builds (release) and runs all tests. Run again, it repeats only the tests.
#
#   scripts/test.sh [--isa=SET] [CTEST-ARGUMENT...]      e.g. scripts/test.sh -R lit
#
# --isa=SET runs them as on a processor that has no more than one of scripts/isa.sh: AVX2, AVX512_CORE, ... So does the
# variable ONEDNN_MAX_CPU_ISA.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ "${1:-}" == --isa=* ]]; then
  export ONEDNN_MAX_CPU_ISA="${1#--isa=}"
  shift
  if [[ " $(scripts/isa.sh) " != *" $ONEDNN_MAX_CPU_ISA "* ]]; then
    echo "test.sh: this processor has no \"$ONEDNN_MAX_CPU_ISA\"; it has $(scripts/isa.sh)" >&2
    exit 1
  fi
  echo "test.sh: under ONEDNN_MAX_CPU_ISA=$ONEDNN_MAX_CPU_ISA" >&2
fi

scripts/install.sh
# The tests with PyTorch of today skip themselves where PyPI cannot be reached.
scripts/install.sh python || echo "test.sh: going on without PyTorch of today" >&2
scripts/build.sh release
# A test that hangs ends after an hour instead of holding up the rest; none takes a minute of processor time.
exec ctest --test-dir build/release --output-on-failure --timeout 3600 -j "$(nproc)" "$@"
