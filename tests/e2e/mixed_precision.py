#!/usr/bin/python3
"""Mixed precision: what it promises beside its loss curves, which curves.py has, and its memory, which mixed_memory.py has.

  mixed_precision.py --stowage=build/release/bin/stowage --work=DIR [--whole]

  - accuracy: digits_cnn reaches 98 % in bf16 and in fp16;
  - a step whose gradients are not finite changes nothing but the loss scale, which halves, or, with delayed scaling,
    only what has a finite gradient; the log shows it; the run goes on, is saved and resumed bit for bit;
  - --keep=f32 is heard, and misspelt patterns are refused.

By day the accuracy is left to its loss curve; --whole has both types'.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from commands import check, run

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]
import safetensors_io  # noqa: E402

DIGITS = ROOT / "models/digits_cnn.onnx"
DATA = ROOT / "models/data/digits.npz"
OPTIMIZER = "--optimizer=adamw:lr=1e-3"


def plan(stowage: Path, model: Path, *flags: str) -> dict:
    words = [stowage, "plan", model, "--format=json", "--threads=1", OPTIMIZER, *flags]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(str(word) for word in words)}: {done.stderr}")
    return json.loads(done.stdout)


def compiled(stowage: Path, output: Path, *flags: str) -> Path:
    run(stowage, "compile", DIGITS, "-o", output, OPTIMIZER, "--threads=1", "--recompute=none", *flags)
    return output


def check_accuracy(stowage: Path, work: Path) -> None:
    for precision in ("bf16", "fp16"):
        executable = compiled(stowage, work / f"digits-{precision}", f"--precision={precision}")
        output = run(executable, "train", f"--data={DATA}", "--epochs=20")
        accuracy = float(output.split("accuracy ")[-1].split(" %")[0])
        print(f"digits_cnn {precision}: {accuracy} %")
        check(accuracy >= 98, f"digits_cnn in {precision} reached {accuracy} %")


def rows_of(log: Path) -> list[dict[str, str]]:
    with open(log) as file:
        return list(csv.DictReader(file))


def check_skips(stowage: Path, work: Path) -> None:
    """The second of four batches holds images that f16 has numbers for and products of which it does not."""
    batch = 32
    rng = np.random.Generator(np.random.Philox(7))
    x = rng.random((4 * batch, 1, 8, 8), dtype=np.float32)
    x[batch : 2 * batch] = 65000
    y = rng.integers(0, 10, 4 * batch)
    data = work / "skips.npz"
    np.savez(data, x=x, y=y)
    for mode in ("dynamic", "delayed"):
        executable = compiled(stowage, work / f"skips-{mode}", "--precision=fp16", f"--loss-scale={mode}", f"--batch={batch}")

        def train(name: str, steps: int, *flags: object) -> dict[str, np.ndarray]:
            saved = work / f"{mode}-{name}.safetensors"
            run(executable, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", f"--save={saved}",
                f"--log={work / f'{mode}-{name}.csv'}", *flags)  # fmt: skip
            return safetensors_io.load(saved)

        one, two = train("one", 1), train("two", 2)
        whole = train("whole", 4)
        changed = {name for name in one if one[name].tobytes() != two[name].tobytes()}
        scale = {"loss_scale", "loss_scale.good_steps", "loss_scale.skipped_steps"}
        if mode == "dynamic":
            check(changed == scale, f"the skipped step changed {sorted(changed - scale)} and left {sorted(scale - changed)}")
        else:  # each parameter by itself: the first layer's gradient is not finite, the last bias's is where the loss is
            is_finite = np.isfinite(float(rows_of(work / f"{mode}-two.csv")[1]["loss"]))
            check("conv1.weight" not in changed and changed - scale, f"delayed: the step changed {sorted(changed)}")
            check(("fc2.bias" in changed) == is_finite, f"delayed: the step changed {sorted(changed)}; its loss is finite: {is_finite}")
        check(all(np.isfinite(value).all() for value in two.values()), f"{mode}: the state is not finite")
        check(float(one["loss_scale"]) == 65536 and float(two["loss_scale"]) == 32768, f"{mode}: scale {two['loss_scale']}")
        log = rows_of(work / f"{mode}-whole.csv")
        check([row["skipped"] for row in log] == ["0", "1", "1", "1"], f"{mode}: the log says {log}")
        check([float(row["loss_scale"]) for row in log] == [65536, 32768, 32768, 32768], f"{mode}: the log says {log}")
        check(any(whole[name].tobytes() != two[name].tobytes() for name in set(whole) - scale), f"{mode}: nothing is trained after")
        resumed = train("resumed", 4, f"--resume={work / f'{mode}-two.safetensors'}")
        different = [name for name in whole if whole[name].tobytes() != resumed[name].tobytes()]
        check(not different, f"{mode}: resumed after the skip, {different} differ")
        print(f"{mode}: a step of 4 skipped, its state kept bit for bit, resumed bit for bit")


def types_of_convolutions(remarks: Path) -> set[str]:
    entries = remarks.read_text().split("- value:")[1:]
    return {entry.split("type:")[1].split()[0] for entry in entries if entry.split()[0] == "conv2d"}


def check_keep(stowage: Path, work: Path) -> None:
    remarks = work / "remarks.yaml"
    plain = plan(stowage, DIGITS, "--precision=bf16", f"--remarks={remarks}")["arena_bytes"]
    check(types_of_convolutions(remarks) == {"bf16"}, f"the remarks say {types_of_convolutions(remarks)}")
    kept = plan(stowage, DIGITS, "--precision=bf16", "--keep=f32:*[Cc]onv*", f"--remarks={remarks}")["arena_bytes"]
    check(types_of_convolutions(remarks) == {"f32"}, f"the remarks say {types_of_convolutions(remarks)}")
    check(kept > plain, f"convolutions in f32 take {kept} bytes, in bf16 {plain}")
    refused = run(stowage, "plan", DIGITS, "--precision=bf16", "--keep=f32:/no/such/*", code=None)
    check('"/no/such/*" keeps no node in f32' in refused, refused)
    print(f"--keep: {kept} bytes with convolutions in f32, {plain} without")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="the accuracy: minutes")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.whole:
        check_accuracy(args.stowage, args.work)
    check_skips(args.stowage, args.work)
    check_keep(args.stowage, args.work)


if __name__ == "__main__":
    main()
