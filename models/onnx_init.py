"""Initial weights for any ONNX model, by seed: the same bytes on every machine, whatever framework is installed.

Each parameter draws from its own Philox stream, keyed by the seed and the parameter's name, so that adding a layer
changes no other layer. What a parameter is follows from the node that reads it:

  Conv weight         uniform in +-1/sqrt(fan_in) (PyTorch's default), or with scheme "he" normal with variance
                      2 / fan_in (He et al. 2015), which keeps deep networks without normalization alive
  Gemm/MatMul weight  uniform in +-1/sqrt(fan_in)
  bias of these       uniform in +-1/sqrt(fan_in)
  BatchNormalization  scale 1, bias 0, running mean 0, running variance 1
"""

import hashlib
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTED_OPS = ("Conv", "Gemm", "MatMul", "BatchNormalization")
SCHEMES = ("seed", "he")


def parameter_shapes(model: onnx.ModelProto, data_inputs: tuple[str, ...] = ()) -> dict[str, tuple[int, ...]]:
    """Trainable tensors and running statistics of the graph by name, in the order in which nodes first read them.

    They are the values read in a weight's place of Conv, Gemm, MatMul or BatchNormalization that are initializers,
    graph inputs or made by a node without data (ConstantOfShape and its like)."""
    shapes = constant_shapes(model)
    for name in data_inputs:
        shapes.pop(name, None)
    found: dict[str, tuple[int, ...]] = {}
    for node in model.graph.node:
        for name in node.input[1:] if node.op_type in WEIGHTED_OPS else ():
            if name in shapes:
                found.setdefault(name, shapes[name])
    return found


def constant_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Shapes of all values that do not depend on data: graph inputs, initializers, results of constant nodes."""
    graph = model.graph
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in graph.input}
    shapes.update({name: array.shape for name, array in values.items()})
    for node in graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "ConstantOfShape" and node.input[0] in values:
            shapes[node.output[0]] = tuple(int(d) for d in values[node.input[0]])
        elif node.op_type == "Constant" and "value" in attributes:
            values[node.output[0]] = numpy_helper.to_array(attributes["value"])
            shapes[node.output[0]] = values[node.output[0]].shape
        elif node.op_type in ("RandomNormal", "RandomUniform"):
            shapes[node.output[0]] = tuple(attributes["shape"])
    return shapes


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream of one parameter."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def uniform(rng: np.random.Generator, shape: tuple[int, ...], bound: float) -> np.ndarray:
    return ((rng.random(shape) * 2.0 - 1.0) * bound).astype(np.float32)


def initial_weights(model: onnx.ModelProto, seed: int, scheme: str = "seed") -> dict[str, np.ndarray]:
    """Float32 arrays for every entry of `parameter_shapes`; a parameter that two nodes share follows its first reader.

    `scheme` is "seed" (PyTorch's default ranges) or "he" (see above)."""
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme '{scheme}': expected one of {', '.join(SCHEMES)}")
    shapes = parameter_shapes(model)
    weights: dict[str, np.ndarray] = {}
    for node in model.graph.node:
        names = [n if n in shapes else None for n in node.input]
        if node.op_type == "BatchNormalization":
            made = [(names[i], np.full(shapes[names[i]], v, np.float32)) for i, v in ((1, 1), (2, 0), (3, 0), (4, 1)) if names[i]]
        elif node.op_type in WEIGHTED_OPS and len(names) > 1 and names[1]:
            made = _weight_and_bias(node, names, shapes, seed, scheme)
        else:
            continue
        for name, array in made:
            weights.setdefault(name, array)
    return weights


def _weight_and_bias(node: onnx.NodeProto, names: list, shapes: dict, seed: int, scheme: str) -> list[tuple[str, np.ndarray]]:
    shape = shapes[names[1]]
    transposed = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
    convolution = node.op_type == "Conv"
    fan_in = math.prod(shape[1:]) if convolution else shape[-1 if transposed else -2]
    bound = 1.0 / math.sqrt(fan_in)
    rng = stream(seed, names[1])
    if convolution and scheme == "he":
        weight = (rng.standard_normal(shape) * math.sqrt(2.0 / fan_in)).astype(np.float32)
    else:
        weight = uniform(rng, shape, bound)
    made = [(names[1], weight)]
    if len(names) > 2 and names[2]:
        made.append((names[2], uniform(stream(seed, names[2]), shapes[names[2]], bound)))
    return made


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


def weights_from_text(model: onnx.ModelProto, text: str) -> dict[str, np.ndarray]:
    """"seed:7" or "he:7" -> the weights of that scheme and seed."""
    scheme, _, seed = text.partition(":")
    return initial_weights(model, int(seed), scheme)
