"""What every lint script needs: the files of the tree, findings, and how to end."""

import sys
from dataclasses import dataclass
from pathlib import Path

ROOMS = ["cmake", "ir", "passes", "codegen", "viewer", "runtime", "compiler", "tests", "benchmarks", "models", "python",
         "docs", "scripts", ".ci"]
SOURCES = {".h", ".cpp"}
TEXTS = SOURCES | {".td", ".py", ".sh", ".mlir", ".test", ".md", ".txt", ".cmake", ".in", ".json", ".ts", ".mjs", ".css",
                   ".html", ""}


@dataclass(frozen=True)
class Finding:
    """A line (from 1; 0 for a whole file) that breaks a rule."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


def files(root: Path, suffixes: set[str]) -> list[Path]:
    """Files of the rooms and of the root with one of `suffixes`, relative to `root`, sorted."""
    found = [p for p in root.iterdir() if p.is_file() and p.name != ".git"]  # a file in git's worktrees
    for room in ROOMS:
        found += [p for p in (root / room).rglob("*") if p.is_file()]
    return sorted(p.relative_to(root) for p in found if p.suffix in suffixes and "__pycache__" not in p.parts)


def read(root: Path, path: Path) -> str:
    return (root / path).read_text(encoding="utf-8", errors="replace")


def main(check) -> None:
    """Runs `check(root) -> list[Finding]` on the tree named on the command line; exits 1 on findings."""
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} ROOT")
    found = check(Path(sys.argv[1]))
    for finding in found:
        print(finding)
    if found:
        raise SystemExit(f"{len(found)} finding(s)")
