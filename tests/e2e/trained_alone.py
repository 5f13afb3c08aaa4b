#!/usr/bin/python3
"""What is trained, saved without its base, and taken beside one again.

  trained_alone.py --stowage=build/release/bin/stowage --work=DIR

A network of PEFT's names: a frozen matrix with an adapter beside it, a layer that is trained whole, a normalization's statistics, and a normalization
that is kept whole.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors_io import load, save
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy and python3-onnx")
    sys.exit(77)

BATCH, WIDTH, RANK, CLASSES = 8, 16, 2, 5
FC, HEAD, NORM, KEPT = "base_model.model.fc", "base_model.model.head", "base_model.model.norm", "base_model.model.kept"
PARTS = ("weight", "bias", "running_mean", "running_var")
BASE, LOW, HIGH = f"{FC}.base_layer.weight", f"{FC}.lora_A.default.weight", f"{FC}.lora_B.default.weight"
TRAINED = {LOW: f"{FC}.lora_A.weight", HIGH: f"{FC}.lora_B.weight", f"{HEAD}.modules_to_save.default.weight": f"{HEAD}.weight",
           **{f"{NORM}.{part}": f"{NORM}.{part}" for part in PARTS},
           **{f"{KEPT}.modules_to_save.default.{part}": f"{KEPT}.{part}" for part in PARTS}}  # fmt: skip
COUNTER = f"{KEPT}.num_batches_tracked"


def run(*words: object, code: int = 0) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    require(done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def require(holds: bool, what: object) -> None:
    if not holds:
        raise SystemExit(f"failed: {what}")


def build(path: Path, has_base: bool) -> "dict[str, np.ndarray]":
    """`has_base`: the frozen matrix is in the file; else its first value is drawn, as where weights are read later."""
    draw = np.random.default_rng(0)
    weights = {BASE: draw.standard_normal((WIDTH, WIDTH)) / 4, LOW: draw.standard_normal((WIDTH, RANK)) / 4, HIGH: np.zeros((RANK, WIDTH)),
               f"{HEAD}.modules_to_save.default.weight": draw.standard_normal((WIDTH, CLASSES)) / 4, f"{NORM}.weight": np.ones(WIDTH),
               f"{NORM}.bias": np.zeros(WIDTH), f"{NORM}.running_mean": np.zeros(WIDTH), f"{NORM}.running_var": np.ones(WIDTH)}  # fmt: skip
    weights |= {f"{KEPT}.modules_to_save.default.{part}": weights[f"{NORM}.{part}"] for part in PARTS}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    nodes = [
        helper.make_node("MatMul", ["x", BASE], ["wide"], "/fc/base_layer"),
        helper.make_node("MatMul", ["x", LOW], ["low"], "/fc/lora_A"),
        helper.make_node("MatMul", ["low", HIGH], ["high"], "/fc/lora_B"),
        helper.make_node("Add", ["wide", "high"], ["sum"], "/fc/add"),
        helper.make_node("BatchNormalization", ["sum", *(f"{NORM}.{part}" for part in PARTS)], ["normal"], "/norm"),
        helper.make_node("Tanh", ["normal"], ["bent"], "/act"),
        helper.make_node("BatchNormalization", ["bent", *(f"{KEPT}.modules_to_save.default.{part}" for part in PARTS)], ["hidden"], "/kept"),
        helper.make_node("MatMul", ["hidden", f"{HEAD}.modules_to_save.default.weight"], ["logits"], "/head"),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH])]
    given = {name: value for name, value in weights.items() if has_base or name != BASE}
    if not has_base:
        inputs.append(helper.make_tensor_value_info(BASE, TensorProto.FLOAT, [WIDTH, WIDTH]))
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, CLASSES])]
    graph = helper.make_graph(nodes, "adapted", inputs, outputs, [numpy_helper.from_array(w, n) for n, w in given.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, path)
    return weights


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    work = args.work
    work.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1)
    np.savez(work / "data.npz", x=draw.standard_normal((4 * BATCH, WIDTH)).astype(np.float32), y=draw.integers(0, CLASSES, 4 * BATCH))
    data = f"--data={work / 'data.npz'}"
    flags = [f"--freeze={BASE}", "--optimizer=adamw:lr=0.01", "--threads=1", "--target-cpu=x86-64-v3"]
    weights = build(work / "whole.onnx", has_base=True)
    program, run_file, alone = work / "whole", work / "run.safetensors", work / "alone.safetensors"
    run(args.stowage, "compile", work / "whole.onnx", "-o", program, *flags)
    said = run(program, "train", data, "--epochs=3", f"--save={run_file}", f"--save-trained={alone}")
    require(f"saved what is trained to {alone}" in said, said)
    # Nothing but what is trained, under PEFT's names, with the values of the run.
    whole, trained = load(run_file), load(alone)
    require(set(trained) == {*TRAINED.values(), COUNTER}, set(trained) ^ set(TRAINED.values()))
    # PEFT reads no module that it keeps whole without the counter of its batches.
    require(trained[COUNTER].shape == () and trained[COUNTER].dtype == np.int64 and trained[COUNTER] == 3 * 4, trained[COUNTER])
    require(not any("num_batches_tracked" in name for name in whole), "the state of a run has no counter")
    for name, saved in TRAINED.items():
        require(np.array_equal(whole[name], trained[saved]), name)
    require(not np.array_equal(trained[TRAINED[HIGH]], weights[HIGH]), "the adapter is trained")
    # Beside the base of the program, or one of a file, it evaluates as the whole.
    base, other = work / "base.safetensors", work / "other.safetensors"
    save(base, {"fc.weight": weights[BASE]})
    save(other, {"fc.weight": weights[BASE] + 1})
    first = lambda *words: run(program, "eval", data, *words).splitlines()[0]  # noqa: E731
    expected = first(f"--weights={run_file}")
    require(first(f"--trained={alone}") == expected, "with the base of the program")
    require(first(f"--trained={alone}", f"--weights={base}") == expected, "with a base from a file")
    require(first(f"--trained={alone}", f"--weights={other}") != expected, "with another base it is another model")
    # A run starts from there: its first loss is that of a run from the whole file.
    losses = []
    for words in ([f"--init-from={run_file}"], [f"--trained={alone}"], [f"--init-from={base}", f"--trained={alone}"]):
        run(program, "train", data, "--steps=2", "--no-shuffle", f"--log={work / 'log.csv'}", *words)
        losses.append((work / "log.csv").read_text())
    require(losses[0] == losses[1] == losses[2], losses)
    # A program without a base has to be told of one.
    build(work / "bare.onnx", has_base=False)
    bare = work / "bare"
    run(args.stowage, "compile", work / "bare.onnx", "-o", bare, *flags)
    said = run(bare, "eval", data, f"--trained={alone}", code=1)
    require(f"'{BASE}', which is not, has no value in this program; expected the base's weights beside it" in said, said)
    require(run(bare, "eval", data, f"--trained={alone}", f"--weights={base}").splitlines()[0] == expected, "the base given")
    # What does not fit.
    save(other, {name: value for name, value in trained.items() if name != TRAINED[LOW]})
    said = run(program, "eval", data, f"--trained={other}", code=1)
    require(f"'{TRAINED[LOW]}' is missing" in said, said)
    # PEFT's own file has running statistics of the modules alone that modules_to_save names.
    save(other, {name: value for name, value in trained.items() if "running" not in name})
    said = run(program, "eval", data, f"--trained={other}", f"--weights={base}", code=1)
    require(f"'{NORM}.running_mean' is missing, a running statistic: --save-trained writes it, and PEFT where modules_to_save names its module" in said, said)
    said = run(program, "train", data, f"--trained={alone}", f"--resume={run_file}", code=1)
    require("--resume and --trained exclude each other" in said, said)
    said = run(program, "train", data, f"--resume={alone}", code=1)
    require("weights without the state of a run" in said and "--trained those that --save-trained wrote" in said, said)
    said = run(program, "train", data, f"--save={alone}", f"--save-trained={alone}", code=1)
    require("--save and --save-trained name one file" in said, said)
    said = run(program, "eval", data, code=1)
    require("--weights=FILE is missing, or --trained=FILE" in said, said)
    print("what is trained is saved and taken alone")


if __name__ == "__main__":
    main()
