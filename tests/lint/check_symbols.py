#!/usr/bin/env python3
"""One symbol, one definition, over the objects of a build: usage check_symbols.py BUILD_FOLDER. Exits 77 (skipped) without llvm-nm.

A linker takes the first definition of a symbol that an archive offers and never looks for a second one, so two libraries may
define one function differently and a program gets whichever the order of libraries picks. Inline functions and members of
classes are expected in many objects, with other code in each: lint/definitions reads those in the sources. Objects of the rooms
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
    """Pairs of symbol and object, for the external symbols of the project that may be defined once."""
    done = subprocess.run([tool, "-A", "-S", "--defined-only", "--extern-only", *map(str, paths)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        where, *words = line.rsplit(":", 1)[0], *line.rsplit(":", 1)[1].split()
        if len(words) == 4 and words[2] not in "WVuwv" and OURS.match(words[3]) and CHOSEN_BY_LINKING not in words[3]:
            yield words[3], where


def contradictions(known: dict[str, str], found) -> list[tuple[str, str]]:
    """Adds what was found to the known symbols; those that another object defines as well."""
    return [(name, f"is defined in {other} and in {where}") for name, where in found if (other := known.setdefault(name, where)) != where]


def check(build: Path, tool: str) -> list[str]:
    byTarget = objects(build)
    if not byTarget[""]:
        print(f"{build} has no object that is up to date; build it first")
        raise SystemExit(77)
    rooms: dict[str, str] = {}
    findings = contradictions(rooms, symbols(tool, sorted(byTarget.pop(""))))
    for target in sorted(byTarget):
        findings += contradictions(dict(rooms), symbols(tool, sorted(byTarget[target])))
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
