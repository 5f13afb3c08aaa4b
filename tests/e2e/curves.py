#!/usr/bin/python3
"""Loss curves of compiled models against PyTorch's, same initial weights and data.

  curves.py --stowage=build/release/bin/stowage --work=DIR NAME... [--light-models=DIR]

For each curve of tests/data/curves: compiles the model with and without checkpointing, trains as many steps as the
reference has, and checks that

  - the losses follow the reference, to the tolerance of the curve;
  - both executables log the same bytes, and so does a run with --poison, which overwrites every buffer when it dies;
  - the arena of --checkpoint=sqrt is not larger;
  - the process's peak memory is at most the arena, what the plan states beside it, and the files it reads.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/references"), str(ROOT / "models"), str(ROOT / "python")]

try:
    from make_curves import CURVES, Curve, model_file
except ImportError as error:
    print(f"skipped: {error}; install python3-torch and python3-onnx")
    sys.exit(77)

# Largest relative difference of any step's loss. Rounding alone moves PyTorch's own curves by up to 4.5e-4 (its f32
# against its f64 run), so a curve that is right stays well inside and a wrong gradient does not.
# The deep networks at 224x224 with He weights have no f64 reference and magnify rounding more.
TOLERANCE = 1e-3
TOLERANCES = {"light_vgg19": 5e-3, "light_resnet50": 5e-3}


def run(command: list[object]) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_inputs(name: str, curve: Curve, model: Path, folder: Path) -> tuple[Path, Path]:
    """Initial weights and data of the reference run, made again from its seeds."""
    weights, data = folder / f"{name}.safetensors", folder / f"{name}.npz"
    source = ROOT / curve.data if curve.data.endswith(".npz") else curve.data
    run([sys.executable, ROOT / "python/references/train_curve.py", "--onnx", model, "--weights", curve.weights,
         "--data", source, "--optimizer", curve.optimizer, "--batch", curve.batch, "--steps", 0,
         "--rows", curve.rows or curve.steps * curve.batch, "--loss", curve.loss, "--classes", curve.classes, "--threads", 1, "-o", folder / "none.csv",
         *[f"--flag={flag}" for flag in curve.flags], "--save-weights", weights, "--save-data", data])  # fmt: skip
    return weights, data


def losses(path: Path) -> list[float]:
    with open(path) as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def peak_bytes(executable: Path, output: str) -> int:
    """The peak resident memory that the run's last line states, in bytes."""
    text = output[output.index("process peak ") + len("process peak ") :]
    number, unit = text.split(",")[0].split()
    return int(float(number) * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit])


def check(condition: bool, message: str) -> bool:
    if not condition:
        print(f"  FAILED: {message}")
    return condition


def check_curve(name: str, args: argparse.Namespace) -> bool:
    curve = CURVES[name]
    folder: Path = args.work
    folder.mkdir(parents=True, exist_ok=True)
    model = model_file(name, curve, folder, args.light_models)
    if model is None:
        print(f"{name}: skipped, {curve.model} not found; give its folder with --light-models")
        return True
    weights, data = make_inputs(name, curve, model, folder)
    reference = losses(ROOT / f"tests/data/curves/{name}.csv")

    logs, arenas, ok = {}, {}, True
    runs = [("none", []), ("sqrt", []), ("sqrt", ["--poison"])]
    for mode, flags in runs:
        executable = folder / f"{name}-{mode}"
        label = mode + "".join(flags)
        if not flags:
            run([args.stowage, "compile", model, "-o", executable, f"--batch={curve.batch}", "--no-dropout",
                 f"--optimizer={curve.optimizer.replace('_', '-')}", f"--checkpoint={mode}", f"--loss={curve.loss}",
                 *curve.flags])  # fmt: skip
            plan = json.loads(run([executable, "plan", "--format=json"]))
            arenas[mode] = plan["arena_bytes"]
        log = folder / f"{name}-{label}.csv"
        log.unlink(missing_ok=True)
        output = run([executable, "train", f"--data={data}", f"--steps={curve.steps}", "--no-shuffle",
                      f"--init-from={weights}", f"--log={log}", *flags])  # fmt: skip
        logs[label] = log
        files = data.stat().st_size + weights.stat().st_size
        allowed = plan["arena_bytes"] + plan["outside_arena_bytes"] + files
        peak = peak_bytes(executable, output)
        ok &= check(peak <= allowed * 1.01, f"{label}: process peak {peak} above {allowed} bytes")

    ours = losses(logs["none"])
    ok &= check(len(ours) == len(reference), f"{len(ours)} steps, expected {len(reference)}")
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, reference))
    last = abs(ours[-1] - reference[-1]) / abs(reference[-1])
    tolerance = TOLERANCES.get(name, TOLERANCE)
    ok &= check(worst <= tolerance, f"relative difference {worst:.2e} above {tolerance}")
    for label in list(logs)[1:]:
        ok &= check(logs[label].read_bytes() == logs["none"].read_bytes(), f"{label} logs other losses than none")
    ok &= check(arenas["sqrt"] <= arenas["none"], f"arena {arenas['sqrt']} with sqrt above {arenas['none']}")
    print(f"{name}: {len(ours)} steps, loss {ours[0]:.5f} -> {ours[-1]:.5f}, relative difference to PyTorch "
          f"{worst:.1e} at most, {last:.1e} at the end; arena {arenas['none']:,} bytes, with sqrt "
          f"{arenas['sqrt']:,}", flush=True)  # fmt: skip
    return ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help=f"of {', '.join(CURVES)}")
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--light-models", type=Path, metavar="DIR")
    args = parser.parse_args()
    failed = [name for name in args.names if not check_curve(name, args)]
    print(f"{len(args.names) - len(failed)} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
