#!/usr/bin/python3
"""Runs one training step of a workload at full size, where the machine has the memory: the plan's word beside the process's peak.

  benchmarks/plan/one_step.py 3b                           my_model_full at batch 100, 20 GB of state: on a machine with 24 GiB
  benchmarks/plan/one_step.py 1 --memory-budget=1GiB       further flags are the compiler's
  benchmarks/plan/one_step.py 3b --compile-only            the executable and its plan, nothing is run

Weights come from the compiler's rules, data are random. Before the run the memory that the system has left is compared with what the
plan states, arena and everything beside it; where that is more, nothing is run and the exit code is 77.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "benchmarks/plan")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from workloads import MIB, SYSTEMS, System, run  # noqa: E402


def available_bytes() -> int:
    return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1])


def random_data(system: System, model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """One batch of what the step reads: data under their names, targets as `y`."""
    rng = np.random.default_rng(0)
    batch = int(re.search(r"--batch[ =](\d+)", f"{system.compile} {system.build}")[1])
    named = re.search(r"--input=(\S+)", system.compile)
    inputs = {value.name: value.type.tensor_type for value in model.graph.input}
    data = {}
    for name in named[1].split(",") if named else [model.graph.input[0].name]:
        shape = (batch, *[d.dim_value for d in inputs[name].shape.dim][1:])
        whole = inputs[name].elem_type != onnx.TensorProto.FLOAT
        # Small tokens: any vocabulary has them, and none of the marks of padding and beginning.
        data[name] = rng.integers(2, 1000, shape) if whole else rng.standard_normal(shape, np.float32)
    output = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    if "--loss=mse" in system.compile:
        data["y"] = rng.standard_normal((batch, *output[1:]), np.float32)
    elif "--loss=output" not in system.compile:
        tokens = "class-axis=-1" in system.compile
        data["y"] = rng.integers(0, output[-1], (batch, *output[1:-1]) if tokens else batch)
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)} (workloads.py)")
    parser.add_argument("--stowage", type=Path, default=ROOT / "build/release/bin/stowage")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile-only", action="store_true")
    args, flags = parser.parse_known_args()
    if args.name not in SYSTEMS:
        parser.error(f"no system named '{args.name}'; there are {', '.join(SYSTEMS)}")
    system = SYSTEMS[args.name]
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as name:
        folder = Path(name)
        model, executable, data = folder / "model.onnx", folder / "step", folder / "data.npz"
        run([sys.executable, ROOT / "models/build.py", *system.build.split(), "--weights", "none", "-o", model])
        run([args.stowage, "compile", model, "-o", executable, *system.compile.split(), f"--threads={args.threads}", *flags])
        plan = json.loads(run([executable, "plan", "--format=json"]))
        arena, outside = plan["arena_bytes"], plan["outside_arena_bytes"]
        print(f"{system.title}: arena {arena / MIB:,.1f} MiB, beside it {outside / MIB:,.1f} MiB", flush=True)
        if args.compile_only:
            return
        arrays = random_data(system, onnx.load(model))
        np.savez(data, **arrays)
        needed = arena + outside + data.stat().st_size
        if available_bytes() < needed:
            print(f"not run: {needed / MIB:,.1f} MiB are needed, {available_bytes() / MIB:,.1f} MiB are available")
            sys.exit(77)
        begin = time.perf_counter()
        printed = run([executable, "train", f"--data={data}", "--steps=1", "--validation-split=0", "--no-shuffle", f"--log={folder / 'log.csv'}"])
        print(f"{(folder / 'log.csv').read_text().splitlines()[-1]} (step,epoch,lr,loss) after {time.perf_counter() - begin:.1f} s")
        print(next(line for line in printed.splitlines() if "process peak" in line))


if __name__ == "__main__":
    main()
