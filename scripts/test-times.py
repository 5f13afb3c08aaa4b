#!/usr/bin/env python3
"""Prints the processor time that every test takes, the most expensive first.

    scripts/test-times.py [--build=build/release] [--jobs=N] [CTEST-ARGUMENT...]      e.g. scripts/test-times.py -R e2e

One ctest per test, so the figures hold beside other work; wall time is printed beside them. It fails when a test does.
"""
import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def names(build, arguments):
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *arguments], check=True, capture_output=True, text=True)
    return [test["name"] for test in json.loads(listing.stdout)["tests"]]


def measure(build, arguments, name):
    """Status, processor seconds and wall seconds of one test, with processes that outlived their parents."""
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        command = ["ctest", "--test-dir", build, "--output-on-failure", *arguments, "-R", f"^{re.escape(name)}$"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ctest:
            text = ctest.communicate()[0]
        try:
            while True:
                os.wait()
        except ChildProcessError:
            pass
        if ctest.returncode:
            print(text, flush=True)
        elif re.search(r"\*\*\*Skipped|\*\*\*Not Run", text):
            os._exit(77)
        os._exit(1 if ctest.returncode else 0)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip(), description=__doc__.split("\n")[0])
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--build", default=str(root / "build/release"))
    parser.add_argument("--jobs", type=int, default=1)
    options, arguments = parser.parse_known_args()
    words = {0: "", 77: "skipped"}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tests = names(options.build, arguments)
        results = list(pool.map(lambda name: (name, *measure(options.build, arguments, name)), tests))
    print(f"{'test':40} {'processor s':>12} {'wall s':>8}")
    for name, status, processor, wall in sorted(results, key=lambda result: -result[2]):
        print(f"{name:40} {processor:12.2f} {wall:8.1f}  {words.get(status, 'FAILED')}")
    print(f"{'all':40} {sum(result[2] for result in results):12.2f}")
    return int(any(result[1] not in words for result in results))


if __name__ == "__main__":
    sys.exit(main())
