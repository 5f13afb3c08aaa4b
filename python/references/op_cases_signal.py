"""References of columns and images, unpooling, places that are computed, Fourier transforms, norms and diagonals."""

from dataclasses import replace
from typing import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from onnx import helper
from op_case import Case, draw, node_case, onnx_model
from torch import Tensor


def fold_cases() -> Iterator[Case]:
    """As PyTorch exports nn.Fold: overlapping blocks, pads; then dilations and a stride of its own per dimension."""
    shapes = [np.array([6, 5], np.int64), np.array([3, 2], np.int64)]
    yield node_case("col2im", "overlap", "Col2Im", [draw("col2im:overlap", 2, 18, 9)],
                    lambda t: F.fold(t, (6, 5), (3, 2), padding=1, stride=(2, 2)), shapes, opset=18, pads=[1, 1, 1, 1],
                    strides=[2, 2])  # fmt: skip
    yield node_case("col2im", "apart", "Col2Im", [draw("col2im:apart", 1, 12, 8)],
                    lambda t: F.fold(t, (6, 5), (3, 2), dilation=(2, 1), stride=(1, 1)), shapes, opset=18,
                    dilations=[2, 1])  # fmt: skip


def unpool_case(name: str, shape: tuple, window: int, pads: int) -> Case:
    """Pooling by the places of its maxima, and back."""
    x = draw(f"max_unpool:{name}", *shape)
    settings = dict(kernel_shape=[window] * 2, strides=[window] * 2, pads=[pads] * 4)
    nodes = [helper.make_node("MaxPool", ["in0"], ["largest", "places"], "/pool", **settings),
             helper.make_node("MaxUnpool", ["largest", "places"], ["out0"], "/unpool", **settings)]  # fmt: skip

    def function(t: Tensor) -> Tensor:
        return F.max_unpool2d(*F.max_pool2d(t, window, window, pads, return_indices=True), window, window, pads)

    return Case("max_unpool", name, [x], function, {"op": "MaxUnpool", **settings}, onnx_model([x], nodes, [], 16), [0])


def power_cases() -> Iterator[Case]:
    x = draw("lp_pool", 2, 3, 7, 6)
    window = dict(kernel_shape=[3, 2], strides=[2, 2])
    yield node_case("lp_pool", "second", "LpPool", [x], lambda t: F.lp_pool2d(t, 2, (3, 2), 2), p=2, **window)
    yield node_case("lp_pool", "third", "LpPool", [x], lambda t: F.lp_pool2d(t.abs(), 3, (3, 2), 2), p=3, **window)
    yield node_case("lp_normalization", "second", "LpNormalization", [x], lambda t: F.normalize(t, dim=1), axis=1, p=2)
    yield node_case("lp_normalization", "first", "LpNormalization", [x], lambda t: F.normalize(t, 1, -1), p=1)
    yield node_case("mean_variance_normalization", "channels", "MeanVarianceNormalization", [x],
                    lambda t: (t - t.mean((0, 2, 3), True)) / (t.std((0, 2, 3), False, True) + 1e-9))  # fmt: skip
    y = draw("shrink", 5, 7)
    yield node_case("shrink", "soft", "Shrink", [y], lambda t: F.softshrink(t, 0.3), lambd=0.3, bias=0.3)
    yield node_case("shrink", "hard", "Shrink", [y], lambda t: F.hardshrink(t, 0.5))
    yield node_case("swish", "wide", "Swish", [y], lambda t: t * torch.sigmoid(1.5 * t), opset=24, alpha=1.5)


def affine_case(name: str, size: list[int], align: int) -> Case:
    theta = draw(f"affine_grid:{name}", size[0], len(size) - 2, len(size) - 1)
    return node_case("affine_grid", name, "AffineGrid", [theta], lambda t: F.affine_grid(t, size, bool(align)),
                     [np.array(size, np.int64)], opset=20, align_corners=align)  # fmt: skip


def cubic_case(padding: str, align: int) -> Case:
    name = f"{padding}_{'corners' if align else 'edges'}"
    grid = draw(f"grid_sample_cubic:{name}:grid", 2, 3, 4, 2, low=-1.3, high=1.3)
    return node_case("grid_sample_cubic", name, "GridSample", [draw(f"grid_sample_cubic:{name}:x", 2, 3, 4, 5), grid],
                     lambda t, g: F.grid_sample(t, g, "bicubic", padding, bool(align)), opset=16, mode="bicubic",
                     padding_mode=padding, align_corners=align)  # fmt: skip


def deformed(x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor, mask: Tensor, groups: int, parts: int, stride: int,
             pads: int) -> Tensor:  # fmt: skip
    """Deformable convolution by its definition: every element of every window is read between four elements of x, zero
    outside it."""
    batch, channels, height, width = x.shape
    rows, columns = offset.shape[2:]
    k, kernel = weight.shape[2] * weight.shape[3], weight.shape[3]
    apart = offset.view(batch, parts, k, 2, rows, columns)
    at = torch.arange(k).view(1, 1, k, 1, 1)
    v = apart[:, :, :, 0] + at // kernel - pads + stride * torch.arange(rows).view(1, 1, 1, rows, 1)
    u = apart[:, :, :, 1] + at % kernel - pads + stride * torch.arange(columns).view(1, 1, 1, 1, columns)
    found = torch.zeros(batch, channels, k, rows, columns, dtype=x.dtype)
    images = x.reshape(batch, parts, channels // parts, height * width)
    for dv in (0, 1):
        for du in (0, 1):
            y, z = v.floor() + dv, u.floor() + du
            share = (1 - (v - y).abs()) * (1 - (u - z).abs()) * ((y >= 0) & (y < height) & (z >= 0) & (z < width))
            place = (y.clamp(0, height - 1) * width + z.clamp(0, width - 1)).long().flatten(2)
            taken = images.gather(3, place[:, :, None].expand(-1, -1, channels // parts, -1))
            term = taken.view(batch, parts, channels // parts, k, rows, columns) * share[:, :, None]
            found = found + term.reshape(found.shape)
    masked = found.view(batch, parts, channels // parts, k, rows, columns) * mask.view(batch, parts, 1, k, rows, columns)
    column = masked.reshape(batch, channels * k, rows, columns)
    return F.conv2d(column, weight.reshape(weight.shape[0], -1, 1, 1), bias, groups=groups)


def deform_case(name: str, groups: int, parts: int, stride: int, pads: int) -> Case:
    rows, columns = (5 + 2 * pads - 3) // stride + 1, (6 + 2 * pads - 2) // stride + 1
    shapes = [(2, 4, 5, 6), (6, 4 // groups, 3, 2), (2, 2 * parts * 6, rows, columns), (6,), (2, parts * 6, rows, columns)]
    inputs = [draw(f"deform_conv:{name}:{i}", *shape) for i, shape in enumerate(shapes)]
    return node_case("deform_conv", name, "DeformConv", inputs,
                     lambda x, w, o, b, m: deformed(x, w, o, b, m, groups, parts, stride, pads), opset=19, group=groups,
                     offset_group=parts, strides=[stride] * 2, pads=[pads] * 4)  # fmt: skip


def real(x: Tensor) -> Tensor:
    return torch.view_as_real(x.contiguous())


def transform_cases() -> Iterator[Case]:
    """Complex numbers are pairs; the axis is an attribute in opset 17 and an input in opset 20."""
    single, pairs = draw("dft:single", 2, 6, 3, 1), draw("dft:pairs", 2, 5, 3, 2)
    yield node_case("dft", "onesided", "DFT", [single], lambda t: real(torch.fft.rfft(t[..., 0], dim=1)), opset=17,
                    axis=1, onesided=1)  # fmt: skip
    last = np.array(2, np.int64)
    yield node_case("dft", "pairs", "DFT", [pairs], lambda t: real(torch.fft.fft(torch.view_as_complex(t), dim=2)), [last],
                    ["in0", "", "c0"], opset=20)  # fmt: skip
    yield node_case("dft", "inverse", "DFT", [pairs], lambda t: real(torch.fft.ifft(torch.view_as_complex(t), dim=1)),
                    opset=17, axis=1, inverse=1)  # fmt: skip
    for length in (8, 7):  # of 5 frequencies, of which 7 leaves 4
        yield node_case("dft", f"back_{length}", "DFT", [pairs],
                        lambda t, n=length: torch.fft.irfft(torch.view_as_complex(t), n, dim=1)[..., None],
                        [np.array(length, np.int64), np.array(1, np.int64)], opset=20, inverse=1, onesided=1)  # fmt: skip
    yield node_case("dft", "longer", "DFT", [single], lambda t: real(torch.fft.fft(t[..., 0], 9, dim=1)),
                    [np.array(9, np.int64)], opset=17, axis=1)  # fmt: skip
    signal, window = draw("stft", 2, 21), draw("stft:window", 8, low=0.5)

    def frames(t: Tensor, w: Tensor) -> Tensor:
        pieces = t.unfold(1, 8, 3) * w
        return real(torch.fft.rfft(pieces))

    yield node_case("stft", "window", "STFT", [signal, window], frames, [np.array(3, np.int64), np.array(8, np.int64)],
                    ["in0", "c0", "in1", "c1"], opset=17, onesided=1)  # fmt: skip


def extreme_cases() -> Iterator[Case]:
    """Maxima and minima by index: elements that are equal share the gradient. Products by index."""
    x, updates = draw("scatter_max", 4, 5), draw("scatter_max:u", 3, 5)
    places = np.array([[0, 0, 0, 3, 0], [3, 0, 1, 3, 1], [1, 3, 0, 3, 1]], np.int64)
    updates[1, 1], updates[0, 3] = updates[0, 1], x[3, 3]
    for name, reduction in (("largest", "max"), ("least", "min")):
        case = node_case("scatter_max", name, "ScatterElements", [x, places, updates],
                         lambda t, i, u, r=reduction: t.scatter_reduce(0, i, u, "a" + r), opset=18, axis=0, reduction=reduction)
        yield replace(case, differentiable=[0, 2])
    # One zero at a place, and two at another.
    factors = updates.copy()
    factors[0, 1] = factors[1, 1] = factors[2, 0] = 0
    case = node_case("scatter_mul", "products", "ScatterElements", [x, places, factors],
                     lambda t, i, u: t.scatter_reduce(0, i, u, "prod"), opset=18, axis=0, reduction="mul")  # fmt: skip
    yield replace(case, differentiable=[0, 2])


def diagonal_cases() -> Iterator[Case]:
    for name, equation, shapes in (
        ("rows", "bii->bi", [(2, 4, 4)]),
        ("trace", "ijij->", [(3, 2, 3, 2)]),
        ("thrice", "iii,ij->j", [(3, 3, 3), (3, 4)]),
    ):
        inputs = [draw(f"einsum_diagonal:{name}:{i}", *shape) for i, shape in enumerate(shapes)]
        yield node_case("einsum_diagonal", name, "Einsum", inputs, lambda *t, e=equation: torch.einsum(e, *t), equation=equation)


def cases() -> Iterator[Case]:
    for group in (fold_cases, power_cases, transform_cases, extreme_cases, diagonal_cases):
        yield from group()
    yield unpool_case("even", (2, 3, 6, 4), 2, 0)
    yield unpool_case("padded", (1, 2, 7, 7), 3, 1)
    yield affine_case("edges", [2, 3, 4, 5], 0)
    yield affine_case("corners", [2, 1, 3, 1], 1)
    yield affine_case("volume", [1, 1, 2, 3, 4], 0)
    for padding in ("zeros", "border", "reflection"):
        for align in (0, 1):
            yield cubic_case(padding, align)
    yield deform_case("groups", 2, 2, 2, 1)
    yield deform_case("plain", 1, 1, 1, 0)
