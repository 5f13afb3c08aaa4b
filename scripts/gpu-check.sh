#!/bin/bash
# Checks and measures Stowage on the GPU of this machine, in steps that can be interrupted; lies in the folder that
# scripts/gpu-bundle.sh writes, and needs nothing else but a driver and Python 3.
#
#   ./gpu-check.sh [--limit=SECONDS] [--only=PATTERN]              --help says more
set -euo pipefail
exec "${PYTHON:-python3}" "$(dirname "$0")/check.py" "$@"
