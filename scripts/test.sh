#!/bin/bash
# Installs what is missing, builds (release) and runs all tests. Run again, it repeats only the tests.
#
#   scripts/test.sh [CTEST-ARGUMENT...]      e.g. scripts/test.sh -R lit
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh
scripts/build.sh release
# A test that hangs ends after 20 minutes instead of holding up the rest.
exec ctest --test-dir build/release --output-on-failure --timeout 1200 -j "$(nproc)" "$@"
