#!/usr/bin/env python3
"""Exports small networks from PyTorch 2.x by four routes: make_exports.py OUTPUT_FOLDER [NETWORK ...]

The files in exports/ were written by this script (PyTorch 2.15, onnxscript 0.7); run it only to add one. Routes:

  default   torch.onnx.export(model, x): the dynamo exporter with its optimizer, the module in evaluation mode
  noopt     the same with optimize=False, the module in training mode
  train     the legacy exporter in training mode, without constant folding
  eval      the legacy exporter in evaluation mode, with constant folding

Beside them NETWORK.parameters.txt: what dict(module.named_parameters()) says, a name and a shape per line. Stack traces
keep file names only.
"""

import copy
import io
import pathlib
import re
import sys
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")


class Residual(nn.Module):
    """A residual block with batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.25), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.stem(x)))
        x = F.relu(x + self.bn2(self.conv(x)))
        return self.head(self.drop(x.mean((2, 3))))


class Block(nn.Module):
    """Causal attention and a feed-forward layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    """A language model whose head is its token table."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(8), Block(8)])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        x = self.tokens(t) + self.places(torch.arange(t.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Vit(nn.Module):
    """Patches, a class token, a learned position."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.norm, self.head = nn.Conv2d(3, 8, 4, 4), nn.LayerNorm(8), nn.Linear(8, 5)
        self.cls, self.position = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.block = Block(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.block(x))[:, 0])


class State(nn.Module):
    """A recurrence from a state of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.step, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[0], 8)
        for i in range(3):
            h = torch.tanh(self.read(x[:, i]) + self.step(h))
        return self.head(h)


class Rms(nn.Module):
    """Root mean square normalization between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(8, 16), nn.RMSNorm(16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.silu(self.norm(self.first(x))))


class Copies(nn.Module):
    """Two layers that start equal, as those of nn.TransformerEncoder do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = copy.deepcopy(self.first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class Packed(nn.Module):
    """Sentences of their own lengths through an LSTM of both directions; attention whose padding is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.query = nn.Embedding(11, 6), nn.Linear(8, 1)
        self.lstm, self.head = nn.LSTM(6, 4, bidirectional=True, batch_first=True), nn.Linear(16, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        lengths = (words != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(self.table(words), lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])
        scores = self.query(torch.tanh(states)).squeeze(-1).masked_fill(words == 0, float("-inf"))
        context = (scores.softmax(-1).unsqueeze(1) @ states).squeeze(1)
        return self.head(torch.cat([context, last.transpose(0, 1).flatten(1)], 1))


class Recurrent(nn.Module):
    """A GRU of both directions, without lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(6, 4, bidirectional=True), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(x.transpose(0, 1))[0][-1])


NETWORKS = {
    "residual": (Residual, lambda: torch.randn(2, 3, 8, 8)),
    "gpt": (Gpt, lambda: torch.randint(0, 11, (2, 6))),
    "vit": (Vit, lambda: torch.randn(2, 3, 8, 8)),
    "state": (State, lambda: torch.randn(4, 3, 8)),
    "copies": (Copies, lambda: torch.randn(2, 3, 6)),
    "packed": (Packed, lambda: torch.tensor([[3, 5, 7, 9], [2, 4, 0, 0], [6, 0, 0, 0]])),
    "recurrent": (Recurrent, lambda: torch.randn(3, 4, 6)),
    "rms": (Rms, lambda: torch.randn(8, 8)),
}
TRAINING = torch.onnx.TrainingMode.TRAINING
ROUTES = {
    "default": (False, {"dynamo": True, "external_data": False}),
    "noopt": (True, {"dynamo": True, "optimize": False, "external_data": False}),
    "train": (True, {"dynamo": False, "opset_version": 18, "training": TRAINING, "do_constant_folding": False}),
    "eval": (False, {"dynamo": False, "opset_version": 18}),
}
# The legacy exporter has no aten::rms_norm, the current one no packed sequences.
LEFT_OUT = {("rms", "train"), ("rms", "eval"), ("packed", "default"), ("packed", "noopt")}


def cleaned(data: bytes) -> bytes:
    """Without what names a machine or says the same again."""
    model = onnx.load_from_string(data)
    del model.graph.value_info[:]
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if not entry.key.startswith(("namespace", "pkg.torch.onnx.class"))]
        for entry in kept:
            entry.value = re.sub(r'File "/[^"]*/torch/', 'File "lib/torch/', entry.value)
            entry.value = re.sub(r'File "/[^"]*/', 'File "', entry.value)
            if entry.key.endswith("stack_trace"):
                entry.value = "\n".join(line for line in entry.value.split("\n") if line.startswith(("File", "  File")))
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    return model.SerializeToString()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        make, sample = NETWORKS[name]
        for route, (training, options) in ROUTES.items():
            if (name, route) in LEFT_OUT:
                continue
            torch.manual_seed(7)
            module, x = make(), sample()
            buffer = io.BytesIO()
            torch.onnx.export(module.train(training), (x,), buffer, verbose=False, **options)
            (folder / f"{name}.{route}.onnx").write_bytes(cleaned(buffer.getvalue()))
        lines = [f"{key} {list(value.shape)}\n" for key, value in module.named_parameters()]
        (folder / f"{name}.parameters.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
