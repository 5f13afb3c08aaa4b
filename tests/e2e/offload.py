#!/usr/bin/python3
"""Activations that travel to a file, against the same step with everything kept.

  offload.py --stowage=build/release/bin/stowage --work=DIR [--quick]

A perceptron, a convolutional network and a transformer are compiled for the smallest arena that a refusal names, less than
recomputation alone can do. Each trains to the same losses and state, bit for bit: with every buffer filled with NaN at its death, and
with copies as early and as late as their awaits allow. So does a step over two batches, whose halves both travel. What the flags
do not allow is refused by name.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python")]

try:
    import numpy as np
    import onnx  # noqa: F401
    import torch  # noqa: F401  # image models are exported from modules
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy, python3-onnx and python3-torch")
    sys.exit(77)

from commands import build_model, check, run  # noqa: E402
from safetensors_io import load  # noqa: E402

STEPS = 3
LETTERS, LENGTH = 65, 32
# Model, samples of a step, shape of a sample (of letters: those of char_gpt), classes and shape of its targets, and flags. The loss takes
# dimension 1 of what the transformer gives as classes.
NETWORKS = {
    "mlp_wide": (512, (128,), 10, (), []),
    "digits_cnn": (128, (1, 8, 8), 10, (), []),
    "char_gpt": (16, (LENGTH,), LENGTH, (LETTERS,), []),
    "digits_cnn in two batches": (256, (1, 8, 8), 10, (), ["--accumulate=2"]),
}
COPIES = "--offload-bandwidth=20,20,5"  # stated, so that plans depend on no disk


def smallest(said: str) -> int:
    found = re.search(r"smallest achievable +.*\((\d+) bytes\)", said)
    check("STOW1001" in said and found is not None, f"a budget of one byte is refused with its smallest: {said}")
    return int(found[1])


def check_network(name: str, args: argparse.Namespace) -> None:
    batch, shape, classes, targets, extra = NETWORKS[name]
    stem = name.replace(" ", "_")
    model, data = args.work / f"{stem}.onnx", args.work / f"{stem}.npz"
    build_model(name.split()[0], model, "--batch", batch)
    draw, rows = np.random.default_rng(0), batch * STEPS
    x = draw.integers(0, LETTERS, (rows, *shape)) if name == "char_gpt" else draw.standard_normal((rows, *shape)).astype(np.float32)
    np.savez(data, x=x, y=draw.integers(0, classes, (rows, *targets)))
    flags = ["--threads=1", "--target-cpu=x86-64-v3", "--no-dropout", *extra]
    travel = [f"--offload={args.work}", COPIES]
    known = {}

    def trained(program: Path, *how: str) -> "tuple[str, dict]":
        saved, log = args.work / "saved.safetensors", args.work / "log.csv"
        run(program, "train", f"--data={data}", f"--steps={STEPS}", "--no-shuffle", "--validation-split=0", f"--save={saved}", f"--log={log}", *how)
        return log.read_text(), load(saved)

    def same(found: "tuple[str, dict]") -> bool:
        return found[0] == known["log"] and all(np.array_equal(found[1][key], known["state"][key]) for key in known["state"])

    plain, travelling = args.work / f"{stem}-plain", args.work / f"{stem}-travels"
    run(args.stowage, "compile", model, "-o", plain, "--recompute=none", *flags)
    known["log"], known["state"] = trained(plain)
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, code=2))
    with_copies = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, *travel, code=2))
    check(with_copies < least, f"{name}: {with_copies} bytes with copies, {least} with recomputation alone")
    if name in ("digits_cnn", "char_gpt"):  # where cuts alone find a schedule
        between = run(args.stowage, "plan", model, f"--memory-budget={least - (least - with_copies) // 4}", *flags, code=2)
        check("activations on a disk, which fits: --offload=FOLDER" in between, f"{name}: no word of a disk in {between}")
    said = run(args.stowage, "compile", model, "-o", travelling, f"--memory-budget={with_copies}", *flags, *travel)
    check("slow memory: " in said, f"{name}: no word of what travels: {said}")
    for how in ((), ("--poison",), ("--check=early-copies",), ("--check=late-copies",)):
        check(same(trained(travelling, *how)), f"{name}: other bits with {how}")
    print(f"{name}: {least} bytes with recomputation alone, {with_copies} with copies, the same bits")


def check_refusals(args: argparse.Namespace) -> None:
    model, travel = args.work / "mlp_wide.onnx", [f"--offload={args.work}", COPIES]

    def refused(*flags: str) -> str:
        return run(args.stowage, "plan", model, *flags, code=1)

    check("without a budget nothing travels" in refused(*travel), "a budget is asked for")
    check("--offload copies with threads of the host" in refused(*travel, "--memory-budget=1MiB", "--target=cuda:h100"), "GPUs are refused")
    check("--offload-capacity is about --offload=FOLDER" in refused("--offload-capacity=1GiB", "--memory-budget=1MiB"), "a folder is asked for")
    check("--offload-bandwidth: expected gigabytes a second" in refused(f"--offload={args.work}", "--offload-bandwidth=0", "--memory-budget=1MiB"),
          "a bandwidth of zero is refused")  # fmt: skip
    check("expected a folder" in refused(f"--offload={args.work}/missing", COPIES, "--memory-budget=1MiB"), "a missing folder is refused")
    # Where slow memory has no room the smallest arena is that of recomputation alone.
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", code=2))
    empty = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *travel, "--offload-capacity=4096", code=2))
    check(empty == least, f"in slow memory of one block {empty} bytes, {least} without")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="the first two networks, for the day")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in list(NETWORKS)[: 2 if args.quick else None]:
        check_network(name, args)
    check_refusals(args)


if __name__ == "__main__":
    main()
