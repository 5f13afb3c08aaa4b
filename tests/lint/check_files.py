#!/usr/bin/env python3
"""Rules every file keeps: usage check_files.py ROOT.

Lengths of files and functions, no unfinished work, no paths of somebody's machine, no output or environment where a
library should report to its caller, no hash tables where their order could reach a plan.
"""

import re
from pathlib import Path

from tree import SOURCES, TEXTS, Finding, files, main, read

FILE_LINES = 800
FUNCTION_LINES = 80
CODE = SOURCES | {".py", ".td", ".ts", ".mjs", ".css", ".html"}

# Written in pieces, so that this file keeps its own rules.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "HA" + "CK"]) + r")\b|not " + "implemented", re.I)
UNFINISHED_WORDS_ARE_UPPER = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "HA" + "CK"]) + r")\b")
MACHINE = re.compile("|".join([r"(?<![\w.])/wo" + r"rk/", r"/tmp/" + "helpers", r"\.\./" + "shared/", r"/ho" + r"me/\w"]))

# pattern, rooms in which it is allowed, what to do instead
PLACES = [
    # Launchers say in variables which rank a process is.
    # Limiting oneDNN overrides the limit of its own variable, so the runtime reads that.
    (re.compile(r"\b(secure_)?getenv\s*\("), ("compiler/", "tests/", "benchmarks/", "runtime/host/Instructions.cpp", "runtime/ranks/Launcher.cpp"),
     "options come through the command line"),
    (re.compile(r"\bstd::cerr\b|\bllvm::errs\s*\("), ("compiler/", "runtime/program/", "tests/", "benchmarks/"),
     "throw stow::Error or emit a diagnostic"),
    (re.compile(r"\bcl::opt\b"), (), "pass options come from ODS, the tools' from compiler/Options.cpp"),
]
ORDERLESS = re.compile(r"\bstd::unordered_(map|set)\b")
ORDERED_ROOMS = ("ir/plan/", "passes/solvers/")
# Abseil's hash tables order their elements anew in every process: they are asked, never walked.
HASH_TABLE = re.compile(r"\babsl::flat_hash_(?:map|set)<.*>\s*&?\s*(\w+)\s*[;{=(,)]")
# What an op runs as is the target's answer (passes/Target.h).
DEVICE_WORD = re.compile(r"\b(onednn|dnnl|cudnn\w*|cublas\w*|library)\b", re.I)
DEVICE_FREE_ROOMS = ("ir/",)

# A definition begins in column 0 and ends with "}" in column 0; these also begin there but are no functions.
NO_FUNCTION = re.compile(r"^(namespace|struct|class|enum|union|extern|template <.*> (struct|class)|using|#|//|/\*|\}|\)|@)")


def long_functions(lines: list[str]):
    """Pairs of first line (from 1) and length of the functions longer than the limit."""
    start = None
    for number, line in enumerate(lines, 1):
        if line and not line[0].isspace():
            if line.startswith("}"):
                if start and number - start + 1 > FUNCTION_LINES:
                    yield start, number - start + 1
                start = None
            elif NO_FUNCTION.match(line):
                start = None
            elif "(" in line and not line.rstrip().endswith(";"):
                start = start or number


def check(root: Path) -> list[Finding]:
    found = []
    for path in files(root, TEXTS):
        name = path.as_posix()
        if name.startswith("tests/data/"):
            continue
        text = read(root, path)
        if not text:
            found.append(Finding(name, 0, "empty; write it or remove it"))
        lines = text.splitlines()
        if path.suffix in CODE and len(lines) > FILE_LINES:
            found.append(Finding(name, 0, f"{len(lines)} lines; the limit is {FILE_LINES}"))
        if path.suffix in SOURCES:
            for table in set(HASH_TABLE.findall(text)):
                walk = re.compile(rf":\s*{table}\)|\b{table}\.c?begin\(")
                for number, line in enumerate(lines, 1):
                    if walk.search(line):
                        found.append(Finding(name, number, f'"{table}" has another order in every run; walk a sorted container'))
            for start, length in long_functions(lines):
                found.append(Finding(name, start, f"function of {length} lines; the limit is {FUNCTION_LINES}"))
        for number, line in enumerate(lines, 1):
            if path.suffix in CODE | {".sh", ".cmake", ".txt", ".mlir"}:
                match = UNFINISHED.search(line)
                if match and (UNFINISHED_WORDS_ARE_UPPER.search(line) or match[0].lower().startswith("not")):
                    found.append(Finding(name, number, f'unfinished work ("{match[0]}"): build it or refuse it with an error'))
            match = DEVICE_WORD.search(line)
            if match and path.suffix in CODE and name.startswith(DEVICE_FREE_ROOMS):
                found.append(Finding(name, number, f'"{match[0]}" does not belong here; how an op runs is the target\'s answer'))
            match = MACHINE.search(line)
            if match:
                found.append(Finding(name, number, f'"{match[0]}" is a path of one machine'))
            if path.suffix not in SOURCES:
                continue
            for pattern, rooms, advice in PLACES:
                if pattern.search(line) and not name.startswith(tuple(rooms)):
                    found.append(Finding(name, number, f'"{pattern.search(line)[0]}" does not belong here; {advice}'))
            if ORDERLESS.search(line) and name.startswith(ORDERED_ROOMS):
                found.append(Finding(name, number, "an order that differs between runs must not reach a plan; use a sorted container"))
    return found


if __name__ == "__main__":
    main(check)
