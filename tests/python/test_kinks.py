"""Every row of docs/kinks.md: PyTorch, the table, the exported file and the compiled step agree.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import re
import tempfile
import unittest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.reference
import stowage
import torch
import torch.nn as nn
import torch.nn.functional as F

TABLE = Path(__file__).resolve().parents[2] / "docs" / "kinks.md"
ROW = re.compile(r"\| `(.+?)` \| `(.+?)` \| `(.+?)` \| `(.+?)` \|")
NAMES = {"torch": torch, "F": F, "nan": float("nan"), "inf": float("inf")}


class Row(NamedTuple):
    y: Any
    text: str
    at: torch.Tensor
    value: torch.Tensor
    gradient: torch.Tensor


def rows() -> "list[Row]":
    found = []
    for match in ROW.finditer(TABLE.read_text()):
        y, *numbers = match.groups()
        found.append(Row(eval(f"lambda v: {y}", NAMES), y, *(torch.tensor(eval(text, NAMES), dtype=torch.float32) for text in numbers)))
    return found


class Kinks(nn.Module):
    """The sum over all rows, each of a place moved by a parameter, and y of each."""

    def __init__(self, table: "list[Row]") -> None:
        super().__init__()
        self.table = table
        self.shifts = nn.ParameterList(torch.zeros_like(row.at) for row in table)
        self.factors = [torch.arange(1.0, row.value.numel() + 1).reshape(row.value.shape) for row in table]

    def forward(self, *places: torch.Tensor) -> "tuple[torch.Tensor, ...]":
        values = [row.y(place + shift) for row, shift, place in zip(self.table, self.shifts, places)]
        loss = sum((value * factor).sum() for value, factor in zip(values, self.factors))
        return (loss, *values)


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.table = rows()
        assert len(cls.table) > 70, TABLE
        cls.places = tuple(row.at for row in cls.table)
        cls.module = Kinks(cls.table)
        loss, *cls.values = cls.module(*cls.places)
        loss.backward()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = str(Path(folder.name) / "kinks.onnx")
        stowage.export(cls.module, cls.places, cls.path, dynamic_batch=False, check=False)

    def agree(self, what: str, row: Row, found: Any, wanted: Any) -> None:
        found, wanted = np.asarray(found, np.float64).reshape(-1), np.asarray(wanted, np.float64).reshape(-1)
        with self.subTest(row=row.text, compared=what):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6, equal_nan=True)

    def test_the_table_is_pytorch(self) -> None:
        for row, value, shift in zip(self.table, self.values, self.module.shifts):
            self.agree("value", row, row.value, value.detach())
            self.agree("gradient", row, row.gradient, shift.grad)

    def test_the_file_is_standard(self) -> None:
        model = onnx.load(self.path)
        onnx.checker.check_model(model)
        self.assertIn("BinaryCrossEntropy", {function.name for function in model.functions})
        names = [value.name for value in model.graph.input]
        with np.errstate(all="ignore"):
            _, *found = onnx.reference.ReferenceEvaluator(model).run(None, {name: at.numpy() for name, at in zip(names, self.places)})
        for row, value, wanted in zip(self.table, found, self.values):
            # Standard operators round expm1 and log1p; the evaluator's own losses and sums of exponentials overflow.
            if not re.search("expm1|log1p|F.cross_entropy|logsumexp", row.text):
                self.agree("value", row, np.nan_to_num(value), np.nan_to_num(wanted.detach()))

    def test_the_step_is_pytorch(self) -> None:
        step = stowage.compile(self.path, loss="output:" + onnx.load(self.path).graph.output[0].name, optimizer="sgd:lr=1",
                               flags=["--recompute=none"])  # fmt: skip
        for row, value, wanted in zip(self.table, step.eval(*self.places)[1:], self.values):
            self.agree("value", row, value, wanted.detach())
        step(*self.places)
        state = step.state_dict()
        for i, (row, shift) in enumerate(zip(self.table, self.module.shifts)):
            self.agree("gradient", row, -np.asarray(state[f"shifts.{i}"]), shift.grad)


if __name__ == "__main__":
    unittest.main()
