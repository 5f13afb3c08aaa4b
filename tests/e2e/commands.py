"""What the scripts here share: running a command, and stopping with what was expected and found."""

import os
import subprocess
from typing import Any


def half_budget(plan: dict[str, Any]) -> int:
    """Bytes for the state of a plan and half of what it has above."""
    state, arena = plan["persistent_bytes"], plan["arena_bytes"]
    return state + (arena - state) // 2


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
