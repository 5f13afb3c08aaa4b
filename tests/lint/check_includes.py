#!/usr/bin/env python3
"""Holds `#include` to the arrows between rooms: usage check_includes.py ROOT.

A file may include its own room and the rooms listed for it; MLIR and device headers only where listed.
"""

import re
from pathlib import Path

from tree import SOURCES, Finding, files, main, read

RUNTIME = ["runtime/include", "runtime/base", "runtime/format", "runtime/report", "runtime/slow", "runtime/ranks", "runtime/device", "runtime/host", "runtime/host/loops", "runtime/cuda",
           "runtime/data", "runtime/program"]
DEVICES = ["runtime/slow", "runtime/host", "runtime/host/loops", "runtime/cuda"]  # behind the door, runtime/device
PURE = ["runtime/base", "ir/plan", "passes/solvers"]
CODEGEN = ["codegen", "codegen/kernels", "codegen/kernels/host", "codegen/kernels/device", "codegen/program", "codegen/host", "codegen/cuda"]
PLACED = ["ir", "passes/Target.h", "passes/memory", "runtime/base", "runtime/format"]  # what says all of a placed module

# room: (rooms or headers it may include, whether it may include MLIR and LLVM). The longest prefix of a path is its room;
# one file that may do more than its room is a room of its own.
ARROWS: dict[str, tuple[list[str], bool]] = {
    "runtime/include": ([], False),
    "runtime/base": ([], False),
    "runtime/format": (["runtime/base"], False),
    "runtime/report": (["runtime/base", "runtime/format"], False),
    "runtime/slow": (["runtime/base"], False),
    "runtime/ranks": (["runtime/base", "runtime/format"], False),
    "runtime/device": (["runtime/base", "runtime/format"], False),
    "runtime/host": (["runtime/base", "runtime/format", "runtime/slow", "runtime/ranks", "runtime/device", "runtime/host/loops"], False),
    "runtime/host/loops": (["runtime/base", "runtime/format", "runtime/device", "runtime/host/Float16.h", "runtime/host/Instructions.h",
                            "runtime/host/Library.h"], False),
    "runtime/cuda": (["runtime/base", "runtime/format", "runtime/ranks", "runtime/device"], False),
    "runtime/data": (["runtime/base", "runtime/format"], False),
    "runtime/program": ([room for room in RUNTIME if room not in DEVICES], False),
    "runtime/program/OpenDevice.cpp": (RUNTIME, False),
    "ir/plan": (["runtime/base"], False),
    "passes/solvers": (["runtime/base", "ir/plan"], False),
    "ir": (["runtime/base"], True),
    "passes": (["runtime/base", "runtime/format", "ir", *PURE], True),
    "passes/plan": (["passes", "runtime/base", "runtime/format", "ir", *PURE], True),
    "codegen": ([*PLACED, *CODEGEN], True),
    "codegen/kernels": (["ir", "runtime/base", "codegen/kernels/device"], True),
    "codegen/kernels/host": (["ir", "runtime/base", "codegen/kernels"], True),
    "codegen/kernels/device": (["ir", "runtime/base", "codegen/kernels"], True),
    "codegen/program": ([*PLACED, "codegen", "codegen/kernels", "codegen/kernels/device", "runtime/host/Float16.h", "runtime/host/Instructions.h"], True),
    "codegen/host": ([*PLACED, "codegen", "codegen/kernels", "codegen/program", "runtime/host", "runtime/host/loops"], True),
    "codegen/cuda": ([*PLACED, "codegen", "codegen/kernels", "codegen/kernels/device", "codegen/program", "runtime/cuda"], True),
    "compiler/plan": (PURE, False),
    "compiler/eager": (["runtime/base", "runtime/format"], False),
    "compiler/import": (["ir", "passes/autodiff", "codegen/kernels", "compiler/eager", "runtime/base", "runtime/format"], True),
    "compiler": (["ir", "passes", "passes/plan", "codegen", "codegen/program", "compiler/eager", "compiler/import", "compiler/plan",
                  "runtime/slow", "runtime/host/Outside.h", *[room for room in RUNTIME if room not in DEVICES], *PURE], True),
    "tests": (["ir", "passes", "passes/plan", *CODEGEN, "compiler", "compiler/eager", "compiler/import", "compiler/plan", "benchmarks", *RUNTIME, *PURE], True),
    "benchmarks": (["ir", "passes", "passes/plan", *CODEGEN, "compiler", "compiler/eager", "compiler/import", "compiler/plan", "tests", *RUNTIME, *PURE], True),
    "cmake": ([], True),
}
CUDA_ROOMS = ("runtime/cuda", "codegen/cuda", "tests/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path: str) -> str | None:
    """The longest room that holds `path`; rooms of the tree that ARROWS does not know give None."""
    return max((r for r in ARROWS if path == r or path.startswith(r + "/")), key=len, default=None)


def allowed(source: str, target: str) -> bool:
    room, other = room_of(source), room_of(target)
    if other is None or room == other:
        return True  # A header of another project, or of the room itself.
    rooms, _ = ARROWS[room]
    # An entry is a room, a folder inside one, or a header.
    return any(other == entry or target == entry or entry not in ARROWS and target.startswith(entry + "/")
               for entry in rooms)


def check(root: Path) -> list[Finding]:
    found = []
    for path in files(root, SOURCES):
        source = path.as_posix()
        room = room_of(source)
        if room is None:
            found.append(Finding(source, 0, "lies in no known room; add the room to ARROWS"))
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match[2]
            name = target.rsplit("/", 1)[-1]
            if target.startswith(("mlir/", "llvm/", "mlir-c/", "llvm-c/")):
                if not ARROWS[room][1]:
                    found.append(Finding(source, number, f"{room} must not know MLIR or LLVM: {target}"))
            elif target.startswith("absl/") and source.startswith("runtime/"):
                found.append(Finding(source, number, f"executables link no Abseil, take runtime/base/Concat.h: {target}"))
            elif match[1] == "<" and re.match(r"(cuda|cublas|cudnn|nvrtc)", name):
                if not source.startswith(CUDA_ROOMS):
                    found.append(Finding(source, number, f"only the cuda rooms may include {target}"))
            elif not allowed(source, target):
                found.append(Finding(source, number, f"{room} must not include {target}"))
    return found


if __name__ == "__main__":
    main(check)
