#!/usr/bin/python3
"""Writes tests/data/curves/*.csv: PyTorch's losses for whole models, each from one line of the table below.

  make_curves.py digits_cnn mlp            the named curves
  make_curves.py --small                   all that take seconds
  make_curves.py --light-models=DIR        also ONNX's light_*.onnx models found in DIR
  make_curves.py digits_cnn --inputs=DIR   and keep DIR/digits_cnn.{onnx,safetensors,npz} for the compiled executable

Weights and data are drawn from Philox streams (models/onnx_init.py) and are not stored. Needs a few minutes for the
224x224 models.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python/references")]

SGD = "sgd:lr=0.01,momentum=0.9"
DIGITS = "models/data/digits.npz"
SLOW_SGD = "sgd:lr=0.001,momentum=0.9"  # where 0.01 makes the first steps jump, which magnifies rounding
SLOWER_SGD = "sgd:lr=0.0002,momentum=0.9"  # the same over 20 steps


@dataclass(frozen=True)
class Curve:
    """One reference run; `model` is a name of models/build.py, or a light model's file name."""

    model: str
    batch: int
    steps: int
    optimizer: str
    data: str = "random:0"
    weights: str = "seed:0"
    rows: int | None = None  # of random data; fewer than batch x steps means that batches come again
    double: bool = True
    small: bool = True
    image: int | None = None  # side of the input image where it is not the model's usual one
    loss: str = "cross-entropy"
    classes: int = 10
    build: tuple[str, ...] = ()  # further arguments of models/build.py
    flags: tuple[str, ...] = ()  # further flags of the compiler that change the step
    final: bool = False  # NAME_final.csv has what became of each parameter
    blind: tuple[str, ...] = ()  # patterns of parameters whose gradient is nothing but rounding, in whole or in part
    precision: str = "f32"  # bf16: under torch.autocast; fp16: the curve is held to the float32 one


CURVES: dict[str, Curve] = {
    "digits_cnn": Curve("digits_cnn", 64, 20, "adamw:lr=1e-3,weight_decay=0.1", DIGITS),
    # Eight steps: in the ninth a relu input of -3e-7 decides, which float32 rounding may push over zero.
    "digits_cnn_sgd": Curve("digits_cnn", 64, 8, "sgd:lr=0.05,momentum=0.9,nesterov=true,weight_decay=5e-4", DIGITS),
    "mlp": Curve("mlp", 32, 20, "sgd:lr=0.1,momentum=0.9", rows=64),
    "mlp_adam": Curve("mlp", 32, 20, "adam:lr=1e-3", rows=64),
    "lenet": Curve("lenet", 32, 20, "adamw:lr=1e-3", rows=64),
    # GPT-2's architecture on characters: embeddings, causal attention; a head of its own and one that shares the table.
    "char_gpt": Curve("char_gpt", 8, 20, "adamw:lr=3e-3", rows=16, loss="cross-entropy:class-axis=-1", classes=65),
    "char_gpt_untied": Curve("char_gpt_untied", 8, 20, "sgd:lr=0.1,momentum=0.9", rows=16,
                             loss="cross-entropy:class-axis=-1", classes=65, build=("--decomposed", "--added-mask")),
    "lstm": Curve("lstm", 16, 20, "adam:lr=3e-3", rows=32),
    # Every loss and every optimizer on a small network, and what changes the step.
    **{f"loss_{name}": Curve("mlp", 16, 8, "sgd:lr=0.1,momentum=0.9", rows=32, loss=loss) for name, loss in {
        "smoothing": "cross-entropy:label-smoothing=0.1,weight=[1,2,0.5,1,1,3,0.25,1,1,2],ignore-index=4",
        "probabilities": "cross-entropy:probabilities,label-smoothing=0.2",
        "nll": "nll:weight=[1,2,0.5,1,1,3,0.25,1,1,2],reduction=mean",
        "bce": "bce-with-logits:pos-weight=[3],weight=[1,2,0.5,1,1,3,0.25,1,1,2]",
        "kl": "kl-div:reduction=batchmean",
        "kl_log": "kl-div:log-target",
        "l1": "l1",
        "smooth_l1": "smooth-l1:beta=0.5",
        "huber": "huber:delta=0.3",
    }.items()},
    **{f"optimizer_{name}": Curve("mlp", 16, 8, optimizer, rows=32, double=False) for name, optimizer in {
        "amsgrad": "adam:lr=1e-3,amsgrad,beta2=0.9",
        "rmsprop": "rmsprop:lr=1e-3,weight-decay=1e-2",
        "rmsprop_centered": "rmsprop:lr=1e-4,momentum=0.9,centered,alpha=0.9",
        "adagrad": "adagrad:lr=1e-2,lr-decay=0.1,initial-accumulator=0.1",
        "lion": "lion:lr=1e-3,weight-decay=0.1",
        "adafactor": "adafactor:lr=0.1,weight-decay=0.1",
    }.items()},
    "optimizer_adafactor_conv": Curve("digits_cnn", 16, 8, "adafactor:lr=0.02", DIGITS, double=False),
    "clip_norm": Curve("mlp", 16, 8, "adamw:lr=1e-2", rows=32, flags=("--clip-norm=0.5",)),
    "clip_norm_conv": Curve("digits_cnn", 16, 8, "sgd:lr=0.1,momentum=0.9", DIGITS, flags=("--clip-norm=0.25",)),
    "clip_value": Curve("mlp", 16, 8, "sgd:lr=0.5", rows=32, flags=("--clip-value=0.01",)),
    "groups": Curve("mlp", 16, 8, "adamw:lr=1e-2,weight-decay=0.5", rows=32,
                    flags=("--group=0.*:lr-scale=0.1", "--group=?.weight:weight-decay=2", "--no-decay=bias")),
    # A step of several batches: batch norm sees each alone, as in PyTorch's loop.
    "accumulate_conv": Curve("digits_cnn", 64, 8, "adamw:lr=1e-3,weight_decay=0.1", DIGITS, flags=("--accumulate=4",)),
    "accumulate_gpt": Curve("char_gpt", 32, 8, "adamw:lr=3e-3", rows=64, loss="cross-entropy:class-axis=-1", classes=65,
                            flags=("--accumulate=8", "--clip-norm=1")),
    # The workloads of benchmarks/plan/workloads.py at sizes that train in seconds or minutes; seq2seq.py has the translation model.
    "system_resnet18": Curve("resnet18", 32, 20, SLOWER_SGD, rows=128, weights="he:0", image=64, final=True),
    "system_my_model": Curve("my_model", 4, 20, "adam:lr=1e-4", rows=16, loss="mse", classes=3258, final=True),
    "system_my_model_small": Curve("my_model_small", 8, 20, "adam:lr=1e-3", rows=32, loss="mse", classes=64, final=True),
    "system_my_model_full_small": Curve("my_model_full_small", 8, 20, "adam:lr=1e-3", rows=32, loss="mse", classes=192, final=True),
    "system_mlp": Curve("mlp_accumulation", 32, 20, "adamw:lr=1e-2", rows=128, classes=2, flags=("--accumulate=4",), final=True),
    # The last maps of 28x28 are one pixel, so that norms see 64 values and magnify rounding: five steps instead of twenty.
    "system_resnet50": Curve("resnet50", 64, 5, "sgd:lr=0.00002,momentum=0.9", weights="he:0", image=28, double=False, final=True),
    # A constant added to all keys of a query is nothing to its softmax: a third of each c_attn.bias.
    "system_gpt2": Curve("gpt2", 4, 20, "adamw:lr=1e-3", rows=16, loss="cross-entropy:class-axis=-1", classes=128, final=True,
                         build=("--length=64", "--layers=2", "--heads=4", "--width=64", "--vocabulary=128"),
                         blind=("h.*.attn.c_attn.bias",)),
    # Mixed precision.
    "digits_cnn_bf16": Curve("digits_cnn", 64, 20, "adamw:lr=1e-3,weight_decay=0.1", DIGITS, double=False, precision="bf16"),
    "digits_cnn_fp16": Curve("digits_cnn", 64, 20, "adamw:lr=1e-3,weight_decay=0.1", DIGITS, double=False, precision="fp16"),
    "resnet18_i64_bf16": Curve("resnet18", 8, 20, SLOW_SGD, weights="he:0", image=64, double=False, precision="bf16"),
    "char_gpt_bf16": Curve("char_gpt", 8, 20, "adamw:lr=3e-3", rows=16, loss="cross-entropy:class-axis=-1", classes=65,
                           double=False, precision="bf16"),
    "char_gpt_fp16": Curve("char_gpt", 8, 20, "adamw:lr=3e-3", rows=16, loss="cross-entropy:class-axis=-1", classes=65,
                           double=False, precision="fp16"),
    "lstm_bf16": Curve("lstm", 16, 20, "adam:lr=3e-3", rows=32, double=False, precision="bf16"),
    "resnet18_i64": Curve("resnet18", 8, 5, SLOW_SGD, weights="he:0", image=64),
    "mobilenet_v2_i64": Curve("mobilenet_v2", 8, 3, SLOW_SGD, weights="he:0", image=64),
    "densenet121_i64": Curve("densenet121", 8, 5, SLOW_SGD, weights="he:0", image=64),
    "inception_i64": Curve("inception", 8, 5, SLOW_SGD, weights="he:0", image=64),
    "resnet18_b8": Curve("resnet18", 8, 10, SGD, weights="he:0", small=False),
    "light_bvlc_alexnet": Curve("light_bvlc_alexnet.onnx", 8, 3, SGD, weights="he:0", double=False, small=False),
    "light_inception_v1": Curve("light_inception_v1.onnx", 8, 3, SLOW_SGD, weights="he:0", double=False, small=False),
    "light_resnet50": Curve("light_resnet50.onnx", 8, 3, SLOW_SGD, weights="he:0", double=False, small=False),
    "light_squeezenet": Curve("light_squeezenet.onnx", 8, 3, SLOW_SGD, weights="he:0", double=False, small=False),
    "light_vgg19": Curve("light_vgg19.onnx", 8, 3, SGD, weights="he:0", double=False, small=False),
}


def model_file(name: str, curve: Curve, folder: Path, light_models: Path | None) -> Path | None:
    """The model's ONNX file, built into `folder` if need be; None where a light model is not at hand."""
    if curve.model.endswith(".onnx"):
        path = (light_models or Path()) / curve.model
        return path if light_models and path.exists() else None
    path = folder / f"{name}.onnx"
    import build

    words = [curve.model, "-o", path, "--batch", curve.batch, "--weights", curve.weights]
    words += ["--image", curve.image] if curve.image else []
    with open(os.devnull, "w") as silence, contextlib.redirect_stdout(silence):
        build.main([str(word) for word in [*words, *curve.build]])
    return path


def run_reference(curve: Curve, model: Path, *words: object) -> None:
    """train_curve.py on the curve's weights, data, loss and optimizer; `words` say what it computes and writes."""
    import train_curve

    data = ROOT / curve.data if curve.data.endswith(".npz") else curve.data
    command = ["--onnx", model, "--weights", curve.weights, "--data", data, "--optimizer", curve.optimizer, "--batch", curve.batch,
               "--loss", curve.loss, "--classes", curve.classes, *[f"--flag={flag}" for flag in curve.flags], *words]  # fmt: skip
    train_curve.main([str(word) for word in command])


def make_inputs(name: str, curve: Curve, folder: Path, light_models: Path | None) -> bool:
    """Model, initial weights and data of a run, made again from its seeds; false where the model is not at hand."""
    model = model_file(name, curve, folder, light_models)
    if model is None:
        return False
    run_reference(curve, model, "--steps", 0, "--rows", curve.rows or curve.steps * curve.batch, "--threads", 1,
                  "-o", folder / "none.csv", "--save-weights", folder / f"{name}.safetensors",
                  "--save-data", folder / f"{name}.npz")  # fmt: skip
    return True


def make(name: str, curve: Curve, folder: Path, model: Path, output: Path, threads: int) -> None:
    run_reference(curve, model, "--steps", curve.steps, "--threads", threads, "-o", output / f"{name}.csv",
                  "--save-weights", folder / f"{name}.safetensors", "--save-data", folder / f"{name}.npz",
                  *(["--final-rows", output / f"{name}_final.csv"] if curve.final else []),
                  *(["--rows", curve.rows] if curve.rows else []), *(["--double"] if curve.double else []),
                  *(["--autocast=bf16"] if curve.precision != "f32" else []))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CURVES)}")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--light-models", type=Path, metavar="DIR")
    parser.add_argument("--inputs", type=Path, metavar="DIR", help="keep models, initial weights and data here")
    parser.add_argument("--only-inputs", action="store_true", help="write what --inputs keeps and compute nothing")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "tests/data/curves")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in CURVES]
    if unknown:
        parser.error(f"no curve named '{unknown[0]}'")
    if args.only_inputs and not args.inputs:
        parser.error("--only-inputs needs --inputs=DIR")
    names = args.names or [n for n, c in CURVES.items() if c.small or not args.small]
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.inputs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if args.only_inputs:
            missing = [n for n in names if not make_inputs(n, CURVES[n], folder, args.light_models)]
            sys.exit(f"not found: {', '.join(CURVES[n].model for n in missing)}; give their folder with --light-models" if missing else 0)
        args.output.mkdir(parents=True, exist_ok=True)
        for name in names:
            model = model_file(name, CURVES[name], folder, args.light_models)
            if model is None:
                print(f"{name}: skipped, {CURVES[name].model} not found; give its folder with --light-models")
                continue
            make(name, CURVES[name], folder, model, args.output, args.threads)
            lines = (args.output / f"{name}.csv").read_text().splitlines()
            print(f"{name}: loss {lines[1].split(',')[1]} -> {lines[-1].split(',')[1]} in {len(lines) - 1} steps", flush=True)


if __name__ == "__main__":
    main()
