"""Parameters of an ONNX model and their initial values by seed: the same bytes on every machine.

A parameter is a float leaf of the graph (an initializer, a graph input that is no data, the result of ConstantOfShape,
RandomNormal or RandomUniform) that some node computes with; leaves read only as settings (Dropout's ratio, Clip's
bounds, a Reshape's target) and results of Constant are none. Each parameter draws from its own Philox stream, keyed by
seed and name, so that adding a layer changes no other. What it gets follows from the first node that reads it, looking
through Reshape, Transpose and their like:

  Conv weight         uniform in +-1/sqrt(fan_in) (PyTorch's default), or with scheme "he" normal with variance
                      2 / fan_in (He et al. 2015), which keeps deep networks without normalization alive
  Gemm/MatMul weight  uniform in +-1/sqrt(fan_in)
  bias of these       uniform in +-1/sqrt(fan_in)
  BatchNormalization  scale 1, bias 0, running mean 0, running variance 1
  LayerNormalization  scale 1, bias 0
  Gather table        normal with standard deviation 0.02, as GPT-2's embeddings
  PRelu slope         0.25
  cut GRU weights     uniform in +-1/sqrt(hidden size), by PyTorch's names
  Mul, Div            1
  anything else       0
"""

import hashlib
import math
import re
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SCHEMES = ("seed", "he")
RECURRENT = re.compile(r"\.(weight|bias)_[ih]h(_reverse)?$")
LEAF_OPS = ("ConstantOfShape", "RandomNormal", "RandomUniform")
VIEW_OPS = ("Reshape", "Transpose", "Identity", "Flatten", "Squeeze", "Unsqueeze")
# Input positions that hold settings, not operands.
SETTINGS = {"Dropout": (1, 2), "Clip": (1, 2), "Reshape": (1,), "Squeeze": (1,), "Unsqueeze": (1,), "Pad": (1, 2),
            "Slice": (1, 2, 3, 4), "ReduceSum": (1,), "ReduceMean": (1,), "ReduceMax": (1,), "Expand": (1,),
            "ConstantOfShape": (0,)}  # fmt: skip


@dataclass(frozen=True)
class Use:
    """The first place where a parameter is read as an operand."""

    node: onnx.NodeProto
    position: int
    view: tuple[int, ...]  # the parameter's shape as the node sees it


@dataclass(frozen=True)
class Parameter:
    shape: tuple[int, ...]
    use: Use

    @property
    def trainable(self) -> bool:
        """False for the running statistics of batch norm."""
        return not (self.use.node.op_type == "BatchNormalization" and self.use.position >= 3)


def attributes(node: onnx.NodeProto) -> dict:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def float_leaves(model: onnx.ModelProto, data_inputs: tuple[str, ...]) -> tuple[dict, dict]:
    """(shapes of the float leaves, arrays of all constants) by value name."""
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    leaves = {}
    for value in graph.input:
        kind = value.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT and value.name not in data_inputs:
            leaves[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    leaves.update({n: a.shape for n, a in constants.items() if a.dtype == np.float32 and n not in data_inputs})
    for node in graph.node:
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(attributes(node)["value"])
        elif node.op_type == "ConstantOfShape" and node.input[0] in constants:
            value = attributes(node).get("value")
            if value is None or value.data_type == TensorProto.FLOAT:
                leaves[node.output[0]] = tuple(int(d) for d in constants[node.input[0]])
        elif node.op_type in ("RandomNormal", "RandomUniform"):
            leaves[node.output[0]] = tuple(attributes(node)["shape"])
    return leaves, constants


def view_shape(node: onnx.NodeProto, shape: tuple[int, ...], constants: dict) -> tuple[int, ...]:
    """Shape of a view node's result, tried out on an array without bytes of its own."""
    array = np.broadcast_to(np.int8(0), shape)
    extra = constants.get(node.input[1]) if len(node.input) > 1 else None
    if node.op_type == "Reshape":
        target = [shape[i] if d == 0 else int(d) for i, d in enumerate(extra)]
        return array.reshape(target).shape
    if node.op_type == "Transpose":
        return array.transpose(attributes(node).get("perm")).shape
    if node.op_type == "Flatten":
        axis = attributes(node).get("axis", 1)
        return (math.prod(shape[:axis]), math.prod(shape[axis:]))
    axes = attributes(node).get("axes") if extra is None else [int(a) for a in extra]
    if node.op_type == "Squeeze":
        return np.squeeze(array, None if axes is None else tuple(axes)).shape
    return np.expand_dims(array, tuple(axes)).shape if node.op_type == "Unsqueeze" else shape


def default_data_inputs(model: onnx.ModelProto) -> tuple[str, ...]:
    """The first graph input without an initializer: where parameters are inputs too, exporters put the data first."""
    stored = {t.name for t in model.graph.initializer}
    free = [v.name for v in model.graph.input if v.name not in stored]
    return tuple(free[:1])


def find_parameters(model: onnx.ModelProto, data_inputs: tuple[str, ...] | None = None) -> dict[str, Parameter]:
    """The model's parameters and running statistics by name, in the order in which nodes first read them."""
    leaves, constants = float_leaves(model, default_data_inputs(model) if data_inputs is None else data_inputs)
    views = {name: (name, shape) for name, shape in leaves.items()}
    found: dict[str, Parameter] = {}
    for node in model.graph.node:
        if node.op_type in VIEW_OPS and node.input[0] in views:
            origin, shape = views[node.input[0]]
            views[node.output[0]] = (origin, view_shape(node, shape, constants))
            continue
        for position, name in enumerate(node.input):
            if name in views and position not in SETTINGS.get(node.op_type, ()):
                origin, shape = views[name]
                found.setdefault(origin, Parameter(leaves[origin], Use(node, position, shape)))
    return found


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream of one named array."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def fan_in(weight: Use) -> int:
    """How many inputs one output of a Conv, Gemm or MatMul sums over."""
    if weight.node.op_type == "Conv":
        return math.prod(weight.view[1:])
    transposed = weight.node.op_type == "Gemm" and attributes(weight.node).get("transB", 0)
    return weight.view[-1 if transposed else -2]


def initial_value(name: str, parameter: Parameter, weight: Use | None, seed: int, scheme: str) -> np.ndarray:
    """`weight` is the weight of the node that reads the parameter, if it has one (a bias takes its range from it)."""
    op, position, shape = parameter.use.node.op_type, parameter.use.position, parameter.shape
    rng = stream(seed, name)
    if op in ("Conv", "Gemm", "MatMul") and weight is not None:
        if op == "Conv" and position == 1 and scheme == "he":
            return (rng.standard_normal(shape) * math.sqrt(2.0 / fan_in(weight))).astype(np.float32)
        return ((rng.random(shape) * 2.0 - 1.0) / math.sqrt(fan_in(weight))).astype(np.float32)
    if op == "Slice" and RECURRENT.search(name):
        return ((rng.random(shape) * 2.0 - 1.0) / math.sqrt(shape[0] // 3)).astype(np.float32)
    if op == "Gather":
        return np.asarray(rng.standard_normal(shape) * 0.02, np.float32)
    if op == "LayerNormalization":
        return np.full(shape, 1.0 if position == 1 else 0.0, np.float32)
    if op == "BatchNormalization":
        return np.full(shape, 1.0 if position in (1, 4) else 0.0, np.float32)
    return np.full(shape, {"PRelu": 0.25, "Mul": 1.0, "Div": 1.0}.get(op, 0.0), np.float32)


def initial_weights(model: onnx.ModelProto, seed: int, scheme: str = "seed") -> dict[str, np.ndarray]:
    """Float32 arrays for every entry of `find_parameters`; `scheme` is "seed" (PyTorch's ranges) or "he"."""
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme '{scheme}': expected one of {', '.join(SCHEMES)}")
    parameters = find_parameters(model)
    weight_of = {id(p.use.node): p.use for p in parameters.values() if p.use.position == 1}
    return {n: initial_value(n, p, weight_of.get(id(p.use.node)), seed, scheme) for n, p in parameters.items()}


def weights_from_text(model: onnx.ModelProto, text: str) -> dict[str, np.ndarray]:
    """"seed:7" or "he:7" -> the weights of that scheme and seed."""
    scheme, _, seed = text.partition(":")
    return initial_weights(model, int(seed), scheme)


def attach_weights(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> None:
    """Turns graph inputs into initializers of the same name; every weight must be a graph input of that shape."""
    graph = model.graph
    inputs = {v.name: v for v in graph.input}
    for name, array in weights.items():
        if name not in inputs:
            raise ValueError(f"weight '{name}' is no graph input of model '{graph.name}'")
        expected = tuple(d.dim_value for d in inputs[name].type.tensor_type.shape.dim)
        if expected != array.shape:
            raise ValueError(f"weight '{name}': expected shape {list(expected)}, found {list(array.shape)}")
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
        tensor.raw_data = np.ascontiguousarray(array, "<f4").tobytes()
        graph.initializer.append(tensor)
    kept = [v for v in graph.input if v.name not in weights]
    del graph.input[:]
    graph.input.extend(kept)
