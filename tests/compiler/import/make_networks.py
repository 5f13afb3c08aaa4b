#!/usr/bin/env python3
"""Exports the small networks of NetworkTest from PyTorch: make_networks.py OUTPUT_FOLDER

The files in networks/ were written by this script (PyTorch 1.13, python3-torch); run it only to add one. For every
network: NAME.onnx and NAME.data.onnx, whose initializers input_* and output_* are tensors PyTorch computed. All
weights stay below 10 kB a file, and the exporter's own choices are part of the test: every opset spells shapes, axes
and bounds its way.
"""

import io
import pathlib
import sys
import warnings

import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")


class Dense(nn.Module):
    """Two layers, dropout and log-softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ELU(), nn.Dropout(0.25), nn.Linear(16, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.layers(x), 1)


class Residual(nn.Module):
    """A residual block with batch norm and a strided projection, flattened by a computed shape."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(4), nn.BatchNorm2d(6), nn.BatchNorm2d(6, momentum=0.3)
        self.main = nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False)
        self.side = nn.Conv2d(4, 6, 1, stride=2, bias=False)
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.stem(x)))
        x = F.relu(self.bn2(self.main(x)) + self.bn3(self.side(x)))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.head(x.view(x.size(0), -1))


class Mobile(nn.Module):
    """Depthwise convolution, squeeze and excitation, hard swish, relu6."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.depth = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.squeeze, self.excite = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)
        self.prelu = nn.PReLU(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.hardswish(self.depth(F.relu6(self.expand(x))))
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.prelu(x * gate).amax(dim=(2, 3))


class Shuffle(nn.Module):
    """Channel split and shuffle, concatenation, padding, ceil-mode and uncounted pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, (1, 3), dilation=(1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=1)
        x = torch.cat([self.left(a), self.right(F.pad(b, (2, 2)))], 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        x = F.avg_pool2d(x, 2, 1, padding=1, count_include_pad=False)
        return F.softmax(x.flatten(1)[:, 1:9], -1)


class Response(nn.Module):
    """Local response normalization, leaky relu, one-dimensional convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.line = nn.Conv2d(3, 5, 3), nn.Conv1d(5, 4, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.leaky_relu(F.local_response_norm(self.conv(x), 3, alpha=0.1, k=2.0), 0.2)
        return torch.tanh(F.max_pool1d(self.line(x.flatten(2)), 2))


class Attention(nn.Module):
    """One head of self-attention with layer norm and GELU, position and scale learned."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 4, 8))
        self.norm, self.qkv = nn.LayerNorm(8), nn.Linear(8, 24)
        self.embed, self.out = nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x) + self.position
        q, k, v = self.qkv(self.norm(x)).split(8, dim=-1)
        weights = F.softmax(q @ k.transpose(1, 2) / 8**0.5, -1)
        return (x + self.out(F.gelu(weights @ v))).mean(1)


# name: module, sample shape, opset, more options of the exporter
NETWORKS = {
    "dense_7": (Dense, (3, 8), 7, {}),
    "dense_train_13": (Dense, (3, 8), 13, {"training": torch.onnx.TrainingMode.TRAINING}),
    # In evaluation mode the exporter folds batch norms into the convolutions; in training mode it keeps them.
    "residual_train_8": (Residual, (2, 3, 6, 6), 8, {"training": torch.onnx.TrainingMode.PRESERVE}),
    "residual_dynamic_11": (Residual, (2, 3, 6, 6), 11, {"dynamic_axes": {"x": {0: "batch"}}}),
    "residual_train_14": (Residual, (2, 3, 6, 6), 14, {"training": torch.onnx.TrainingMode.PRESERVE}),
    "mobile_9": (Mobile, (2, 3, 4, 4), 9, {}),
    "mobile_14": (Mobile, (2, 3, 4, 4), 14, {}),
    "shuffle_9": (Shuffle, (2, 4, 7, 7), 9, {}),
    "shuffle_dynamic_13": (Shuffle, (2, 4, 7, 7), 13, {"dynamic_axes": {"x": {0: "batch"}}}),
    "response_10": (Response, (2, 3, 5, 5), 10, {}),
    "attention_12": (Attention, (2, 4, 6), 12, {"do_constant_folding": False}),
    "attention_16": (Attention, (2, 4, 6), 16, {}),
}


def export(name: str, folder: pathlib.Path) -> None:
    make, shape, opset, options = NETWORKS[name]
    torch.manual_seed(7)
    module, x = make(), torch.randn(*shape)
    for value in module.buffers():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape) + 0.5)
    module.eval()
    y = module(x).detach()
    if options.get("training") == torch.onnx.TrainingMode.PRESERVE:
        module.train()
    buffer = io.BytesIO()
    torch.onnx.export(module, x, buffer, opset_version=opset, input_names=["x"], output_names=["y"], **options)
    model = onnx.load_from_string(buffer.getvalue())
    onnx.save(model, folder / f"{name}.onnx")
    tensors = [numpy_helper.from_array(t.numpy(), n) for t, n in ((x, "input_x"), (y, "output_y"))]
    result = helper.make_tensor_value_info("output_y", tensors[1].data_type, tensors[1].dims)
    data = helper.make_model(helper.make_graph([], "data", [], [result], tensors))
    onnx.save(data, folder / f"{name}.data.onnx")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in NETWORKS:
        export(name, folder)


if __name__ == "__main__":
    main()
