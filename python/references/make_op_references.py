#!/usr/bin/python3
"""Writes tests/data/op_references/<op>__<case>.npz: outputs and gradients of every op, computed by PyTorch in float64.

Arrays of a file (see tests/data/op_references/README.md): in0.., out0.., dout0, din0.., attrs, model.
Before a file is written, the case's ONNX model is run through the reference executor (onnx_torch.py) and must give the
same output, so that model and PyTorch function cannot drift apart. Other releases of PyTorch and NumPy write other bytes:
name the ops that are new, and the other files stay as they are.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python/references")]

import op_cases_basic  # noqa: E402
import op_cases_image  # noqa: E402
import op_cases_index  # noqa: E402
import op_cases_nn  # noqa: E402
import op_cases_recurrent  # noqa: E402
import op_cases_signal  # noqa: E402
import op_cases_training  # noqa: E402
from onnx_torch import OnnxTorch  # noqa: E402
from op_case import Case, draw  # noqa: E402

MAX_FILE_BYTES = 50_000


def check_model(case: Case, expected: torch.Tensor) -> None:
    """The ONNX model, executed node by node in float64, must agree with the PyTorch function."""
    # Batch norm in inference mode is outside the executor, which trains.
    if case.model is None or case.attrs.get("training") is False:
        return
    executor = OnnxTorch.for_case(case.model)
    values = {f"in{i}": torch.from_numpy(a.copy()).double() for i, a in enumerate(case.inputs)}
    try:
        found = executor.evaluate(values)
    except RuntimeError as error:
        # The executor knows what networks of the suite need; TorchReferenceTest compares model and function anyway.
        if "outside the reference executor" in str(error):
            return
        raise
    # Settings such as LRN's alpha pass through float32 in the ONNX file.
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-6, atol=1e-7):
        raise SystemExit(f"{case.stem}: the ONNX model and the PyTorch function disagree")


def compute(case: Case) -> dict[str, np.ndarray]:
    tensors = []
    for i, array in enumerate(case.inputs):
        tensor = torch.from_numpy(array.copy())
        tensor = tensor.double() if tensor.is_floating_point() else tensor
        tensors.append(tensor.requires_grad_(True) if i in case.differentiable else tensor)
    outputs = case.function(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    check_model(case, outputs[0])
    arrays = {f"in{i}": a for i, a in enumerate(case.inputs)}
    arrays.update({f"out{i}": t.detach().numpy() for i, t in enumerate(outputs)})
    if case.differentiable:
        cotangent = draw(f"{case.stem}:dout", *outputs[0].shape)
        wanted = [tensors[i] for i in case.differentiable]
        gradients = torch.autograd.grad(outputs[0], wanted, torch.from_numpy(cotangent).double())
        arrays["dout0"] = cotangent
        arrays.update({f"din{i}": g.numpy() for i, g in zip(case.differentiable, gradients)})
    arrays["attrs"] = np.frombuffer(json.dumps(case.attrs).encode(), np.uint8)
    if case.model is not None:
        arrays["model"] = np.frombuffer(case.model.SerializeToString(deterministic=True), np.uint8)
    return {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in arrays.items()}


def all_cases() -> list[Case]:
    return [*op_cases_basic.cases(), *op_cases_image.cases(), *op_cases_nn.cases(), *op_cases_index.index_cases(),
            *op_cases_recurrent.recurrent_cases(), *op_cases_signal.cases(), *op_cases_training.cases()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", metavar="OP", help="write the cases of these ops and leave the others (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "tests/data/op_references")
    parser.add_argument("--list", action="store_true", help="print the cases and write nothing")
    args = parser.parse_args()
    cases = all_cases()
    assert len({case.stem for case in cases}) == len(cases)
    if args.list:
        print("\n".join(case.stem for case in cases))
        return
    if unknown := set(args.ops) - {case.op for case in cases}:
        raise SystemExit(f"there is no case of {', '.join(sorted(unknown))}; --list names all")
    args.output.mkdir(parents=True, exist_ok=True)
    for stale in args.output.glob("*.npz"):
        if stale.stem not in {case.stem for case in cases}:
            stale.unlink()
    if args.ops:
        cases = [case for case in cases if case.op in args.ops]
    total = 0
    for case in cases:
        path = args.output / f"{case.stem}.npz"
        if not case.available:
            print(f"{case.stem}: not in PyTorch {torch.__version__}, its file stays as it is")
            continue
        np.savez_compressed(path, **compute(case))
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise SystemExit(f"{path}: {size} bytes, limit {MAX_FILE_BYTES}")
        total += size
    print(f"{len(cases)} cases of {len({c.op for c in cases})} ops, {total} bytes in {args.output}")


if __name__ == "__main__":
    main()
