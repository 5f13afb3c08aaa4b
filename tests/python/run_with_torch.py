"""Runs a test or an example with the virtual environment that `scripts/install.sh python` makes: PYTHON FILE [ARGUMENT...].

Skips (exit code 77) with a message where that environment is not there: PyTorch of today is no Debian package.
"""

import os
import subprocess
import sys


def main() -> None:
    interpreter, *command = sys.argv[1:]
    if not os.access(interpreter, os.X_OK):
        print(f"skipped: {interpreter} is not there; scripts/install.sh python installs PyTorch, torchvision and Transformers")
        sys.exit(77)
    probe = subprocess.run([interpreter, "-c", "import torch, torchvision, transformers, onnx, onnxscript"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    if probe.returncode != 0:
        print(f"skipped: {interpreter} cannot import what the tests need; run scripts/install.sh python\n{probe.stdout}")
        sys.exit(77)
    sys.exit(subprocess.run([interpreter, "-B", *command]).returncode)


if __name__ == "__main__":
    main()
