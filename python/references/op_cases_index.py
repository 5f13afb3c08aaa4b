"""References of reading and writing by index, steps, order, running sums, comparisons and products named by letters."""

from typing import Any, Callable, Iterator

import numpy as np
import torch
from onnx import helper
from op_case import Case, draw, node_case, onnx_model
from torch import Tensor


def indexed(op: str, name: str, onnx_op: str, inputs: list[np.ndarray], function: Callable[..., Any], opset: int = 16,
            **attributes: Any) -> Case:  # fmt: skip
    """A case whose integer and boolean inputs are data without a gradient."""
    case = node_case(op, name, onnx_op, inputs, function, opset=opset, **attributes)
    floats = [i for i, array in enumerate(inputs) if array.dtype == np.float32]
    return Case(case.op, name, case.inputs, function, case.attrs, case.model, floats)


def along_cases() -> Iterator[Case]:
    x = draw("take", 4, 6, 5)
    picks = np.array([[0, 5, 5], [2, -1, 3]], np.int64)
    yield indexed("take_along", "gather", "Gather", [x, picks], lambda t, i: t[:, i % 6], axis=1)
    many = np.concatenate([np.arange(0, 6, 2), np.arange(6)[::-1], np.array([3, 0] * 35)])
    yield node_case("take_along", "constant", "Gather", [x], lambda t: t[:, torch.from_numpy(many)], [many], axis=1)
    own = np.array([[[1, 0, 5, 2, 2]], [[3, 3, 4, 0, 5]], [[0, 1, 2, 3, 4]], [[5, 5, 5, 5, 0]]], np.int64)
    yield indexed("take_along", "elements", "GatherElements", [x, own], lambda t, i: torch.gather(t, 1, i), axis=1)
    few = np.array([[[3, 0]], [[-1, 5]]], np.int64)
    yield indexed("take_along", "fewer", "GatherElements", [x, few],
                  lambda t, i: torch.gather(t[:2, :, :2], 1, i % 6), axis=1)  # fmt: skip
    pairs = np.array([[0, 5], [3, -1], [3, 5]], np.int64)
    yield indexed("take_along", "pairs", "GatherND", [x, pairs], lambda t, i: t[i[:, 0], i[:, 1]])
    yield node_case("take_along", "pairs_constant", "GatherND", [x], lambda t: t[pairs[:, 0], pairs[:, 1]], [pairs], opset=16)
    batched = np.array([[[1], [0]], [[5], [5]], [[2], [-2]], [[0], [0]]], np.int64)
    yield indexed("take_along", "batched", "GatherND", [x, batched],
                  lambda t, i: torch.stack([t[b][i[b, :, 0]] for b in range(4)]), batch_dims=1)  # fmt: skip


def scatter_cases() -> Iterator[Case]:
    x, updates = draw("scatter", 4, 5), draw("scatter:u", 3, 5)
    distinct = np.array([[0, 1, 2, 3, 0], [3, 2, 1, 0, 1], [1, 3, 0, 2, 2]], np.int64)
    repeated = np.array([[0, 0, 0, 3, 0], [3, 0, 1, 3, 1], [1, 3, 0, 3, 1]], np.int64)
    yield indexed("scatter_along", "elements", "ScatterElements", [x, distinct, updates],
                  lambda t, i, u: t.scatter(0, i, u), axis=0)  # fmt: skip
    yield indexed("scatter_along", "sums", "ScatterElements", [x, repeated, updates],
                  lambda t, i, u: t.scatter_add(0, i, u), axis=0, reduction="add")  # fmt: skip
    yield node_case("scatter_along", "elements_constant", "ScatterElements", [x, updates],
                    lambda t, u: t.scatter(0, torch.from_numpy(distinct), u), [distinct], ["in0", "c0", "in1"], 16, axis=0)
    fewer = distinct[:2, :3].copy()
    part = draw("scatter:p", 2, 3)
    yield node_case("scatter_along", "part_constant", "ScatterElements", [x, part],
                    lambda t, u: t.scatter(0, torch.from_numpy(fewer), u), [fewer], ["in0", "c0", "in1"], 16, axis=0)
    yield indexed("scatter_along", "part", "ScatterElements", [x, fewer, part], lambda t, i, u: t.scatter(0, i, u), axis=0)
    rows = np.array([[3], [-4]], np.int64)
    lines = draw("scatter:l", 2, 5)
    put = torch.from_numpy(rows[:, 0] % 4)
    yield node_case("scatter_along", "rows_constant", "ScatterND", [x, lines], lambda t, u: t.index_put((put,), u), [rows],
                    ["in0", "c0", "in1"], 16)  # fmt: skip
    yield indexed("scatter_along", "rows", "ScatterND", [x, rows, lines], lambda t, i, u: t.index_put((i[:, 0] % 4,), u))
    pairs = np.array([[0, 4], [2, 2], [3, 0]], np.int64)
    points = draw("scatter:q", 3)
    yield indexed("scatter_along", "points", "ScatterND", [x, pairs, points],
                  lambda t, i, u: t.index_put((i[:, 0], i[:, 1]), u, accumulate=True), reduction="add")  # fmt: skip


def step_cases() -> Iterator[Case]:
    x = draw("steps", 3, 8, 7)

    def bounds(*values: list[int]) -> list[np.ndarray]:
        return [np.array(v, np.int64) for v in values]

    yield node_case("strided_slice", "forwards", "Slice", [x], lambda t: t[:, 1::2, ::3],
                    bounds([1, 0], [8, 7], [1, 2], [2, 3]))  # fmt: skip
    yield node_case("strided_slice", "backwards", "Slice", [x], lambda t: t.flip(1)[:, 1::3],
                    bounds([-2], [-99], [1], [-3]))  # fmt: skip
    yield node_case("strided_slice", "flip", "Slice", [x], lambda t: t.flip(2), bounds([-1], [-99], [2], [-1]))


def order_cases() -> Iterator[Case]:
    x = draw("order", 3, 6, 4)
    for largest in (0, 1):
        node = helper.make_node("TopK", ["in0", "c0"], ["out0", "places"], "/top_k", axis=1, largest=largest)
        yield Case("top_k", "largest" if largest else "smallest", [x],
                   lambda t, flag=largest: torch.topk(t, 2, 1, bool(flag))[0], {"op": "TopK", "largest": largest},
                   onnx_model([x], [node], [np.array([2], np.int64)]), [0])  # fmt: skip
    for exclusive in (0, 1):
        for reverse in (0, 1):
            def sums(t: Tensor, exclusive: int = exclusive, reverse: int = reverse) -> Tensor:
                t = t.flip(1) if reverse else t
                total = t.cumsum(1)
                total = total - t if exclusive else total
                return total.flip(1) if reverse else total

            yield node_case("cumsum", f"{exclusive}{reverse}", "CumSum", [x], sums, [np.array(1, np.int64)],
                            exclusive=exclusive, reverse=reverse)  # fmt: skip
    yield node_case("reduce_log", "sum_exp", "ReduceLogSumExp", [x * np.float32(30)], lambda t: t.logsumexp(1), axes=[1],
                    keepdims=0)  # fmt: skip
    yield node_case("reduce_prod", "inner", "ReduceProd", [x], lambda t: t.prod(1), axes=[1], keepdims=0)
    yield node_case("tile", "all", "Tile", [x], lambda t: t.repeat(2, 1, 3), [np.array([2, 1, 3], np.int64)])
    yield node_case("trilu", "lower", "Trilu", [x], lambda t: t.tril(-1), [np.array(-1, np.int64)], upper=0)
    yield node_case("trilu", "upper", "Trilu", [x], lambda t: t.triu(2), [np.array(2, np.int64)], upper=1)


def letter_cases() -> Iterator[Case]:
    for name, equation, shapes in (
        ("product", "ij,jk->ik", [(3, 4), (4, 5)]),
        ("heads", "bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("mixed", "bnd,hde->bhne", [(2, 4, 5), (3, 5, 6)]),
        ("outer", "i,j->ji", [(3,), (4,)]),
        ("sums", "ijk,jl->l", [(2, 3, 4), (3, 5)]),
        ("dots", "...ij,jk->...ik", [(2, 3, 4, 5), (5, 6)]),
        ("three", "bi,ij,bj->b", [(4, 3), (3, 5), (4, 5)]),
        ("transposed", "ijk->kij", [(2, 3, 4)]),
        ("dot", "i,i", [(7,), (7,)]),
    ):
        inputs = [draw(f"einsum:{name}:{i}", *shape) for i, shape in enumerate(shapes)]
        yield node_case("einsum", name, "Einsum", inputs, lambda *t, e=equation: torch.einsum(e, *t), equation=equation)


def angle_cases() -> Iterator[Case]:
    x = draw("angles", 5, 7) * np.float32(20)
    yield node_case("sin", "far", "Sin", [x], torch.sin)
    yield node_case("cos", "far", "Cos", [x], torch.cos)
    yield node_case("atan", "random", "Atan", [x], torch.atan)
    near = draw("angles:near", 5, 7, low=-0.9, high=0.9)
    for onnx_op, function in (("Tan", torch.tan), ("Asin", torch.asin), ("Acos", torch.acos), ("Sinh", torch.sinh),
                              ("Cosh", torch.cosh), ("Asinh", torch.asinh), ("Atanh", torch.atanh)):  # fmt: skip
        yield node_case(onnx_op.lower(), "random", onnx_op, [near], function)
    yield node_case("acosh", "random", "Acosh", [np.abs(near) + np.float32(1.2)], torch.acosh)
    a, b = draw("mod:a", 4, 6) * np.float32(5), draw("mod:b", 6, low=0.5, high=2.0)
    yield node_case("mod", "truncated", "Mod", [a, b], torch.fmod, fmod=1)


def index_cases() -> Iterator[Case]:
    for cases in (along_cases, scatter_cases, step_cases, order_cases, letter_cases, angle_cases):
        yield from cases()
