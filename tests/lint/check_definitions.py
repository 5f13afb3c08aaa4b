#!/usr/bin/env python3
"""One name, one definition: usage check_definitions.py ROOT.

A class, an enumeration or a function outside of unnamed namespaces is defined in one file. Two files that define it each in their
own way break C++'s one-definition rule, which compilers need not notice and linkers resolve by luck. check_symbols.py asks the
objects of a build the same; this script also sees what leaves no symbol behind, as a struct of plain data.
"""

import re
from pathlib import Path

from tree import SOURCES, Finding, files, main, read

TOKEN = re.compile(r'[A-Za-z_]\w*|::|->|[{}()<>;=,:~&*\[\]]|\d[\w.]*|.', re.S)
DROPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
CLASS_WORDS = {"class", "struct", "union", "enum"}
BUILT_IN = {"bool", "char", "double", "float", "int", "long", "short", "unsigned", "auto"}
# Test frameworks define functions of these names in every file, and every tool has its main. Which openDevice a program has is
# chosen by what is linked: the product's, or that of a test device (runtime/device/Device.h); so is where kernels under test run
# (tests/codegen/KernelRunner.h).
MANY = re.compile(r"^(main|openDevice|makeKernelRunner|[A-Z][A-Z0-9_]*)$")


def tokens_of(text: str):
    """Pairs of token and line, without comments, literals and directives."""
    blank = DROPPED.sub(lambda m: ('""' if m[0][0] in "\"'R" else "") + "\n" * m[0].count("\n"), text)
    line = 1
    for match in TOKEN.finditer(blank):
        if match[0] == "\n":
            line += 1
        elif not match[0].isspace():
            yield match[0], line


def without_template(words: list[str]) -> list[str]:
    """A declaration behind its `template <...>` and attributes."""
    while words[:1] in (["template"], ["["]):
        opener, closer = ("<", ">") if words[0] == "template" else ("[", "]")
        depth, end = 0, 0
        for end, word in enumerate(words):
            depth += (word == opener) - (word == closer)
            if depth == 0 and word == closer:
                break
        words = words[end + 1:]
    return words


def parameter_types(words: list[str]) -> str:
    """The parameters between two parentheses without their names and defaults."""
    parameters, depth = [[]], 0
    for word in words:
        depth += (word in "(<[{") - (word in ")>]}")
        if word == "," and depth == 0:
            parameters.append([])
        else:
            parameters[-1].append(word)
    texts = []
    for parameter in parameters:
        if "=" in parameter:
            parameter = parameter[:parameter.index("=")]
        named = (len(parameter) > 1 and re.match(r"[A-Za-z_]", parameter[-1]) and parameter[-1] not in BUILT_IN
                 and parameter[-2] not in ("::", "const"))
        texts.append(" ".join(parameter[:-1] if named else parameter))
    return ", ".join(texts)


def function_key(words: list[str]) -> str | None:
    """"f(int, char)" for the declaration in front of a body; None for what is no function of external linkage."""
    depth = 0
    for start, word in enumerate(words):
        if word == "(" and depth == 0 and start > 0:
            break
        depth += (word == "<") - (word == ">")
        if word == "operator":
            depth = 0
    else:
        return None
    if {"static", "consteval"} & set(words[:start]) or "=" in words[:start] and "operator" not in words[:start]:
        return None
    first = start - 1
    while first > 0 and (words[first - 1] in ("::", "~", "operator") or words[first] in ("::", ">", "=", "[", "]")):
        first -= 1
    name = "".join(words[first:start])
    depth = 0
    for end in range(start, len(words)):
        depth += (words[end] == "(") - (words[end] == ")")
        if depth == 0:
            break
    suffix = " const" if "const" in words[end + 1:end + 2] else ""
    return f"{name}({parameter_types(words[start + 1:end])}){suffix}"


def class_name(words: list[str]) -> str | None:
    """The name of a class or enumeration whose body begins; with its arguments for a specialization."""
    at = next(i for i, word in enumerate(words) if word in CLASS_WORDS)
    rest = [word for word in words[at + 1:] if word not in ("class", "struct", "final", "alignas")]
    stop = next((i for i, word in enumerate(rest) if word == ":"), len(rest))
    return " ".join(rest[:stop]) or None


def definitions(text: str):
    """Triples of qualified name, kind ("class", "function") and line."""
    scopes: list[str | None] = []  # names of namespaces; None: unnamed
    words: list[str] = []
    skipped = 0  # braces open inside a body
    started = 0
    for word, line in tokens_of(text):
        if skipped:
            skipped += (word == "{") - (word == "}")
            continue
        if word == "}":
            if scopes:
                scopes.pop()
            words = []
        elif word == ";":
            words = []
        elif word != "{":
            if not words:
                started = line
            words.append(word)
        elif "namespace" in words[:2]:
            name = "".join(words[words.index("namespace") + 1:])
            scopes.append(name or None)
            words = []
        elif words[:1] == ["extern"] and len(words) <= 3:  # extern "C" {
            scopes.append("")
            words = []
        else:
            if words.count("(") > words.count(")"):  # a default of a parameter
                skipped, words = 1, words + ["}"]
                continue
            declaration = without_template(words)
            is_class = any(w in CLASS_WORDS for w in declaration[:2]) and "(" not in declaration
            if not is_class and ":" in declaration and declaration[-1] not in (")", "}"):
                skipped, words = 1, words + ["}"]  # a member's braces in a list of initializers
                continue
            if None not in scopes:
                key = class_name(declaration) if is_class else function_key(declaration)
                if key and not MANY.match(key.split("(")[0]):
                    yield "::".join([s for s in scopes if s] + [key]), "class" if is_class else "function", started
            skipped, words = 1, []


def check(root: Path) -> list[Finding]:
    found = []
    first: dict[str, tuple[str, int]] = {}
    for path in files(root, SOURCES):
        name = path.as_posix()
        for key, kind, line in definitions(read(root, path)):
            known = first.setdefault(key, (name, line))
            if known[0] != name:
                found.append(Finding(name, line, f"{kind} {key} is also defined in {known[0]}:{known[1]}; put one of them into an "
                                                 "unnamed namespace or a namespace of its room, or give it another name"))
    return found


if __name__ == "__main__":
    main(check)
