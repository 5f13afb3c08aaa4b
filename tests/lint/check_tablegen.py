#!/usr/bin/env python3
"""Documentation and tests of passes and ops: usage check_tablegen.py ROOT.

Every pass in passes/*/Passes.td has a summary, says what it does, what it requires and ensures, shows an example, and has
the test tests/passes/STAGE/STEM.mlir (a verify pass: with an error in it). Every op under ir/ has a summary and a
description with an example.
"""

import re
from pathlib import Path

from tree import Finding, main, read

PASS = re.compile(r'^def (\w+)\s*:\s*Pass<"([\w-]+)"', re.M)
OP = re.compile(r'^(def|class) (\w+)\s*(?:<([^{;]*?)>)?\s*:\s*([^{;]*?)\s*(\{|;)', re.M | re.S)
BLOCK = re.compile(r"let description\s*=\s*(\[\{.*?\}\]|[^;]*)\s*;", re.S)
SUMMARY = re.compile(r'let summary\s*=\s*"[^"]+"')


def body_after(text: str, start: int) -> str:
    """The text up to the next definition or class in column 0."""
    following = re.compile(r"^(def|class|#endif)\b", re.M).search(text, start)
    return text[start:following.start() if following else len(text)]


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def check_pass(root: Path, path: str, stage: str, line: int, flag: str, body: str) -> list[Finding]:
    found = []
    description = BLOCK.search(body)
    description = description[1] if description else ""
    if not SUMMARY.search(body):
        found.append(Finding(path, line, f"{flag} has no summary"))
    what = re.split(r"^\s*Requires:", description, flags=re.M)[0].strip("[{ \n")
    parts = {"what it does": len(what) > 20, "Requires:": "Requires:" in description,
             "Ensures:": "Ensures:" in description, "an example (```mlir)": "```mlir" in description}
    for part, present in parts.items():
        if not present:
            found.append(Finding(path, line, f"the description of {flag} lacks {part}"))
    test = root / "tests" / "passes" / stage / (flag.removeprefix("stow-") + ".mlir")
    if not test.exists():
        found.append(Finding(path, line, f"{flag} has no test; expected {test.relative_to(root).as_posix()}"))
    elif flag.startswith("stow-verify-") and "expected-error" not in test.read_text(encoding="utf-8"):
        found.append(Finding(path, line, f"{flag} is never shown anything wrong in {test.relative_to(root).as_posix()}"))
    return found


def check_ops(path: str, text: str, documented: set[str]) -> list[Finding]:
    """`documented` collects the classes that bring summary, description and example, in the order of the file."""
    found = []
    for match in OP.finditer(text):
        kind, name, _, parents, opening = match.groups()
        body = body_after(text, match.end()) if opening == "{" else ""
        inherits = any(re.search(rf"\b{parent}\b", parents) for parent in documented)
        has_summary = bool(SUMMARY.search(body) or "let summary" in body)
        has_example = "let description" in body and "```mlir" in body
        if kind == "class":
            if has_summary and has_example:
                documented.add(name)
            continue
        if not name.endswith("Op") or inherits and not body.strip():
            continue
        if not (has_summary or inherits):
            found.append(Finding(path, line_of(text, match.start()), f"op {name} has no summary"))
        if not (has_example or inherits):
            found.append(Finding(path, line_of(text, match.start()), f"op {name} has no description with an example (```mlir)"))
    return found


def check(root: Path) -> list[Finding]:
    found = []
    for path in sorted((root / "passes").glob("*/Passes.td")):
        name, text = path.relative_to(root).as_posix(), read(root, path.relative_to(root))
        for match in PASS.finditer(text):
            found += check_pass(root, name, path.parent.name, line_of(text, match.start()), match[2],
                                body_after(text, match.end()))
    for path in sorted((root / "ir").glob("*Ops.td")):
        found += check_ops(path.relative_to(root).as_posix(), read(root, path.relative_to(root)), set())
    return found


if __name__ == "__main__":
    main(check)
