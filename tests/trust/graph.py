"""A network as a list of ONNX nodes that each carry the function of PyTorch that they mean.

Nothing of the compiler is used here. The same steps are written as an ONNX file and run by PyTorch, in double or in float32.
"""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/references"), str(ROOT / "models")]

from objectives import clip, loss_of, make_optimizer  # noqa: E402

OPSET = 23
ELEMENTS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64, np.dtype(bool): TensorProto.BOOL}


@dataclass(frozen=True)
class Step:
    """One node. `function` takes its operands as tensors and returns one tensor, or a sequence of them."""

    op: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: dict
    function: Callable


@dataclass(frozen=True)
class Input:
    shape: tuple[int, ...]  # of one sample
    classes: int = 0  # not 0: whole numbers below it


@dataclass
class Graph:
    """Values are named; `shapes` has those of one sample. Operands are inputs, parameters, statistics, constants or results."""

    inputs: dict[str, Input] = field(default_factory=dict)
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    statistics: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    output: str = ""
    whole: set[str] = field(default_factory=set)  # results that are masks or whole numbers

    def is_real(self, name: str) -> bool:
        return name in self.shapes and name not in self.whole

    def cut(self, results: tuple[str, ...]) -> "Graph":
        """The same network with inputs in place of these results, less what nothing reads any more."""
        inputs = {**self.inputs, **{name: Input(self.shapes[name]) for name in results}}
        steps = [step for step in self.steps if not set(step.results) & set(results)]
        return replace(self, inputs=inputs, steps=steps).pruned()

    def pruned(self) -> "Graph":
        needed, steps = {self.output}, []
        for step in reversed(self.steps):
            if needed & set(step.results):
                steps.append(step)
                needed |= set(step.operands)

        def kept(table: dict) -> dict:
            return {name: value for name, value in table.items() if name in needed}

        return replace(self, inputs=kept(self.inputs), parameters=kept(self.parameters), statistics=kept(self.statistics),
                       constants=kept(self.constants), steps=steps[::-1])  # fmt: skip

    def write(self, path: Path, batch: int) -> None:
        def kind(entry: Input) -> int:
            return TensorProto.INT64 if entry.classes else TensorProto.FLOAT

        nodes = [helper.make_node(step.op, step.operands, step.results, f"/{step.results[0]}/{step.op}", **step.attributes)
                 for step in self.steps]  # fmt: skip
        inputs = [helper.make_tensor_value_info(name, kind(entry), [batch, *entry.shape]) for name, entry in self.inputs.items()]
        shape = [] if self.output == "loss" else [batch, *self.shapes[self.output]]
        outputs = [helper.make_tensor_value_info(self.output, TensorProto.FLOAT, shape)]
        tensors = [numpy_helper.from_array(np.asarray(array), name)
                   for table in (self.parameters, self.statistics, self.constants) for name, array in table.items()]  # fmt: skip
        graph = helper.make_graph(nodes, "random", inputs, outputs, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        onnx.save(model, path)


def random_data(graph: Graph, rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    def draw(entry: Input) -> np.ndarray:
        if entry.classes:
            return rng.integers(0, entry.classes, (rows, *entry.shape))
        return rng.standard_normal((rows, *entry.shape)).astype(np.float32)

    return {name: draw(entry) for name, entry in graph.inputs.items()}


class Run:
    """A graph in PyTorch."""

    def __init__(self, graph: Graph, dtype: torch.dtype, noise: float = 0.0) -> None:
        """With `noise` every parameter is that share of itself off at first, and every gradient that share of its largest element, which
        is what another order of sums may do."""
        self.graph, self.dtype, self.noise = graph, dtype, noise
        self.values = {name: self.tensor(array) for name, array in graph.constants.items()}
        self.parameters = {name: self.tensor(array).requires_grad_() for name, array in graph.parameters.items()}
        self.statistics = {name: self.tensor(array) for name, array in graph.statistics.items()}
        self.generator = torch.Generator().manual_seed(1)
        for parameter in self.parameters.values():
            parameter.data += noise * self.normal(parameter) * parameter.data

    def normal(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.generator, dtype=torch.float64).to(self.dtype)

    def tensor(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(np.array(array))
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def forward(self, inputs: dict[str, np.ndarray]) -> Tensor:
        values: dict = {"": None, **self.values, **self.parameters, **self.statistics, **{name: self.tensor(array) for name, array in inputs.items()}}  # fmt: skip
        for step in self.graph.steps:
            found = step.function(*(values[name] for name in step.operands))
            values.update(zip(step.results, found if isinstance(found, (tuple, list)) else [found]))
        return values[self.graph.output]

    def train(self, data: dict[str, np.ndarray], loss: str, optimizer: str, steps: int, batches: int = 1, flags: tuple = ()) -> list[float]:
        """Losses of steps over consecutive rows, each step the mean over its batches."""
        update = make_optimizer(optimizer, self.parameters.items())
        rows = len(next(iter(data.values()))) // (steps * batches)
        losses = []
        for step in range(steps):
            update.zero_grad()
            total = 0.0
            for part in range(step * batches, (step + 1) * batches):
                batch = {name: array[part * rows : (part + 1) * rows] for name, array in data.items()}
                output = self.forward({name: batch[name] for name in self.graph.inputs})
                value = output if self.graph.output == "loss" else loss_of(loss, output, torch.from_numpy(batch["y"]))
                (value / batches).backward()
                total += float(value.detach()) / batches
            for parameter in self.parameters.values():  # what the loss does not reach is at rest, not absent
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad += self.noise * self.normal(parameter) * parameter.grad.abs().max()
            clip(list(self.parameters.values()), flags)
            update.step()
            losses.append(total)
        return losses

    def state(self) -> dict[str, np.ndarray]:
        return {name: tensor.detach().double().numpy() for name, tensor in (*self.parameters.items(), *self.statistics.items())}
