"""What one op reference is made of: input arrays, the PyTorch function, and the same computation as an ONNX model."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models"))

from onnx_init import stream  # noqa: E402

OPSET = 14


@dataclass(frozen=True)
class Case:
    """`function` gets the inputs as tensors and returns one tensor or several; only the first has a cotangent.

    `model` is None for losses and optimizers, which ONNX has no node for. `attrs` is stored as JSON. A case that the
    installed PyTorch has no function for is not `available`; its file stays as it is."""

    op: str
    name: str
    inputs: list[np.ndarray]
    function: Callable[..., Any]
    attrs: dict[str, Any]
    model: onnx.ModelProto | None = None
    differentiable: list[int] = field(default_factory=list)
    available: bool = True  # in this PyTorch

    @property
    def stem(self) -> str:
        return f"{self.op}__{self.name}"


def draw(key: str, *shape: int, low: float | None = None, high: float = 1.0) -> np.ndarray:
    """Float32 standard normals, or uniforms in [low, high), from the stream of this key."""
    rng = stream(0, key)
    if low is None:
        return np.asarray(rng.standard_normal(shape, np.float32))
    return np.asarray(low + (high - low) * rng.random(shape), np.float32)


def onnx_model(inputs: list[np.ndarray], nodes: list[onnx.NodeProto], constants: list[np.ndarray],
               opset: int = OPSET) -> onnx.ModelProto:  # fmt: skip
    """Graph inputs in0.., initializers c0.., result out0; `nodes` must use these names."""
    values = []
    for i, array in enumerate(inputs):
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype") else (
            onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype])  # fmt: skip
        values.append(helper.make_tensor_value_info(f"in{i}", dtype, array.shape))
    result = onnx.ValueInfoProto(name="out0")
    result.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    tensors = [numpy_helper.from_array(array, f"c{i}") for i, array in enumerate(constants)]
    graph = helper.make_graph(nodes, "case", values, [result], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="stowage-models")
    model.ir_version = 7 if opset == OPSET else 8
    if opset <= onnx.defs.onnx_opset_version():  # an older onnx judges by the rules of older operators
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        del model.graph.value_info[:]
        onnx.checker.check_model(model)
    return model


def node_case(op: str, name: str, onnx_op: str, inputs: list[np.ndarray], function: Callable[..., Any],
              constants: list[np.ndarray] | None = None, order: list[str] | None = None, opset: int = OPSET,
              **attributes: Any) -> Case:  # fmt: skip
    """A case of one ONNX node: operands in0.., then the constants c0.., or the two in the given order."""
    inputs = [np.asarray(array) for array in inputs]  # arithmetic on rank 0 leaves scalars
    constants = constants or []
    names = order or [f"in{i}" for i in range(len(inputs))] + [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(onnx_op, names, ["out0"], f"/{op}", **attributes)
    model = onnx_model(inputs, [node], constants, opset)
    attrs = {"op": onnx_op, **attributes}
    return Case(op, name, inputs, function, attrs, model, list(range(len(inputs))))
