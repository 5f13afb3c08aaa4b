#!/usr/bin/python3
"""Whether plans keep their word: predicted time of a training step beside the clock's, over memory budgets.

  benchmarks/plan/times.py                                          resnet18 at batch 16, into standard output
  benchmarks/plan/times.py --model=digits_cnn --batch=128 --budgets=100,80,65

Each budget is compiled twice, with roofline costs and with measured ones (--profile=run). All executables then run in
turns, and the least step of all rounds counts: what a step takes undisturbed. Extra time is over the step with
everything kept.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
OPTIMIZER = "--optimizer=sgd:lr=0.01,momentum=0.9"
SAMPLES = {"resnet18": ((3, 224, 224), 1000), "digits_cnn": ((1, 8, 8), 10), "mobilenet_v2": ((3, 224, 224), 1000),
           "vgg16": ((3, 224, 224), 1000)}  # fmt: skip


def run(*words: Any, **settings: Any) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **settings)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, default=ROOT / "build/release/bin/stowage")
    parser.add_argument("--model", choices=sorted(SAMPLES), default="resnet18")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--budgets", default="100,85,70,55", help="percent of the arena without a budget")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="in each round, after one to warm up")
    args = parser.parse_args()
    budgets = [int(text) for text in args.budgets.split(",")]
    if budgets[0] != 100:
        parser.error("the first budget is the base of extra times: 100")
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as name:
        folder = Path(name)
        model, data, costs = folder / "model.onnx", folder / "data.npz", folder / "costs.json"
        run(sys.executable, ROOT / "models/build.py", args.model, "-o", model, "--batch", args.batch)
        shape, classes = SAMPLES[args.model]
        random = np.random.default_rng(0)
        np.savez(data, x=random.standard_normal((2 * args.batch, *shape), np.float32), y=random.integers(0, classes, 2 * args.batch))
        flags = [model, OPTIMIZER, f"--batch={args.batch}", f"--threads={args.threads}"]
        run(args.stowage, "plan", *flags, "--profile=run", f"--save-profile={costs}", "--format=json")
        executables: dict[tuple[str, int], Path] = {}
        plans: dict[tuple[str, int], dict[str, Any]] = {}
        for kind, extra in (("roofline", []), ("measured", [f"--profile={costs}"])):
            for budget in budgets:
                executables[kind, budget] = folder / f"{kind}-{budget}"
                run(args.stowage, "compile", *flags, *extra, f"--memory-budget={budget}%", "-o", executables[kind, budget])
                plans[kind, budget] = json.loads(run(executables[kind, budget], "plan", "--format=json"))
        least = dict.fromkeys(executables, float("inf"))
        processor: dict[tuple[str, int], list[float]] = {key: [] for key in executables}
        for number in range(args.rounds):
            for key in list(executables) if number % 2 == 0 else reversed(executables):
                report = folder / "profile.json"
                run(executables[key], "train", f"--data={data}", f"--steps={args.steps + 1}", "--validation-split=0", "--allow-nonfinite",
                    "--quiet", f"--profile={report}", env=os.environ | {"OMP_NUM_THREADS": str(args.threads)})  # fmt: skip
                profile = json.loads(report.read_text())
                least[key] = min(least[key], *profile["step_ms"])
                processor[key].append(profile["processor_ms"])
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    print(f"`benchmarks/plan/times.py {' '.join(sys.argv[1:])}`\n")
    print(f"{args.model} b{args.batch}, {args.threads} thread(s); {plans['measured', 100]['cost_source']}\n")
    print("| costs | budget % | arena MiB | predicted ms | least ms | processor ms | predicted extra % | extra % |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for (kind, budget), plan in plans.items():
        base = least[kind, 100]
        print(f"| {kind} | {budget} | {plan['arena_bytes'] / (1 << 20):,.2f} | {1e3 * plan['step_seconds']:.2f} | {least[kind, budget]:.2f} | "
              f"{statistics.median(processor[kind, budget]):.2f} | {100 * plan['extra_time_fraction']:.2f} | {100 * (least[kind, budget] / base - 1):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
