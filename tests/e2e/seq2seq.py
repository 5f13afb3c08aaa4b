#!/usr/bin/python3
"""Translation with attention (models/seq2seq_models.py) against PyTorch's stored curve, and what it can learn.

  seq2seq.py --stowage=build/release/bin/stowage --work=DIR [--quick | --learn]

Both forms of the model, with GRU nodes and with cells written out, train 20 steps from the same weights on the same data: plain,
with --checkpoint=sqrt, and in half the memory above the state, these two under --poison. The three log the same bytes; losses and final parameters
follow PyTorch's nn.GRU over packed sequences and nn.GRUCell. --learn trains until the model writes sequences of digits backwards.
"""

import argparse
import csv
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/references"), str(ROOT / "models"), str(ROOT / "python")]

try:
    import numpy as np
    import onnx
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy and python3-onnx")
    sys.exit(77)

import final_rows  # noqa: E402
import seq2seq_models  # noqa: E402
from commands import half_budget, run  # noqa: E402
from safetensors_io import load, save  # noqa: E402
from seq2seq import BATCH, CURVES, RATE, SIZE, STEPS, make_data, make_weights  # noqa: E402

# Relative. Rounding alone moves losses by about 1e-6; Adam's step hardly depends on the size of a gradient, so that it moves
# parameters whose gradients are tiny by more.
TOLERANCE, FINAL_TOLERANCE = 1e-4, 1e-3


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path) as file:
        return list(csv.DictReader(file))


MODES = {"plain": ["--recompute=none"], "sqrt": ["--checkpoint=sqrt"], "half": []}


def check_form(form: str, modes: list[str], args: argparse.Namespace) -> None:
    model = args.work / f"{form}.onnx"
    onnx.save(seq2seq_models.build(seq2seq_models.SIZES[form], BATCH), model)
    flags = ["--loss=output:loss", f"--optimizer=adam:lr={RATE}", "--threads=1"]
    plain = json.loads(run(args.stowage, "plan", model, *flags, *MODES["plain"], "--format=json"))
    logs, arenas, half = {}, {"plain": plain["arena_bytes"]}, half_budget(plain)
    for mode in modes:
        extra = [f"--memory-budget={half}"] if mode == "half" else MODES[mode]
        executable, log = args.work / f"{form}-{mode}", args.work / f"{form}-{mode}.csv"
        log.unlink(missing_ok=True)
        run(args.stowage, "compile", model, "-o", executable, *flags, *extra)
        arenas[mode] = json.loads(run(executable, "plan", "--format=json"))["arena_bytes"]
        assert arenas[mode] <= (half if mode == "half" else arenas["plain"]), (form, arenas)
        run(executable, "train", f"--data={args.work / 'data.npz'}", f"--init-from={args.work / 'weights.safetensors'}",
            "--no-shuffle", f"--steps={STEPS}", "--validation-split=0", f"--log={log}", f"--save={args.work / f'{form}-{mode}.safetensors'}",
            *(["--poison"] if mode != "plain" else []))  # fmt: skip
        logs[mode] = log.read_bytes()
    assert len(set(logs.values())) == 1, f"{form}: recomputing changes the losses"

    ours = np.array([float(row["loss"]) for row in rows_of(args.work / f"{form}-{modes[0]}.csv")])
    theirs = np.array([float(row["loss"]) for row in rows_of(CURVES / "seq2seq.csv")])
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE)
    found = final_rows.differences(CURVES / "seq2seq_final.csv", make_weights(), load(args.work / f"{form}-{modes[0]}.safetensors"))
    del found["score.bias"]  # a softmax does not see it: what moves it is rounding
    worst = max(found, key=found.__getitem__)
    assert found[worst] <= FINAL_TOLERANCE, (form, worst, found[worst])
    print(f"{form}: loss {ours[0]:.5f} -> {ours[-1]:.5f}, relative difference to PyTorch "
          f"{np.max(np.abs(ours - theirs) / theirs):.1e} at most, {worst} {found[worst]:.1e} off its change; arenas {arenas}", flush=True)  # fmt: skip


def learn(args: argparse.Namespace) -> None:
    """Trains on cross-entropy over the scores, whose evaluation counts the tokens that are right."""
    batch, steps, rows = 64, 4000, 64 * 256
    size = seq2seq_models.Seq2SeqSize(SIZE.length, SIZE.vocabulary, 32, 64)
    model, executable, weights = (args.work / f"learn{suffix}" for suffix in (".onnx", "", ".safetensors"))
    onnx.save(seq2seq_models.build(size, batch), model)
    for name, count, seed in (("train", rows, 1), ("test", 64 * 16, 2)):
        data = make_data(count, seed)
        np.savez(args.work / f"learn_{name}.npz", y=data["translation"], **data)
    run(args.stowage, "compile", model, "-o", executable, "--loss-output=logits", "--optimizer=adam:lr=2e-3",
        "--loss=cross-entropy:class-axis=-1,ignore-index=0", "--memory-budget=70%")  # fmt: skip
    run(executable, "train", f"--data={args.work / 'learn_train.npz'}", f"--steps={steps}", "--lr-schedule=cosine",
        "--validation-split=0", f"--save={weights}")  # fmt: skip
    printed = run(executable, "eval", f"--data={args.work / 'learn_test.npz'}", f"--weights={weights}")
    accuracy = float(re.search(r"accuracy ([\d.]+)", printed)[1])
    print(printed.strip())
    assert accuracy > 99, printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--quick", action="store_true", help="GRU nodes alone, in half the memory alone")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.learn:
        return learn(args)
    np.savez(args.work / "data.npz", **make_data(BATCH * STEPS))
    save(args.work / "weights.safetensors", make_weights())
    check_form("digit_seq2seq", ["half"] if args.quick else list(MODES), args)
    if not args.quick:
        check_form("digit_seq2seq_cells", list(MODES), args)


if __name__ == "__main__":
    main()
