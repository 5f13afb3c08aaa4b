#!/usr/bin/python3
"""Evaluation in parts of a batch, where a budget has no room for a whole one, against the same weights without a budget.

  partial_evaluation.py --stowage=build/release/bin/stowage --work=DIR

A classifier with many classes is trained with its head in chunks of rows, so that evaluation, whose scores are whole, takes more
than a step; so is a translation model that computes its own loss. Under a budget it runs in parts: executables print the same metrics, and a library, which is
still called with a whole batch, gives the same scores; where the model computes its own loss, that too. A model whose samples
meet has no parts.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python")]

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy and python3-onnx")
    sys.exit(77)

import seq2seq_models  # noqa: E402
import stowage  # noqa: E402
from commands import check, run  # noqa: E402

BATCH, WIDTH, CLASSES, STEPS, ROWS = 48, 16, 3000, 4, 100
ROOM = BATCH * CLASSES * 2 + 4096  # for half of the scores


def build(path: Path, own_loss: str = "", centered: bool = False) -> None:
    """Two layers; `own_loss`: the reduction of a loss in the model."""
    draw = np.random.default_rng(0)
    weights = {"w1": draw.standard_normal((WIDTH, WIDTH)), "w2": draw.standard_normal((WIDTH, CLASSES)) / 4}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"], "/fc1"), helper.make_node("Tanh", ["h"], ["a"], "/act")]
    if centered:  # samples meet
        nodes += [helper.make_node("ReduceMean", ["a"], ["m"], "/mean", axes=[0], keepdims=1), helper.make_node("Sub", ["a", "m"], ["c"], "/center")]
    nodes.append(helper.make_node("MatMul", ["c" if centered else "a", "w2"], ["logits"], "/fc2"))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, CLASSES])]
    if own_loss:
        nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"], "/loss", reduction=own_loss))
        inputs.append(helper.make_tensor_value_info("labels", TensorProto.INT64, [BATCH]))
        outputs.insert(0, helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    used = {name for node in nodes for name in node.input}
    tensors = [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items() if n in used]
    model = helper.make_model(helper.make_graph(nodes, "head", inputs, outputs, tensors), opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 7
    onnx.save(model, path)


def plan_of(args: argparse.Namespace, model: Path, *flags: str) -> dict:
    return json.loads(run(args.stowage, "plan", model, *flags, "--format=json"))


def check_model(name: str, args: argparse.Namespace, flags: list[str], data: "dict[str, np.ndarray]", batch: int, room: int) -> int:
    """A budget of `room` bytes above the state, less than the evaluation of a whole batch takes. Returns it."""
    model, work = args.work / f"{name}.onnx", args.work
    whole = plan_of(args, model, *flags)
    budget = whole["persistent_bytes"] + room
    check(not any("samples at a time" in note for note in whole["notes"]), f"{name}: parts without a budget")
    outputs = []
    for kind, budgeted in (("whole", []), ("parts", [f"--memory-budget={budget}"])):
        library = work / f"lib{name}-{kind}.so"
        run(args.stowage, "compile", model, "-o", library, "--emit=shared", *flags, *budgeted)
        step = stowage.load(library)
        check(step.eval_batch == batch, f"{name}: a library evaluates {step.eval_batch} rows a call, not {batch}")
        outputs.append(step.model.eval([data[tensor.name][:batch] for tensor in step.model.eval_inputs]))
    parts = step.plan.json
    check(any("evaluation runs on " in note for note in parts["notes"]), f"{name}: no word of parts in {parts['notes']}")
    check(parts["arena_bytes"] <= budget, f"{name}: {parts['arena_bytes']} bytes are above {budget}")
    for ours, theirs in zip(outputs[1], outputs[0]):
        check(ours.shape == theirs.shape, f"{name}: {ours.shape} in place of {theirs.shape}")
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)
    same = all(np.array_equal(ours, theirs) for ours, theirs in zip(outputs[1], outputs[0]))
    print(f"{name}: {whole['arena_bytes']} bytes -> {parts['arena_bytes']}; outputs are {'the same' if same else 'alike'}", flush=True)
    return budget


def check_classes(args: argparse.Namespace) -> None:
    build(args.work / "classes.onnx")
    rng = np.random.default_rng(1)
    data = {"x": rng.standard_normal((ROWS, WIDTH)).astype(np.float32), "y": rng.integers(0, CLASSES, ROWS)}
    flags = ["--loss=cross-entropy", "--optimizer=sgd:lr=0.5", "--loss-chunks=8", "--threads=1"]
    budget = check_model("classes", args, flags, data, BATCH, ROOM)
    np.savez(args.work / "data.npz", **data)
    printed, saved = [], args.work / "classes.safetensors"
    for kind, budgeted in (("whole", []), ("parts", [f"--memory-budget={budget}"])):
        executable = args.work / f"classes-{kind}"
        run(args.stowage, "compile", args.work / "classes.onnx", "-o", executable, *flags, *budgeted)
        if kind == "whole":
            run(executable, "train", f"--data={args.work / 'data.npz'}", f"--steps={STEPS}", "--validation-split=0", f"--save={saved}")
        printed.append(run(executable, "eval", f"--data={args.work / 'data.npz'}", f"--weights={saved}", "--poison").splitlines()[0])
    check(printed[0] == printed[1], f"classes: {printed}")


def check_translation(args: argparse.Namespace) -> None:
    """Its loss is a sum divided by the batch that the file has; the encoder gathers by step and sample."""
    batch, size = 12, seq2seq_models.Seq2SeqSize(3, CLASSES, 16, 24)
    onnx.save(seq2seq_models.build(size, batch), args.work / "translation.onnx")
    rng, rows = np.random.default_rng(2), 30
    source = rng.integers(1, CLASSES, (rows, size.length))
    for row in range(rows):
        source[row, rng.integers(1, size.length + 1) :] = 0
    data = {"source": source, "translation": rng.integers(1, CLASSES, (rows, size.length))}
    flags = ["--loss=output:loss", "--optimizer=sgd:lr=0.1", "--loss-chunks=6", "--threads=1", "--input=source,translation"]
    check_model("translation", args, flags, data, batch, 334_592)


def check_plan(args: argparse.Namespace, name: str, code: int = 0, **kind: object) -> str:
    """What is said of a model that is planned with room for half of its scores."""
    model = args.work / f"{name}.onnx"
    build(model, **kind)
    flags = ["--loss=output:loss" if "own_loss" in kind else "--loss=cross-entropy", "--loss-chunks=8", "--threads=1"]
    budget = plan_of(args, model, *flags)["persistent_bytes"] + ROOM
    return run(args.stowage, "plan", model, *flags, f"--memory-budget={budget}", code=code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    check_classes(args)
    check_translation(args)
    check("evaluation runs on 24 of 48 samples" in check_plan(args, "mean", own_loss="mean"), "a mean of the samples' losses has parts")
    refused = check_plan(args, "centered", code=2, centered=True)
    check("STOW1001" in refused and "cannot run on parts of the batch: centered.onnx" in refused, refused)


if __name__ == "__main__":
    main()
