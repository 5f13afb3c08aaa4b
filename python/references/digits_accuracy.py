#!/usr/bin/python3
"""Trains the demo's digits network in PyTorch with the demo's recipe and prints the test accuracy per shuffle seed.

The recipe (AdamW, lr 1e-3, weight decay 0.1, batch 128, 40 epochs) is what scripts and tests give to the compiled
executable; this shows what accuracy it must reach.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))

from torch_models import MODELS  # noqa: E402


def load_module(path: Path) -> nn.Module:
    """The digits network with the initial weights of the ONNX file."""
    state = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in onnx.load(path).graph.initializer}
    module = MODELS["digits_cnn"].build()
    module.load_state_dict({k: state.get(k, v) for k, v in module.state_dict().items()})
    return module


def test_errors(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> int:
    module.eval()
    with torch.no_grad():
        return int((module(x).argmax(1) != y).sum())


def train(module: nn.Module, data: dict[str, torch.Tensor], args: argparse.Namespace, seed: int) -> list[int]:
    """Test errors after each epoch; a last partial batch is left out, as the executable's batch is fixed."""
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(module.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    errors = []
    for _ in range(args.epochs):
        module.train()
        order = torch.randperm(len(data["x"]))
        for begin in range(0, len(order) - args.batch + 1, args.batch):
            rows = order[begin : begin + args.batch]
            loss = nn.functional.cross_entropy(module(data["x"][rows]), data["y"][rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        errors.append(test_errors(module, data["x_test"], data["y_test"]))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx", type=Path, default=ROOT / "models/digits_cnn.onnx")
    parser.add_argument("--data", type=Path, default=ROOT / "models/data/digits.npz")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    data = {k: torch.from_numpy(v) for k, v in np.load(args.data).items()}
    count = len(data["y_test"])
    for seed in range(args.seeds):
        begin = time.perf_counter()
        errors = train(load_module(args.onnx), data, args, seed)
        seconds = time.perf_counter() - begin
        worst = max(errors[-10:])
        print(f"seed {seed}: test accuracy {1 - errors[-1] / count:.4f}, worst of the last 10 epochs "
              f"{1 - worst / count:.4f}, {seconds:.1f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
