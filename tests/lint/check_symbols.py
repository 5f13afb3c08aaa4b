#!/usr/bin/env python3
"""One symbol, one definition, over the objects of a build: usage check_symbols.py BUILD_FOLDER. Exits 77 (skipped) without llvm-nm.

A linker takes the first definition of a symbol that an archive offers and never looks for a second one, so two libraries may
define one function differently and a program gets whichever the order of libraries picks. Inline functions and members of
classes are expected in many objects; two that have different sizes were not compiled from one definition. Objects of the rooms
are compared with each other; those of a test or benchmark with the rooms' and with those of its own target. Objects that Ninja would make
again are left out, since they are of sources that are no more.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

OUTPUT = re.compile(r" -o (\S+\.o) ")
CHOSEN_BY_LINKING = "openDevice"  # the product's, or that of a test device (runtime/device/Device.h)
OURS = re.compile(r"^_Z[A-Z]*N?[A-Z]*(4stow|\d*stow)")


def outdated(build: Path) -> set[str]:
    """The objects that the next build makes again."""
    ninja = shutil.which("ninja")
    if not ninja or not (build / "build.ninja").exists():
        return set()
    done = subprocess.run([ninja, "-C", str(build), "-n"], capture_output=True, text=True, check=True)
    return set(re.findall(r"Building CXX object (\S+\.o)$", done.stdout, re.M))


def objects(build: Path) -> dict[str, list[Path]]:
    """The objects that the build makes today, by target: "" for those of the rooms."""
    found = defaultdict(list)
    commands = build / "compile_commands.json"
    if not commands.exists():
        raise SystemExit(f"{commands} is missing; configure with a preset of CMakePresets.json")
    stale = outdated(build)
    for entry in json.loads(commands.read_text()):
        output = OUTPUT.search(entry["command"])
        path = build / output[1] if output and output[1] not in stale else None
        if path and path.exists():
            isTest = output[1].startswith(("tests/", "benchmarks/"))
            found[output[1].split("CMakeFiles/")[1].split("/")[0] if isTest else ""].append(path)
    return found


def symbols(tool: str, paths: list[Path]):
    """Quadruples of symbol, whether it may be there many times, size and object, for external symbols of the project."""
    done = subprocess.run([tool, "-A", "-S", "--defined-only", "--extern-only", *map(str, paths)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        where, *words = line.rsplit(":", 1)[0], *line.rsplit(":", 1)[1].split()
        if len(words) == 4 and OURS.match(words[3]) and CHOSEN_BY_LINKING not in words[3]:
            yield words[3], words[2] in "WVuwv", int(words[1], 16), where


class Definitions:
    """What is defined where, and what contradicts it."""

    def __init__(self) -> None:
        self.strong: dict[str, str] = {}
        self.weak: dict[str, tuple[int, str]] = {}

    def add(self, found) -> list[str]:
        findings = []
        for name, isShared, size, where in found:
            if not isShared:
                other = self.strong.setdefault(name, where)
                if other != where:
                    findings.append((name, f"is defined in {other} and in {where}"))
            known, other = self.weak.setdefault(name, (size, where)) if isShared else (size, where)
            if known != size:
                findings.append((name, f"has {known} bytes in {other} and {size} in {where}: two definitions of one inline function"))
        return findings


def check(build: Path, tool: str) -> list[str]:
    byTarget = objects(build)
    if not byTarget[""]:
        print(f"{build} has no object that is up to date; build it first")
        raise SystemExit(77)
    rooms = Definitions()
    findings = rooms.add(symbols(tool, sorted(byTarget.pop(""))))
    for target in sorted(byTarget):
        both = Definitions()
        both.strong, both.weak = dict(rooms.strong), dict(rooms.weak)
        findings += both.add(symbols(tool, sorted(byTarget[target])))
    names = "\n".join(name for name, _ in findings)
    plain = subprocess.run([tool.replace("nm", "cxxfilt")], input=names, capture_output=True, text=True, check=True).stdout.splitlines()
    return [f"{name} {what}" for name, (_, what) in zip(plain, findings)]


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} BUILD_FOLDER")
    tool = next((found for found in map(shutil.which, ("llvm-nm-22", "llvm-nm")) if found), None)
    if not tool:
        print("llvm-nm is not installed; scripts/install.sh installs it")
        raise SystemExit(77)
    findings = check(Path(sys.argv[1]), tool)
    for finding in findings:
        print(finding)
    if findings:
        raise SystemExit(f"{len(findings)} finding(s); each name belongs to one room: an unnamed namespace or the room's own")


if __name__ == "__main__":
    main()
