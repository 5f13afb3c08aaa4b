#!/bin/bash
# One folder with all that a machine with a GPU needs to check and measure Stowage; made on any machine.
#
#   scripts/gpu-bundle.sh OUT [--target=cuda:CHIP] [--tiny]        --help says more
set -euo pipefail
exec "${PYTHON:-/usr/bin/python3}" "$(dirname "$0")/gpu/bundle.py" "$@"
