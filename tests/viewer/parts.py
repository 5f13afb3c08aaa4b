#!/usr/bin/env python3
"""Checks the types of viewer/src and runs its parts without a browser: usage parts.py --work=FOLDER.

Skipped (77) where node or the TypeScript compiler is missing; scripts/install.sh installs both.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VIEWER = HERE.parents[1] / "viewer"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    work = parser.parse_args().work
    missing = [tool for tool in ("node", "tsc", "esbuild") if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} missing; scripts/install.sh installs them")
        sys.exit(77)
    subprocess.run(["tsc", "-p", VIEWER], check=True)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    tests = sorted(HERE.glob("*.test.mjs"))
    if not tests:
        sys.exit(f"parts.py: no *.test.mjs in {HERE}")
    subprocess.run(["esbuild", *tests, "--bundle", "--platform=node", "--format=esm", "--out-extension:.js=.mjs",
                    "--log-level=warning", f"--outdir={work}"], check=True)
    subprocess.run(["node", "--test", *(work / test.name for test in tests)], check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"parts.py: {error.cmd[0]} ended with exit code {error.returncode}")
