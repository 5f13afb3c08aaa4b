#!/usr/bin/python3
"""Losses per training step of an ONNX model in PyTorch: the reference for whole-model tests.

  train_curve.py --onnx resnet18.onnx --weights seed:0 --data random:0 --rows 80 --classes 10 \\
      --optimizer sgd:lr=0.01,momentum=0.9 --steps 10 --batch 8 --double -o resnet18_b8.csv \\
      --save-weights w.safetensors --save-data d.npz

Weights: "own" (the file's), "seed:N" or "he:N" (models/onnx_init.py), or a safetensors file. Data: an npz with `x`, `y`,
or "random:N": standard normal images and uniform labels of --classes classes from a Philox stream. Step i uses rows
[i*B, (i+1)*B) modulo the number of rows, never shuffled. Dropout is off. With --double a second run in float64 shows
how far float32 rounding alone carries the curve.

CSV: `step,loss` or `step,loss,loss_float64`; the loss is that of the batch before the step's update.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python"), str(ROOT / "python/references")]

import final_rows  # noqa: E402
import safetensors_io  # noqa: E402
from objectives import clip, loss_of, make_optimizer, targets_for  # noqa: E402
from onnx_init import SCHEMES, find_parameters, stream, weights_from_text  # noqa: E402
from onnx_torch import OnnxTorch  # noqa: E402


def read_weights(model: onnx.ModelProto, source: str) -> dict[str, np.ndarray]:
    if source.split(":")[0] in SCHEMES:
        return weights_from_text(model, source)
    if source == "own":
        stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    else:
        stored = safetensors_io.load(Path(source))
    missing = [name for name in find_parameters(model) if name not in stored]
    if missing:
        raise SystemExit(f"{source}: no weight for {len(missing)} parameters, the first is '{missing[0]}'")
    return stored


def read_data(source: str, sample: tuple[int, ...], rows: int, classes: int, indices: bool) -> tuple[np.ndarray, np.ndarray]:
    """(x [N, *sample] float32, y [N] int64); for a model that reads indices sequences and, as y, each one's next."""
    if not source.startswith("random:"):
        with np.load(source) as data:
            return data["x"], data["y"]
    seed = int(source[len("random:") :])
    if indices:
        tokens = stream(seed, "x").integers(0, classes, (rows, sample[0] + 1), np.int64)
        return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
    x = stream(seed, "x").standard_normal((rows, *sample), np.float32)
    return x, stream(seed, "y").integers(0, classes, rows, np.int64)


def batches_of(flags: list[str]) -> int:
    """How many batches a step adds up."""
    return next((int(flag.removeprefix("--accumulate=")) for flag in flags if flag.startswith("--accumulate=")), 1)


def run_curve(model: onnx.ModelProto, weights: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray,
              args: argparse.Namespace, dtype: torch.dtype, low: torch.dtype | None = None,
              reversed_rows: bool = False) -> tuple[list[float], OnnxTorch]:  # fmt: skip
    """`low` is what automatic mixed precision computes in; `reversed_rows` turns each batch round, which changes
    nothing but rounding."""
    network = OnnxTorch(model, weights, dtype)
    losses: list[float] = []
    if args.steps == 0:
        return losses, network
    named = [(name, network.state[name]) for name in network.trainable]
    optimizer = make_optimizer(args.optimizer, named, args.flag)
    for step in range(args.steps):
        rows = np.arange(step * args.batch, (step + 1) * args.batch) % len(x)
        rows = rows[::-1].copy() if reversed_rows else rows
        optimizer.zero_grad(set_to_none=True)
        parts = np.split(rows, batches_of(args.flag))
        total = 0.0
        for part in parts:
            with torch.autocast("cpu", low or torch.bfloat16, enabled=low is not None):
                output = network.forward(torch.from_numpy(x[part]))
                loss = loss_of(args.loss, output, torch.from_numpy(y[part])) / len(parts)
            loss.backward()
            total += loss.item()
        clip(network.parameters(), args.flag)
        optimizer.step()
        losses.append(total)
    return losses, network


def parse_arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx", type=Path, required=True)
    parser.add_argument("--weights", default="own", help="own, seed:N, he:N or FILE.safetensors")
    parser.add_argument("--data", default="random:0", help="FILE.npz or random:N")
    parser.add_argument("--rows", type=int, help="rows of random data (default: one batch per step)")
    parser.add_argument("--classes", type=int, default=10, help="labels and indices of random data are below this")
    parser.add_argument("--loss", default="cross-entropy", help="as the compiler's --loss")
    parser.add_argument("--flag", action="append", default=[], help="--clip-norm=X, --clip-value=X, --accumulate=K, --group=..., --no-decay=bias")
    parser.add_argument("--optimizer", default="sgd:lr=0.01,momentum=0.9")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--double", action="store_true", help="add a column computed in float64")
    parser.add_argument("--autocast", choices=["bf16"],
                        help="losses under torch.autocast; adds a column with each batch turned round, and one in float32")
    parser.add_argument("--save-weights", type=Path, help="write the initial weights as safetensors")
    parser.add_argument("--save-final", type=Path, help="write the weights after the last step as safetensors")
    parser.add_argument("--final-rows", type=Path, help="write what became of each tensor as CSV (final_rows.py)")
    parser.add_argument("--save-data", type=Path, help="write the data as npz")
    parser.add_argument("-o", "--output", type=Path, help="CSV file (default: standard output)")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """With the words of a command line, or those of the process: a test that makes many curves imports PyTorch once."""
    args = parse_arguments(words)
    torch.set_num_threads(args.threads)
    model = onnx.load(args.onnx)
    weights = read_weights(model, args.weights)
    network = OnnxTorch(model, weights)
    x, y = read_data(args.data, network.sample_shape, args.rows or args.steps * args.batch, args.classes,
                     network.reads_indices)  # fmt: skip
    if args.data.startswith("random:"):
        y = targets_for(args.loss, int(args.data[len("random:") :]), len(x), args.classes, y)
    if args.save_weights:
        safetensors_io.save(args.save_weights, {name: weights[name] for name in find_parameters(model)})
    if args.save_data:
        np.savez(args.save_data, x=x, y=y)
    low = torch.bfloat16 if args.autocast else None
    losses, network = run_curve(model, weights, x, y, args, torch.float32, low)
    if args.save_final:
        safetensors_io.save(args.save_final, {n: t.detach().numpy() for n, t in network.state.items()})
    if args.final_rows:
        final_rows.write(args.final_rows, weights, {n: t.detach().numpy() for n, t in network.state.items()})
    others: dict[str, list[float]] = {}
    if args.autocast:
        others["loss_reversed"] = run_curve(model, weights, x, y, args, torch.float32, low, reversed_rows=True)[0]
        others["loss_float32"] = run_curve(model, weights, x, y, args, torch.float32)[0]
    if args.double:
        others["loss_float64"] = run_curve(model, weights, x, y, args, torch.float64)[0]
    lines = [",".join(["step", "loss", *others])]
    for step, loss in enumerate(losses):
        lines.append(f"{step},{loss:.9g}" + "".join(f",{values[step]:{'.12g' if name == 'loss_float64' else '.9g'}}" for name, values in others.items()))
    text = "\n".join(lines) + "\n"
    if args.output:
        args.output.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
