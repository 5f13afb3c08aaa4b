"""Programs that are not traced again for the exporter: their files compute what those of the exporter's own way compute, name by name.

Run in the environment of scripts/install.sh python.
"""

import contextlib
import hashlib
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import onnx
import stowage
import torch
import torch.nn as nn
from stowage import _lowering, _torch_export
from torch.onnx._internal.exporter import _fx_passes


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        parts = self.mix(self.norm(x)).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, attn_mask=seen).transpose(1, 2).reshape(x.shape)
        return x + nn.functional.dropout(self.out(mixed.contiguous()), 0.1, self.training)


class Layers(nn.Module):
    """What comes apart in many ways: views, casts, dropout, differences, operands of two types, an unread result, no_grad, an output that is an input."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(count))

    def forward(self, ids: torch.Tensor, weight: torch.Tensor) -> "dict[str, torch.Tensor]":
        places = torch.arange(ids.shape[1], device=ids.device)
        seen = (places <= places.unsqueeze(1)) & (ids != 0)[:, None, None]
        x = self.tokens(ids).to(torch.float32) + places.unsqueeze(-1) / 7
        with torch.no_grad():
            scale = 1.5 + torch.diff(ids, dim=1).float().abs().mean()
        for layer in self.layers:
            x = layer(x, seen)
        torch.logsumexp(x, 1)
        return {"y": x.flatten(1) * scale + ids.sum(1, keepdim=True) * 0.5, "same": weight.to(torch.float32), "first": x[:, 0].chunk(2, -1)[1]}


class Frozen(nn.Module):
    """Normalizations that keep their statistics, and one number of two types in a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).eval(), nn.GELU(), nn.Dropout(0.2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 + self.part(x).mean((2, 3)).narrow(1, 1, 2) ** 2 - (x > 0).sum((1, 2, 3)).unsqueeze(1)


class Written(nn.Module):
    """Statistics, values written in place behind a view, and an operator that comes apart into what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout1d(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x).clone()
        y[:, 1:].mul_(2).relu_()
        return self.drop(y.unsqueeze(-1)).sum((1, 2))


TOKENS = (torch.tensor([[1, 2, 3, 0, 5], [4, 3, 2, 1, 0], [7, 8, 9, 10, 1]]), torch.ones(3, 2))


def meaning(path: Path) -> "dict[str, str]":
    """What computes each output of a file, down to inputs and stored values by name. Names of results between them, and nodes that give the
    same value another name or shape on the way to the same shape, are left out."""
    graph = onnx.load(str(path)).graph
    shapes = {value.name: str(value.type) for value in (*graph.value_info, *graph.output)}
    known = {value.name: value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        operands = [known.get(name, "") for name in node.input]
        if node.op_type == "Identity":
            known[node.output[0]] = operands[0]
            continue
        if node.op_type in ("Reshape", "Expand") and node.output[0] in shapes:
            operands[1] = shapes[node.output[0]]
        settings = sorted(str(onnx.helper.get_attribute_value(attribute)) for attribute in node.attribute)
        text = hashlib.sha256(repr((node.domain, node.op_type, operands, settings)).encode()).hexdigest()
        known.update({name: f"{text} {place}" for place, name in enumerate(node.output)})
    return {output.name: f"{known[output.name]} {output.type}" for output in graph.output}


class Lowering(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def export(self, module: nn.Module, inputs: Any, name: str) -> "tuple[Path, int]":
        """The file, and how many times the exporter traced the whole program."""
        path = self.folder / f"{name}.onnx"
        whole = _fx_passes.decompose_with_registry
        with mock.patch.object(_fx_passes, "decompose_with_registry", side_effect=whole) as traced, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a part is in evaluation mode
            stowage.export(module, inputs, path, check=False)
        return path, traced.call_count

    def compare(self, module: nn.Module, inputs: Any, traces: int) -> None:
        path, count = self.export(module, inputs, "found")
        self.assertEqual(count, traces)
        with mock.patch.object(_torch_export, "traced_once", contextlib.nullcontext):
            expected, _ = self.export(module, inputs, "expected")
        self.assertEqual(meaning(path), meaning(expected))

    def test_same(self) -> None:
        self.compare(Layers(2), TOKENS, traces=0)
        self.compare(Frozen(), torch.randn(3, 3, 5, 5), traces=0)

    def test_written(self) -> None:
        self.compare(Written(), torch.randn(3, 4), traces=1)

    def test_each_kind_once(self) -> None:
        counts = []
        for count in (1, 4):
            with mock.patch.object(_lowering, "_parts", side_effect=_lowering._parts) as parts:
                self.export(Layers(count), TOKENS, "counted")
            counts.append(parts.call_count)
        # The first layer reads what is made in front of it, whose strides may be others.
        self.assertLess(counts[1], counts[0] + 6)

    def test_place_in_the_module(self) -> None:
        path, _ = self.export(Layers(2), TOKENS, "placed")
        scopes = [entry.value for node in onnx.load(str(path)).graph.node if node.op_type == "Dropout"
                  for entry in node.metadata_props if entry.key == "namespace"]  # fmt: skip
        self.assertEqual([scope.split("layers.")[1][0] for scope in scopes], ["0", "1"])


if __name__ == "__main__":
    unittest.main()
