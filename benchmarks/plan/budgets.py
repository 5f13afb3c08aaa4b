#!/usr/bin/python3
"""Whole training steps planned at 100, 90, ... percent of the arena they need without a budget; one markdown report.

  benchmarks/plan/budgets.py                            every row of the table below, to standard output
  benchmarks/plan/budgets.py gpt2 lstm_long -o FILE
  benchmarks/plan/budgets.py --stowage=build/dev/bin/stowage --least=50

Nothing is executed and no weight is drawn: models come from models/build.py with parameters as inputs, plans from
`stowage frontier --format=csv`. Per budget: arena and live peak of the plan, the time it adds over running every op
once, and the time that no plan within the budget can save, both by the device's cost model (docs/memory-budget.md).
Seconds are processor time of the whole command, for all budgets together: one thread works.
"""

import argparse
import csv
import io
import resource
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    title: str
    build: str  # arguments of models/build.py
    compile: str  # arguments of stowage


SGD = "--optimizer=sgd:lr=0.01,momentum=0.9"
ADAM = "--optimizer=adamw:lr=1e-3"
ROWS = {
    "resnet18_128": Row("ResNet-18, batch 128", "resnet18 --batch 128", SGD),
    "resnet50_32": Row("ResNet-50, batch 32", "resnet50 --batch 32", SGD),
    "resnet50_64": Row("ResNet-50, batch 64", "resnet50 --batch 64", SGD),
    "resnet50_128": Row("ResNet-50, batch 128", "resnet50 --batch 128", SGD),
    "gpt2": Row("GPT-2 (124M), 4 x 1024 tokens", "gpt2 --batch 4", f"{ADAM} --loss=cross-entropy:class-axis=-1"),
    "lstm_long": Row("LSTM unrolled over 870 time steps, batch 32", "lstm_long --steps 870 --batch 32", f"{ADAM} --input=sequence"),
}


def run(command: list) -> tuple[str, float]:
    """(standard output, processor seconds); a failure ends the report with the command's own words."""
    words = [str(word) for word in command]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(row: Row, args: argparse.Namespace, folder: Path) -> str:
    model = folder / "model.onnx"
    run([sys.executable, ROOT / "models/build.py", *row.build.split(), "--weights", "none", "-o", model])
    flags = [*row.compile.split(), f"--roofline={args.roofline}", "--threads=1"]
    text, seconds = run([args.stowage, "frontier", model, *flags, f"--step={args.step}", "--format=csv"])
    points = list(csv.DictReader(io.StringIO(text)))
    full, least = int(points[0]["arena_bytes"]), int(points[0]["time_ns"])
    lines = [f"## {row.title}", "",
             f"`models/build.py {row.build} --weights none -o model.onnx && stowage frontier model.onnx "
             f"{row.compile} --step={args.step:g} --format=csv`: {seconds:.1f} s", "",
             "| budget | arena bytes | of full | live peak bytes | extra time | at least | method |",
             "|---:|---:|---:|---:|---:|---:|---|"]  # fmt: skip
    for point in points:
        budget, arena = int(point["budget_bytes"]), int(point["arena_bytes"])
        share = 100 * budget / full
        if share < args.least - 1e-6:
            continue
        bound = 100 * max(int(point["bound_ns"]) / least - 1, 0)
        lines.append(f"| {share:.1f} % | {arena:,} | {100 * arena / full:.1f} % | {int(point['live_peak_bytes']):,} | "
                     f"{float(point['extra_time_percent']):.3f} % | {bound:.3f} % | {point['method']} |")  # fmt: skip
    last = points[-1]
    lines += ["", f"Smallest arena found: {int(last['arena_bytes']):,} bytes, "
                  f"{100 * int(last['arena_bytes']) / full:.1f} % of {full:,} ({full / MIB:,.1f} MiB).", ""]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--stowage", type=Path, default=ROOT / "build/release/bin/stowage")
    parser.add_argument("--roofline", default="cpu", help="whose cost model (default: cpu)")
    parser.add_argument("--step", type=float, default=10, help="distance of budgets in percent")
    parser.add_argument("--least", type=float, default=0, help="leave out rows below this percentage")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in ROWS]
    if unknown:
        parser.error(f"no row named '{unknown[0]}'")
    text = ("# Training steps under a budget\n\nWritten by `benchmarks/plan/budgets.py`. Extra time is over running every op once; "
            f"no plan within the budget adds less than \"at least\". Both by the roofline of `{args.roofline}` on one thread.\n\n")
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.names or ROWS:
            part = table(ROWS[name], args, Path(scratch))
            print(part, flush=True, file=sys.stdout if args.output is None else sys.stderr)
            text += part
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
