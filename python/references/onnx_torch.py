"""Runs an ONNX model as a *training* forward pass in PyTorch, for reference losses and gradients of any model.

The graph's inference semantics become training semantics, as the compiler does it: BatchNormalization normalizes with
the batch's statistics and updates the running ones (by ONNX's momentum; the running variance takes the unbiased
estimate, as in PyTorch), Dropout passes its input through (a random mask has no reference). A Softmax or LogSoftmax
that ends the graph belongs to the cross-entropy loss: `forward` returns the logits before it.

A batch baked into a Reshape's target is replaced by the batch of the data at hand.
"""

import sys
from pathlib import Path
from typing import Callable

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models"))

from onnx_init import attributes, default_data_inputs, find_parameters  # noqa: E402

ACTIVATIONS: dict[str, Callable[[Tensor, dict], Tensor]] = {
    "Relu": lambda x, a: F.relu(x),
    "LeakyRelu": lambda x, a: F.leaky_relu(x, a.get("alpha", 0.01)),
    "ThresholdedRelu": lambda x, a: F.threshold(x, a.get("alpha", 1.0), 0.0),
    "Elu": lambda x, a: F.elu(x, a.get("alpha", 1.0)),
    "Selu": lambda x, a: F.selu(x),
    "Sigmoid": lambda x, a: torch.sigmoid(x),
    "HardSigmoid": lambda x, a: (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0.0, 1.0),
    "HardSwish": lambda x, a: F.hardswish(x),
    "Tanh": lambda x, a: torch.tanh(x),
    "Softplus": lambda x, a: F.softplus(x),
    "Erf": lambda x, a: torch.erf(x),
    "Exp": lambda x, a: torch.exp(x),
    "Log": lambda x, a: torch.log(x),
    "Sqrt": lambda x, a: torch.sqrt(x),
    "Reciprocal": lambda x, a: torch.reciprocal(x),
    "Neg": lambda x, a: -x,
    "Abs": lambda x, a: torch.abs(x),
    "Identity": lambda x, a: x,
    "Dropout": lambda x, a: x,
}

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "MatMul": torch.matmul,
    "Max": torch.maximum, "Min": torch.minimum, "Sum": torch.add,
    "PRelu": lambda x, slope: torch.where(x < 0, x * slope, x),
}  # fmt: skip


def pad_spatial(x: Tensor, pads: list[int], value: float) -> Tensor:
    """Pads the last axes; ONNX lists all begins, then all ends, PyTorch pairs from the last axis backwards."""
    half = len(pads) // 2
    pairs = [p for axis in reversed(range(half)) for p in (pads[axis], pads[half + axis])]
    return F.pad(x, pairs, value=value) if any(pairs) else x


def window_pads(a: dict, x: Tensor, kernel: list[int]) -> list[int]:
    """Explicit pads of a Conv or pool node, auto_pad resolved."""
    rank = len(kernel)
    mode = a.get("auto_pad", b"NOTSET").decode()
    if mode in ("NOTSET", "VALID"):
        return list(a.get("pads", [0] * 2 * rank)) if mode == "NOTSET" else [0] * 2 * rank
    strides, dilations = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    begins, ends = [], []
    for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return begins + ends


def conv(a: dict, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    kernel = list(weight.shape[2:])
    x = pad_spatial(x, window_pads(a, x, kernel), 0.0)
    rank = len(kernel)
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    return function(x, weight, bias, a.get("strides", [1] * rank), 0, a.get("dilations", [1] * rank), a.get("group", 1))


def extra_for_ceil(x: Tensor, kernel: list[int], strides: list[int], pads: list[int]) -> list[int]:
    """End padding that makes floor division give ONNX's ceil_mode size."""
    half = len(kernel)
    extra = []
    for axis in range(half):
        span = x.shape[2 + axis] + pads[axis] + pads[half + axis] - kernel[axis]
        extra.append(-span % strides[axis])
    return extra


def pool(a: dict, x: Tensor, average: bool) -> Tensor:
    """Max or average pool by explicit padding, so that uneven pads and both counting rules work alike."""
    kernel = a["kernel_shape"]
    strides = a.get("strides", [1] * len(kernel))
    pads = window_pads(a, x, kernel)
    extra = extra_for_ceil(x, kernel, strides, pads) if a.get("ceil_mode", 0) else [0] * len(kernel)
    wide = pads[: len(kernel)] + [p + e for p, e in zip(pads[len(kernel) :], extra)]
    if not average:
        padded = pad_spatial(x, wide, float("-inf"))
        max_pool = {2: F.max_pool2d, 3: F.max_pool3d}[len(kernel)]
        return max_pool(padded, kernel, strides, dilation=a.get("dilations", 1))
    area = float(np.prod(kernel))
    avg_pool = {2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel)]
    total = avg_pool(pad_spatial(x, wide, 0.0), kernel, strides) * area
    ones = pad_spatial(torch.ones_like(x[:1, :1]), pads, 1.0 if a.get("count_include_pad", 0) else 0.0)
    count = avg_pool(pad_spatial(ones, [0] * len(kernel) + extra, 0.0), kernel, strides) * area
    return total / count


def conv_transpose(a: dict, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.ndim - 2
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]
    return function(x, weight, bias, a.get("strides", [1] * rank), a.get("pads", [0] * rank)[:rank],
                    a.get("output_padding", [0] * rank), a.get("group", 1), a.get("dilations", [1] * rank))  # fmt: skip


def resize(a: dict, x: Tensor, scales: Tensor | None, sizes: Tensor | None = None) -> Tensor:
    """One dimension after the other, from ONNX's formulas; the scales of PyTorch's nearest mode are floats."""
    mode, coordinates = a.get("mode", b"nearest").decode(), a.get("coordinate_transformation_mode", b"half_pixel").decode()
    for axis in range(x.ndim):
        size = x.shape[axis]
        scale = float(sizes[axis]) / size if sizes is not None else float(scales[axis])
        count = int(sizes[axis]) if sizes is not None else int(np.floor(size * scale))
        if count == size and scale == 1:
            continue
        at = torch.arange(count, dtype=torch.float64)
        if coordinates == "align_corners":
            at = at * ((size - 1) / (count - 1) if count > 1 else 0)
        elif coordinates == "asymmetric":
            at = (at.float() * np.float32(1 / scale)).double() if mode == "nearest" else at / scale
        elif coordinates == "pytorch_half_pixel" and count == 1:
            at = at * 0
        else:
            at = (at + 0.5) / scale - 0.5
        shrunk = min(scale, 1.0) if a.get("antialias") else 1.0
        reach = int(np.ceil(2 / shrunk)) + 1  # beyond it no source has a weight
        sources = torch.arange(-reach, size + reach)
        distance = (at[:, None] - sources).abs() * shrunk
        if mode == "nearest":
            weights = (sources == at.floor()[:, None]).double()
        elif mode == "linear":
            weights = (1 - distance).clamp(min=0)
        else:
            k = a.get("cubic_coeff_a", -0.75)
            near = ((k + 2) * distance - (k + 3)) * distance**2 + 1
            far = ((k * distance - 5 * k) * distance + 8 * k) * distance - 4 * k
            weights = torch.where(distance <= 1, near, torch.where(distance < 2, far, 0.0))
        if a.get("exclude_outside"):
            weights = weights * ((sources >= 0) & (sources < size))
        weights = weights / weights.sum(1, keepdim=True)
        matrix = torch.zeros(count, size, dtype=torch.float64).index_add(1, sources.clamp(0, size - 1), weights).to(x.dtype)
        x = torch.movedim(torch.movedim(x, axis, -1) @ matrix.T, -1, axis)
    return x


def pad_mode(a: dict, x: Tensor, pads: list[int]) -> Tensor:
    """Padding by the tensor's own elements: their positions, dimension by dimension."""
    for axis in range(x.ndim):
        size, before, after = x.shape[axis], pads[axis], pads[x.ndim + axis]
        at = torch.arange(-before, size + after)
        kind = a["mode"].decode()
        if kind == "edge":
            at = at.clamp(0, size - 1)
        elif kind == "wrap":
            at = at % size
        else:
            at = size - 1 - (size - 1 - at.abs()).abs()
        x = x.index_select(axis, at)
    return x


def blocks(op: str, a: dict, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = a["blocksize"]
    if op == "SpaceToDepth":
        return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)
    if a.get("mode", b"DCR") == b"DCR":
        return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


def gemm(a: dict, x: Tensor, y: Tensor, c: Tensor | None = None) -> Tensor:
    x = x.T if a.get("transA", 0) else x
    y = y.T if a.get("transB", 0) else y
    product = a.get("alpha", 1.0) * (x @ y)
    return product if c is None else product + a.get("beta", 1.0) * c


def lrn(a: dict, x: Tensor) -> Tensor:
    """The window reaches floor((size-1)/2) channels back and ceil((size-1)/2) ahead (PyTorch's own differs for even)."""
    size = a["size"]
    squares = F.pad(x.square(), (0, 0, 0, 0, (size - 1) // 2, size // 2)).unsqueeze(1)
    mean = F.avg_pool3d(squares, (size, 1, 1), 1).squeeze(1)
    return x / (a.get("bias", 1.0) + a.get("alpha", 1e-4) * mean) ** a.get("beta", 0.75)


def slice_axes(x: Tensor, starts: list[int], ends: list[int], axes: list[int] | None = None,
               steps: list[int] | None = None) -> Tensor:  # fmt: skip
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        # Python's slices count as ONNX's do; PyTorch's know no negative steps.
        picks = range(x.shape[axis])[slice(starts[i], ends[i], steps[i] if steps else 1)]
        x = x.index_select(axis, torch.tensor(list(picks), dtype=torch.int64))
    return x


def reduce(op: str, a: dict, x: Tensor, axes: list[int] | None) -> Tensor:
    axes = list(range(x.ndim)) if axes is None else axes
    keep = bool(a.get("keepdims", 1))
    return {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[op](x, axes, keep)


class OnnxTorch:
    """A model with its parameters as PyTorch leaves; `forward` may be called once per step."""

    training = True  # false: batch norms use their running statistics

    def __init__(self, model: onnx.ModelProto, weights: dict[str, np.ndarray], dtype: torch.dtype = torch.float32) -> None:
        self.model = model
        self.dtype = dtype
        self.opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
        (self.data_input,) = default_data_inputs(model)
        self.state: dict[str, Tensor] = {}
        self.trainable: list[str] = []
        for name, parameter in find_parameters(model).items():
            tensor = torch.from_numpy(weights[name].copy()).to(dtype)
            if parameter.trainable:
                tensor.requires_grad_(True)
                self.trainable.append(name)
            self.state[name] = tensor
        data_type = next(v for v in model.graph.input if v.name == self.data_input).type.tensor_type
        self.reads_indices = data_type.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
        dims = data_type.shape.dim
        self.baked_batch = dims[0].dim_value
        self.sample_shape = tuple(d.dim_value for d in dims[1:])
        self.nodes = list(model.graph.node)
        if self.nodes[-1].op_type in ("Softmax", "LogSoftmax"):
            self.result = self.nodes.pop().input[0]
        else:
            self.result = model.graph.output[0].name

    def parameters(self) -> list[Tensor]:
        return [self.state[name] for name in self.trainable]

    def constants(self) -> dict[str, Tensor]:
        arrays = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in self.model.graph.initializer}
        return {n: t.to(self.dtype) if t.is_floating_point() else t for n, t in arrays.items()}

    @classmethod
    def for_case(cls, model: onnx.ModelProto) -> "OnnxTorch":
        """A bare executor in float64 for `evaluate`: no parameters, every node is run."""
        executor = cls.__new__(cls)
        executor.model, executor.nodes, executor.state = model, list(model.graph.node), {}
        executor.dtype, executor.baked_batch = torch.float64, 0
        executor.opset = model.opset_import[0].version
        executor.result = model.graph.output[0].name
        return executor

    def forward(self, x: Tensor) -> Tensor:
        return self.evaluate({self.data_input: x if self.reads_indices else x.to(self.dtype)})

    def evaluate(self, inputs: dict[str, Tensor]) -> Tensor:
        """The graph's result for given graph inputs; whatever depends on them counts as data."""
        values = {**self.constants(), **self.state, **inputs}
        varying = set(inputs)
        batch_size = next(iter(inputs.values())).shape[:1]
        for node in self.nodes:
            if node.output[0] in self.state:
                continue
            depends = any(name in varying for name in node.input)
            if unknown := [name for name in node.input if name and name not in values]:
                raise RuntimeError(f"node '{node.name or node.output[0]}' ({node.op_type}): '{unknown[0]}' is outside the reference executor")
            operands = [values[name] if name else None for name in node.input]
            try:
                result = self.run(node, operands, batch_size[0] if depends and batch_size else None)
            except Exception as error:
                raise RuntimeError(f"node '{node.name or node.output[0]}' ({node.op_type}): {error}") from error
            results = result if isinstance(result, (tuple, list)) else [result]
            values.update(zip(node.output, results))
            if depends:
                varying.update(node.output[: len(results)])
        return values[self.result]

    def batch_norm(self, a: dict, node: onnx.NodeProto, operands: list[Tensor]) -> Tensor:
        x, scale, bias, mean, variance = operands
        # ONNX's momentum weighs the old statistics, PyTorch's the new ones. Both tensors are updated in place.
        return F.batch_norm(x, mean, variance, scale, bias, self.training, 1.0 - a.get("momentum", 0.9), a.get("epsilon", 1e-5))

    def target_shape(self, operand: Tensor, x: Tensor, batch: int | None) -> list[int]:
        target = [int(d) for d in operand]
        if batch is not None and target and target[0] == self.baked_batch != batch:
            target[0] = batch
        return [x.shape[i] if d == 0 else d for i, d in enumerate(target)]

    def axes(self, a: dict, operands: list[Tensor]) -> list[int] | None:
        """Axes as an attribute (old opsets) or as the second operand."""
        if len(operands) > 1 and operands[1] is not None:
            return [int(v) for v in operands[1]]
        return list(a["axes"]) if "axes" in a else None

    def run(self, node: onnx.NodeProto, operands: list, batch: int | None) -> Tensor:
        op, a = node.op_type, attributes(node)
        x = operands[0] if operands else None
        if op in ACTIVATIONS:
            return ACTIVATIONS[op](x, a)
        if op in BINARY:
            result = operands[0]
            for operand in operands[1:]:
                result = BINARY[op](result, operand)
            return result
        if op == "Conv":
            return conv(a, *operands)
        if op == "ConvTranspose":
            return conv_transpose(a, *operands)
        if op == "Gemm":
            return gemm(a, *operands)
        if op == "BatchNormalization":
            return self.batch_norm(a, node, operands)
        if op in ("MaxPool", "AveragePool"):
            return pool(a, x, op == "AveragePool")
        if op in ("ReduceMean", "ReduceSum", "ReduceMax"):
            return reduce(op, a, x, self.axes(a, operands))
        return self.run_shape_or_norm(op, a, operands, batch)

    def run_shape_or_norm(self, op: str, a: dict, operands: list, batch: int | None) -> Tensor:
        x = operands[0] if operands else None
        if op == "GlobalAveragePool":
            return x.mean(list(range(2, x.ndim)), keepdim=True)
        if op == "LRN":
            return lrn(a, x)
        if op == "Resize":
            return resize(a, x, *operands[2:])
        if op in ("DepthToSpace", "SpaceToDepth"):
            return blocks(op, a, x)
        if op == "InstanceNormalization":
            return F.instance_norm(x, weight=operands[1], bias=operands[2], eps=a.get("epsilon", 1e-5))
        if op == "Pad" and a.get("mode", b"constant") != b"constant":
            return pad_mode(a, x, [int(p) for p in operands[1]])
        if op == "Pad":
            return pad_spatial(x, [int(p) for p in operands[1]], float(operands[2]) if len(operands) > 2 else 0.0)
        if op == "Expand":
            return x.expand(torch.broadcast_shapes(x.shape, self.target_shape(operands[1], x, batch)))
        if op == "Slice":
            return slice_axes(x, *([int(v) for v in o] for o in operands[1:]))
        if op == "Clip":
            bounds = operands[1:] or [a.get("min"), a.get("max")]
            low, high = (list(bounds) + [None, None])[:2]
            return x if low is None and high is None else torch.clamp(x, low, high)
        if op in ("Softmax", "LogSoftmax"):
            function = F.softmax if op == "Softmax" else F.log_softmax
            axis = a.get("axis", 1 if self.opset < 13 else -1)
            # Before opset 13 all axes from `axis` on are normalized together.
            return function(x, axis) if self.opset >= 13 else function(x.flatten(axis), axis).reshape(x.shape)
        if op == "LayerNormalization":
            return F.layer_norm(x, x.shape[a.get("axis", -1) :], *operands[1:], eps=a.get("epsilon", 1e-5))
        if op == "Gather":
            axis = a.get("axis", 0)
            indices = operands[1].long() % x.shape[axis]
            return x[(slice(None),) * (axis % x.ndim) + (indices,)]
        if op == "Split":
            return torch.split(x, [int(n) for n in operands[1]], a.get("axis", 0))
        if op == "Where":
            return torch.where(x, *operands[1:])
        if op == "Concat":
            return torch.cat(operands, a["axis"])
        if op == "Flatten":
            return x.reshape(int(np.prod(x.shape[: a.get("axis", 1)])), -1)
        if op == "Reshape":
            return x.reshape(self.target_shape(operands[1], x, batch))
        if op == "Transpose":
            return x.permute(a.get("perm", list(range(x.ndim))[::-1]))
        if op == "Squeeze":
            axes = self.axes(a, operands)
            kept = [d for i, d in enumerate(x.shape) if (d != 1 if axes is None else i not in [k % x.ndim for k in axes])]
            return x.reshape(kept)
        if op == "Unsqueeze":
            return self.unsqueeze(x, self.axes(a, operands))
        if op == "Constant":
            value = torch.from_numpy(numpy_helper.to_array(a["value"]).copy())
            return value.to(self.dtype) if value.is_floating_point() else value
        if op == "ConstantOfShape":
            value = numpy_helper.to_array(a["value"]) if "value" in a else np.zeros(1, np.float32)
            return torch.full([int(d) for d in x], value.item())
        raise ValueError("operator outside the reference executor")

    @staticmethod
    def unsqueeze(x: Tensor, axes: list[int]) -> Tensor:
        rank = x.ndim + len(axes)
        for axis in sorted(k % rank for k in axes):
            x = x.unsqueeze(axis)
        return x
