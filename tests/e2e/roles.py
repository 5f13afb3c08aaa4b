#!/usr/bin/python3
"""What is trained of a file without a signature: its weights, those of Einsum among them, and none of its inputs.

  roles.py --stowage=build/release/bin/stowage --work=DIR

The inputs stand where weights could: added to a weight's product, multiplied by themselves, read by rows, in front of a
product. One step of gradient descent with rate 1 moves each weight by its gradient, which PyTorch has computed too.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

try:
    import numpy as np
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"skipped: {error}; install python3-torch and python3-onnx")
    sys.exit(77)

NODES, WIDTH, OUT = 6, 4, 3


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(path: Path, weights: "dict[str, np.ndarray]") -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "/fc"),
        helper.make_node("Add", ["p", "x"], ["residual"], "/residual"),
        helper.make_node("Transpose", ["x"], ["t"], "/t", perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["scores"], "/scores"),
        helper.make_node("Gather", ["x", "at"], ["rows"], "/rows"),
        helper.make_node("MatMul", ["adjacency", "residual"], ["message"], "/message"),
        helper.make_node("Add", ["message", "rows"], ["sum"], "/sum"),
        helper.make_node("Tanh", ["sum"], ["h"], "/act"),
        helper.make_node("Einsum", ["h", "u"], ["e"], "/einsum", equation="nf,fo->no"),
        helper.make_node("Add", ["e", "bias"], ["biased"], "/bias"),
        helper.make_node("Einsum", ["scores", "biased"], ["mixed"], "/mix", equation="nm,mo->no"),
        helper.make_node("Einsum", ["mixed", "v"], ["turned"], "/turn", equation="no,po->pn"),
        helper.make_node("Mul", ["turned", "turned"], ["squares"], "/square"),
        helper.make_node("ReduceMean", ["squares"], ["loss"], "/mean", keepdims=0),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [NODES, WIDTH]),
              helper.make_tensor_value_info("adjacency", TensorProto.FLOAT, [NODES, NODES]),
              helper.make_tensor_value_info("at", TensorProto.INT64, [NODES])]  # fmt: skip
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "roles", inputs, outputs, [numpy_helper.from_array(w, n) for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    shapes = {"w": (WIDTH, WIDTH), "u": (WIDTH, OUT), "bias": (OUT,), "v": (2, OUT)}
    weights = {name: (0.3 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    x = (0.5 * draw.standard_normal((NODES, WIDTH))).astype(np.float32)
    adjacency = draw.integers(0, 2, (NODES, NODES)).astype(np.float32)
    at = draw.integers(0, NODES, NODES)
    model, data, executable, saved = (args.work / name for name in ("roles.onnx", "data.npz", "roles", "roles.safetensors"))
    build(model, weights)
    np.savez(data, x=x, adjacency=adjacency, at=at, degrees=adjacency.sum(1))

    tensors = {name: torch.from_numpy(value.copy()).requires_grad_() for name, value in weights.items()}
    t = torch.from_numpy(x)
    message = torch.from_numpy(adjacency) @ (t @ tensors["w"] + t)
    h = torch.tanh(message + t[torch.from_numpy(at)])
    mixed = (t @ t.T) @ (h @ tensors["u"] + tensors["bias"])
    loss = torch.einsum("no,po->pn", mixed, tensors["v"]).square().mean()
    loss.backward()

    listed = run(args.stowage, "plan", model, "--loss=output:loss", "--list-parameters")
    assert "4 tensors trained (37 elements); by rules" in listed, listed
    run(args.stowage, "compile", model, "-o", executable, "--loss=output:loss", "--optimizer=sgd:lr=1", "--threads=1", "--recompute=none")
    printed = run(executable, "train", f"--data={data}", "--steps=1", "--no-shuffle", f"--save={saved}", "--validation-split=0")
    assert "data.npz: nothing reads the array 'degrees'; the inputs of the program are" in printed, printed
    assert printed.count("nothing reads") == 1, printed

    content = saved.read_bytes()

    size = int.from_bytes(content[:8], "little")
    for name, about in json.loads(content[8 : 8 + size]).items():
        if name not in weights:
            assert name not in ("x", "adjacency"), name
            continue
        begin, end = about["data_offsets"]
        moved = np.frombuffer(content[8 + size + begin : 8 + size + end], np.float32).reshape(about["shape"])
        gradient = tensors.pop(name).grad.numpy()
        assert np.abs(gradient).max() > 1e-3, name
        np.testing.assert_allclose(weights[name] - moved, gradient, rtol=2e-4, atol=2e-6, err_msg=name)
    assert not tensors, f"not saved: {list(tensors)}"
    print("four weights moved by PyTorch's gradients; three inputs are data")


if __name__ == "__main__":
    main()
