#!/usr/bin/python3
"""Limits that a process is given are errors, and pipes are not waited for: limits.py --stowage=PATH --work=DIR [--whole].

A plan under every limit on memory (ulimit -v), from one that the dynamic linker ends at to one that is enough, and on the stack, is a plan or
an error; so is one of a model that nests deeper than any stack. A pipe in place of any file is refused at once.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/digits_cnn.onnx"
MIB = 1 << 20


class Limits:
    def __init__(self, stowage: str, work: Path) -> None:
        self.stowage, self.work, self.failures = stowage, work, 0

    def run(self, words: list[object], limits: dict[int, int]) -> subprocess.CompletedProcess:
        def apply() -> None:
            for what, limit in limits.items():
                resource.setrlimit(what, (limit, limit))

        return subprocess.run([self.stowage, *map(str, words)], capture_output=True, text=True, preexec_fn=apply, timeout=120)

    def check(self, good: bool, what: str) -> None:
        self.failures += not good
        print(f"{'ok' if good else 'FAILED'}: {what}", flush=True)

    def memory(self, step: int) -> None:
        """From what the dynamic linker needs up, until three limits in a row are enough."""
        long = self.work / "long.mlir"
        long.write_text('module attributes {stow.form = "model", stow.note = "' + "a" * (24 * MIB) + '''"} {
func.func @model(%x: tensor<4x8xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
                 %w: tensor<8x8xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w", stow.init = #stow.init<"normal", 0.0, 0.1>})
    -> (tensor<4x8xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
  %y = stow.matmul %x, %w {transpose_a = false, transpose_b = false} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}}
''')
        limit = next(mib for mib in range(8, 4096, 4) if self.run(["--version"], {resource.RLIMIT_AS: mib * MIB}).returncode == 0)
        met = enough = 0
        for limit in range(limit, limit + 256, step):
            if enough == 3:
                break
            done = self.run(["plan", long, "--loss=mse", "--threads=1", "--recompute=none"], {resource.RLIMIT_AS: limit * MIB})
            enough = enough + 1 if done.returncode == 0 else 0
            met += done.stderr.startswith("error: no memory is left for the compilation")
            self.check(done.returncode == 0 or done.returncode == 1 and done.stderr.startswith("error: "),
                       f"{limit} MiB of memory: exit code {done.returncode}: {done.stderr[:100].strip()}")  # fmt: skip
        self.check(met > 0, "some limit on memory was met")

    def stack(self) -> None:
        deep = self.work / "deep.mlir"
        deep.write_text("module attributes {a = " + "[" * 200_000 + "]" * 200_000 + "} {}\n")
        done = self.run(["plan", deep], {})
        self.check(done.returncode == 1 and done.stderr.startswith("error: "), f"a deep model: exit code {done.returncode}: {done.stderr[:200]}")

    def pipes(self) -> None:
        """Nobody writes to them: whoever opened one would wait for ever."""
        for name in ("pipe.onnx", "pipe.mlir", "pipe.json"):
            path = self.work / name
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            command = "inspect" if name.endswith("json") else "plan"
            done = self.run([command, path], {})
            self.check(done.returncode == 1 and "it is a pipe and not a regular file" in done.stderr, f"{command} {name}: {done.stderr[:200]}")
        for words in (["pack", self.work / "pipe.json"], ["remat", self.work / "pipe.json", "--memory-budget=70%"],
                      ["plan", MODEL, f"--profile={self.work / 'pipe.json'}", "--threads=1"]):  # fmt: skip
            done = self.run(words, {})
            self.check(done.returncode == 1 and "it is a pipe and not a regular file" in done.stderr, f"{words[0]}: {done.stderr[:200]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--sanitized", default="")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    limits = Limits(args.stowage, args.work.absolute())
    limits.pipes()
    if not args.sanitized:  # sanitizers have limits of their own, and report crashes themselves
        limits.stack()
        limits.memory(1 if args.whole else 16)
    sys.exit(1 if limits.failures else 0)


if __name__ == "__main__":
    main()
