#!/usr/bin/env python3
"""The README is short and says nothing that cannot be run or followed: usage check_readme.py ROOT.

Commands of its code blocks name scripts that exist, subcommands and flags that the sources of the tools spell out, and links
of every .md file lead to files of the tree.
"""

import re
from pathlib import Path

from tree import SOURCES, Finding, files, main, read

BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^(?:\$ )?(scripts/\w+\.sh|stowage|\./\w+|build/\S+(?<!:))((?: .*)?)$", re.M)
FLAG = re.compile(r"--([a-z][a-z-]*)")
README_LINES = 120


def spelled_out(root: Path) -> str:
    """The sources in which flags and subcommands stand as string literals."""
    rooms = ("compiler/", "runtime/program/")
    return "\n".join(read(root, p) for p in files(root, SOURCES) if p.as_posix().startswith(rooms))


def check_commands(root: Path, name: str, text: str, sources: str) -> list[Finding]:
    found = []
    for block in BLOCK.finditer(text):
        for command in COMMAND.finditer(block[1]):
            line = text.count("\n", 0, block.start(1) + command.start()) + 1
            program, rest = command[1], command[2].split("#")[0]
            if program.startswith("scripts/"):
                if not (root / program).exists():
                    found.append(Finding(name, line, f"{program} does not exist"))
                continue
            word = rest.split()[0] if rest.split() else ""
            if word.isalpha() and f'"{word}"' not in sources:
                found.append(Finding(name, line, f'no tool knows the command "{word}"'))
            for flag in FLAG.findall(rest):
                if f'"{flag}"' not in sources and f'--{flag}' not in sources:
                    found.append(Finding(name, line, f"no tool knows the flag --{flag}"))
    return found


def check(root: Path) -> list[Finding]:
    found = []
    sources = spelled_out(root)
    for path in files(root, {".md"}):
        name, text = path.as_posix(), read(root, path)
        if name == "README.md" and text.count("\n") > README_LINES:
            found.append(Finding(name, 0, f"{text.count(chr(10))} lines; the limit is {README_LINES}"))
        if name in ("README.md", "docs/running.md"):
            found += check_commands(root, name, text, sources)
        for match in LINK.finditer(text):
            if not (root / path.parent / match[1]).exists():
                found.append(Finding(name, text.count("\n", 0, match.start()) + 1, f"the link {match[1]} leads nowhere"))
    return found


if __name__ == "__main__":
    main(check)
