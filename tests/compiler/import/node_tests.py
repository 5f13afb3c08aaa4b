#!/usr/bin/env python3
"""Judges the node tests of the package `onnx` that this interpreter has, and compares docs/node-tests.md where it is of that version.

    node_tests.py --node-tests=PROGRAM --work=FOLDER --page=docs/node-tests.md

Run in the night: with the reference evaluator, then with what the compiler makes of them.
"""

import argparse
import pathlib
import subprocess
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node-tests", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--page", type=pathlib.Path, required=True)
    options = parser.parse_args()
    here = pathlib.Path(__file__).resolve().parent
    subprocess.run([sys.executable, here / "make_conformance.py", options.work], check=True)
    version = (options.work / "version.txt").read_text().strip()
    page = [f"--check={options.page}"] if f"of ONNX {version}," in options.page.read_text() else []
    if not page:
        print(f"node_tests.py: {options.page} is of another version than {version}: not compared")
    codes = [subprocess.run([options.node_tests, options.work, *more]).returncode for more in (page, ["--compiled"])]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
