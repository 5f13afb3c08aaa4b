#!/usr/bin/python3
"""Peak memory of a training step of PyTorch eager, to the byte and without running it: what the arena is compared with.

  peak_memory.py --models resnet18:128,mlp:128 --optimizer sgd:lr=0.01,momentum=0.9

The step is that of step_time.py on tensors that have shapes but no data (device "meta"). Every operator below autograd is
seen; each new storage is held by a weak reference, so that its birth and death are exact. The peak is that of the second
step, when gradients of the first are gone and the optimizer has its state. It counts parameters, statistics, optimizer
state, batch, activations and gradients; not the library's scratch and no allocator's rounding or fragmentation, so that a
real process needs more. One JSON line per model: model, batch, optimizer, peak_bytes.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python/references")]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.multiprocessing.reductions import StorageWeakRef  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten  # noqa: E402
from torch_models import MODELS  # noqa: E402
from train_curve import make_optimizer  # noqa: E402


def convolution_backward(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
    like = (x, weight, weight.new_empty(rest[0] or weight.shape[0]))  # the bias's own size, where it is known
    return tuple(torch.empty_like(tensor) if wanted else None for tensor, wanted in zip(like, rest[-1]))


# Operators that this PyTorch cannot run on shapes alone.
SHAPES = {
    torch.ops.aten.convolution_backward: convolution_backward,
    torch.ops.aten._adaptive_avg_pool2d_backward: lambda dy, x: torch.empty_like(x),
}


class LiveBytes(TorchDispatchMode):
    """Sums the storages that are alive, before and after every operator."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def add(self, value: Any) -> None:
        for tensor in tree_flatten(value)[0]:
            if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
                continue
            storage = tensor.storage()
            reference = StorageWeakRef(storage)
            known = self.storages.get(reference.cdata)
            if known is None or known[0].expired():
                self.storages[reference.cdata] = (reference, storage.nbytes())

    def live(self) -> int:
        self.storages = {key: item for key, item in self.storages.items() if not item[0].expired()}
        return sum(size for _, size in self.storages.values())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.live()
        self.add((args, kwargs or {}))
        shapes = SHAPES.get(func.overloadpacket)
        result = shapes(*args) if shapes else func(*args, **(kwargs or {}))
        self.add(result)
        self.peak = max(self.peak, self.live())
        return result


def steady_peak(module: Any, inputs: "list[Any]", target: Any, optimizer: Any, loss_of: Any) -> int:
    """Of the second step, when gradients of the first are gone and the optimizer has its state."""
    with LiveBytes() as tracker:
        tracker.add((list(module.parameters()), list(module.buffers()), inputs, target))
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            tracker.peak = 0
            loss = loss_of(module(*inputs), target)
            loss.backward()
            optimizer.step()
            del loss
    return tracker.peak


def measure(name: str, batch: int, optimizer_text: str) -> int:
    spec = MODELS[name]
    module = spec.build().train().to("meta")
    optimizer = make_optimizer(optimizer_text, module.named_parameters())
    x = torch.empty(batch, *spec.sample, device="meta")
    y = torch.empty(batch, dtype=torch.int64, device="meta")
    return steady_peak(module, [x], y, optimizer, F.cross_entropy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", required=True, help="NAME:BATCH,...")
    parser.add_argument("--optimizer", default="sgd:lr=0.01,momentum=0.9")
    args = parser.parse_args()
    for item in args.models.split(","):
        name, _, batch = item.partition(":")
        peak = measure(name, int(batch or 1), args.optimizer)
        report = {"model": name, "batch": int(batch or 1), "optimizer": args.optimizer, "peak_bytes": peak}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
