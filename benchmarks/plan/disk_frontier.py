#!/usr/bin/python3
"""Steps beside a disk: predicted and clock's time of a training step over memory budgets, by recomputation alone and with --offload.

  benchmarks/plan/disk_frontier.py --model=resnet50 --folder=/var/tmp
  benchmarks/plan/disk_frontier.py --model=gpt2 --folder=/var/tmp --pace=0.2,0.2,200       a disk held to 0.2 GB/s each way

How fast the folder is is measured once, and what each op takes as well (--profile=run); all plans go by that. Then all executables run in
turns, and the least step of all rounds counts: what a step takes undisturbed. Times waited for copies are those of the same step.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
# Samples of a step, the shape of one, classes, and flags of the compiler.
MODELS: dict[str, tuple[int, tuple[int, ...], int, list[str]]] = {
    "resnet50": (16, (3, 224, 224), 1000, ["--optimizer=sgd:lr=0.01,momentum=0.9"]),
    "gpt2": (1, (1024,), 50257, ["--optimizer=adamw:lr=1e-4", "--loss=cross-entropy:class-axis=2"]),
    "digits_cnn": (128, (1, 8, 8), 10, ["--optimizer=sgd:lr=0.01,momentum=0.9"]),
}
WAYS = {"none": [], "values": ["--offload"], "values and state": ["--offload", "--offload-state=auto"]}
KEPT = (100, "none")


def run(*words: Any, refusable: bool = False) -> "tuple[str, str] | None":
    """Output and messages; None where a budget is refused and may be."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if refusable and done.returncode == 2 and "STOW1001" in done.stderr:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def write_data(path: Path, name: str, rows: int) -> None:
    _batch, shape, classes, _flags = MODELS[name]
    draw = np.random.default_rng(0)
    if name == "gpt2":
        np.savez(path, x=draw.integers(0, classes, (rows, *shape)), y=draw.integers(0, classes, (rows, *shape)))
    else:
        np.savez(path, x=draw.standard_normal((rows, *shape), np.float32), y=draw.integers(0, classes, rows))


def row(key: "tuple[int, str]", plan: dict[str, Any], step: dict[str, Any]) -> str:
    (graph,) = (graph for graph in plan["graphs"] if graph["name"] == "train")
    copies = graph.get("copies", {"bytes_out": 0, "bytes_in": 0, "hidden_seconds": 0, "exposed_seconds": 0})
    seconds = plan["step_seconds"]
    again = 100 * (plan["extra_time_fraction"] - copies["exposed_seconds"] / seconds)
    waited = sum(copy["waited_ms"] for copy in step["copies"])
    travels = f"{copies['bytes_out'] / 2**20:,.0f}, {copies['bytes_in'] / 2**20:,.0f}" if copies["bytes_in"] else "nothing"
    return (f"| {key[0]} | {key[1]} | {plan['arena_bytes'] / 2**20:,.0f} | {max(again, 0):.1f} % | {travels} | "
            f"{copies['hidden_seconds']:.2f}, {copies['exposed_seconds']:.2f} | {1e-3 * waited:.2f} | {seconds:.2f} | {1e-3 * step['ms']:.2f} | "
            f"{1e-3 * step['ms'] / seconds:.2f} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, default=ROOT / "build/release/bin/stowage")
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet50")
    parser.add_argument("--folder", type=Path, required=True, help="on the disk; it holds programs and data, too")
    parser.add_argument("--budgets", default="80,65,50,40", help="percent of the arena with everything kept")
    parser.add_argument("--ways", default=",".join(WAYS), help="of none, values, values and state")
    parser.add_argument("--pace", metavar="OUT,IN,MICROSECONDS", help="hold copies to this bandwidth, in plans and runs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2, help="in each round, the first of which is left out")
    args = parser.parse_args()
    batch, _shape, _classes, own = MODELS[args.model]
    with tempfile.TemporaryDirectory(prefix="stowage-bench-", dir=args.folder) as name:
        folder = Path(name)
        model, data, costs, report = (folder / leaf for leaf in ("model.onnx", "data.npz", "costs.json", "profile.json"))
        run(sys.executable, ROOT / "models/build.py", args.model, "-o", model, "--batch", batch)
        write_data(data, args.model, batch * args.steps)
        flags = [model, *own, f"--threads={args.threads}", "--no-dropout"]
        print("times of ops", file=sys.stderr, flush=True)
        run(args.stowage, "plan", *flags, "--recompute=none", "--profile=run", f"--save-profile={costs}")
        flags.append(f"--profile={costs}")
        found = args.pace
        if not found:
            said = run(args.stowage, "plan", *flags, "--memory-budget=99%", f"--offload={folder}")[1]
            found = re.search(r"to plan the same again: --offload-bandwidth=(\S+)", said)[1]
        slow = {"--offload": [f"--offload={folder}", f"--offload-bandwidth={found}"]}
        programs: dict[tuple[int, str], Path] = {}
        plans: dict[tuple[int, str], dict[str, Any]] = {}
        wanted = [KEPT, *((int(percent), way) for percent in args.budgets.split(",") for way in args.ways.split(","))]
        for percent, way in wanted:
            program = folder / f"{percent}-{way.replace(' ', '-')}"
            more = [word for flag in WAYS[way] for word in slow.get(flag, [flag])]
            print(f"compile {percent} % {way}", file=sys.stderr, flush=True)
            limit = "--recompute=none" if (percent, way) == KEPT else f"--memory-budget={percent}%"
            if run(args.stowage, "compile", *flags, limit, *more, "-o", program, refusable=True):
                programs[percent, way] = program
                plans[percent, way] = json.loads(run(program, "plan", "--format=json")[0])
        least: dict[tuple[int, str], dict[str, Any]] = {}
        for number in range(args.rounds):
            for key in list(programs) if number % 2 == 0 else reversed(programs):
                pace = [f"--offload-bandwidth={args.pace}"] if args.pace and key[1] != "none" and has_copies(plans[key]) else []
                run(programs[key], "train", f"--data={data}", f"--steps={args.steps}", "--validation-split=0", "--allow-nonfinite", "--quiet",
                    f"--profile={report}", *pace)  # fmt: skip
                profile = json.loads(report.read_text())
                step = {"ms": min(profile["step_ms"]), "copies": profile.get("copies", [])}
                if key not in least or step["ms"] < least[key]["ms"]:
                    least[key] = step
                print(f"round {number + 1}, {key}: {step['ms']:.0f} ms", file=sys.stderr, flush=True)
    words = " ".join(f"'{word}'" if " " in word or "," in word else word for word in sys.argv[1:])
    print(f"    benchmarks/plan/disk_frontier.py {words}\n")
    print(f"Copies at {found} (GB/s out, in; microseconds of a copy{', held to that' if args.pace else ', as measured'}).\n")
    print("| budget, % | slow memory | arena, MiB | computed again | out, in, MiB | hidden, waited for, predicted, s | waited, s | step, predicted, s | least step, s | ratio |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for key in wanted:
        print(row(key, plans[key], least[key]) if key in plans else f"| {key[0]} | {key[1]} | refused | | | | | | | |")


def has_copies(plan: dict[str, Any]) -> bool:
    return any(graph["name"] == "train" and "copies" in graph for graph in plan["graphs"])


if __name__ == "__main__":
    main()
