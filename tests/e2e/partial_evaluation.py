#!/usr/bin/python3
"""Evaluation in parts of a batch, where a budget has no room for a whole one, against the same weights without a budget.

  partial_evaluation.py --stowage=build/release/bin/stowage --work=DIR

A classifier with many classes is trained with its head in pieces of rows, so that evaluation, whose scores are whole, takes more
than a step. Under a budget it runs in parts: executables print the same metrics, and a library, which is
still called with a whole batch, gives the same scores; where the model computes its own loss, that too. A model whose samples
meet has no parts.
"""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy and python3-onnx")
    sys.exit(77)

import stowage  # noqa: E402
from commands import check, run  # noqa: E402

BATCH, WIDTH, CLASSES, STEPS, ROWS = 48, 16, 3000, 4, 100


def build(path: Path, own_loss: str = "", centered: bool = False) -> None:
    """Two layers; `own_loss`: the reduction of a loss in the model, whose sum is divided by the batch."""
    draw = np.random.default_rng(0)
    weights = {"w1": draw.standard_normal((WIDTH, WIDTH)), "w2": draw.standard_normal((WIDTH, CLASSES)) / 4, "count": np.array(BATCH)}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"], "/fc1"), helper.make_node("Tanh", ["h"], ["a"], "/act")]
    if centered:  # samples meet
        nodes += [helper.make_node("ReduceMean", ["a"], ["m"], "/mean", axes=[0], keepdims=1), helper.make_node("Sub", ["a", "m"], ["c"], "/center")]
    nodes.append(helper.make_node("MatMul", ["c" if centered else "a", "w2"], ["logits"], "/fc2"))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, CLASSES])]
    if own_loss:
        nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["total" if own_loss == "sum" else "loss"], "/loss", reduction=own_loss))
        if own_loss == "sum":
            nodes.append(helper.make_node("Div", ["total", "count"], ["loss"], "/share"))
        inputs.append(helper.make_tensor_value_info("labels", TensorProto.INT64, [BATCH]))
        outputs.insert(0, helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    used = {name for node in nodes for name in node.input}
    tensors = [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items() if n in used]
    model = helper.make_model(helper.make_graph(nodes, "head", inputs, outputs, tensors), opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 7
    onnx.save(model, path)


def plan_of(args: argparse.Namespace, model: Path, *flags: str) -> dict:
    return json.loads(run(args.stowage, "plan", model, *flags, "--format=json"))


def check_model(name: str, args: argparse.Namespace, own_loss: str = "") -> None:
    model, work = args.work / f"{name}.onnx", args.work
    build(model, own_loss)
    flags = ["--loss=output:loss" if own_loss else "--loss=cross-entropy", "--optimizer=sgd:lr=0.5", "--loss-chunks=8", "--threads=1"]
    whole = plan_of(args, model, *flags)
    # Half of what a whole batch's scores take.
    budget = whole["arena_bytes"] - BATCH * CLASSES * 2
    parts = plan_of(args, model, *flags, f"--memory-budget={budget}")
    check(not any("samples at a time" in note for note in whole["notes"]), f"{name}: parts without a budget")
    check(any("evaluation runs on " in note for note in parts["notes"]), f"{name}: no word of parts in {parts['notes']}")
    check(parts["arena_bytes"] <= budget, f"{name}: {parts['arena_bytes']} bytes are above {budget}")
    if name == "mean":  # differs from the sum in what joins its parts, which the plan has found
        return

    data, rng = work / "data.npz", np.random.default_rng(1)
    x, y = rng.standard_normal((ROWS, WIDTH)).astype(np.float32), rng.integers(0, CLASSES, ROWS)
    np.savez(data, x=x, **{"labels" if own_loss else "y": y})
    printed, outputs = [], []
    for kind, budgeted in (("whole", []), ("parts", [f"--memory-budget={budget}"])):
        executable, library, weights = work / f"{name}-{kind}", work / f"lib{name}-{kind}.so", work / f"{name}.safetensors"
        run(args.stowage, "compile", model, "-o", executable, *flags, *budgeted)
        if kind == "whole":
            run(executable, "train", f"--data={data}", f"--steps={STEPS}", "--validation-split=0", f"--save={weights}")
        printed.append(run(executable, "eval", f"--data={data}", f"--weights={weights}").splitlines()[0])
        run(args.stowage, "compile", model, "-o", library, "--emit=shared", *flags, *budgeted)
        step = stowage.load(library)
        step.load(weights, parameters_only=True)
        check(step.eval_batch == BATCH, f"{name}: a library evaluates {step.eval_batch} rows a call, not {BATCH}")
        outputs.append(step.model.eval([x[:BATCH], y[:BATCH]] if own_loss else [x[:BATCH]]))
    check(printed[0] == printed[1], f"{name}: {printed}")
    check(outputs[0][-1].shape == (BATCH, CLASSES), f"{name}: scores of shape {outputs[0][-1].shape}")
    for ours, theirs in zip(outputs[1], outputs[0]):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)
    same = all(np.array_equal(ours, theirs) for ours, theirs in zip(outputs[1], outputs[0]))
    print(f"{name}: {whole['arena_bytes']} bytes -> {parts['arena_bytes']}; {printed[1]}; outputs are {'the same' if same else 'alike'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    check_model("classes", args)
    check_model("sum", args, "sum")
    check_model("mean", args, "mean")
    model = args.work / "centered.onnx"
    build(model, centered=True)
    flags = ["--loss=cross-entropy", "--loss-chunks=8", "--threads=1"]
    whole = plan_of(args, model, *flags)["arena_bytes"]
    refused = run(args.stowage, "plan", model, *flags, f"--memory-budget={whole - BATCH * CLASSES * 2}", code=2)
    check("STOW1001" in refused, refused)


if __name__ == "__main__":
    main()
