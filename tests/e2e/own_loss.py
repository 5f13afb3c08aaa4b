#!/usr/bin/python3
"""A model that computes its own loss, and gradients of its inputs, against PyTorch.

  own_loss.py --stowage=build/release/bin/stowage --work=DIR

The model has the ONNX node SoftmaxCrossEntropyLoss with class weights, an ignored class and its logarithms; labels are
an input. It is trained by an executable and, for the gradients of the inputs, inside a shared library.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

try:
    import numpy as np
    import onnx
    import torch
    import torch.nn.functional as F
    from onnx import TensorProto, helper, numpy_helper
    from stowage._library import Library, Model
except ImportError as error:
    print(f"skipped: {error}; install python3-torch and python3-onnx")
    sys.exit(77)

BATCH, STEPS, WIDTH, CLASSES, IGNORED, RATE = 8, 6, 12, 5, 3, 0.5


def run(*words: object, code: int = 0) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(path: Path, weights: dict[str, np.ndarray]) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "/fc1", transB=1),
        helper.make_node("Tanh", ["h"], ["a"], "/act"),
        helper.make_node("Gemm", ["a", "w2", "b2"], ["logits"], "/fc2", transB=1),
        helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels", "class_weights"], ["loss", "log_probs"], "/loss",
                         reduction="mean", ignore_index=IGNORED),
    ]  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH]),
              helper.make_tensor_value_info("labels", TensorProto.INT64, [BATCH])]  # fmt: skip
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, []),
               helper.make_tensor_value_info("log_probs", TensorProto.FLOAT, [BATCH, CLASSES])]  # fmt: skip
    graph = helper.make_graph(nodes, "own_loss", inputs, outputs, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 7
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    weights = {"w1": draw.standard_normal((16, WIDTH)), "b1": np.zeros(16), "w2": draw.standard_normal((CLASSES, 16)),
               "b2": np.zeros(CLASSES), "class_weights": np.array([1, 2, 0.5, 4, 1])}  # fmt: skip
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    x = draw.standard_normal((BATCH * STEPS, WIDTH)).astype(np.float32)
    labels = draw.integers(0, CLASSES, BATCH * STEPS)
    model, data = args.work / "own.onnx", args.work / "data.npz"
    build(model, weights)
    np.savez(data, x=x, labels=labels)

    # PyTorch's losses and gradients of x.
    tensors = {n: torch.from_numpy(w.copy()).requires_grad_(n != "class_weights") for n, w in weights.items()}
    optimizer = torch.optim.SGD([t for t in tensors.values() if t.requires_grad], lr=RATE)
    losses, gradients = [], []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        batch = torch.from_numpy(x[rows]).requires_grad_(True)
        logits = F.linear(torch.tanh(F.linear(batch, tensors["w1"], tensors["b1"])), tensors["w2"], tensors["b2"])
        loss = F.cross_entropy(logits, torch.from_numpy(labels[rows]), tensors["class_weights"], ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        gradients.append(batch.grad.numpy().copy())

    flags = ["--loss=output:loss", f"--optimizer=sgd:lr={RATE}", "--threads=1"]
    executable, log = args.work / "own", args.work / "own.csv"
    log.unlink(missing_ok=True)
    run(args.stowage, "compile", model, "-o", executable, *flags)
    saved = args.work / "own.safetensors"
    run(executable, "train", f"--data={data}", "--no-shuffle", f"--log={log}", f"--save={saved}", "--validation-split=0")
    with open(log) as file:
        ours = [float(row["loss"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(ours, losses, rtol=2e-5)

    # Evaluation is the mean of the model's own loss over whole batches.
    with torch.no_grad():
        means = []
        for step in range(STEPS):
            rows = slice(step * BATCH, (step + 1) * BATCH)
            logits = F.linear(torch.tanh(F.linear(torch.from_numpy(x[rows]), tensors["w1"], tensors["b1"])), tensors["w2"],
                              tensors["b2"])  # fmt: skip
            means.append(F.cross_entropy(logits, torch.from_numpy(labels[rows]), tensors["class_weights"],
                                         ignore_index=IGNORED).item())  # fmt: skip
    printed = run(executable, "eval", f"--data={data}", f"--weights={saved}")
    found = float(printed.split("loss ")[1].split(",")[0])
    assert abs(found - np.mean(means)) < 2e-5 * abs(found) + 1e-6, (found, np.mean(means))

    # Labels of a data input are checked against the classes of the loss that reads them.
    wrong = labels.copy()
    wrong[17] = CLASSES
    np.savez(args.work / "wrong.npz", x=x, labels=wrong)
    message = run(executable, "train", f"--data={args.work / 'wrong.npz'}", code=1)
    assert "row 17 has the label 5; expected a class from 0 to 4 or ignore_index 3" in message, message
    message = run(args.stowage, "plan", model, "--loss=output:los", code=1)
    assert 'the model has no float output called "los"; there are "loss", "log_probs"' in message, message

    library = args.work / "own.so"
    run(args.stowage, "compile", model, "--emit=shared", "-o", library, "--input-gradients=x", *flags)
    trained = Model(Library(library))
    order = [tensor.name for tensor in trained.step_inputs]
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        values = {"x": x[rows], "labels": labels[rows]}
        found = trained.step([values[name] for name in order])
        assert abs(found - losses[step]) < 2e-5 * abs(found), (step, found, losses[step])
        np.testing.assert_allclose(trained.step_output("x.grad"), gradients[step], rtol=1e-4, atol=1e-6)
    print(f"losses {ours[0]:.5f} -> {ours[-1]:.5f} as PyTorch's, gradients of x too")


if __name__ == "__main__":
    main()
