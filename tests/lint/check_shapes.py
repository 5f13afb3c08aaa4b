#!/usr/bin/env python3
"""Shapes of the C++ code: usage check_shapes.py ROOT.

How long classes are and how many parameters functions have, that no header is included inside of a namespace, and that numbers by
which planners are tuned have a name.
"""

import re
from pathlib import Path

from check_definitions import CLASS_WORDS, DROPPED, class_name, function_key, tokens_of, without_template
from tree import SOURCES, Finding, files, main, read

CLASS_LINES = 400
PARAMETERS = 8
# Interfaces of other projects, which stand-ins of the tests have to define as they are.
FOREIGN = re.compile(r"^(cu[A-Z]|cublas|cudnn|cuda[A-Z]|MPI_)\w+$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)

PLANNERS = ("passes/solvers/",)
TABLE = "Effort.h"  # the table of numbers that depend on the size of the problem
NUMBER = re.compile(r"(?<![\w.'])((?:\d[\d']*\.\d*|\d[\d']*)(?:[eE][+-]?\d+)?)[fF]?(?![\w.'])")
# "constexpr Cost most = 12;" and "search.noise = 0.3;" have given the number a name.
NAMED = re.compile(r"\bconstexpr\b[^;=]*(?:=[^;]*|\{[^;]*);|^[ \t]*(?:[\w:<>,]+ )*[\w.]+ = [-\d.'eE]+;", re.M)


def parameter_count(words: list[str]) -> int:
    """Of the function whose definition begins with `words`."""
    depth, begin = 0, None
    for at, word in enumerate(words):
        if word == "(" and depth == 0 and at > 0 and words[at - 1] != "operator":
            begin = at
            break
        depth += (word == "<") - (word == ">")
    if begin is None or words[begin + 1:begin + 2] == [")"]:
        return 0
    count, depth = 1, 0
    for word in words[begin:]:
        depth += (word in "(<[{") - (word in ")>]}")
        if depth == 0:
            break
        count += word == "," and depth == 1
    return count


def scopes(text: str):
    """What begins at a brace: its kind, its words, its first and last line. Bodies of functions are walked for classes alone."""
    open_scopes: list[tuple[str, list[str], int]] = []
    words: list[str] = []
    started = 0
    for word, line in tokens_of(text):
        if word == "}":
            if open_scopes:
                kind, before, first = open_scopes.pop()
                yield kind, before, first, line
                words, started = (before + ["}"], first) if kind == "braces" else ([], 0)
        elif word == ";":
            words = []
        elif word != "{":
            if not words:
                started = line
            words.append(word)
        else:
            declaration = without_template(words)
            if words.count("(") > words.count(")"):
                kind = "braces"  # in an argument
            elif "namespace" in words[:2]:
                kind = "namespace"
            elif any(w in CLASS_WORDS for w in declaration[:2]) and "(" not in declaration:
                kind = "class"
            elif any(k in ("function", "braces") for k, _, _ in open_scopes):
                kind = "braces"
            elif ":" in declaration and declaration[-1] not in (")", "}"):
                kind = "braces"  # of a member in a list of initializers
            else:
                kind = "function"
            open_scopes.append((kind, words, started if words else line))
            words = []


def check_sizes(name: str, text: str) -> list[Finding]:
    found = []
    sizes: dict[str, tuple[int, int]] = {}  # of a class: its line, and lines with members that are defined behind it
    outside: dict[str, int] = {}
    for kind, words, first, last in scopes(text):
        if kind == "class":
            key = (class_name(without_template(words)) or "").replace(" ", "")
            line, lines = sizes.get(key, (first, 0))
            sizes[key] = (line, max(lines, last - first + 1))
        elif kind == "function":
            key = (function_key([w for w in without_template(words) if w != "static"]) or "").split("(")[0]
            if "::" in key:
                owner = key.rsplit("::", 1)[0]
                outside[owner] = outside.get(owner, 0) + last - first + 1
            count = parameter_count(without_template(words))
            if key and count > PARAMETERS and not FOREIGN.match(key):
                found.append(Finding(name, first, f"{key} has {count} parameters; the limit is {PARAMETERS}: some of them belong together"))
    for key, (line, lines) in sizes.items():
        lines += outside.get(key, 0)
        if key and lines > CLASS_LINES:
            found.append(Finding(name, line, f"class {key} has {lines} lines; the limit is {CLASS_LINES}"))
    return found


def blanked(text: str, pattern: re.Pattern) -> str:
    """`text` with what matches as spaces: lines and columns stay."""
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def check_includes(name: str, text: str) -> list[Finding]:
    found = []
    code = blanked(text, DROPPED)
    for match in INCLUDE.finditer(text):
        before = code[:match.start()]
        # Generated code is made to stand inside.
        if before.count("{") > before.count("}") and not match[1].endswith(".inc"):
            found.append(Finding(name, text.count("\n", 0, match.start(1)) + 1, f"{match[1]} is included inside of a namespace"))
    return found


def needs_name(number: str) -> bool:
    """0.5 halves, 1e-9 is a tolerance or a unit, 1024 a size, 3 a count; what is left was chosen by somebody."""
    text = number.replace("'", "")
    value = float(text)
    if re.fullmatch(r"10*(\.0*)?([eE][+-]?\d+)?|0?\.0*1", text):
        return False
    if "." in text or "e" in text.lower():
        return value not in (0, 0.5, 2)
    return value >= 1000 and int(text) & (int(text) - 1) != 0


def check_numbers(name: str, text: str) -> list[Finding]:
    if not name.startswith(PLANNERS) or name.endswith("/" + TABLE):
        return []
    # Separators of digits are not the quotes of a character.
    code = blanked(re.sub(r"(?<=\d)'(?=\d)", "_", text), DROPPED)
    code = re.sub(r"(?<=\d)_(?=\d)", "'", code)
    return [Finding(name, number, f"{match[1]} decides something and has no name; make it a constexpr, or a row of {TABLE}")
            for number, line in enumerate(blanked(code, NAMED).splitlines(), 1)
            for match in NUMBER.finditer(line) if needs_name(match[1])]


def check(root: Path) -> list[Finding]:
    found = []
    for path in files(root, SOURCES):
        name, text = path.as_posix(), read(root, path)
        found += check_sizes(name, text) + check_includes(name, text) + check_numbers(name, text)
    return found


if __name__ == "__main__":
    main(check)
