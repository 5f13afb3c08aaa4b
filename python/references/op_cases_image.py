"""References of resizing, sampling, padding, transposed convolution, group normalization and windows over volumes."""

from dataclasses import replace
from typing import Any, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from op_case import Case, draw, node_case, onnx_model
from torch import Tensor

NOTHING = np.zeros(0, np.float32)  # the region of interest, which no mode here reads


def resize_case(name: str, shape: tuple, sizes: list[int] | None, scales: list[float] | None, mode: str,
                coordinates: str, **options: Any) -> Case:  # fmt: skip
    """As PyTorch exports `interpolate`: nearest is asymmetric and rounds down."""
    kind = {"nearest": "nearest", "linear": {3: "linear", 4: "bilinear", 5: "trilinear"}[len(shape)], "cubic": "bicubic"}
    align = None if mode == "nearest" else coordinates == "align_corners"
    factors = None if scales is None else scales[2:]
    recomputes, filters = False if factors else None, bool(options.get("antialias"))

    def function(x: Tensor) -> Tensor:
        return F.interpolate(x, sizes and sizes[2:], factors, kind[mode], align, recomputes, filters)

    last = np.array(sizes, np.int64) if sizes else np.array(scales, np.float32)
    order = ["in0", "c0", "", "c1"] if sizes else ["in0", "c0", "c1"]
    return node_case("resize", name, "Resize", [draw(f"resize:{name}", *shape)], function, [NOTHING, last], order,
                     mode=mode, coordinate_transformation_mode=coordinates, **options)  # fmt: skip


def resize_cases() -> Iterator[Case]:
    down = {"nearest_mode": "floor"}
    yield resize_case("nearest_twice", (2, 3, 3, 4), None, [1, 1, 2, 2], "nearest", "asymmetric", **down)
    yield resize_case("nearest_sizes", (1, 2, 7, 5), [1, 2, 10, 13], None, "nearest", "asymmetric", **down)
    yield resize_case("nearest_shrink", (1, 2, 7, 9), [1, 2, 3, 4], None, "nearest", "asymmetric", **down)
    yield resize_case("nearest_line", (2, 3, 5), None, [1, 1, 3], "nearest", "asymmetric", **down)
    yield resize_case("linear_twice", (2, 3, 3, 4), None, [1, 1, 2, 2], "linear", "half_pixel")
    yield resize_case("linear_pytorch", (1, 2, 3, 5), [1, 2, 2, 7], None, "linear", "pytorch_half_pixel")
    yield resize_case("linear_corners", (1, 2, 3, 4), [1, 2, 8, 9], None, "linear", "align_corners")
    yield resize_case("linear_corners_one", (1, 2, 3, 4), [1, 2, 1, 6], None, "linear", "align_corners")
    yield resize_case("linear_shrink", (1, 2, 9, 8), [1, 2, 4, 3], None, "linear", "half_pixel")
    yield resize_case("linear_eight", (1, 2, 3, 3), None, [1, 1, 8, 8], "linear", "half_pixel")
    yield resize_case("linear_volume", (1, 2, 2, 3, 2), [1, 2, 4, 5, 3], None, "linear", "half_pixel")
    cubic = {"cubic_coeff_a": -0.75}
    yield resize_case("cubic_twice", (1, 2, 4, 5), None, [1, 1, 2, 2], "cubic", "half_pixel", **cubic)
    yield resize_case("cubic_corners", (1, 2, 4, 5), [1, 2, 7, 3], None, "cubic", "align_corners", **cubic)
    filtered = {"antialias": 1, "exclude_outside": 1, "opset": 18}
    yield resize_case("linear_filtered", (1, 2, 9, 8), [1, 2, 4, 11], None, "linear", "half_pixel", **filtered)
    yield resize_case("cubic_filtered", (1, 2, 11, 8), [1, 2, 3, 5], None, "cubic", "half_pixel", cubic_coeff_a=-0.5, **filtered)


def grid_sample_case(name: str, shape: tuple, places: tuple, mode: str, padding: str, align: bool, reach: float = 1.3) -> Case:
    """A grid that leaves the image; `reach` 1 is its edge. Before opset 20 the linear mode is called bilinear."""
    grid = draw(f"grid_sample:{name}:grid", shape[0], *places, len(places), low=-reach, high=reach)
    opset = 16 if len(places) == 2 else 20

    def function(x: Tensor, g: Tensor) -> Tensor:
        if len(places) == 1:  # PyTorch has images and volumes only
            line = torch.stack((g[..., 0], torch.zeros_like(g[..., 0])), -1)[:, None]
            return F.grid_sample(x[:, :, None], line, mode, padding, align)[:, :, 0]
        return F.grid_sample(x, g, mode, padding, align)

    onnx_mode = mode if opset == 16 else {"bilinear": "linear"}.get(mode, mode)
    case = node_case("grid_sample", name, "GridSample", [draw(f"grid_sample:{name}:x", *shape), grid], function,
                     opset=opset, mode=onnx_mode, padding_mode=padding, align_corners=int(align))  # fmt: skip
    return replace(case, differentiable=[0]) if mode == "nearest" else case  # nothing flows back to the grid


def grid_sample_cases() -> Iterator[Case]:
    for padding in ("zeros", "border", "reflection"):
        for align in (False, True):
            name = f"{padding}_{'corners' if align else 'edges'}"
            yield grid_sample_case(name, (2, 3, 4, 5), (3, 4), "bilinear", padding, align)
            yield grid_sample_case(f"nearest_{name}", (1, 2, 4, 3), (3, 2), "nearest", padding, align)
    yield grid_sample_case("far", (1, 2, 3, 4), (4, 4), "bilinear", "reflection", False, reach=6)
    yield grid_sample_case("far_zeros", (1, 2, 3, 4), (4, 4), "bilinear", "zeros", True, reach=6)
    yield grid_sample_case("line", (2, 3, 6), (5,), "bilinear", "zeros", True)
    yield grid_sample_case("volume", (1, 2, 3, 4, 2), (2, 3, 2), "bilinear", "border", False)


def transposed_case(name: str, x: tuple, w: tuple, bias: bool, group: int = 1, strides: list[int] | None = None,
                    pads: list[int] | None = None, extra: list[int] | None = None, dilations: list[int] | None = None) -> Case:  # fmt: skip
    """`pads` and `extra` (output padding) per spatial dimension, the same on both sides."""
    rank = len(x) - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads, extra = pads or [0] * rank, extra or [0] * rank
    inputs = [draw(f"transposed:{name}:x", *x), draw(f"transposed:{name}:w", *w)]
    inputs += [draw(f"transposed:{name}:b", w[1] * group)] if bias else []
    convolve = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]

    def function(t: Tensor, weight: Tensor, b: Tensor | None = None) -> Tensor:
        return convolve(t, weight, b, strides, pads, extra, group, dilations)

    return node_case("conv_transpose", name, "ConvTranspose", inputs, function, kernel_shape=list(w[2:]), strides=strides,
                     pads=pads * 2, output_padding=extra, dilations=dilations, group=group)  # fmt: skip


def transposed_cases() -> Iterator[Case]:
    yield transposed_case("plain", (2, 3, 4, 5), (3, 4, 3, 3), bias=False)
    yield transposed_case("dcgan", (2, 4, 3, 3), (4, 3, 4, 4), bias=True, strides=[2, 2], pads=[1, 1])
    yield transposed_case("odd", (1, 2, 3, 4), (2, 3, 3, 3), bias=True, strides=[2, 2], pads=[1, 1], extra=[1, 0])
    yield transposed_case("groups", (1, 4, 3, 3), (4, 3, 2, 2), bias=True, group=2, strides=[2, 2])
    yield transposed_case("dilated", (1, 2, 4, 3), (2, 2, 3, 2), bias=False, dilations=[2, 3], extra=[1, 2])
    yield transposed_case("depthwise", (1, 3, 3, 3), (3, 1, 4, 4), bias=False, group=3, strides=[2, 2], pads=[1, 1])
    yield transposed_case("line", (2, 3, 6), (3, 2, 4), bias=True, strides=[2], pads=[1])
    yield transposed_case("volume", (1, 2, 2, 3, 2), (2, 2, 2, 3, 2), bias=True, strides=[2, 1, 2])


def pad_case(name: str, shape: tuple, pads: list[int], mode: str) -> Case:
    """`pads` of the spatial dimensions: those before, then those after."""
    rank = len(pads) // 2
    torch_mode = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode]
    pairs = [p for axis in reversed(range(rank)) for p in (pads[axis], pads[rank + axis])]
    zeros = [0, 0]
    given = np.array(zeros + pads[:rank] + zeros + pads[rank:], np.int64)

    def function(x: Tensor) -> Tensor:
        return F.pad(x, pairs, torch_mode)

    return node_case("pad_mode", name, "Pad", [draw(f"pad:{name}", *shape)], function, [given], mode=mode)


def pad_cases() -> Iterator[Case]:
    yield pad_case("reflect", (2, 3, 4, 5), [1, 2, 3, 1], "reflect")
    yield pad_case("reflect_line", (2, 3, 6), [4, 5], "reflect")
    yield pad_case("edge", (1, 2, 3, 4), [2, 0, 1, 3], "edge")
    yield pad_case("edge_volume", (1, 2, 3, 2, 2), [1, 0, 1, 0, 2, 1], "edge")


def block_cases() -> Iterator[Case]:
    x = draw("depth_to_space", 2, 12, 3, 2)
    yield node_case("depth_to_space", "pixel_shuffle", "DepthToSpace", [x], lambda t: F.pixel_shuffle(t, 2),
                    blocksize=2, mode="CRD")  # fmt: skip
    yield node_case("depth_to_space", "depth_first", "DepthToSpace", [x],
                    lambda t: t.reshape(2, 2, 2, 3, 3, 2).permute(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 4),
                    blocksize=2, mode="DCR")  # fmt: skip
    yield node_case("space_to_depth", "plain", "SpaceToDepth", [draw("space_to_depth", 2, 3, 4, 6)],
                    lambda t: t.reshape(2, 3, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3), blocksize=2)  # fmt: skip


def plane_norm_cases() -> Iterator[Case]:
    for name, shape in (("image", (2, 3, 4, 5)), ("line", (3, 4, 7)), ("volume", (2, 3, 2, 3, 2))):
        channels = shape[1]
        inputs = [draw(f"in:{name}:x", *shape) * np.float32(2) + np.float32(0.5), draw(f"in:{name}:s", channels),
                  draw(f"in:{name}:b", channels)]  # fmt: skip

        def function(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
            return F.instance_norm(x, weight=scale, bias=bias, eps=1e-4)

        yield node_case("instance_norm", name, "InstanceNormalization", inputs, function, epsilon=1e-4)
    yield group_norm_case("image", (2, 6, 3, 4), 2)
    yield group_norm_case("one_group", (3, 4, 2, 3), 1)
    yield group_norm_case("line", (2, 8, 5), 4)


def group_norm_case(name: str, shape: tuple, groups: int) -> Case:
    """As PyTorch exports it: instance normalization of [N, groups, rest], then a scale and a shift per channel."""
    ones = (1,) * (len(shape) - 2)
    inputs = [draw(f"gn:{name}:x", *shape) * np.float32(2) + np.float32(0.5), draw(f"gn:{name}:s", shape[1], *ones),
              draw(f"gn:{name}:b", shape[1], *ones)]  # fmt: skip
    constants = [np.array([0, groups, -1], np.int64), np.array(shape, np.int64)]
    nodes = [
        *(helper.make_node("Constant", [], [name], f"/{name}", value=numpy_helper.from_array(value, name))
          for name, value in (("ones", np.ones(groups, np.float32)), ("zeros", np.zeros(groups, np.float32)))),
        helper.make_node("Reshape", ["in0", "c0"], ["grouped"], "/grouped"),
        helper.make_node("InstanceNormalization", ["grouped", "ones", "zeros"], ["normal"], "/normal", epsilon=1e-5),
        helper.make_node("Reshape", ["normal", "c1"], ["back"], "/back"),
        helper.make_node("Mul", ["back", "in1"], ["scaled"], "/scaled"),
        helper.make_node("Add", ["scaled", "in2"], ["out0"], "/shifted"),
    ]

    def function(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        return F.group_norm(x, groups, scale.flatten(), bias.flatten())

    model = onnx_model(inputs, nodes, constants)
    return Case("group_norm", name, inputs, function, {"op": "InstanceNormalization"}, model, [0, 1, 2])


def volume_cases() -> Iterator[Case]:
    for name, w, group, strides, pads in (
        ("plain", (4, 2, 3, 3, 3), 1, [1, 1, 1], [1, 1, 1]),
        ("strided", (3, 2, 3, 1, 2), 1, [2, 1, 1], [1, 0, 0]),
        ("groups", (4, 1, 2, 2, 2), 2, [1, 2, 2], [0, 1, 1]),
    ):
        inputs = [draw(f"conv3d:{name}:x", 1, 2, 4, 3, 5), draw(f"conv3d:{name}:w", *w), draw(f"conv3d:{name}:b", w[0])]

        def convolve(t: Tensor, weight: Tensor, b: Tensor, strides: list = strides, pads: list = pads, group: int = group) -> Tensor:
            return F.conv3d(t, weight, b, strides, pads, 1, group)

        yield node_case("conv3d", name, "Conv", inputs, convolve, kernel_shape=list(w[2:]), strides=strides, pads=pads * 2,
                        group=group)  # fmt: skip
    x = draw("pool3d", 1, 2, 4, 5, 6)
    window = {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2]}
    yield node_case("pool3d", "max", "MaxPool", [x], lambda t: F.max_pool3d(t, (2, 3, 2), (2, 1, 2), (1, 1, 0)),
                    pads=[1, 1, 0] * 2, **window)  # fmt: skip
    yield node_case("pool3d", "average", "AveragePool", [x],
                    lambda t: F.avg_pool3d(t, (2, 3, 2), (2, 1, 2), (1, 1, 0)), pads=[1, 1, 0] * 2,
                    count_include_pad=1, **window)  # fmt: skip
    yield node_case("pool3d", "global", "GlobalAveragePool", [x], lambda t: t.mean((2, 3, 4), keepdim=True))
    # Windows that ceil_mode adds count the pads, but not what lies beyond them.
    yield node_case("avg_pool", "ceil_included", "AveragePool", [draw("avg:ceil", 1, 2, 6, 7)],
                    lambda t: F.avg_pool2d(t, 3, 2, 1, ceil_mode=True), kernel_shape=[3, 3], strides=[2, 2],
                    pads=[1, 1, 1, 1], count_include_pad=1, ceil_mode=1)  # fmt: skip


def cases() -> Iterator[Case]:
    for group in (resize_cases, grid_sample_cases, transposed_cases, pad_cases, block_cases, plane_norm_cases, volume_cases):
        yield from group()
