"""Runs the cases of modules of unittest, or of classes of theirs: run_unittest.py MODULE[.CLASS]...

A case that is skipped for want of a package is skipped alone, and the last lines name it and what it needs. Exit code 77, skipped,
where that happened to every case; 1 where one failed, or there was none to run.
"""

import sys
import unittest


def main() -> None:
    cases = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(cases)
    for case, reason in result.skipped:
        print(f"skipped: {case.id()}: {reason}")
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    sys.exit(77 if len(result.skipped) >= result.testsRun else 0)


if __name__ == "__main__":
    main()
