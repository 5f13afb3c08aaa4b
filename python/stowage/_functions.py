"""Operators of PyTorch that the exporter would take apart into what computes or differentiates otherwise, translated whole.

Each is a function of the domain `stowage`, which the file defines in standard operators: any tool reads it. The compiler imports some by
name, with PyTorch's gradient (compiler/import/ConvertFunctions.cpp), and the others as their bodies, whose gradients are PyTorch's: a
quotient or a root is guarded by a Where, so that nothing infinite is multiplied by zero. docs/kinks.md has what they mean at their kinks.
"""

import functools
import itertools
import math
import operator
from typing import Any, Callable, Optional

DOMAIN = "stowage"
VERSION = 1

# In ONNX's own textual form (onnx.parser), one function per paragraph.
BODIES = """
HardTanh <low: float = -1.0, high: float = 1.0> (x) => (y) {
  low_value = Constant <value_float: float = @low> ()
  high_value = Constant <value_float: float = @high> ()
  low_like = CastLike (low_value, x)
  high_like = CastLike (high_value, x)
  y = Clip (x, low_like, high_like)
}

Expm1 (x) => (y) {
  one_value = Constant <value_float: float = 1.0> ()
  one = CastLike (one_value, x)
  power = Exp (x)
  y = Sub (power, one)
}

Log1p (x) => (y) {
  one_value = Constant <value_float: float = 1.0> ()
  one = CastLike (one_value, x)
  sum = Add (x, one)
  y = Log (sum)
}

LogSigmoid (x) => (y) {
  opposite = Neg (x)
  loss = Softplus (opposite)
  y = Neg (loss)
}

LogAddExp (a, b) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  zero = CastLike (zero_value, a)
  is_same = Equal (a, b)
  difference = Sub (a, b)
  gap = Where (is_same, zero, difference)
  distance = Abs (gap)
  opposite = Neg (distance)
  rest = Softplus (opposite)
  larger = Max (a, b)
  y = Add (larger, rest)
}

BinaryCrossEntropy (p, t) => (y) {
  one_value = Constant <value_float: float = 1.0> ()
  one = CastLike (one_value, p)
  least_value = Constant <value_float: float = -100.0> ()
  least = CastLike (least_value, p)
  q = Sub (one, p)
  log_p = Log (p)
  log_q = Log (q)
  bounded_p = Max (log_p, least)
  bounded_q = Max (log_q, least)
  s = Sub (t, one)
  of_q = Mul (s, bounded_q)
  of_p = Mul (t, bounded_p)
  y = Sub (of_q, of_p)
}

Sinc (x) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  one_value = Constant <value_float: float = 1.0> ()
  pi_value = Constant <value_float: float = 3.14159265> ()
  zero = CastLike (zero_value, x)
  one = CastLike (one_value, x)
  pi = CastLike (pi_value, x)
  is_zero = Equal (x, zero)
  other = Where (is_zero, one, x)
  angle = Mul (other, pi)
  sine = Sin (angle)
  quotient = Div (sine, angle)
  y = Where (is_zero, one, quotient)
}

Atan2 (a, b) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  pi_value = Constant <value_float: float = 3.14159265> ()
  zero = CastLike (zero_value, a)
  pi = CastLike (pi_value, a)
  ratio = Div (a, b)
  angle = Atan (ratio)
  is_left = Less (b, zero)
  is_lower = Less (a, zero)
  turned_up = Add (angle, pi)
  turned_down = Sub (angle, pi)
  turned = Where (is_lower, turned_down, turned_up)
  found = Where (is_left, turned, angle)
  is_nowhere = IsNaN (found)
  y = Where (is_nowhere, zero, found)
}

Remainder (a, b) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  zero = CastLike (zero_value, a)
  rest = Mod <fmod: int = 1> (a, b)
  is_none = Equal (rest, zero)
  is_some = Not (is_none)
  rest_below = Less (rest, zero)
  b_below = Less (b, zero)
  signs_differ = Xor (rest_below, b_below)
  is_short = And (is_some, signs_differ)
  raised = Add (rest, b)
  y = Where (is_short, raised, rest)
}

FloorDivide (a, b) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  half_value = Constant <value_float: float = 0.5> ()
  one_value = Constant <value_float: float = 1.0> ()
  zero = CastLike (zero_value, a)
  half = CastLike (half_value, a)
  one = CastLike (one_value, a)
  rest = stowage.Remainder (a, b)
  multiple = Sub (a, rest)
  whole = Div (multiple, b)
  below = Floor (whole)
  gap = Sub (whole, below)
  is_more = Greater (gap, half)
  next = Add (below, one)
  rounded = Where (is_more, next, below)
  quotient = Div (a, b)
  infinite = Floor (quotient)
  is_by_zero = Equal (b, zero)
  y = Where (is_by_zero, infinite, rounded)
}

StandardDeviation <axes: ints = [-1], keepdims: int = 0, correction: float = 1.0> (x) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  one_value = Constant <value_float: float = 1.0> ()
  zero = CastLike (zero_value, x)
  one = CastLike (one_value, x)
  dims = Constant <value_ints: ints = @axes> ()
  mean = ReduceMean <keepdims: int = 1> (x, dims)
  centred = Sub (x, mean)
  square = Mul (centred, centred)
  squares = ReduceSum <keepdims: int = @keepdims> (square, dims)
  shape = Shape (x)
  extents = Gather (shape, dims)
  count_value = ReduceProd <keepdims: int = 0> (extents)
  count = CastLike (count_value, x)
  correction_value = Constant <value_float: float = @correction> ()
  correction_like = CastLike (correction_value, x)
  difference = Sub (count, correction_like)
  freedom = Max (difference, zero)
  variance = Div (squares, freedom)
  is_zero = Equal (variance, zero)
  positive = Where (is_zero, one, variance)
  root = Sqrt (positive)
  y = Where (is_zero, zero, root)
}

Norm <axes: ints = [-1], keepdims: int = 0, p: float = 3.0> (x) => (y) {
  zero_value = Constant <value_float: float = 0.0> ()
  one_value = Constant <value_float: float = 1.0> ()
  p_value = Constant <value_float: float = @p> ()
  zero = CastLike (zero_value, x)
  one = CastLike (one_value, x)
  exponent = CastLike (p_value, x)
  inverse = Reciprocal (exponent)
  dims = Constant <value_ints: ints = @axes> ()
  size = Abs (x)
  is_nothing = Equal (size, zero)
  some = Where (is_nothing, one, size)
  some_power = Pow (some, exponent)
  power = Where (is_nothing, zero, some_power)
  sum = ReduceSum <keepdims: int = @keepdims> (power, dims)
  is_zero = Equal (sum, zero)
  positive = Where (is_zero, one, sum)
  root = Pow (positive, inverse)
  y = Where (is_zero, zero, root)
}
"""


@functools.cache
def _functions() -> "dict[str, Any]":
    """The functions by name, as onnx.FunctionProto."""
    import onnx.parser

    header = f'<domain: "{DOMAIN}", opset_import: ["": 18, "{DOMAIN}": {VERSION}]>\n'
    parsed = [onnx.parser.parse_function(header + text) for text in BODIES.strip().split("\n\n")]
    return {function.name: function for function in parsed}


@functools.cache
def _operator(name: str) -> Any:
    """The function as an operator that translations call. Its node has no body yet: the exporter puts a body in the place of every call."""
    from onnx.defs import OpSchema
    from onnxscript.values import Op, Opset

    function = _functions()[name]
    numbers = [f"tensor({element})" for element in ("float", "float16", "bfloat16", "double", "int8", "int16", "int32", "int64", "uint8")]
    schema = OpSchema(name, DOMAIN, VERSION,
                      inputs=[OpSchema.FormalParameter(value, "T") for value in function.input],
                      outputs=[OpSchema.FormalParameter(value, "T") for value in function.output],
                      type_constraints=[("T", numbers, "")],
                      attributes=[OpSchema.Attribute(default.name, default) for default in function.attribute_proto])  # fmt: skip
    return Op(Opset(DOMAIN, VERSION), name, schema)


def define(program: Any) -> None:
    """Gives the exported file the bodies of the functions that it calls, each behind those that it calls itself."""
    from onnx_ir import serde

    defined = program.model.functions

    def add(nodes: Any) -> None:
        for node in nodes:
            if node.domain == DOMAIN and node.op_identifier() not in defined:
                body = serde.deserialize_function(_functions()[node.op_type])
                add(body)
                defined[body.identifier()] = body

    add(program.model.graph.all_nodes())


def keep_bounds(program: Any) -> None:
    """A clamp by numbers as the hardtanh that it is: the exporter would make tensors of the numbers, and a clamp by tensors shares the
    gradient at its bounds."""
    import torch

    aten = torch.ops.aten
    for node in program.graph_module.graph.nodes:
        if node.target not in (aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default):
            continue
        value, named = node.meta.get("val"), dict(node.kwargs)
        first = "max" if node.target is aten.clamp_max.default else "min"
        named.update(zip((first, "max"), node.args[1:]))
        bounds = [named.get("min"), named.get("max")]
        if isinstance(value, torch.Tensor) and value.is_floating_point() and all(isinstance(b, (int, float, type(None))) for b in bounds):
            low, high = bounds
            node.target, node.kwargs = aten.hardtanh.default, {}
            node.args = (node.args[0], float("-inf") if low is None else low, float("inf") if high is None else high)


def _is_float(tensor: Any) -> bool:
    return tensor.dtype is None or tensor.dtype.is_floating_point()


def translations() -> "dict[Any, Callable[..., Any]]":
    """For torch.onnx.export's custom_translation_table."""
    import torch
    from onnxscript import opset18 as op

    aten = torch.ops.aten

    def like(value: Any, tensor: Any) -> Any:
        return op.CastLike(value, tensor)

    def function(name: str) -> "Callable[[Any], Any]":
        return lambda self: _operator(name)(self)

    def binary(name: str) -> "Callable[[Any, Any], Any]":
        return lambda self, other: _operator(name)(self, like(other, self))

    def hardtanh(self: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
        if min_val > max_val:
            return op.Min(op.Max(self, like(min_val, self)), like(max_val, self))
        return _operator("HardTanh")(self, low=float(min_val), high=float(max_val))

    def binary_cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
        losses = _operator("BinaryCrossEntropy")(self, target)
        if weight is not None:
            losses = op.Mul(losses, weight)
        if reduction == 0:
            return losses
        return (op.ReduceMean if reduction == 1 else op.ReduceSum)(losses, keepdims=0)

    def floor_divide(self: Any, other: Any) -> Any:
        other = like(other, self)
        return _operator("FloorDivide")(self, other) if _is_float(self) else op.Div(op.Sub(self, op.Mod(self, other)), other)

    def remainder(self: Any, other: Any) -> Any:
        other = like(other, self)
        return _operator("Remainder")(self, other) if _is_float(self) else op.Mod(self, other)

    def divide(self: Any, other: Any, rounding_mode: Optional[str] = None) -> Any:
        if rounding_mode == "floor":
            return floor_divide(self, other)
        quotient = op.Div(self, like(other, self))
        if rounding_mode is None or not _is_float(self):
            return quotient
        return op.Mul(op.Sign(quotient), op.Floor(op.Abs(quotient)))

    def axes_of(self: Any, dim: Any) -> "list[int]":
        dims = [dim] if isinstance(dim, int) else list(dim or [])
        return dims or list(range(len(self.shape)))

    def deviation(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
        freedom = 1.0 if correction is None else float(correction)
        return _operator("StandardDeviation")(self, axes=axes_of(self, dim), keepdims=int(keepdim), correction=freedom)

    def deviation_and_mean(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
        return deviation(self, dim, correction, keepdim), op.ReduceMean(self, axes_of(self, dim), keepdims=int(keepdim))

    def norm(self: Any, ord: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: int = -1) -> Any:
        x = self if dtype in (None, -1) else op.Cast(self, to=dtype)
        axes, keepdims, p = axes_of(self, dim), int(keepdim), float(ord)
        if len(self.shape) == 0:
            return op.Abs(x)
        if p == float("inf"):
            return op.ReduceMax(op.Abs(x), axes, keepdims=keepdims)
        if p == float("-inf"):
            return op.ReduceMin(op.Abs(x), axes, keepdims=keepdims)
        if p == 0:
            return op.ReduceSum(like(op.Not(op.Equal(x, like(0.0, x))), x), axes, keepdims=keepdims)
        if p in (1, 2):
            return (op.ReduceL1 if p == 1 else op.ReduceL2)(x, axes, keepdims=keepdims)
        return _operator("Norm")(x, axes=axes, keepdims=keepdims, p=p)

    def extreme(largest: int) -> "Callable[..., Any]":
        """max(dim) and min(dim) hand the gradient to the element they name: the first of equal ones."""

        def along(self: Any, dim: int, keepdim: bool = False) -> Any:
            if len(self.shape) == 0:
                return op.Identity(self), op.Constant(value_int=0)
            if not _is_float(self):
                reduce, find = (op.ReduceMax, op.ArgMax) if largest else (op.ReduceMin, op.ArgMin)
                return reduce(self, [dim], keepdims=int(keepdim)), find(self, axis=dim, keepdims=int(keepdim))
            values, indices = op.TopK(self, op.Constant(value_ints=[1]), axis=dim, largest=largest)
            return (values, indices) if keepdim else (op.Squeeze(values, [dim]), op.Squeeze(indices, [dim]))

        return along

    def adaptive_max_pool(dims: int) -> "Callable[..., Any]":
        """The gradient goes to the first of a window's equal elements. Windows of one size are MaxPool's."""

        def pool(self: Any, output_size: Any) -> Any:
            sizes = [int(extent) for extent in self.shape[-dims:]]
            cells = [int(cell) for cell in output_size]
            single = len(self.shape) == dims + 1
            x = op.Unsqueeze(self, [0]) if single else self
            if any(size % cell for size, cell in zip(sizes, cells)):
                values, indices = of_windows(x, sizes, cells)
            else:
                windows = [size // cell for size, cell in zip(sizes, cells)]
                values, indices = op.MaxPool(x, kernel_shape=windows, strides=windows)
                indices = op.Mod(indices, op.Constant(value_int=math.prod(sizes)))  # PyTorch counts within a plane
            return (op.Squeeze(values, [0]), op.Squeeze(indices, [0])) if single else (values, indices)

        def of_windows(x: Any, sizes: "list[int]", cells: "list[int]") -> Any:
            """Windows that differ in size and overlap, gathered: each ends with its last element again where others are larger."""
            strides = [math.prod(sizes[axis + 1 :]) for axis in range(dims)]
            edges = [[range(i * size // cell, -((-i - 1) * size // cell)) for i in range(cell)] for size, cell in zip(sizes, cells)]
            windows = [[sum(map(operator.mul, place, strides)) for place in itertools.product(*window)] for window in itertools.product(*edges)]
            width = max(len(window) for window in windows)
            table = op.Constant(value_ints=[place for window in windows for place in window + window[-1:] * (width - len(window))])
            grid = op.Reshape(table, op.Constant(value_ints=[len(windows), width]))
            flat = op.Reshape(x, op.Constant(value_ints=[0, 0, -1]))
            values, picked = op.TopK(op.Gather(flat, grid, axis=2), op.Constant(value_ints=[1]), axis=-1)
            begins = op.Constant(value_ints=[width * window for window in range(len(windows))])
            indices = op.Gather(table, op.Add(op.Squeeze(picked, [-1]), begins))
            shape = op.Constant(value_ints=[0, 0, *cells])
            return op.Reshape(values, shape), op.Reshape(indices, shape)

        return pool

    def uniform(shape: Any, *, low: float, high: float, dtype: Any = None, device: Any = None, stride: Any = None, generator: Any = None) -> Any:
        """Drawn anew in every step, as Tensor.uniform_ and rand_like draw."""
        if all(isinstance(extent, int) for extent in shape):
            return op.RandomUniform(shape=list(shape), low=float(low), high=float(high))
        extents = [op.Constant(value_ints=[extent]) if isinstance(extent, int) else op.Reshape(extent, op.Constant(value_ints=[1])) for extent in shape]
        return op.RandomUniformLike(op.ConstantOfShape(op.Concat(*extents, axis=0)), low=float(low), high=float(high), dtype=1)

    table: "dict[str, Callable[..., Any]]" = {
        "hardtanh": hardtanh, "relu6": lambda self: hardtanh(self, 0.0, 6.0),
        "expm1": function("Expm1"), "special_expm1": function("Expm1"),
        "log1p": function("Log1p"), "special_log1p": function("Log1p"),
        "log_sigmoid": function("LogSigmoid"), "sinc": function("Sinc"), "special_sinc": function("Sinc"),
        "logaddexp": binary("LogAddExp"), "atan2": binary("Atan2"),
        "binary_cross_entropy": binary_cross_entropy,
        "floor_divide": floor_divide, "floor_divide.Scalar": floor_divide,
        "remainder.Tensor": remainder, "remainder.Scalar": remainder,
        "div.Tensor_mode": divide, "div.Scalar_mode": divide,
        "std.correction": deviation, "std_mean.correction": deviation_and_mean,
        "linalg_vector_norm": norm,
        "max.dim": extreme(1), "min.dim": extreme(0),
        "adaptive_max_pool2d": adaptive_max_pool(2), "adaptive_max_pool3d": adaptive_max_pool(3),
    }  # fmt: skip
    found = {}
    for name, translation in table.items():
        packet, _, overload = name.partition(".")
        target = getattr(getattr(aten, packet, None), overload or "default", None)
        if target is not None:  # of this PyTorch
            found[target] = translation
    found[torch.ops.prims.uniform.default] = uniform
    return found
