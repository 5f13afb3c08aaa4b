#!/usr/bin/env python3
"""C++ files are as clang-format 22 writes them: usage check_format.py ROOT [--fix]. Exits 77 (skipped) without clang-format-22."""

import shutil
import subprocess
import sys
from pathlib import Path

from tree import SOURCES, files


def main() -> None:
    root = Path(sys.argv[1])
    tool = shutil.which("clang-format-22")
    if not tool:
        print("clang-format-22 is not installed; scripts/install.sh installs it")
        raise SystemExit(77)
    paths = [str(p) for p in files(root, SOURCES)]
    if "--fix" in sys.argv:
        subprocess.run([tool, "-i", *paths], cwd=root, check=True)
        return
    done = subprocess.run([tool, "--dry-run", "--Werror", *paths], cwd=root, capture_output=True, text=True)
    bad = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "[-Wclang-format-violations]" in line})
    for path in bad:
        print(f"{path}: not formatted")
    if done.returncode:
        raise SystemExit(f"{len(bad)} file(s) differ; tests/lint/check_format.py . --fix rewrites them\n"
                         + ("" if bad else done.stderr))


if __name__ == "__main__":
    main()
