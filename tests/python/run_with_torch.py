"""Runs a test or an example with the virtual environment that `scripts/install.sh python` makes: PYTHON FILE [ARGUMENT...].

Skips (exit code 77) with a message where that environment is not there: PyTorch of today is no Debian package.
"""

import os
import subprocess
import sys

PACKAGES = ("torch", "torchvision", "transformers", "onnx", "onnxscript")


def main() -> None:
    interpreter, *command = sys.argv[1:]
    if not os.access(interpreter, os.X_OK):
        print(f"skipped: {interpreter} is not there; scripts/install.sh python installs PyTorch, torchvision and Transformers")
        sys.exit(77)
    # Found, not imported: that takes seconds, and what is found and broken is a failure.
    find = f"import importlib.util; print(*(name for name in {PACKAGES} if not importlib.util.find_spec(name)))"
    missing = subprocess.run([interpreter, "-c", find], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    if missing:
        print(f"skipped: {interpreter} has no {' and no '.join(missing)}; run scripts/install.sh python")
        sys.exit(77)
    sys.exit(subprocess.run([interpreter, "-B", *command]).returncode)


if __name__ == "__main__":
    main()
