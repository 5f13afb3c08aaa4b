"""What the scripts here share: running a command, writing a model, and stopping with what was expected and found."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def half_budget(plan: dict[str, Any]) -> int:
    """Bytes for the state of a plan and half of what it has above."""
    state, arena = plan["persistent_bytes"], plan["arena_bytes"]
    return state + (arena - state) // 2


def row_sums(plan: dict[str, Any]) -> set[tuple[str, str]]:
    """The products of a GPU's plan that sum rows of a factor: where two plans differ in them, so do the last bits of sums."""
    words = plan["strings"]
    steps = ((graph["name"], step) for graph in plan["graphs"] for step in graph["steps"] if "implementation" in step)
    return {(graph, words[step["source"]]) for graph, step in steps if words[step["implementation"]].endswith("sums of rows")}


def check(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"FAILED: {message}")


def run(*words: object, code: int | None = 0, environment: dict[str, str] | None = None) -> str:
    """Output and errors of a command that ends with `code`; None: any but 0. `environment` is added to this process's."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    output = done.stdout + done.stderr
    if (done.returncode == 0) if code is None else (done.returncode != code):
        expected = "a failure" if code is None else code
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}, expected {expected}\n{output}")
    return output


def build_model(name: str, path: Path, *words: object) -> None:
    """models/build.py in this process: PyTorch, whose import takes longer than a model, is imported once."""
    if str(ROOT / "models") not in sys.path:
        sys.path.insert(0, str(ROOT / "models"))
    import build

    build.main([name, "-o", str(path), *map(str, words)])


def write_changed(path: Path, content: bytes) -> None:
    """An executable that was changed on purpose: it carries the checksum of what it is now, so that what comes after that check is
    reached."""
    path.write_bytes(content)
    path.chmod(0o755)
    done = subprocess.run([str(path), "plan"], capture_output=True, text=True)
    if done.returncode == 0:
        return  # nothing that the checksum covers was changed
    said = done.stderr
    found = re.search(r"checksum was ([0-9a-f]+) when it was linked and is ([0-9a-f]+) now", said)
    check(found is not None, f"{path} has no checksum of what was changed: {said}")
    old, new = (struct.pack("<Q", int(number, 16)) for number in found.groups())
    check(content.count(old) == 1, f"{path}: the checksum stands {content.count(old)} times")
    path.write_bytes(content.replace(old, new))
