"""The operators of random networks: for each, how it is drawn, the ONNX nodes, and what they mean in PyTorch.

A value has the shape of one sample: features (F,), a sequence (T, F) or an image (C, H, W). `draws` has a function for each kind;
it takes a Builder and a value and gives a new value, or None where that value does not suit.
"""

import random
from typing import Callable, Optional, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from graph import Graph, Input, Step

LIMIT = 8.0  # of the elements of a value; what is larger is scaled down
Draw = Callable[["Builder", str], Optional[str]]
draws: dict[str, Draw] = {}


def kind(name: str) -> Callable[[Draw], Draw]:
    def add(draw: Draw) -> Draw:
        draws[name] = draw
        return draw

    return add


class Builder:
    """Grows a graph; every value is computed at once on a few samples, so that none gets too large or is not finite."""

    def __init__(self, seed: int) -> None:
        self.rng, self.arrays = random.Random(seed), np.random.default_rng(seed)
        self.graph, self.count = Graph(), 0
        # Every operand and result, in double, on two samples; an operand that is left out has no name.
        self.samples: dict[str, Optional[Tensor]] = {"": None}
        self.floats: list[str] = []  # what an operator may be applied to

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def shape(self, value: str) -> tuple[int, ...]:
        return tuple(self.samples[value].shape[1:])

    def input(self, shape: tuple[int, ...], classes: int = 0) -> str:
        name = self.name("in")
        self.graph.inputs[name] = Input(shape, classes)
        array = self.arrays.integers(0, classes, (2, *shape)) if classes else self.arrays.standard_normal((2, *shape))
        self.samples[name] = torch.from_numpy(array)
        if not classes:
            self.floats.append(name)
        return name

    def parameter(self, *shape: int, scale: Optional[float] = None, around: float = 0.0) -> str:
        name = self.name("m.w")
        scale = scale or 1.0 / float(np.sqrt(max(1, np.prod(shape[1:]))))
        array = (around + scale * self.arrays.standard_normal(shape)).astype(np.float32)
        self.graph.parameters[name] = array
        self.samples[name] = torch.from_numpy(array).double()
        return name

    def statistic(self, array: np.ndarray) -> str:
        name = self.name("m.running")
        self.graph.statistics[name] = array
        self.samples[name] = torch.from_numpy(array.copy()).double()
        return name

    def constant(self, array: object) -> str:
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = self.name("c")
        self.graph.constants[name] = array
        tensor = torch.from_numpy(np.array(array))
        self.samples[name] = tensor.double() if tensor.is_floating_point() else tensor
        return name

    def apply(self, op: str, function: Callable, *operands: str, results: int = 1, named: str = "", **attributes: object) -> str:
        """A node; its (first) result."""
        names = (named,) if named else tuple(self.name("v") for _ in range(results))
        self.graph.steps.append(Step(op, operands, names, attributes, function))
        found = function(*(self.samples[name] for name in operands))
        for name, tensor in zip(names, found if isinstance(found, (tuple, list)) else [found]):
            self.samples[name] = tensor.detach()
            self.graph.shapes[name] = tuple(tensor.shape[1:])
            if not tensor.is_floating_point():
                self.graph.whole.add(name)
        return names[0]

    def grow(self, kinds: Sequence[str]) -> None:
        """One more operator on a value, the last ones rather than the first, its result kept within limits."""
        recent = self.floats[-4:] if self.rng.random() < 0.7 else self.floats
        value, steps, count = self.rng.choice(recent), len(self.graph.steps), len(self.floats)
        result = draws[self.rng.choice(kinds)](self, value)
        tensor = self.samples[result] if result else torch.full((), torch.nan)
        if not torch.isfinite(tensor).all() or tensor.numel() > 2 * 600:
            del self.graph.steps[steps:], self.floats[count:]
            self.graph = self.graph_without_orphans()
            return
        largest = float(tensor.abs().max()) if tensor.numel() else 0.0
        if largest > LIMIT:
            result = self.apply("Mul", torch.mul, result, self.constant(np.float32(LIMIT / (2 * largest))))
        self.floats.append(result)

    def graph_without_orphans(self) -> Graph:
        """Without the parameters and constants of nodes that were taken back; inputs stay."""
        graph, read = self.graph, {name for step in self.graph.steps for name in step.operands}
        for table in (graph.parameters, graph.statistics, graph.constants):
            for name in [name for name in table if name not in read]:
                del table[name]
        return graph

    def like(self, value: str) -> str:
        """Another value of the same shape: one that there is, or one made of the first that is not."""
        same = [other for other in self.floats if self.shape(other) == self.shape(value) and other != value]
        return self.rng.choice(same) if same else self.apply("Tanh", torch.tanh, value)

    def positive(self, value: str) -> str:
        """Its square and a half."""
        return self.apply("Add", torch.add, self.apply("Mul", torch.mul, value, value), self.constant(np.float32(0.5)))

    def bounded(self, value: str) -> str:
        return self.apply("Tanh", torch.tanh, value)


def unary(op: str, function: Callable, guard: str = "", **attributes: object) -> None:
    """An elementwise operator, its operand made positive or bounded where its domain asks for that."""

    def draw(b: Builder, x: str) -> str:
        return b.apply(op, function, getattr(b, guard)(x) if guard else x, **attributes)

    draws[op + "".join(sorted(map(str, attributes.values())))] = draw


for op, function in {
    "Relu": F.relu, "Selu": F.selu, "Sigmoid": torch.sigmoid, "HardSwish": F.hardswish, "Tanh": torch.tanh, "Softplus": F.softplus,
    "Softsign": F.softsign, "Erf": torch.erf, "Mish": F.mish, "Neg": torch.neg, "Abs": torch.abs, "Sin": torch.sin, "Cos": torch.cos,
    "Atan": torch.atan, "Asinh": torch.asinh, "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round, "Sign": torch.sign,
    "Identity": lambda x: x,
}.items():  # fmt: skip
    unary(op, function)
for op, function in {"Exp": torch.exp, "Sinh": torch.sinh, "Cosh": torch.cosh, "Tan": torch.tan}.items():
    unary(op, function, "bounded")
for op, function in {"Log": torch.log, "Sqrt": torch.sqrt, "Reciprocal": torch.reciprocal}.items():
    unary(op, function, "positive")
unary("LeakyRelu", lambda x: F.leaky_relu(x, 0.2), alpha=0.2)
unary("Elu", lambda x: F.elu(x, 0.7), alpha=0.7)
unary("Celu", lambda x: F.celu(x, 1.3), alpha=1.3)
unary("ThresholdedRelu", lambda x: F.threshold(x, 0.3, 0.0), alpha=0.3)
unary("HardSigmoid", lambda x: (x * 0.3 + 0.4).clamp(0, 1), alpha=0.3, beta=0.4)
unary("Gelu", F.gelu)
unary("Gelu", lambda x: F.gelu(x, approximate="tanh"), approximate="tanh")
unary("Shrink", lambda x: torch.where(x < -0.2, x + 0.1, torch.where(x > 0.2, x - 0.1, torch.zeros_like(x))), bias=0.1, lambd=0.2)

for op, function in {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Max": torch.maximum, "Min": torch.minimum}.items():
    draws[op] = lambda b, x, op=op, function=function: b.apply(op, function, x, b.like(x))


@kind("Div")
def div(b: Builder, x: str) -> str:
    return b.apply("Div", torch.div, x, b.positive(b.like(x)))


@kind("Mod")
def mod(b: Builder, x: str) -> str:
    return b.apply("Mod", torch.fmod, x, b.positive(b.like(x)), fmod=1)


@kind("Pow")
def power(b: Builder, x: str) -> str:
    if b.rng.random() < 0.5:
        return b.apply("Pow", torch.pow, x, b.constant(np.float32(b.rng.choice([2, 3]))))
    return b.apply("Pow", torch.pow, b.positive(x), b.bounded(b.like(x)))


@kind("Sum")
def total(b: Builder, x: str) -> str:
    return b.apply("Sum", lambda p, q, r: p + q + r, x, b.like(x), b.like(x))


@kind("Mean")
def mean(b: Builder, x: str) -> str:
    return b.apply("Mean", lambda p, q: (p + q) / 2, x, b.like(x))


@kind("bias")
def bias(b: Builder, x: str) -> str:
    return b.apply("Add", torch.add, x, b.parameter(b.shape(x)[-1], scale=0.3))


@kind("scale per channel")
def scale(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3:
        return None
    return b.apply("Mul", torch.mul, x, b.parameter(b.shape(x)[0], 1, 1, scale=0.3, around=1.0))


@kind("Where")
def where(b: Builder, x: str) -> str:
    y = b.like(x)
    op, function = b.rng.choice([("Greater", torch.gt), ("Less", torch.lt), ("LessOrEqual", torch.le), ("GreaterOrEqual", torch.ge)])
    condition = b.apply(op, function, x, b.constant(np.float32(0.1)))
    if b.rng.random() < 0.5:
        condition = b.apply("Not", torch.logical_not, condition)
    if b.rng.random() < 0.5:
        other = b.apply("Greater", torch.gt, y, b.constant(np.float32(-0.2)))
        op, function = b.rng.choice([("And", torch.logical_and), ("Or", torch.logical_or), ("Xor", torch.logical_xor)])
        condition = b.apply(op, function, condition, other)
    return b.apply("Where", torch.where, condition, x, y)


@kind("Clip")
def clip(b: Builder, x: str) -> str:
    low, high = b.constant(np.float32(-0.7)), b.constant(np.float32(0.9))
    return b.apply("Clip", torch.clamp, x, low, high)


@kind("PRelu")
def prelu(b: Builder, x: str) -> str:
    shape = b.shape(x)
    slope = b.parameter(*([shape[0]] + [1] * (len(shape) - 1) if len(shape) == 3 else [shape[-1]]), scale=0.1, around=0.25)
    return b.apply("PRelu", lambda v, s: torch.where(v < 0, v * s, v), x, slope)


@kind("Cast")
def cast(b: Builder, x: str) -> str:
    mask = b.apply("Greater", torch.gt, x, b.constant(np.float32(0)))
    return b.apply("Mul", torch.mul, b.like(x), b.apply("Cast", lambda m: m.to(torch.get_default_dtype()), mask, to=1))


REDUCTIONS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "ReduceMean": lambda x, axis: x.mean(axis, True), "ReduceSum": lambda x, axis: x.sum(axis, True),
    "ReduceMax": lambda x, axis: x.amax(axis, True), "ReduceMin": lambda x, axis: x.amin(axis, True),
    "ReduceL1": lambda x, axis: x.abs().sum(axis, True), "ReduceSumSquare": lambda x, axis: x.square().sum(axis, True),
    "ReduceProd": lambda x, axis: x.prod(axis, True), "ReduceLogSumExp": lambda x, axis: x.logsumexp(axis, True),
    "ReduceL2": lambda x, axis: torch.linalg.vector_norm(x, 2, axis, True),
}  # fmt: skip


def reduction(op: str, function: Callable[[Tensor, int], Tensor]) -> None:
    def draw(b: Builder, x: str) -> Optional[str]:
        if len(b.shape(x)) < 2:
            return None
        axis = b.rng.randint(1, len(b.shape(x)))
        reduced = b.apply(op, lambda v, _: function(v, axis), x, b.constant(np.array([axis])), keepdims=1)
        return b.apply("Sub", torch.sub, x, reduced) if b.rng.random() < 0.6 else reduced

    draws[op] = draw


for op, function in REDUCTIONS.items():
    reduction(op, function)
for op, function in {"Softmax": F.softmax, "LogSoftmax": F.log_softmax}.items():
    draws[op] = lambda b, x, op=op, function=function: b.apply(op, lambda v: function(v, -1), x, axis=-1)


@kind("CumSum")
def cumsum(b: Builder, x: str) -> str:
    axis = b.rng.randint(1, len(b.shape(x)))
    return b.apply("CumSum", lambda v, _: v.cumsum(axis), x, b.constant(np.array(axis)))


@kind("TopK")
def topk(b: Builder, x: str) -> Optional[str]:
    """Of elements that differ: which of equal ones comes first is open in PyTorch."""
    width = b.shape(x)[-1]
    if width < 3:
        return None
    x = b.apply("Add", torch.add, x, b.constant(0.013 * np.arange(width)))
    return b.apply("TopK", lambda v, _: tuple(v.topk(2, -1)), x, b.constant(np.array([2])), results=2, axis=-1)


@kind("LayerNormalization")
def layer_norm(b: Builder, x: str) -> str:
    width = b.shape(x)[-1]
    weight, shift = b.parameter(width, scale=0.2, around=1.0), b.parameter(width, scale=0.2)
    return b.apply("LayerNormalization", lambda v, w, s: F.layer_norm(v, (width,), w, s, 1e-3), x, weight, shift, axis=-1, epsilon=1e-3)


@kind("RMSNormalization")
def rms_norm(b: Builder, x: str) -> str:
    weight = b.parameter(b.shape(x)[-1], scale=0.2, around=1.0)
    return b.apply("RMSNormalization", lambda v, w: v * (v.square().mean(-1, True) + 1e-3).rsqrt() * w, x, weight, axis=-1, epsilon=1e-3)


@kind("BatchNormalization")
def batch_norm(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3:
        return None
    channels = b.shape(x)[0]
    operands = (b.parameter(channels, scale=0.2, around=1.0), b.parameter(channels, scale=0.2),
                b.statistic(np.zeros(channels, np.float32)), b.statistic(np.ones(channels, np.float32)))  # fmt: skip
    saved = [b.samples[name].clone() for name in operands[2:]]
    result = b.apply("BatchNormalization", lambda v, w, s, m, var: F.batch_norm(v, m, var, w, s, True, 0.1, 1e-3), x, *operands,
                     momentum=0.9, epsilon=1e-3)  # fmt: skip
    b.samples.update(zip(operands[2:], saved))
    return result


@kind("InstanceNormalization")
def instance_norm(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or np.prod(b.shape(x)[1:]) < 4:
        return None
    channels = b.shape(x)[0]
    return b.apply("InstanceNormalization", lambda v, w, s: F.instance_norm(v, weight=w, bias=s, eps=1e-2), x,
                   b.parameter(channels, scale=0.2, around=1.0), b.parameter(channels, scale=0.2), epsilon=1e-2)  # fmt: skip


@kind("GroupNormalization")
def group_norm(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or b.shape(x)[0] % 2 or np.prod(b.shape(x)[1:]) < 4:
        return None
    channels = b.shape(x)[0]
    return b.apply("GroupNormalization", lambda v, w, s: F.group_norm(v, 2, w, s, 1e-2), x,
                   b.parameter(channels, scale=0.2, around=1.0), b.parameter(channels, scale=0.2), num_groups=2, epsilon=1e-2)  # fmt: skip


@kind("MatMul")
def matmul(b: Builder, x: str) -> str:
    return b.apply("MatMul", torch.matmul, x, b.parameter(b.shape(x)[-1], b.rng.choice([3, 4, 8]), scale=0.5))


@kind("Gemm")
def gemm(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 1:
        return None
    width, out = b.shape(x)[0], b.rng.choice([4, 8, 16])
    return b.apply("Gemm", lambda v, w, s: F.linear(v, w, s), x, b.parameter(out, width), b.parameter(out, scale=0.3), transB=1)


@kind("Einsum")
def einsum(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 2:
        return None
    text = b.rng.choice(["btf,fo->bto", "btf,of->bto", "btf,fo->bot"])
    shape = (b.shape(x)[1], 4) if ",fo" in text else (4, b.shape(x)[1])
    return b.apply("Einsum", lambda v, w: torch.einsum(text, v, w), x, b.parameter(*shape, scale=0.5), equation=text)


@kind("attention")
def attention(b: Builder, x: str) -> Optional[str]:
    """One head of self-attention, written as exporters write it."""
    if len(b.shape(x)) != 2:
        return None
    width = b.shape(x)[1]
    query, keys, values = (b.apply("MatMul", torch.matmul, x, b.parameter(width, 4, scale=0.5)) for _ in range(3))
    turned = b.apply("Transpose", lambda v: v.transpose(1, 2), keys, perm=[0, 2, 1])
    scores = b.apply("Mul", torch.mul, b.apply("MatMul", torch.matmul, query, turned), b.constant(np.float32(0.5)))
    if b.rng.random() < 0.5:
        mask = np.triu(np.full((b.shape(x)[0],) * 2, -np.inf, np.float32), 1)
        scores = b.apply("Add", torch.add, scores, b.constant(mask))
    return b.apply("MatMul", torch.matmul, b.apply("Softmax", lambda v: v.softmax(-1), scores, axis=-1), values)


@kind("Conv")
def conv(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or min(b.shape(x)[1:]) < 3:
        return None
    channels, out, size = b.shape(x)[0], b.rng.choice([2, 4, 8]), b.rng.choice([1, 3])
    groups = b.rng.choice([g for g in (1, 2, channels) if channels % g == 0 and out % g == 0])
    stride, pad = b.rng.choice([1, 1, 2]), b.rng.choice([0, size // 2])
    operands = [x, b.parameter(out, channels // groups, size, size)] + ([b.parameter(out, scale=0.2)] if b.rng.random() < 0.6 else [])
    return b.apply("Conv", lambda v, w, s=None: F.conv2d(v, w, s, stride, pad, 1, groups), *operands, kernel_shape=[size, size],
                   strides=[stride] * 2, pads=[pad] * 4, group=groups)  # fmt: skip


@kind("ConvTranspose")
def conv_transpose(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or max(b.shape(x)[1:]) > 6:
        return None
    weight = b.parameter(b.shape(x)[0], 3, 2, 2, scale=0.4)
    return b.apply("ConvTranspose", lambda v, w: F.conv_transpose2d(v, w, None, 2), x, weight, kernel_shape=[2, 2], strides=[2, 2])


@kind("MaxPool")
def max_pool(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or min(b.shape(x)[1:]) < 3:
        return None
    size, stride = b.rng.choice([(2, 2), (3, 2), (3, 1)])
    return b.apply("MaxPool", lambda v: F.max_pool2d(v, size, stride), x, kernel_shape=[size] * 2, strides=[stride] * 2)


@kind("AveragePool")
def average_pool(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or min(b.shape(x)[1:]) < 3:
        return None
    return b.apply("AveragePool", lambda v: F.avg_pool2d(v, 3, 2, 1), x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4,
                   count_include_pad=1)  # fmt: skip


for op, function in {"GlobalAveragePool": lambda v: v.mean((2, 3), True), "GlobalMaxPool": lambda v: v.amax((2, 3), True)}.items():
    draws[op] = lambda b, x, op=op, function=function: b.apply(op, function, x) if len(b.shape(x)) == 3 else None


@kind("Transpose")
def transpose(b: Builder, x: str) -> Optional[str]:
    rank = len(b.shape(x))
    if rank < 2:
        return None
    order = [0, *b.rng.sample(range(1, rank + 1), rank)]
    return b.apply("Transpose", lambda v: v.permute(order), x, perm=order)


@kind("Flatten")
def flatten(b: Builder, x: str) -> str:
    return b.apply("Flatten", lambda v: v.flatten(1), x, axis=1)


@kind("Reshape")
def reshape(b: Builder, x: str) -> Optional[str]:
    count = int(np.prod(b.shape(x)))
    shapes = [shape for shape in ((2, count // 2), (count // 4, 2, 2), (2, 3, count // 6)) if int(np.prod(shape)) == count and count > 6]
    if not shapes:
        return None
    shape = b.rng.choice(shapes)
    return b.apply("Reshape", lambda v, _: v.reshape(v.shape[0], *shape), x, b.constant(np.array([0, *shape])))


@kind("Concat")
def concat(b: Builder, x: str) -> str:
    axis = b.rng.randint(1, len(b.shape(x)))
    return b.apply("Concat", lambda *v: torch.cat(v, axis), x, b.like(x), axis=axis)


@kind("Split")
def split(b: Builder, x: str) -> Optional[str]:
    axis = b.rng.randint(1, len(b.shape(x)))
    extent = b.shape(x)[axis - 1]
    if extent < 2:
        return None
    first = b.rng.randint(1, extent - 1)
    parts = [first, extent - first]
    result = b.apply("Split", lambda v, _: tuple(v.split(parts, axis)), x, b.constant(np.array(parts)), results=2, axis=axis)
    b.floats.append(b.graph.steps[-1].results[1])
    return result


@kind("Slice")
def slice_of(b: Builder, x: str) -> Optional[str]:
    axis = b.rng.randint(1, len(b.shape(x)))
    extent = b.shape(x)[axis - 1]
    step = b.rng.choice([1, 2, -1])
    start, end = (extent - 1, -extent - 1) if step < 0 else (extent // 3, extent)
    picks = torch.tensor(list(range(extent))[slice(start, end, step)])
    return b.apply("Slice", lambda v, *_: v.index_select(axis, picks), x, *(b.constant(np.array([n])) for n in (start, end, axis, step)))


@kind("Pad")
def pad(b: Builder, x: str) -> Optional[str]:
    shape, mode = b.shape(x), b.rng.choice(["constant", "reflect", "edge"])
    if len(shape) != 3 or min(shape) < 3:
        return None
    pads = b.constant(np.array([0, 0, 1, 0, 0, 0, 1, 2]))
    torch_mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[mode]
    return b.apply("Pad", lambda v, *_: F.pad(v, (0, 2, 1, 1), torch_mode), x, pads, mode=mode)


@kind("Expand")
def expand(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 1:
        return None
    wide = b.apply("Unsqueeze", lambda v, _: v.unsqueeze(1), x, b.constant(np.array([1])))
    return b.apply("Expand", lambda v, _: v.expand(-1, 3, -1), wide, b.constant(np.array([1, 3, 1])))


@kind("Squeeze")
def squeeze(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) < 2 or b.shape(x)[0] != 1:
        return None
    return b.apply("Squeeze", lambda v, _: v.squeeze(1), x, b.constant(np.array([1])))


@kind("Tile")
def tile(b: Builder, x: str) -> str:
    repeats = [1, *(b.rng.choice([1, 2]) for _ in b.shape(x))]
    return b.apply("Tile", lambda v, _: v.repeat(repeats), x, b.constant(np.array(repeats)))


@kind("Gather")
def gather(b: Builder, x: str) -> str:
    axis = b.rng.randint(1, len(b.shape(x)))
    picks = [b.rng.randrange(b.shape(x)[axis - 1]) for _ in range(3)]
    return b.apply("Gather", lambda v, i: v.index_select(axis, i), x, b.constant(np.array(picks)), axis=axis)


@kind("embedding")
def embedding(b: Builder, x: str) -> str:
    """Rows of a table, chosen by an input of whole numbers."""
    rows, width = b.rng.choice([5, 9]), b.rng.choice([4, 8])
    return b.apply("Gather", lambda w, i: w[i], b.parameter(rows, width, scale=0.7), b.input((3,), rows), axis=0)


@kind("GatherElements")
def gather_elements(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 1:
        return None
    indices = b.input((4,), b.shape(x)[0])
    return b.apply("GatherElements", lambda v, i: v.gather(1, i), x, indices, axis=1)


@kind("OneHot")
def one_hot(b: Builder, x: str) -> str:
    classes = 5
    values = b.constant(np.array([0.0, 1.0], np.float32))
    hot = b.apply("OneHot", lambda i, _, v: F.one_hot(i, classes).to(v.dtype), b.input((3,), classes), b.constant(np.array(classes)), values)
    return b.apply("MatMul", torch.matmul, hot, b.parameter(classes, 4, scale=0.6))


@kind("Trilu")
def trilu(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 2:
        return None
    upper = b.rng.randint(0, 1)
    return b.apply("Trilu", torch.triu if upper else torch.tril, x, upper=upper)


@kind("DepthToSpace")
def depth_to_space(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or b.shape(x)[0] % 4:
        return None
    return b.apply("DepthToSpace", lambda v: F.pixel_shuffle(v, 2), x, blocksize=2, mode="CRD")


@kind("SpaceToDepth")
def space_to_depth(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or b.shape(x)[1] % 2 or b.shape(x)[2] % 2:
        return None

    def function(v: Tensor) -> Tensor:
        n, c, h, w = v.shape
        return v.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)

    return b.apply("SpaceToDepth", function, x, blocksize=2)


@kind("Resize")
def resize(b: Builder, x: str) -> Optional[str]:
    if len(b.shape(x)) != 3 or max(b.shape(x)[1:]) > 6:
        return None
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    if b.rng.random() < 0.5:
        return b.apply("Resize", lambda v, _, s: F.interpolate(v, scale_factor=2.0, mode="nearest"), x, "", scales, mode="nearest",
                       coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    return b.apply("Resize", lambda v, _, s: F.interpolate(v, scale_factor=2.0, mode="bilinear"), x, "", scales, mode="linear",
                   coordinate_transformation_mode="half_pixel")  # fmt: skip


def recurrent(op: str, gates: int, order: list[int], function: str) -> None:
    def draw(b: Builder, x: str) -> Optional[str]:
        if len(b.shape(x)) != 2:
            return None
        width, hidden = b.shape(x)[1], 3
        turned = b.apply("Transpose", lambda v: v.transpose(0, 1), x, perm=[1, 0, 2])
        operands = (b.parameter(1, gates * hidden, width, scale=0.4), b.parameter(1, gates * hidden, hidden, scale=0.4),
                    b.parameter(1, 2 * gates * hidden, scale=0.2))  # fmt: skip

        def run(v: Tensor, w: Tensor, r: Tensor, s: Tensor) -> Tensor:
            def sorted_gates(t: Tensor) -> Tensor:
                parts = t.chunk(gates)
                return torch.cat([parts[i] for i in order])

            flat = [sorted_gates(t) for t in (w[0], r[0], *s[0].chunk(2))]
            start = torch.zeros(1, v.shape[1], hidden, dtype=v.dtype)
            state = (start, start) if op == "LSTM" else start
            return getattr(torch, function)(v, state, flat, True, 1, 0.0, True, False, False)[0].unsqueeze(1)

        attributes = {"hidden_size": hidden, **({"linear_before_reset": 1} if op == "GRU" else {})}
        states = b.apply(op, run, turned, *operands, **attributes)
        flat = b.apply("Squeeze", lambda v, _: v.squeeze(1), states, b.constant(np.array([1])))
        return b.apply("Transpose", lambda v: v.transpose(0, 1), flat, perm=[1, 0, 2])

    draws[op] = draw


# ONNX orders the gates of an LSTM i, o, f, c and those of a GRU z, r, h; PyTorch i, f, g, o and r, z, n.
recurrent("LSTM", 4, [0, 2, 3, 1], "lstm")
recurrent("GRU", 3, [1, 0, 2], "gru")
recurrent("RNN", 1, [0], "rnn_tanh")
