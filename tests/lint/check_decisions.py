#!/usr/bin/env python3
"""The index of decisions says what holds: usage check_decisions.py ROOT.

Every page of docs/decisions stands in its README once, under its own title, with a status. A page whose choice was replaced or
reverted begins by saying so and links what came instead; the others name only code that exists.
"""

import re
from pathlib import Path

from tree import ROOMS, Finding, main, read

FOLDER = Path("docs/decisions")
INDEX = FOLDER / "README.md"
ROW = re.compile(r"^\| (\d{4}-\d{2}-\d{2}) \| \[(.+)\]\(([^)]+)\) \| (.+) \|$")
STATUS = re.compile(r"^(holds|(replaced|reverted) by \[[^\]]+\]\(([^)]+)\))(; .+)?$")
# A folder or file of a room, with or without its ending; patterns and options are none.
CODE = re.compile(r"(?<![\w./*\[(-])((?:" + "|".join(r for r in ROOMS if r.isalpha()) + r")/[\w./-]*\w)(?![\w*<{])")
ENDINGS = (".h", ".cpp", ".td", ".py")


def names_code(root: Path, name: str) -> bool:
    """Whether the tree has the folder or file `name`, whose ending may be left out."""
    path = root / name
    return path.exists() or any(path.with_name(path.name + ending).exists() for ending in ENDINGS)


def check_page(root: Path, path: Path, status: re.Match) -> list[Finding]:
    found = []
    lines = read(root, path).splitlines()
    head = "\n".join(lines[1:6])
    for word in ("replaced", "reverted"):
        says = re.search(rf"^{word.capitalize()}\b", head, re.M) is not None
        if says != (status[2] == word):
            found.append(Finding(path.as_posix(), 0, f'the index says "{status[1]}"; the page ' +
                                 (f"begins with {word.capitalize()}" if says else f'does not begin with "{word.capitalize()} on DAY"')))
    if status[3] and status[3] not in head:
        found.append(Finding(path.as_posix(), 0, f"does not link what came instead, {status[3]}"))
    if not status[2]:
        for number, line in enumerate(lines, 1):
            found += [Finding(path.as_posix(), number, f"{name} does not exist; the page holds, so name what is there now")
                      for name in CODE.findall(line) if not names_code(root, name)]
    return found


def check(root: Path) -> list[Finding]:
    found = []
    pages = {p.name for p in (root / FOLDER).glob("*.md")} - {INDEX.name}
    listed = set()
    text = read(root, INDEX) if (root / INDEX).exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        row = ROW.match(line)
        if not row:
            continue
        day, title, page, says = row.groups()
        status = STATUS.match(says)
        if page in listed:
            found.append(Finding(INDEX.as_posix(), number, f"{page} is listed twice"))
        listed.add(page)
        if page not in pages:
            found.append(Finding(INDEX.as_posix(), number, f"{page} does not exist"))
            continue
        first = read(root, FOLDER / page).split("\n", 1)[0]
        if first != f"# {title}" or not page.startswith(day):
            found.append(Finding(INDEX.as_posix(), number, f'{page} is "{first.removeprefix("# ")}" of {page[:10]}'))
        if not status:
            found.append(Finding(INDEX.as_posix(), number, f'unknown status "{says}"; known are: holds, replaced by [PAGE](FILE), '
                                 "reverted by [PAGE](FILE), each with more behind a semicolon"))
        elif status[3] and status[3] not in pages:
            found.append(Finding(INDEX.as_posix(), number, f"{status[3]} does not exist"))
        else:
            found += check_page(root, FOLDER / page, status)
    return found + [Finding((FOLDER / page).as_posix(), 0, f"is missing in {INDEX}") for page in sorted(pages - listed)]


if __name__ == "__main__":
    main(check)
