#!/usr/bin/python3
"""The table of workloads: whole training steps at full size, planned, beside their floors and PyTorch's memory.

  benchmarks/plan/workloads.py                              every system, f32
  benchmarks/plan/workloads.py 1 6b --precision=bf16
  benchmarks/plan/workloads.py -o FILE --pages=FOLDER       also the frontier of each as a page

Nothing is executed and no weight is drawn: models come from models/build.py with parameters as inputs. Everything in the
arena counts: parameters, optimizer state, batch, activations, gradients, workspace, padding. Floors are the smallest
peaks of hand-made lists of operations under stated rules, without workspace and without padding: perfect liveness,
in-place where it is possible, the update inside the backward, weight gradients consumed tile by tile, one stored tensor
per conv-bn-relu, attention by tiles, head and loss in chunks. "Unasked" is what a plan takes without a budget: up
to 1.5 % of the step's time may go into recomputation. "With recompute" is the smallest arena found whose extra
time, by the cost model, is at most the stated share; the bound beside it is proven: no order and no recomputation of the
same operations takes less extra time in that arena. Pictures show both over the whole range, down to the arena below which no
plan exists.
"""

import argparse
import csv
import io
import json
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@dataclass(frozen=True)
class System:
    title: str
    build: str  # arguments of models/build.py
    compile: str  # arguments of stowage
    pytorch: float  # eager, f32; like all figures in `unit`
    floor: float  # nothing computed again
    floor_again: float  # each layer's forward at most twice
    extra: float  # percent of the step's time that recomputation may take
    best_peer: str  # of today's PyTorch without recomputation
    unit: int = MIB


SGD = "--optimizer=sgd:lr=0.01,momentum=0.9"
TOKENS = "--loss=cross-entropy:class-axis=-1 --optimizer=adamw:lr=1e-3 --loss-chunks=16"
GPT2 = "gpt2 --batch 4 --vocabulary 50304 --length"
ACCUMULATION = "--optimizer=adamw:lr=1e-2"
SYSTEMS = {
    "1": System("ResNet-18, batch 128, momentum", "resnet18 --batch 128", SGD, 2823.47, 1886.73, 750.87, 25, "2246 compiled"),
    "2": System("seq2seq with attention, batch 80, T 50", "seq2seq --batch 80",
                "--loss=output:loss --optimizer=adam:lr=1e-3 --input=source,translation --loss-chunks=16", 4294.54, 2067.91, 1057.32, 30, "3219 compiled"),
    "3a": System("my_model, batch 100", "my_model --batch 100", "--loss=mse --optimizer=adam:lr=1e-4", 317.78, 180.55, 176.97, 30,
                 "215 compiled"),
    "3b": System("my_model_full, batch 100", "my_model_full --batch 100", "--loss=mse --optimizer=adam:lr=1e-4", 30997.21,
                 20026.73, 20008.27, 30, "22261 hook"),
    "4": System("MLP 64-128-2, batch 32 (bytes)", "mlp_accumulation --batch 32", ACCUMULATION, 162088, 144408, 144408, 30,
                "162,088 fused", unit=1),
    "4x8": System("the same, 4 x 8 (bytes)", "mlp_accumulation", f"{ACCUMULATION} --batch=32 --accumulate=4", 183080,
                  153952, 153952, 30, "183,080 fused", unit=1),
    "5": System("ResNet-50 on 28x28, batch 512, momentum", "resnet50 --image 28 --batch 512", SGD, 991.67, 809.24, 371.32, 30,
                "949 compiled"),
    "6a": System("GPT-2, 4 x 64 tokens", f"{GPT2} 64", TOKENS, 2242.11, 1716.69, 1600.40, 30, ""),
    "6b": System("GPT-2, 4 x 1024 tokens", f"{GPT2} 1024", TOKENS, 8475.37, 3661.79, 1880.99, 30, "4613 compiled, SDPA"),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    arena: int
    workspace: int
    extra: float  # percent
    bound: float  # percent, of the extra time


class Planner:
    """`stowage` asked about one system's step."""

    def __init__(self, system: System, args: argparse.Namespace, folder: Path) -> None:
        self.system, self.args = system, args
        self.model = folder / f"{system.build.split()[0]}.onnx"  # the title of pages
        run([sys.executable, ROOT / "models/build.py", *system.build.split(), "--weights", "none", "-o", self.model])
        self.flags = [*system.compile.split(), f"--roofline={args.roofline}", "--threads=1", f"--precision={args.precision}"]

    def plan(self, *more: str) -> Outcome:
        plan = json.loads(run([self.args.stowage, "plan", self.model, *self.flags, *more, "--format=json"]))
        return Outcome(plan["arena_bytes"], plan["breakdown"]["workspace"], *(100 * plan[key] for key in ("extra_time_fraction", "extra_time_bound_fraction")))

    def frontier(self) -> list[dict[str, str]]:
        text = run([self.args.stowage, "frontier", self.model, *self.flags, f"--step={self.args.step:g}", "--format=csv"])
        return list(csv.DictReader(io.StringIO(text)))

    def smallest_within(self, cap: float) -> Outcome:
        """The smallest arena whose extra time is at most `cap` percent: what the planner finds for that, a point of the frontier, and
        what lies just below."""
        points = self.frontier()
        allowed = [p for p in points if float(p["extra_time_percent"]) <= cap]
        tried = [self.plan(f"--recompute={cap:g}%"), self.plan(f"--memory-budget={allowed[-1]['arena_bytes']}")]
        best = min((outcome for outcome in tried if outcome.extra <= cap), key=lambda outcome: outcome.arena, default=tried[1])
        below = [int(p["arena_bytes"]) for p in points if float(p["extra_time_percent"]) > cap]
        low = max((arena for arena in below if arena < best.arena), default=0)
        for _ in range(self.args.refine if low else 0):
            tried = self.plan(f"--memory-budget={(low + best.arena) // 2}")
            if tried.extra > cap:
                low = tried.arena
            elif tried.arena < best.arena:
                best = tried
        return best


def run(command: list) -> str:
    """Standard output; a failure ends the report with the command's own words."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def row(name: str, system: System, planner: Planner) -> str:
    def size(value: float) -> str:
        return f"{value:,.0f}" if system.unit == 1 else f"{value / system.unit:,.1f}"

    kept, usual, again = planner.plan("--recompute=none"), planner.plan(), planner.smallest_within(system.extra)
    # Floors and PyTorch's figures are f32's.
    floors = planner.args.precision == "f32"
    cells = [name, system.title, *([size(system.pytorch * system.unit), system.best_peer] if floors else [])]
    for outcome, floor in ((kept, system.floor), (again, system.floor_again)):
        cells += [f"**{size(outcome.arena)}**", size(outcome.workspace)]
        cells += [size(floor * system.unit), f"{outcome.arena / system.unit / floor:.3f}"] if floors else []
        if outcome is kept:
            cells += [f"**{size(usual.arena)}**", f"{usual.extra:.1f} %"]
    cells += [f"{again.extra:.1f} % of {system.extra:g} %", f"{again.bound:.1f} %"]
    return f"| {' | '.join(cells)} |"


def header(precision: str) -> str:
    part = ["workspace", "floor", "ratio"] if precision == "f32" else ["workspace"]
    peers = ["PyTorch", "best of PyTorch today"] if precision == "f32" else []
    columns = ["", "system, MiB", *peers, "no recompute", *part, "unasked", "extra time", "with recompute", *part, "extra time", "bound"]
    return f"| {' | '.join(columns)} |\n|---|---|{'---:|' * (len(columns) - 2)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--stowage", type=Path, default=ROOT / "build/release/bin/stowage")
    parser.add_argument("--roofline", default="cpu", help="whose cost model (default: cpu)")
    parser.add_argument("--precision", default="f32", help="f32, bf16 or fp16")
    parser.add_argument("--step", type=float, default=2, help="distance of the frontier's budgets in percent")
    parser.add_argument("--refine", type=int, default=3, help="further budgets tried below the last one that keeps the time")
    parser.add_argument("--pages", type=Path, help="folder for each system's frontier as a page for a browser")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in SYSTEMS]:
        parser.error(f"no system named '{unknown[0]}'; there are {', '.join(SYSTEMS)}")
    lines = [header(args.precision)]
    print(lines[0], flush=True, file=sys.stderr)
    for name in args.names or SYSTEMS:
        with tempfile.TemporaryDirectory() as scratch:
            planner = Planner(SYSTEMS[name], args, Path(scratch))
            lines.append(row(name, SYSTEMS[name], planner))
            print(lines[-1], flush=True, file=sys.stderr)
            if args.pages:
                args.pages.mkdir(parents=True, exist_ok=True)
                page = args.pages / f"{name}-{args.precision}.html"
                run([args.stowage, "frontier", planner.model, *planner.flags, f"--step={args.step:g}", "--format=html", "-o", page])
    text = "\n".join(lines) + "\n"
    if args.output:
        args.output.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
