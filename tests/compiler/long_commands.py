#!/usr/bin/python3
"""Commands that take long say what they are at, and Ctrl-C gives the best so far.

  long_commands.py --stowage=build/release/bin/stowage --work=DIR

  - elsewhere than on a terminal a line for every stage, on standard error alone; with --quiet none;
  - on a terminal one line that is rewritten, and that is gone at the end;
  - Ctrl-C ends frontier, plan and max-batch with exit code 130, after what was found, and standard error says that it is not all;
    a compilation leaves nothing.
"""

import argparse
import os
import pty
import re
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn.onnx"
LINE = re.compile(rb"\[\d+:\d\d\] [\w ]+(: [^\n]+)?")


def environment(progress: str) -> dict[str, str]:
    return {**os.environ, "STOWAGE_PROGRESS": progress}


def lines_elsewhere(stowage: str) -> None:
    words = [stowage, "plan", MODEL, "--threads=1", "--recompute=4%", "--format=csv"]
    shown = subprocess.run(words, capture_output=True, env=environment("all"), check=True)
    said = shown.stderr.splitlines()
    assert said and all(LINE.fullmatch(line) for line in said), shown.stderr
    assert any(b"order: a schedule within" in line for line in said), shown.stderr
    for flags, progress in ((["--quiet"], "all"), ([], "none")):
        silent = subprocess.run([*words, *flags], capture_output=True, env=environment(progress), check=True)
        assert silent.stderr == b"" and silent.stdout == shown.stdout, silent.stderr


class OnTerminal:
    """A command whose standard error is a terminal."""

    def __init__(self, *words: object) -> None:
        self.screen, terminal = pty.openpty()
        self.process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=terminal, env=environment("all"))
        os.close(terminal)
        self.seen = b""

    def read(self) -> bool:
        try:
            more = os.read(self.screen, 4096)
        except OSError:  # the other end is closed
            return False
        self.seen += more
        return bool(more)

    def interrupted_at(self, words: bytes) -> "OnTerminal":
        while words not in self.seen:
            assert self.read(), f"ended before it said {words!r}: {self.seen!r}"
        self.process.send_signal(signal.SIGINT)
        return self

    def end(self) -> "tuple[int, str, str]":
        """Exit code, standard output, and what is left on the screen once lines that were taken off are."""
        while self.read():
            pass
        output = self.process.stdout.read().decode()
        left = re.sub(rb"\r\x1b\[K[^\r\n]*(?=\r\x1b\[K)", b"", self.seen).replace(b"\r\x1b[K", b"").replace(b"\r\n", b"\n").decode()
        os.close(self.screen)
        return self.process.wait(), output, left


def line_on_terminal(stowage: str) -> None:
    terminal = OnTerminal(stowage, "plan", MODEL, "--threads=1", "--recompute=4%")
    code, output, left = terminal.end()
    assert code == 0 and output.startswith("memory plan of") and left == "", (code, left)
    assert terminal.seen.count(b"\r\x1b[K[") >= 2 and b"\n" not in terminal.seen, terminal.seen


def interrupted(stowage: str, folder: Path) -> None:
    def begun(*words: object) -> OnTerminal:
        return OnTerminal(stowage, words[0], MODEL, "--threads=1", "--optimizer=adam", *words[1:]).interrupted_at(b"a schedule within")

    code, output, left = begun("frontier", "--step=0.1", "--format=csv").end()
    rows = output.splitlines()
    assert code == 130 and rows[0].startswith("budget_bytes,") and len(rows) >= 2 and "keep all" in rows[1], (code, output, left)
    assert left == "warning: interrupted: this is the best so far, smaller budgets were not planned\n", left

    code, output, left = begun("plan", "--recompute=30%").end()
    assert code == 130 and "interrupted: the best plan found so far" in output, (code, output, left)
    assert left == "warning: interrupted: this is the best so far, another plan may take less\n", left

    code, output, left = begun("max-batch", "--memory-budget=64MiB").end()
    assert code == 130, (code, output, left)
    if output:
        assert output.startswith("largest batch: ") and left == "warning: interrupted: this is the best so far, larger batches may fit\n", (output, left)
    else:
        assert left == "error: interrupted before a first plan was found\n", left

    code, output, left = begun("compile", "-o", folder / "model", "--recompute=30%").end()
    assert code == -signal.SIGINT and not output and not list(folder.iterdir()), (code, output, left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    lines_elsewhere(args.stowage)
    line_on_terminal(args.stowage)
    interrupted(args.stowage, args.work)
    print("passed")


if __name__ == "__main__":
    main()
