#!/usr/bin/env python3
"""Two ranks over a slow link: what a step waits for exchanges, beside what the plan says, in turns with sums that hold the step.

  benchmarks/plan/delayed_link.py --delayed-link=build/release/tests/e2e/libDelayedLink.so
  benchmarks/plan/delayed_link.py --delayed-link=LIB --links=0.05,100/0.2,50 --rounds=5

The link is that of the preloaded library: an exchange takes its latency and its bytes at that bandwidth, whatever connects the ranks. Needs the package with
PyTorch, and Open MPI. STOWAGE_BINARY names the compiler. Steps are an MLP's of eight layers of 512, batch 128 on each rank, AdamW, one thread a rank, weighed
by the host's data sheet. Printed are medians.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import stowage
import torch.nn as nn
from torch import randn

WIDTH, LAYERS, BATCH, STEPS = 512, 8, 128, 40
MPIRUN = ["mpirun.openmpi", "-n", "2", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]  # fmt: skip
COLUMNS = ["link, GB/s and us", "state", "sums", "arena, MiB", "on the network, ms", "waits as planned, ms", "waits, ms", "step, ms"]


def compiled(folder: Path, name: str, *flags: str) -> stowage.Plan:
    binary = os.environ["STOWAGE_BINARY"]
    subprocess.run([binary, "compile", folder / "model.onnx", "-o", folder / name, f"--batch={BATCH}", "--threads=1", "--recompute=none",
                    "--optimizer=adamw:lr=1e-3", *flags], check=True, capture_output=True)  # fmt: skip
    return stowage.Plan(subprocess.run([folder / name, "plan", "--format=json"], check=True, capture_output=True, text=True).stdout)


def run(folder: Path, name: str, library: Path, link: str) -> "tuple[float, float | None]":
    """Milliseconds of a step, and what it waited, where sums were started ahead."""
    said = subprocess.run([*MPIRUN, "-x", f"LD_PRELOAD={library}", "-x", f"DELAYED_LINK={link}", folder / name, "train", f"--data={folder}/rows.npz", f"--steps={STEPS}",
                           "--no-shuffle"], check=True, capture_output=True, text=True).stdout  # fmt: skip
    waited = re.search(r"a step waited ([\d.]+) ms", said)
    return float(re.search(r"([\d.]+) ms per step", said)[1]), float(waited[1]) if waited else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delayed-link", type=Path, required=True, help="tests/e2e/DelayedLink.cpp, built")
    parser.add_argument("--links", default="0.05,100/0.1,100/0.4,100", help="by slashes, each GB/S,US")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        stowage.export(nn.Sequential(*layers, nn.Linear(WIDTH, 10)), randn(BATCH, WIDTH), folder / "model.onnx", check=False)
        rng = np.random.default_rng(0)
        rows = 2 * BATCH * STEPS
        np.savez(folder / "rows.npz", x=rng.standard_normal((rows, WIDTH), dtype=np.float32), y=rng.integers(0, 10, rows))
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
        for link in args.links.split("/"):
            for state in ("none", "optimizer"):
                flags = ["--devices=2", f"--shard-state={state}"]
                plans = {"in turn": compiled(folder, "turn", *flags), "beside": compiled(folder, "beside", *flags, f"--network={link}")}
                found: dict[str, list] = {kind: [] for kind in plans}
                for _ in range(args.rounds):
                    for kind, program in (("in turn", "turn"), ("beside", "beside")):
                        found[kind].append(run(folder, program, args.delayed_link.resolve(), link))
                for kind, plan in plans.items():
                    sums = plans["beside"].json["graphs"][0]["reductions"]
                    planned = sums["exposed_seconds"] if kind == "beside" else sums["seconds"]
                    waits = [waited for _, waited in found[kind] if waited is not None]
                    cells = [link, "in shards" if state == "optimizer" else "whole", kind, f"{plan.arena_bytes / 2**20:.2f}", f"{1e3 * sums['seconds']:.1f}",
                             f"{1e3 * planned:.1f}", f"{statistics.median(waits):.1f}" if waits else "", f"{statistics.median(step for step, _ in found[kind]):.1f}"]  # fmt: skip
                    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
