#!/usr/bin/python3
"""Writes one of the suite's models as an ONNX file, in seconds and byte for byte the same each time.

  models/build.py resnet18 -o resnet18.onnx --batch 8             weights inside, drawn from seed 0
  models/build.py resnet18 -o resnet18.onnx --weights seed:7      another draw
  models/build.py resnet18 -o resnet18.onnx --weights he:7        He et al.'s variance for convolutions
  models/build.py resnet18 -o resnet18.onnx --weights w.safetensors
  models/build.py resnet18 -o resnet18.onnx --weights none        parameters are graph inputs
  models/build.py mobilenet_v2 --image 64 --batch 4               smaller images, for quick tests
  models/build.py gpt2 --batch 4 --weights none                   124 million parameters in a file of a few hundred KiB
  models/build.py gpt2 --batch 4 --length 64 --vocabulary 50304   64 tokens a sample, a table of 50,304 rows
  models/build.py llama_1b --layers 4 --length 512 --weights none fewer blocks, shorter samples
  models/build.py lstm_long --steps 100 --batch 32                an unrolled recurrent network of as many time steps
  models/build.py seq2seq --batch 80 --weights none               translation with attention, sentences of 50 tokens
  models/build.py --list
"""

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python")]

import seq2seq_models  # noqa: E402
import sequence_models  # noqa: E402
import transformer_models  # noqa: E402
from onnx_init import SCHEMES, attach_weights, find_parameters, weights_from_text  # noqa: E402


def choose_weights(model: onnx.ModelProto, source: str) -> dict[str, np.ndarray]:
    """`source` is "none", "seed:N", "he:N" or a safetensors file; tensors of the file that the model lacks are left out."""
    if source == "none":
        return {}
    if source.split(":")[0] in SCHEMES:
        return weights_from_text(model, source)
    from safetensors_io import load

    stored = load(Path(source))
    missing = [name for name in find_parameters(model) if name not in stored]
    if missing:
        raise SystemExit(f"{source} lacks {len(missing)} tensors, the first is '{missing[0]}'")
    return {name: stored[name] for name in find_parameters(model)}


def build(name: str, batch: int, weights: str, opset: int = 13, image: int | None = None) -> onnx.ModelProto:
    """`image` replaces the side of a square input image; networks with a dense layer behind a fixed grid refuse it."""
    from export import export_module
    from torch_models import MODELS

    spec = MODELS[name]
    if image is not None and len(spec.sample) != 3:
        raise ValueError(f"'{name}' has no image input")
    sample = spec.sample if image is None else (spec.sample[0], image, image)
    # The file's weights are drawn by name, so the module needs none.
    return finished(export_module(name, spec.build().to("meta"), sample, batch, opset), weights)


def build_sequence(name: str, args: argparse.Namespace) -> onnx.ModelProto:
    """A network written node by node, with the sizes that the command line gives in place of its own."""
    size = WRITTEN[name]
    given = {key: getattr(args, key) for key in SIZE_OPTIONS if getattr(args, key) is not None}
    known = {field.name for field in dataclasses.fields(size)}
    if unknown := [key for key in given if key not in known]:
        raise SystemExit(f"'{name}' has no --{unknown[0]}; it has {', '.join('--' + key for key in SIZE_OPTIONS if key in known)}")
    size = dataclasses.replace(size, **given)
    if name in transformer_models.SIZES:
        return transformer_models.build(size, args.batch)
    if name in seq2seq_models.SIZES:
        return seq2seq_models.build(size, args.batch)
    return sequence_models.build(size, args.batch, args.decomposed, args.added_mask)


WRITTEN = sequence_models.SIZES | transformer_models.SIZES | seq2seq_models.SIZES  # node by node

# Of networks written node by node; a network has those that its size names.
SIZE_OPTIONS = {
    "steps": "time steps of an lstm",
    "length": "tokens of a sample",
    "layers": "blocks of a transformer",
    "heads": "attention heads",
    "width": "of what a block reads and writes, of a seq2seq's tables",
    "hidden": "states of a seq2seq's cells",
    "vocabulary": "rows of the table of tokens",
    "image": "side of the input image instead of the usual one",
}


def finished(model: onnx.ModelProto, weights: str) -> onnx.ModelProto:
    attach_weights(model, choose_weights(model, weights))
    onnx.checker.check_model(model)
    return model


def main(words: list[str] | None = None) -> None:
    """With the words of a command line, or those of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("-o", "--output", type=Path, help="default: NAME.onnx in the current folder")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--weights", default="seed:0", help="none, seed:N, he:N or FILE.safetensors (default: seed:0)")
    parser.add_argument("--opset", type=int, default=13)
    for key, help_text in SIZE_OPTIONS.items():
        parser.add_argument(f"--{key}", type=int, metavar="N", help=help_text)
    parser.add_argument("--decomposed", action="store_true", help="gpt: layer norms as older opsets spell them")
    parser.add_argument("--added-mask", action="store_true", help="gpt: the causal mask is added, not selected by")
    parser.add_argument("--list", action="store_true", help="print the models' names and input shapes")
    args = parser.parse_args(words)
    if args.list:
        from torch_models import MODELS

        for name, spec in MODELS.items():
            print(f"{name:14s} [N, {', '.join(map(str, spec.sample))}] -> [N, {spec.classes}]")
        for name, size in WRITTEN.items():
            print(f"{name:14s} {size}")
        return
    if args.name is None:
        parser.error("name a model, or use --list")
    if args.name in WRITTEN:
        model = finished(build_sequence(args.name, args), args.weights)
    else:
        model = build(args.name, args.batch, args.weights, args.opset, args.image)
    output = args.output or Path(f"{args.name}.onnx")
    output.write_bytes(model.SerializeToString(deterministic=True))
    count = len(find_parameters(model))
    print(f"{output}: {len(model.graph.node)} nodes, {count} parameter tensors, {output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
