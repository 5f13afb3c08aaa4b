#!/usr/bin/env python3
"""Trains the random models of fuzz_pipeline.py for a few steps, to hold the plans against real bytes.

Each case is compiled with and without checkpointing and trained on the same random samples. The
losses of all runs must be the same text, digit for digit:

  - the plan that keeps everything,
  - the same again, every buffer overwritten with NaN when it dies (--poison),
  - the plan with recomputation by segments, and one within a memory budget, poisoned.

usage: fuzz_training.py STOWAGE [--first=SEED] [--cases=N] [--keep=FOLDER]
"""

import argparse
import array
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import zipfile

from fuzz_pipeline import Model, random_flags


def npy(shape, code, numbers):
    """The bytes of a .npy file (version 1.0) of little-endian numbers."""
    kind = {"f": "<f4", "q": "<i8"}[code]
    dims = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {dims}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() +
            array.array(code, numbers).tobytes())


def write_data(path, text, flags, rng, batches):
    """Samples for the input x and targets for the output y of the model."""
    shape = [int(extent) for extent in
             re.search(r"tensor<([0-9x]+)xf32> \{stow.name = \"x\"", text)[1].split("x")]
    classes = int(re.search(r"tensor<[0-9]+x([0-9]+)xf32> \{stow.name = \"y\"\}", text)[1])
    samples = shape[0] * batches
    shape[0] = samples
    x = npy(shape, "f", [rng.uniform(-1, 1) for _ in range(math.prod(shape))])
    if any(flag.startswith("--loss=mse") for flag in flags):
        y = npy([samples, classes], "f", [rng.uniform(-1, 1) for _ in range(samples * classes)])
    else:
        y = npy([samples], "q", [rng.randrange(classes) for _ in range(samples)])
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("x.npy", x)
        out.writestr("y.npy", y)


def run(words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode} of " + " ".join(words) + "\n  " +
                           done.stderr.strip()[:1500])


def train(program, data, log, *more):
    run([program, "train", f"--data={data}", "--steps=3", "--seed=7", "--validation-split=0",
         "--allow-nonfinite", "--quiet", f"--log={log}", *more])
    with open(log) as lines:
        return lines.read()


def compile_within_budget(stowage, model, folder, flags):
    """An executable within the first budget that is not refused, or None."""
    program = os.path.join(folder, "budget")
    for budget in ("60%", "75%", "90%"):
        done = subprocess.run([stowage, "compile", model, "-o", program,
                               f"--memory-budget={budget}", *flags], capture_output=True, text=True)
        if done.returncode == 0:
            return program
        if done.returncode != 2:
            raise RuntimeError(f"exit code {done.returncode} within {budget}: " +
                               done.stderr.strip()[:1500])
    return None


def check_case(stowage, folder, seed):
    rng = random.Random(seed)
    text = Model(rng).build()
    flags = random_flags(rng)
    model, data = os.path.join(folder, f"fuzz_{seed}.mlir"), os.path.join(folder, "data.npz")
    with open(model, "w") as out:
        out.write(text)
    write_data(data, text, flags, rng, batches=2)
    try:
        for mode in ("none", "sqrt"):
            run([stowage, "compile", model, "-o", os.path.join(folder, mode),
                 f"--checkpoint={mode}", *flags])
        none, sqrt = os.path.join(folder, "none"), os.path.join(folder, "sqrt")
        log = os.path.join(folder, "log.csv")
        expected = train(none, data, log)
        problems = []
        if train(none, data, log, "--poison") != expected:
            problems.append("poisoned, the losses differ")
        found = train(sqrt, data, log, "--poison")
        if found != expected:
            problems.append(f"recomputed, the losses differ:\n{expected}\n{found}")
        budgeted = compile_within_budget(stowage, model, folder, flags)
        if budgeted and train(budgeted, data, log, "--poison") != expected:
            problems.append(f"within the budget, the losses differ:\n{expected}")
    except RuntimeError as error:
        problems = [str(error)]
    return model, flags, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stowage")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--keep", help="folder for the models that fail")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.cases):
            model, flags, problems = check_case(options.stowage, folder, seed)
            if not problems:
                continue
            failures += 1
            print(f"seed {seed}: {os.path.basename(model)} " + " ".join(flags))
            for problem in problems:
                print("  " + problem, flush=True)
            if options.keep:
                os.makedirs(options.keep, exist_ok=True)
                os.replace(model, os.path.join(options.keep, os.path.basename(model)))
    print(f"{options.cases} cases from seed {options.first}: {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
