"""References of convolution, normalization, pooling, losses and optimizers."""

from typing import Any, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from op_case import Case, draw, node_case, stream
from torch import Tensor


def padded(t: Tensor, pads: list[int], value: float = 0.0) -> Tensor:
    """ONNX pads [top, left, bottom, right] on the last two axes."""
    top, left, bottom, right = pads
    return F.pad(t, (left, right, top, bottom), value=value)


def conv_case(name: str, x: tuple, w: tuple, bias: bool, strides: list[int] = [1, 1], pads: list[int] = [0, 0, 0, 0],
              dilations: list[int] = [1, 1], group: int = 1) -> Case:  # fmt: skip
    inputs = [draw(f"conv:{name}:x", *x), draw(f"conv:{name}:w", *w)]
    inputs += [draw(f"conv:{name}:b", w[0])] if bias else []

    def function(t: Tensor, weight: Tensor, b: Tensor | None = None) -> Tensor:
        return F.conv2d(padded(t, pads), weight, b, strides, 0, dilations, group)

    return node_case("conv2d", name, "Conv", inputs, function, kernel_shape=list(w[2:]), strides=strides, pads=pads,
                     dilations=dilations, group=group)  # fmt: skip


def conv_cases() -> Iterator[Case]:
    yield conv_case("plain", (2, 3, 6, 7), (4, 3, 3, 3), bias=False)
    yield conv_case("bias_pad", (2, 3, 5, 5), (4, 3, 3, 3), bias=True, pads=[1, 1, 1, 1])
    yield conv_case("stride2", (2, 3, 7, 8), (4, 3, 3, 3), bias=False, strides=[2, 2], pads=[1, 1, 1, 1])
    yield conv_case("stem", (1, 3, 17, 17), (4, 3, 7, 7), bias=False, strides=[2, 2], pads=[3, 3, 3, 3])
    # The last row and column are read by no window, so their gradient is zero.
    yield conv_case("stride_remainder", (1, 2, 8, 8), (3, 2, 3, 3), bias=True, strides=[3, 3])
    yield conv_case("pointwise", (2, 8, 4, 4), (6, 8, 1, 1), bias=True)
    yield conv_case("pointwise_stride", (2, 4, 6, 6), (8, 4, 1, 1), bias=False, strides=[2, 2])
    yield conv_case("uneven_pads", (1, 2, 6, 6), (3, 2, 3, 3), bias=True, strides=[2, 2], pads=[0, 0, 1, 1])
    yield conv_case("uneven_all", (1, 2, 5, 6), (3, 2, 4, 3), bias=False, pads=[2, 0, 1, 3])
    yield conv_case("dilated", (1, 2, 9, 9), (3, 2, 3, 3), bias=False, pads=[2, 2, 2, 2], dilations=[2, 2])
    yield conv_case("dilated_uneven", (1, 2, 8, 9), (3, 2, 3, 2), bias=True, dilations=[1, 3])
    yield conv_case("groups", (2, 6, 5, 5), (4, 3, 3, 3), bias=True, pads=[1, 1, 1, 1], group=2)
    yield conv_case("depthwise", (2, 5, 6, 6), (5, 1, 3, 3), bias=False, pads=[1, 1, 1, 1], group=5)
    yield conv_case("depthwise_stride", (2, 8, 7, 7), (8, 1, 3, 3), bias=True, strides=[2, 2], pads=[1, 1, 1, 1], group=8)
    yield conv_case("depthwise_multiplier", (1, 3, 5, 5), (6, 1, 3, 3), bias=False, pads=[1, 1, 1, 1], group=3)
    yield conv_case("one_column", (2, 3, 8, 1), (4, 3, 3, 1), bias=True, pads=[1, 0, 1, 0])
    yield conv_case("whole_image", (3, 2, 4, 4), (5, 2, 4, 4), bias=True)


def batch_norm_inputs(name: str, *shape: int) -> list[np.ndarray]:
    channels = shape[1]
    return [draw(f"bn:{name}:x", *shape) * np.float32(1.5) + np.float32(0.25), draw(f"bn:{name}:s", channels),
            draw(f"bn:{name}:b", channels), draw(f"bn:{name}:m", channels),
            draw(f"bn:{name}:v", channels, low=0.2, high=2.0)]  # fmt: skip


def batch_norm_case(name: str, shape: tuple, training: bool, momentum: float = 0.9, epsilon: float = 1e-5) -> Case:
    """Training returns (y, new running mean, new running variance); momentum is ONNX's, the weight of the old value."""

    def function(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
        if not training:
            return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
        mean, variance = mean.detach().clone(), variance.detach().clone()
        y = F.batch_norm(x, mean, variance, scale, bias, True, 1.0 - momentum, epsilon)
        return y, mean, variance

    case = node_case("batch_norm", name, "BatchNormalization", batch_norm_inputs(name, *shape), function,
                     momentum=momentum, epsilon=epsilon)  # fmt: skip
    case.attrs["training"] = training
    return Case(case.op, name, case.inputs, function, case.attrs, case.model, [0, 1, 2])


def norm_cases() -> Iterator[Case]:
    yield batch_norm_case("training", (4, 3, 5, 5), True)
    yield batch_norm_case("training_momentum", (8, 5, 3, 2), True, momentum=0.7, epsilon=1e-3)
    yield batch_norm_case("training_one_pixel", (6, 4, 1, 1), True)
    yield batch_norm_case("training_rows", (16, 5), True)
    yield batch_norm_case("inference", (2, 3, 4, 4), False)
    for name, size, channels in (("five", 5, 8), ("even", 4, 6), ("wide", 7, 3)):
        settings = {"alpha": 0.05, "beta": 0.75, "bias": 2.0}

        def function(t: Tensor, size: int = size) -> Tensor:
            """ONNX sums channels [c - floor((size-1)/2), c + ceil((size-1)/2)]; torch differs for even sizes."""
            before, after = (size - 1) // 2, size // 2
            squares = F.pad(t**2, (0, 0, 0, 0, before, after))
            total = sum(squares[:, i : i + t.shape[1]] for i in range(size))
            return t / (2.0 + 0.05 / size * total) ** 0.75

        yield node_case("lrn", name, "LRN", [draw(f"lrn:{name}", 2, channels, 3, 4) * np.float32(2)], function, size=size, **settings)


def layer_norm_cases() -> Iterator[Case]:
    for name, shape, axis in (("tokens", (2, 3, 7), -1), ("rows", (5, 16), 1), ("image", (2, 3, 4, 5), 2)):
        row = shape[axis:]
        inputs = [draw(f"ln:{name}:x", *shape) * np.float32(2) + np.float32(0.5), draw(f"ln:{name}:s", *row),
                  draw(f"ln:{name}:b", *row)]  # fmt: skip

        def function(x: Tensor, scale: Tensor, bias: Tensor | None = None, row: tuple = row) -> Tensor:
            return F.layer_norm(x, row, scale, bias, 1e-4)

        yield node_case("layer_norm", name, "LayerNormalization", inputs, function, opset=17, axis=axis, epsilon=1e-4)
    yield node_case("layer_norm", "no_bias", "LayerNormalization", inputs[:2], function, opset=17, axis=2, epsilon=1e-4)


def index_cases() -> Iterator[Case]:
    """Gather by data and Where; rows are read several times, once and never."""
    indices = np.array([[0, 4, 4], [2, 4, 0]], np.int64)
    table = draw("embedding", 6, 5)
    yield indexed("embedding", "rows", "Gather", [table, indices], lambda t, i: t[i], [0])
    yield indexed("embedding", "columns", "Gather", [draw("embedding:c", 3, 6, 2), indices], lambda t, i: t[:, i], [0], axis=1)
    negative = np.array([-1, 0, -6, -1], np.int32)
    yield indexed("embedding", "negative", "Gather", [table, negative], lambda t, i: t[i.long()], [0])
    mask = np.tril(np.ones((4, 4), bool))
    scores = draw("select", 2, 4, 4)
    yield node_case("select", "causal", "Where", [scores],
                    lambda t: torch.where(torch.from_numpy(mask), t, torch.tensor(-2.0, dtype=t.dtype)),
                    [mask, np.float32(-2.0)], order=["c0", "in0", "c1"])  # fmt: skip
    other = draw("select:b", 4)
    yield node_case("select", "broadcast", "Where", [scores, other],
                    lambda a, b: torch.where(torch.from_numpy(mask), a, b), [mask], order=["c0", "in0", "in1"])


def indexed(op: str, name: str, onnx_op: str, inputs: list[np.ndarray], function: Any, differentiable: list[int],
            **attributes: Any) -> Case:  # fmt: skip
    case = node_case(op, name, onnx_op, inputs, function, **attributes)
    return Case(case.op, name, case.inputs, function, case.attrs, case.model, differentiable)


def max_pool_case(name: str, x: np.ndarray, kernel: list[int], strides: list[int], pads: list[int] = [0, 0, 0, 0]) -> Case:
    def function(t: Tensor) -> Tensor:
        return F.max_pool2d(padded(t, pads, float("-inf")), kernel, strides)

    return node_case("max_pool", name, "MaxPool", [x], function, kernel_shape=kernel, strides=strides, pads=pads)


def avg_pool_case(name: str, shape: tuple, kernel: list[int], strides: list[int], pads: list[int], include: int) -> Case:
    def function(t: Tensor) -> Tensor:
        area = kernel[0] * kernel[1]
        total = F.avg_pool2d(padded(t, pads), kernel, strides) * area
        ones = padded(torch.ones_like(t), pads, float(include))
        return total / (F.avg_pool2d(ones, kernel, strides) * area)

    return node_case("avg_pool", name, "AveragePool", [draw(f"avg:{name}", *shape)], function, kernel_shape=kernel,
                     strides=strides, pads=pads, count_include_pad=include)  # fmt: skip


def pool_cases() -> Iterator[Case]:
    def image(name: str, *shape: int) -> np.ndarray:
        return draw(f"max:{name}", *shape)

    yield max_pool_case("plain", image("plain", 2, 3, 6, 6), [2, 2], [2, 2])
    yield max_pool_case("overlap_pad", image("overlap", 2, 3, 7, 7), [3, 3], [2, 2], [1, 1, 1, 1])
    yield max_pool_case("overlap_dense", image("dense", 1, 2, 6, 6), [3, 3], [1, 1], [1, 1, 1, 1])
    yield max_pool_case("remainder", image("remainder", 1, 2, 7, 8), [2, 3], [2, 3])
    yield max_pool_case("uneven_pads", image("uneven", 1, 2, 6, 6), [3, 3], [2, 2], [0, 0, 1, 1])
    # Every window holds equal values: the gradient belongs to the first in row-major order.
    yield max_pool_case("ties", np.ones((1, 2, 4, 4), np.float32), [2, 2], [2, 2])
    yield avg_pool_case("plain", (2, 3, 6, 6), [2, 2], [2, 2], [0, 0, 0, 0], 0)
    yield avg_pool_case("pad_excluded", (2, 3, 6, 6), [3, 3], [2, 2], [1, 1, 1, 1], 0)
    yield avg_pool_case("pad_included", (2, 3, 6, 6), [3, 3], [2, 2], [1, 1, 1, 1], 1)
    yield avg_pool_case("uneven_excluded", (1, 2, 6, 6), [3, 3], [1, 1], [0, 0, 1, 1], 0)
    yield avg_pool_case("uneven_included", (1, 2, 6, 6), [3, 3], [1, 1], [0, 0, 1, 1], 1)
    yield node_case("global_avg_pool", "plain", "GlobalAveragePool", [draw("gap", 2, 5, 4, 3)],
                    lambda t: t.mean((2, 3), keepdim=True))  # fmt: skip


def cases() -> Iterator[Case]:
    for group in (conv_cases, norm_cases, layer_norm_cases, index_cases, pool_cases):
        yield from group()
