#!/usr/bin/env python3
"""One variant of a training step in PyTorch on this machine's GPU: its step times and its peak memory, as a line of JSON.

  pytorch_steps.py --model=resnet18 --batch=128 --shape=3,224,224 --classes=1000 --precision=bf16 --variant=compile

Variants: eager; compile (torch.compile); reduce-overhead and max-autotune (torch.compile in the modes reduce-overhead, which launches CUDA
graphs, and max-autotune-no-cudagraphs); compile-budget (torch.compile with activation_memory_budget=0.5); checkpoint
(torch.utils.checkpoint around every block). bf16 is autocast, f32 is without TF32. The optimizer is fused; images of bf16
are channels last. A step begins with its batch in pinned memory of the host and ends with the loss there; times are taken after a
warm-up, of as many steps as --seconds allow, at least 10.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

MODES = {"compile": "default", "compile-budget": "default", "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune-no-cudagraphs"}
VARIANTS = ("eager", *MODES, "checkpoint")


class Block(nn.Module):
    """A block of GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.ln_1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(heads.transpose(1, 2).flatten(-2))
        return x + self.narrow(F.gelu(self.widen(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2 with the output's table tied to the tokens' (124,439,808 parameters at 12 layers of 768)."""

    def __init__(self, layers: int, heads: int, width: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.norm(self.blocks(hidden)) @ self.tokens.weight.T


class Lstm(nn.Module):
    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(features, hidden, batch_first=True), nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


SEQUENCES: "dict[str, Callable[[], nn.Module]]" = {
    "gpt2": lambda: Gpt(12, 12, 768, 1024, 50257),
    "char_gpt": lambda: Gpt(2, 4, 64, 32, 65),
    "lstm": lambda: Lstm(32, 64, 10),
    "lstm_long": lambda: Lstm(64, 256, 10),
}


def make_module(name: str) -> nn.Module:
    if name in SEQUENCES:
        return SEQUENCES[name]()
    here = Path(__file__).resolve().parent  # a bundle has the file beside this one, the tree in models/
    sys.path[:0] = [str(here), str(here.parent.parent / "models")]
    from torch_models import MODELS

    return MODELS[name].build()


def checkpoint_blocks(module: nn.Module) -> None:
    """Recomputes the inside of every block; fails where a model has none."""
    blocks = [part for part in module.modules() if type(part).__name__ in ("Block", "BasicBlock", "Bottleneck")]
    if not blocks:
        raise SystemExit("this model has no blocks to checkpoint")
    for block in blocks:
        inner = block.forward
        block.forward = lambda *args, inner=inner: checkpoint(inner, *args, use_reentrant=False)  # type: ignore[method-assign]


def make_step(args: argparse.Namespace, device: torch.device) -> Callable[[], float]:
    torch.manual_seed(0)
    module = make_module(args.model).to(device).train()
    shape = [int(side) for side in args.shape.split(",")]
    is_tokens, is_bf16 = args.model in ("gpt2", "char_gpt"), args.precision == "bf16"
    if is_tokens:
        x, y = (torch.randint(args.classes, (args.batch, *shape)) for _ in range(2))
    else:
        x, y = torch.rand(args.batch, *shape), torch.randint(args.classes, (args.batch,))
    if len(shape) == 3 and is_bf16:
        module, x = module.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    if device.type == "cuda":
        x, y = x.pin_memory(), y.pin_memory()
    if args.variant == "checkpoint":
        checkpoint_blocks(module)
    if args.variant == "compile-budget":
        from torch._functorch import config

        config.activation_memory_budget = 0.5
    forward: Callable[..., Tensor] = torch.compile(module, mode=MODES[args.variant]) if args.variant in MODES else module
    fused = {"fused": True} if device.type == "cuda" else {}
    optimizer: Any = (
        torch.optim.AdamW(module.parameters(), lr=1e-4, **fused)
        if args.optimizer == "adamw"
        else torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, **fused)
    )

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        inputs, labels = (batch.to(device, non_blocking=True) for batch in (x, y))
        with torch.autocast(device.type, torch.bfloat16, enabled=is_bf16):
            loss = F.cross_entropy(forward(inputs).flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measure(args: argparse.Namespace) -> "dict[str, Any]":
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    step = make_step(args, device)
    for _ in range(args.warmup):
        loss = step()
    times: "list[float]" = []
    while len(times) < 10 or (sum(times) < 1e3 * args.seconds and len(times) < 400):
        begin = time.perf_counter()
        loss = step()
        times.append(1e3 * (time.perf_counter() - begin))
    found: "dict[str, Any]" = {"ms": statistics.median(times), "least_ms": min(times), "steps": len(times), "loss": loss,
                               "torch": torch.__version__}  # fmt: skip
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info()
        found |= {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                  "driver": total - free, "cudnn": torch.backends.cudnn.version()}  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--shape", required=True, help="of a sample, with commas between")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--precision", choices=("f32", "bf16"), required=True)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), required=True)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    try:
        print(json.dumps(measure(args)))
    except torch.cuda.OutOfMemoryError as error:
        print(json.dumps({"problem": "out of memory", "why": str(error).splitlines()[0]}))


if __name__ == "__main__":
    main()
