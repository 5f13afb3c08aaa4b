"""References of elementwise ops, reductions, shape ops, matrix products and softmax."""

import math
from dataclasses import replace
from typing import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from onnx import helper
from op_case import Case, draw, node_case, onnx_model

# Values at which activations have kinks; float32 holds them exactly, so both sides of a comparison see the kink.
KINKS = np.array([-4.0, -3.0, -2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5, 3.0, 4.0, 6.0], np.float32)


def binary_cases() -> Iterator[Case]:
    shapes = {
        "same": ((2, 3, 4), (2, 3, 4)),
        "scalar": ((2, 3, 4), ()),
        "row": ((5, 7), (7,)),
        "channel": ((2, 3, 4, 5), (3, 1, 1)),
        "both": ((4, 1, 5), (1, 3, 1)),
        "left": ((6,), (4, 6)),
    }
    ops = {"add": ("Add", torch.add), "sub": ("Sub", torch.sub), "mul": ("Mul", torch.mul), "div": ("Div", torch.div),
           "max": ("Max", torch.maximum), "min": ("Min", torch.minimum)}  # fmt: skip
    for op, (onnx_op, function) in ops.items():
        for name, (left, right) in shapes.items():
            a = draw(f"{op}:{name}:a", *left)
            b = draw(f"{op}:{name}:b", *right)
            if op == "div":
                b = np.sign(b) * (np.abs(b) + np.float32(0.5))
            yield node_case(op, name, onnx_op, [a, b], function)
    x = draw("mul:twice", 3, 4)
    square = helper.make_node("Mul", ["in0", "in0"], ["out0"], "/mul")
    yield Case("mul", "twice", [x], lambda t: t * t, {"op": "Mul"}, onnx_model([x], [square], []), [0])
    base = draw("pow:tensor:a", 3, 4, low=0.2, high=3.0)
    yield node_case("pow", "tensor", "Pow", [base, draw("pow:tensor:b", 4)], torch.pow)
    whole = node_case("pow", "whole", "Pow", [base, np.array([3, -1, 2, 1], np.int64)], torch.pow, opset=15)
    yield replace(whole, differentiable=[0])
    for name, exponent in (("square", 2.0), ("cube", 3.0), ("inverse", -1.0)):
        x = draw(f"pow:{name}", 3, 5)
        constant = np.array(exponent, np.float32)
        yield node_case("pow", name, "Pow", [x], lambda t, e=exponent: t**e, [constant])
    x = draw("pow:root", 3, 5, low=0.1, high=4.0)
    yield node_case("pow", "root", "Pow", [x], lambda t: t**0.5, [np.array(0.5, np.float32)])


def unary_cases() -> Iterator[Case]:
    smooth = {
        "neg": ("Neg", torch.neg), "exp": ("Exp", torch.exp), "sigmoid": ("Sigmoid", torch.sigmoid),
        "tanh": ("Tanh", torch.tanh), "softplus": ("Softplus", F.softplus), "erf": ("Erf", torch.erf),
    }  # fmt: skip
    for op, (onnx_op, function) in smooth.items():
        yield node_case(op, "random", onnx_op, [draw(op, 3, 4, 5)], function)
        yield node_case(op, "odd", onnx_op, [draw(f"{op}:odd", 37) * np.float32(3)], function)
    positive = {"log": ("Log", torch.log), "sqrt": ("Sqrt", torch.sqrt), "reciprocal": ("Reciprocal", torch.reciprocal)}
    for op, (onnx_op, function) in positive.items():
        yield node_case(op, "random", onnx_op, [draw(op, 3, 4, 5, low=0.05, high=4.0)], function)
    # Far arguments, where a careless formula overflows or cancels.
    far = np.array([-100, -50, -30, -20, -10, 10, 20, 30, 50, 100], np.float32)
    for op in ("sigmoid", "tanh", "softplus", "erf"):
        onnx_op, function = smooth[op]
        # torch's softplus turns linear above 20 by default; the ONNX operator does not.
        exact = (lambda t: F.softplus(t, 1.0, 1000.0)) if op == "softplus" else function
        yield node_case(op, "far", onnx_op, [far], exact)


def activation_cases() -> Iterator[Case]:
    kinked = [
        ("relu", "Relu", F.relu, {}),
        ("abs", "Abs", torch.abs, {}),
        ("leaky_relu", "LeakyRelu", lambda t: F.leaky_relu(t, 0.125), {"alpha": 0.125}),
        ("thresholded_relu", "ThresholdedRelu", lambda t: F.threshold(t, 0.5, 0.0), {"alpha": 0.5}),
        ("elu", "Elu", lambda t: F.elu(t, 0.75), {"alpha": 0.75}),
        ("hard_swish", "HardSwish", F.hardswish, {}),
        ("hard_sigmoid", "HardSigmoid", lambda t: (t * 0.25 + 0.5).clamp(0.0, 1.0), {"alpha": 0.25, "beta": 0.5}),
    ]
    for op, onnx_op, function, attributes in kinked:
        yield node_case(op, "random", onnx_op, [draw(op, 2, 3, 4, 5) * np.float32(2)], function, **attributes)
        # At +-3 the slope of hardswish changed between PyTorch versions.
        points = KINKS[np.abs(KINKS) != 3] if op == "hard_swish" else KINKS
        yield node_case(op, "kinks", onnx_op, [points], function, **attributes)
    bounds = [np.array(0, np.float32), np.array(6, np.float32)]
    yield node_case("clip", "relu6", "Clip", [draw("clip", 3, 4, 5) * np.float32(5)], lambda t: t.clamp(0.0, 6.0), bounds)
    yield node_case("clip", "kinks", "Clip", [KINKS], lambda t: t.clamp(0.0, 6.0), bounds)
    yield node_case("clip", "low", "Clip", [draw("clip:low", 20)], lambda t: t.clamp(min=-0.25), [np.array(-0.25, np.float32)])
    yield gelu_case()


def gelu_case() -> Case:
    """x/2 * (1 + erf(x / sqrt 2)), the node chain into which exporters spell exact GELU."""
    x = draw("gelu", 4, 33)
    constants = [np.array(v, np.float32) for v in (math.sqrt(2.0), 1.0, 0.5)]
    nodes = [
        helper.make_node("Div", ["in0", "c0"], ["scaled"], "/act/Div"),
        helper.make_node("Erf", ["scaled"], ["erf"], "/act/Erf"),
        helper.make_node("Add", ["erf", "c1"], ["shifted"], "/act/Add"),
        helper.make_node("Mul", ["in0", "shifted"], ["product"], "/act/Mul"),
        helper.make_node("Mul", ["product", "c2"], ["out0"], "/act/Mul_1"),
    ]
    return Case("gelu", "erf", [x], F.gelu, {"op": "gelu"}, onnx_model([x], nodes, constants), [0])


def matmul_cases() -> Iterator[Case]:
    shapes = {"plain": ((5, 7), (7, 3)), "batched": ((2, 3, 4, 5), (2, 3, 5, 6)), "shared_right": ((4, 5, 6), (6, 3)),
              "broadcast": ((2, 1, 4, 3), (5, 3, 2)), "vector": ((4, 6), (6,))}  # fmt: skip
    for name, (left, right) in shapes.items():
        yield node_case("matmul", name, "MatMul", [draw(f"mm:{name}:a", *left), draw(f"mm:{name}:b", *right)], torch.matmul)
    for ta in (0, 1):
        for tb in (0, 1):
            a = draw(f"gemm:{ta}{tb}:a", *((6, 4) if ta else (4, 6)))
            b = draw(f"gemm:{ta}{tb}:b", *((5, 6) if tb else (6, 5)))
            c = draw(f"gemm:{ta}{tb}:c", 5)

            def gemm(x, y, z, ta=ta, tb=tb):
                return 0.5 * ((x.T if ta else x) @ (y.T if tb else y)) + 2.0 * z

            yield node_case("gemm", f"{'t' if ta else 'n'}{'t' if tb else 'n'}", "Gemm", [a, b, c], gemm,
                            alpha=0.5, beta=2.0, transA=ta, transB=tb)  # fmt: skip
    a, b = draw("gemm:nobias:a", 3, 8), draw("gemm:nobias:b", 4, 8)
    yield node_case("gemm", "no_bias", "Gemm", [a, b], lambda x, y: x @ y.T, transB=1)
    c = draw("gemm:full:c", 3, 4)
    yield node_case("gemm", "full_c", "Gemm", [a, b, c], lambda x, y, z: x @ y.T + z, transB=1)


def shape_cases() -> Iterator[Case]:
    def ints(*values: int) -> np.ndarray:
        return np.array(values, np.int64)

    x = draw("shape", 2, 3, 4, 5)
    yield node_case("reshape", "fold", "Reshape", [x], lambda t: t.reshape(2, 60), [ints(2, -1)])
    yield node_case("reshape", "zeros", "Reshape", [x], lambda t: t.reshape(2, 3, 20), [ints(0, 0, -1)])
    yield node_case("flatten", "axis1", "Flatten", [x], lambda t: t.reshape(2, 60), axis=1)
    yield node_case("flatten", "axis3", "Flatten", [x], lambda t: t.reshape(24, 5), axis=3)
    for name, perm in (("nhwc", (0, 2, 3, 1)), ("reverse", (3, 2, 1, 0)), ("last_two", (0, 1, 3, 2))):
        yield node_case("transpose", name, "Transpose", [x], lambda t, p=perm: t.permute(p), perm=list(perm))
    parts = [draw(f"concat:{i}", 2, c, 3, 3) for i, c in enumerate((1, 4, 2))]
    yield node_case("concat", "channels", "Concat", parts, lambda *t: torch.cat(t, 1), axis=1)
    rows = [draw(f"concat:rows{i}", n, 5) for i, n in enumerate((2, 3))]
    yield node_case("concat", "rows", "Concat", rows, lambda *t: torch.cat(t, 0), axis=0)
    last = [draw(f"concat:last{i}", 3, n) for i, n in enumerate((1, 2, 3))]
    yield node_case("concat", "last_axis", "Concat", last, lambda *t: torch.cat(t, -1), axis=-1)
    yield node_case("slice", "middle", "Slice", [x], lambda t: t[:, 1:3, :, 1:4], [ints(1, 1), ints(3, 4), ints(1, 3)])
    yield node_case("slice", "negative", "Slice", [x], lambda t: t[..., -3:-1], [ints(-3), ints(-1), ints(-1)])
    yield node_case("slice", "steps", "Slice", [x], lambda t: t[:, :, ::2, ::3], [ints(0, 0), ints(4, 5), ints(2, 3), ints(2, 3)])
    flat = draw("squeeze", 2, 1, 3, 1)
    yield node_case("squeeze", "axes", "Squeeze", [flat], lambda t: t.reshape(2, 3), [ints(1, 3)])
    yield node_case("unsqueeze", "axes", "Unsqueeze", [draw("unsqueeze", 2, 3)], lambda t: t.reshape(1, 2, 3, 1), [ints(0, 3)])
    pads = ints(0, 0, 1, 2, 0, 0, 3, 0)
    yield node_case("pad", "spatial", "Pad", [x], lambda t: F.pad(t, (2, 0, 1, 3)), [pads])
    yield node_case("expand", "rows", "Expand", [draw("expand", 3, 1)], lambda t: t.expand(2, 3, 4), [ints(2, 3, 4)])


def reduce_cases() -> Iterator[Case]:
    x = draw("reduce", 3, 4, 5)
    functions = {"ReduceSum": torch.sum, "ReduceMean": torch.mean, "ReduceMax": torch.amax}
    names = {"ReduceSum": "reduce_sum", "ReduceMean": "reduce_mean", "ReduceMax": "reduce_max"}
    for onnx_op, function in functions.items():
        for name, axes, keep in (("last", [2], 1), ("first", [0], 0), ("outer", [0, 2], 1), ("all", [0, 1, 2], 0)):
            constants = [np.array(axes, np.int64)] if onnx_op == "ReduceSum" else []
            attributes = {"keepdims": keep} | ({} if onnx_op == "ReduceSum" else {"axes": axes})
            yield node_case(names[onnx_op], name, onnx_op, [x], lambda t, f=function, a=axes, k=keep: f(t, a, bool(k)),
                            constants, **attributes)  # fmt: skip


def softmax_cases() -> Iterator[Case]:
    ops = {"softmax": ("Softmax", F.softmax), "log_softmax": ("LogSoftmax", F.log_softmax)}
    for op, (onnx_op, function) in ops.items():
        for name, shape, axis in (("rows", (5, 17), -1), ("channels", (2, 6, 3, 4), 1), ("first", (7, 3), 0)):
            x = draw(f"{op}:{name}", *shape)
            yield node_case(op, name, onnx_op, [x], lambda t, f=function, a=axis: f(t, a), axis=axis)
        # Rows whose exponentials overflow float32 unless the maximum is taken off first.
        yield node_case(op, "large", onnx_op, [draw(f"{op}:large", 4, 9) * np.float32(60)], lambda t, f=function: f(t, -1), axis=-1)


def cases() -> Iterator[Case]:
    for group in (binary_cases, unary_cases, activation_cases, matmul_cases, shape_cases, reduce_cases, softmax_cases):
        yield from group()
