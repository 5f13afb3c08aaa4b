#!/usr/bin/python3
"""Loss curves of compiled models against PyTorch's, same initial weights and data.

  curves.py --stowage=build/release/bin/stowage --work=DIR NAME... [--steps=N] [--threads=N]
      [--plain] [--light-models=DIR] [--simulated=DIR]

For each curve of tests/data/curves: compiles the model with and without checkpointing, trains both as many steps as the
reference has, or the first N, the one with checkpointing under --poison, which overwrites every buffer when it dies, and checks that

  - the losses follow the reference, to the tolerance of the curve; in mixed precision they differ from PyTorch's
    under autocast by no more than twice what rounding moves those: between them and float32's, or their own with
    each batch turned round;
  - both log the same bytes;
  - the arena of --checkpoint=sqrt is not larger;
  - where the reference also has what became of each parameter: in half of the memory above parameters and optimizer state, or
    in the least that the compiler says can be, the losses are the same bytes too, in all three runs so are the trained tensors,
    and their changes follow PyTorch's;
  - the process's peak memory is at most the arena, what the plan states beside it, and the files it reads.

With --plain nothing runs again, under --poison, and what compares plans falls away. With --simulated, the folder of the stand-ins of
tests/gpu, the programs are compiled for a GPU and run on the simulated one; the process's memory then says nothing.
"""

import argparse
import csv
import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/references"), str(ROOT / "models"), str(ROOT / "python")]

from make_curves import CURVES  # noqa: E402

missing = [package for package in ("torch", "onnx") if not importlib.util.find_spec(package)]
if missing:
    print(f"skipped: there is no {' and no '.join(missing)}; install {' and '.join(f'python3-{name}' for name in missing)}")
    sys.exit(77)

import final_rows  # noqa: E402
from commands import half_budget, row_sums  # noqa: E402
from safetensors_io import load  # noqa: E402

# Largest relative difference of any step's loss. Rounding alone moves PyTorch's own curves by up to 4.5e-4 (its f32
# against its f64 run), so a curve that is right stays well inside and a wrong gradient does not.
# The deep networks at 224x224 with He weights have no f64 reference and magnify rounding more.
TOLERANCE = 1e-3
TOLERANCES = {"light_vgg19": 5e-3, "light_resnet50": 5e-3}

# Largest difference of a tensor's change over the whole run, relative to that change. The gradients of batch norms' parameters
# are small differences of large sums, and many layers of them lead rounding on: of ResNet-50's, PyTorch's own changes differ by 4.1e-2 after
# five steps once each batch is turned round, which is nothing but another rounding. Twice that is allowed.
FINAL_TOLERANCE = 1e-3
FINAL_TOLERANCES = {"system_resnet18": 1e-2, "system_resnet50": 8e-2}


def run(command: list[object], simulated: "Path | None" = None) -> str:
    words = [str(word) for word in command]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(simulated)} if simulated else None
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def losses(path: Path, column: str = "loss") -> list[float]:
    with open(path) as file:
        return [float(row[column]) for row in csv.DictReader(file)]


def difference(ours: list[float], theirs: list[float]) -> float:
    """The largest relative difference of a step's loss."""
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def tolerance_of(name: str, reference: list[float], path: Path) -> float:
    if CURVES[name].precision == "f32":
        return TOLERANCES.get(name, TOLERANCE)
    others = (losses(path, column)[: len(reference)] for column in ("loss_reversed", "loss_float32"))
    return 2 * max(difference(other, reference) for other in others)


def peak_bytes(executable: Path, output: str) -> int:
    """The peak resident memory that the run's last line states, in bytes."""
    text = output[output.index("process peak ") + len("process peak ") :]
    number, unit = text.split(",")[0].split()
    return int(float(number) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit])


def check(condition: bool, message: str) -> bool:
    if not condition:
        print(f"  FAILED: {message}")
    return condition


class Runs:
    """One curve's model, compiled and trained in several modes."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name, self.args, self.curve = name, args, CURVES[name]
        folder: Path = args.work
        light = args.light_models / self.curve.model if self.curve.model.endswith(".onnx") else None
        self.model, self.weights, self.data = light or folder / f"{name}.onnx", folder / f"{name}.safetensors", folder / f"{name}.npz"
        self.steps = min(self.curve.steps, args.steps or self.curve.steps)
        self.logs: dict[str, Path] = {}
        self.plans: dict[str, dict] = {}
        self.ok = True

    def check(self, condition: bool, message: str) -> None:
        self.ok &= check(condition, message)

    def saved(self, mode: str) -> Path:
        return self.args.work / f"{self.name}-{mode}-trained.safetensors"

    def compile(self, mode: str, flag: str) -> "subprocess.CompletedProcess[str]":
        args, curve = self.args, self.curve
        target = ["--target=cuda:h100", f"--cudnn={args.simulated}"] if args.simulated else []
        words = [args.stowage, "compile", self.model, "-o", args.work / f"{self.name}-{mode}", f"--batch={curve.batch}", "--no-dropout",
                 f"--optimizer={curve.optimizer.replace('_', '-')}", flag, f"--loss={curve.loss}", f"--precision={curve.precision}",
                 *([f"--threads={args.threads}"] if args.threads else []), *target, *curve.flags]  # fmt: skip
        return subprocess.run([str(word) for word in words], capture_output=True, text=True)

    def train(self, mode: str, done: "subprocess.CompletedProcess[str]", *train_flags: str) -> None:
        """Runs what `compile` wrote; `train_flags` are the executable's."""
        args = self.args
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(done.args)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        executable, log = args.work / f"{self.name}-{mode}", args.work / f"{self.name}-{mode}.csv"
        plan = self.plans[mode] = json.loads(run([executable, "plan", "--format=json"]))
        log.unlink(missing_ok=True)
        output = run([executable, "train", f"--data={self.data}", f"--steps={self.steps}", "--no-shuffle",
                      f"--init-from={self.weights}", f"--log={log}", *([f"--save={self.saved(mode)}"] if self.curve.final else []),
                      *train_flags], args.simulated)  # fmt: skip
        self.logs[mode] = log
        if not args.sanitized and not args.simulated:
            allowed = plan["arena_bytes"] + plan["outside_arena_bytes"] + self.data.stat().st_size + self.weights.stat().st_size
            peak = peak_bytes(executable, output)
            self.check(peak <= allowed * 1.01, f"{mode}: process peak {peak} above {allowed} bytes")

    def is_apart(self, mode: str) -> bool:
        """Whether this plan has fewer kernels in a GPU's library calls than the one that keeps everything, or sums rows in others:
        their last bits differ then (docs/cuda.md)."""

        def fused(plan: dict) -> int:
            return sum(plan["strings"][step["op"]] in ("product_map", "conv2d_map") for graph in plan["graphs"] for step in graph["steps"])

        plan, kept = self.plans[mode], self.plans["none"]
        return bool(self.args.simulated) and (fused(plan) < fused(kept) or row_sums(plan) != row_sums(kept))

    def train_in_half(self) -> None:
        """In the state and half of what the plain plan has above it; in the least that can be where that is more."""
        budget = half_budget(self.plans["none"])
        done = self.compile("half", f"--memory-budget={budget}")
        if least := re.search(r"STOW1001.*smallest achievable [^(]*\((\d+) bytes\)", done.stderr, re.DOTALL):
            budget = int(least[1])
            done = self.compile("half", f"--memory-budget={budget}")
        self.train("half", done, "--poison")
        self.check(self.plans["half"]["arena_bytes"] <= budget, "the budget is not kept")

    def check_changes(self, mode: str) -> str:
        """What became of each tensor over all steps, beside PyTorch's."""
        found = final_rows.differences(ROOT / f"tests/data/curves/{self.name}_final.csv", load(self.weights), load(self.saved(mode)))
        seen = {name: d for name, d in found.items() if not any(fnmatch.fnmatchcase(name, p) for p in self.curve.blind)}
        worst = max(seen, key=seen.__getitem__)
        allowed = FINAL_TOLERANCES.get(self.name, FINAL_TOLERANCE)
        self.check(seen[worst] <= allowed, f"{mode}: '{worst}' changed otherwise than in PyTorch: {seen[worst]:.2e} above {allowed}")
        return f"of {len(seen)} tensors {worst} is {seen[worst]:.1e} off its change"

    def check_final(self) -> str:
        first = load(self.saved("none"))
        whole = self.steps == self.curve.steps
        for mode in ("sqrt", "half"):
            if not self.is_apart(mode):
                other = load(self.saved(mode))
                same = first.keys() == other.keys() and all(first[name].tobytes() == other[name].tobytes() for name in first)
                self.check(same, f"{mode}: other trained tensors than with everything kept")
            elif whole:
                self.check_changes(mode)
        if not whole:
            return ""
        return f"; {self.check_changes('none')}; with half of the activations or the least {self.plans['half']['arena_bytes']:,}"


def check_curve(name: str, args: argparse.Namespace) -> bool:
    runs = Runs(name, args)
    path = ROOT / f"tests/data/curves/{name}.csv"
    reference = losses(path)[: runs.steps]
    runs.train("none", runs.compile("none", "--recompute=none"), *(["--poison"] if args.plain else []))
    if not args.plain:
        runs.train("sqrt", runs.compile("sqrt", "--checkpoint=sqrt"), "--poison")
        if runs.curve.final:
            runs.train_in_half()
    ours = losses(runs.logs["none"])
    runs.check(len(ours) == len(reference), f"{len(ours)} steps, expected {len(reference)}")
    worst = difference(ours, reference)
    last = abs(ours[-1] - reference[-1]) / abs(reference[-1])
    tolerance = tolerance_of(name, reference, path)
    runs.check(worst <= tolerance, f"relative difference {worst:.2e} above {tolerance}")
    for mode, log in runs.logs.items():
        if runs.is_apart(mode):
            apart = difference(losses(log), reference)
            runs.check(apart <= tolerance, f"{mode}: with products and kernels apart, relative difference {apart:.2e} above {tolerance}")
        else:
            runs.check(log.read_bytes() == runs.logs["none"].read_bytes(), f"{mode}: recomputing, with --poison, logs other losses")
    arenas = {mode: plan["arena_bytes"] for mode, plan in runs.plans.items()}
    final = ""
    if not args.plain:
        runs.check(arenas["sqrt"] <= arenas["none"], f"arena {arenas['sqrt']} with sqrt above {arenas['none']}")
        final = f", with sqrt {arenas['sqrt']:,}{runs.check_final() if runs.curve.final else ''}"
    print(f"{name}: {len(ours)} steps, loss {ours[0]:.5f} -> {ours[-1]:.5f}, relative difference to PyTorch "
          f"{worst:.1e} at most, {last:.1e} at the end; arena {arenas['none']:,} bytes{final}", flush=True)  # fmt: skip
    return runs.ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"of {', '.join(CURVES)}")
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, metavar="DIR", help="the stand-ins of tests/gpu: for a GPU instead of the host")
    parser.add_argument("--light-models", type=Path, metavar="DIR")
    parser.add_argument("--steps", type=int, metavar="N", help="of each curve the first N steps alone")
    parser.add_argument("--threads", type=int, metavar="N", help="of the executables, instead of what the compiler chooses")
    parser.add_argument("--plain", action="store_true", help="without checkpointing alone")
    parser.add_argument("--sanitized", action="store_true", help="built with sanitizers, whose memory comes on top: peaks are not compared")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    # One process for all inputs: it imports PyTorch once. Not this one, because a process that this one starts has at least
    # this one's peak memory.
    run([sys.executable, ROOT / "python/references/make_curves.py", *args.names, f"--inputs={args.work}", "--only-inputs",
         *([f"--light-models={args.light_models}"] if args.light_models else [])])  # fmt: skip
    failed = [name for name in args.names if not check_curve(name, args)]
    print(f"{len(args.names) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
