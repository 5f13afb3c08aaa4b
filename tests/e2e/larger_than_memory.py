#!/usr/bin/python3
"""A step that takes four times its memory: larger_than_memory.py --stowage=build/release/bin/stowage --work=DIR

A transformer of 32 layers, which takes more than 4 GiB with everything kept, trains within an arena of 1 GiB beside a file in DIR. Losses and
weights are those of the run that keeps everything, bit for bit; the process takes no more than arena and what the plan states beside it; and
all that travelled passed through the file, without staying in memory. So again with a disk that is held to a quarter of the bandwidth that the
plan went by, on which no copy is faster than that.
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python")]

try:
    import numpy as np
    import onnx  # noqa: F401
    import torch  # noqa: F401  # models/build.py imports it
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy, python3-onnx and python3-torch")
    sys.exit(77)

from commands import build_model, check, run  # noqa: E402

LAYERS, WIDTH, HEADS, BATCH, LENGTH, LETTERS, STEPS = 32, 256, 4, 256, 32, 65, 2
GIB = 1 << 30
OUT, IN, MICROSECONDS = 1.0, 0.5, 200  # GB/s and the time of a copy, stated, so that the plan depends on no disk


def trained(program: Path, data: Path, name: str, *flags: object) -> "tuple[bytes, str, int]":
    """Weights and log of a run, what it said, and the most memory that it took, as the kernel told it."""
    saved, log = data.with_name(f"{name}.safetensors"), data.with_name(f"{name}.csv")
    said = run(program, "train", f"--data={data}", f"--steps={STEPS}", "--no-shuffle", "--validation-split=0", f"--save={saved}", f"--log={log}", *flags)
    most = re.search(r"^memory: process peak ([0-9.]+) (KiB|MiB|GiB)", said, re.M)
    check(most is not None, f"{name}: no word of memory: {said}")
    return saved.read_bytes() + log.read_bytes(), said, int(float(most[1]) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[most[2]])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model, data, whole, within = (args.work / name for name in ("model.onnx", "data.npz", "whole", "within"))
    build_model("char_gpt", model, "--batch", BATCH, "--layers", LAYERS, "--width", WIDTH, "--heads", HEADS)
    draw = np.random.default_rng(0)
    rows = BATCH * STEPS
    np.savez(data, x=draw.integers(0, LETTERS, (rows, LENGTH)), y=draw.integers(0, LETTERS, (rows, LENGTH)))
    flags = ["--threads=2", "--target-cpu=x86-64-v3", "--no-dropout", "--loss=cross-entropy:class-axis=-1", "--optimizer=adam:lr=1e-3"]
    run(args.stowage, "compile", model, "-o", whole, *flags, "--recompute=none")
    run(args.stowage, "compile", model, "-o", within, *flags, f"--memory-budget={GIB}", f"--offload={args.work}", "--offload-state=all",
        f"--offload-bandwidth={OUT},{IN},{MICROSECONDS}")  # fmt: skip
    kept, plan = (json.loads(run(program, "plan", "--format=json")) for program in (whole, within))
    check(kept["arena_bytes"] >= 4 * GIB >= 4 * plan["arena_bytes"], f"arenas of {kept['arena_bytes']} and {plan['arena_bytes']} bytes")
    (copies,) = (graph["copies"] for graph in plan["graphs"] if graph["name"] == "train")
    expected, _, most = trained(whole, data, "kept")
    check(most > 4 * GIB, f"with everything kept the process takes {most} bytes")
    limit = plan["arena_bytes"] + plan["outside_arena_bytes"] + data.stat().st_size
    report = args.work / "profile.json"
    paces = ((), (f"--offload-bandwidth={OUT / 4},{IN / 4},{4 * MICROSECONDS}", f"--profile={report}"))
    for name, pace in zip(("disk", "slow disk"), paces, strict=True):
        found, said, most = trained(within, data, name.replace(" ", "_"), *pace)
        check(found == expected, f"{name}: other losses or weights")
        check(most <= limit, f"{name}: the process takes {most} bytes, {limit} are stated")
        passed = re.search(r"^slow memory: .*\((\d+) bytes\) out and .*\((\d+) bytes\) in", said, re.M)
        check(passed is not None and int(passed[1]) >= STEPS * copies["bytes_out"] >= STEPS * GIB and int(passed[2]) >= STEPS * copies["bytes_in"],
              f"{name}: {copies['bytes_out']} and {copies['bytes_in']} bytes a step are planned: {said}")  # fmt: skip
        print(f"{name}: {most / GIB:.2f} GiB of memory, {copies['bytes_out'] / GIB:.2f} and {copies['bytes_in'] / GIB:.2f} GiB out and in each step, the same bits")
    profile = json.loads(report.read_text())
    for copy in profile["copies"]:
        held = copy["bytes"] / ((OUT if copy["kind"] == "copy_out" else IN) * 1e9 / 4) + 4e-6 * MICROSECONDS
        check(copy["least_ms"] >= 1e3 * held * 0.999, f"faster than it is held to, {1e3 * held} ms: {copy}")


if __name__ == "__main__":
    main()
