#!/usr/bin/python3
"""What every executable promises, on the digits network with dropout and AdamW.

  promises.py --stowage=build/release/bin/stowage --count-allocations=libCountAllocations.so \\
      --kill-at-call=libKillAtCall.so --work=DIR

  - two compilations give the same bytes, two runs the same losses and weights;
  - checkpointing and poisoning change nothing, dropout included;
  - a run killed at any instant and resumed continues the log bit for bit;
  - steps allocate nothing for tensors or workspaces: at most 1 KiB per library call and step, the library's own
    bookkeeping (without AVX-512 also what its matrix product packs), and no block larger than loading allocates;
  - the library's threads are the program's: none of its OpenMP calls reaches libgomp, whose threads spin;
  - the plan of the executable is that of `stowage plan`, and no two buffers that live together share bytes.

With --short for programs of GPUs on the simulated one (tests/gpu): batches of 4 and few steps, and nothing about the heap,
most of which is the simulation's there; e2e/device_calls counts a GPU's allocations.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MODEL, DATA = ROOT / "models/digits_cnn.onnx", ROOT / "models/data/digits.npz"
FLAGS = ["--optimizer=adamw:lr=1e-3,weight-decay=0.1"]
TRAIN = ["--seed=7", "--quiet"]


def run(command: list[object], **options) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def computes_with_avx512(plan: dict) -> bool:
    return any(note.startswith("computes with avx512") for note in plan["notes"])


class Promises:
    def __init__(self, args: argparse.Namespace) -> None:
        self.stowage, self.folder = args.stowage, args.work
        self.shim, self.killer = args.count_allocations, args.kill_at_call
        self.flags = [*FLAGS, "--batch=4" if args.short else "--batch=32"]
        self.steps, self.length, self.every = ("--steps=6", "--steps=12", 1) if args.short else ("--steps=20", "--epochs=3", 3)
        # A quarter of the digits: an epoch has as many steps as all of them would have in batches of 128.
        self.data = self.folder / "digits.npz"
        with np.load(DATA) as digits:
            np.savez(self.data, **{name: digits[name][: 12 * 32] for name in digits.files})
        self.passed = self.failed = 0

    def check(self, condition: bool, message: str) -> None:
        self.passed += condition
        self.failed += not condition
        print(f"{'ok' if condition else 'FAILED'}: {message}", flush=True)

    def compile(self, name: str, *flags: str) -> Path:
        executable = self.folder / name
        run([self.stowage, "compile", MODEL, "-o", executable, *self.flags, *flags])
        return executable

    def train(self, executable: Path, name: str, *flags: str) -> tuple[bytes, bytes]:
        """Log and weights of a run."""
        log, weights = self.folder / f"{name}.csv", self.folder / f"{name}.safetensors"
        for old in (log, weights):
            old.unlink(missing_ok=True)
        run([executable, "train", f"--data={self.data}", *TRAIN, f"--log={log}", f"--save={weights}", *flags])
        return log.read_bytes(), weights.read_bytes()

    def determinism(self) -> None:
        first, second = self.compile("first"), self.compile("second")
        self.executable = first
        self.check(first.read_bytes() == second.read_bytes(), "two compilations give the same bytes")
        plain = self.train(first, "plain", self.steps)
        self.check(self.train(first, "again", self.steps) == plain, "two runs give the same log and weights")
        self.check(self.train(first, "poison", self.steps, "--poison") == plain, "poisoning dead buffers changes nothing")
        self.sqrt = self.compile("sqrt", "--checkpoint=sqrt")
        self.check(self.train(self.sqrt, "sqrt", self.steps) == plain, "recomputation changes nothing, dropout included")

    def resume(self) -> None:
        """Killed again and again between the calls that change files, in different places of a save, and resumed."""
        log, weights, counted = (self.folder / name for name in ("killed.csv", "killed.safetensors", "calls.txt"))
        command = [self.executable, "train", f"--data={self.data}", *TRAIN, self.length, f"--log={log}", f"--save={weights}", f"--save-every={self.every}"]

        def train(**settings: object) -> int:
            environment = dict(os.environ, LD_PRELOAD=str(self.killer), **{name: str(value) for name, value in settings.items()})
            words = [str(word) for word in command + (["--resume"] if weights.exists() else [])]
            return subprocess.run(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode

        log.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)
        self.check(train(STOWAGE_CALLS=counted) == 0, "a run that is not killed ends by itself")
        whole = log.read_bytes(), weights.read_bytes()
        log.unlink()
        weights.unlink()
        # Together the runs that are killed make fewer calls than the whole run, so none of them comes to its end first.
        most, kills = int(counted.read_text().split()[0]) // 10, 9
        codes = [train(STOWAGE_KILL_AT=most - i) for i in range(kills)]
        self.check(most > kills and codes == [-signal.SIGKILL] * kills, f"{kills} runs were killed: exit codes {codes}")
        self.check(weights.exists() and (log.read_bytes(), weights.read_bytes()) != whole, "and the work is not done then")
        self.check(train() == 0 and (log.read_bytes(), weights.read_bytes()) == whole,
                   f"killed {kills} times and resumed: same log and weights")  # fmt: skip

    def allocations(self) -> None:
        plan = json.loads(run([self.executable, "plan", "--format=json"]).stdout)
        totals = {}
        for steps in (10, 110):
            report = self.folder / "allocations.txt"
            environment = dict(os.environ, LD_PRELOAD=str(self.shim), STOWAGE_ALLOCATIONS=str(report))
            run([self.executable, "train", f"--data={self.data}", *TRAIN, f"--steps={steps}", "--no-shuffle", "--validation-split=0"], env=environment)
            totals[steps] = [int(word) for word in report.read_text().split()]
        calls = len(plan["graphs"][0]["step_names"])
        per_step = (totals[110][1] - totals[10][1]) / 100
        allowed = 1024 * calls
        if not computes_with_avx512(plan):
            allowed += plan["outside_arena_bytes"]  # there the library's matrix product packs on the heap, as the plan states
        self.check(per_step <= allowed, f"{per_step:.0f} bytes of library bookkeeping per step of {calls} commands")
        self.check(totals[110][2] == totals[10][2], "no step allocates a block larger than loading did")

    def one_pool(self) -> None:
        environment = dict(os.environ, LD_DEBUG="bindings", LD_BIND_NOW="1")
        pattern = re.compile(r"binding file \S*libdnnl\S* \[0\] to (\S+) \[0\]: normal symbol `((?:GOMP|omp)_\w+)'")
        for program in (self.executable, Path(self.stowage)):
            bindings = pattern.findall(run([program, "--help"], env=environment).stderr)
            strays = sorted({f"{name} of {Path(file).name}" for file, name in bindings if not Path(file).samefile(program)})
            self.check("GOMP_parallel" in {name for _, name in bindings} and not strays,
                       f"oneDNN runs on the pool of {program.name} {strays}")  # fmt: skip

    def plan(self) -> None:
        carried = json.loads(run([self.sqrt, "plan", "--format=json"]).stdout)
        stated = json.loads(run([self.stowage, "plan", MODEL, *self.flags, "--checkpoint=sqrt", "--format=json"]).stdout)
        self.check(carried == stated, "the executable carries the plan that was stated")
        buffers = stated["buffers"]
        clashes = [(a["name"], b["name"]) for i, a in enumerate(buffers) for b in buffers[:i]
                   if a["begin"] < b["end"] and b["begin"] < a["end"]
                   and a["offset"] < b["offset"] + b["size"] and b["offset"] < a["offset"] + a["size"]]  # fmt: skip
        self.check(not clashes, f"no buffers that live together share bytes {clashes[:3] if clashes else ''}")
        self.check(max(b["offset"] + b["size"] for b in buffers) <= stated["arena_bytes"], "every buffer lies in the arena")
        self.check(stated["lower_bound_bytes"] <= stated["arena_bytes"], "the lower bound is not above the arena")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--count-allocations", type=Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--kill-at-call", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    if not args.short and not args.count_allocations:
        parser.error("--count-allocations is missing; only --short goes without")
    args.work.mkdir(parents=True, exist_ok=True)
    promises = Promises(args)
    promises.determinism()
    promises.resume()
    if not args.short:
        promises.allocations()
        promises.one_pool()
    promises.plan()
    print(f"{promises.passed} passed, {promises.failed} failed")
    sys.exit(1 if promises.failed else 0)


if __name__ == "__main__":
    main()
