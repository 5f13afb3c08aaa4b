#!/bin/bash
# Installs what is missing, builds (release) and runs all tests. Run again, it repeats only the tests.
#
#   scripts/test.sh [CTEST-ARGUMENT...]      e.g. scripts/test.sh -R lit
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh
# The tests with PyTorch of today skip themselves where PyPI cannot be reached.
scripts/install.sh python || echo "test.sh: going on without PyTorch of today" >&2
scripts/build.sh release
# A test that hangs ends after an hour instead of holding up the rest; none takes a minute of processor time.
exec ctest --test-dir build/release --output-on-failure --timeout 3600 -j "$(nproc)" "$@"
