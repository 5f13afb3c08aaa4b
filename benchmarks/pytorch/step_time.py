#!/usr/bin/python3
"""Time per training step of PyTorch eager on the CPU: the peer of the compiled executable's step time.

  step_time.py                                        digits_cnn:128, mlp:128 and resnet18:8 on 2 threads
  step_time.py --models resnet18:8,lenet:64 --threads 1 --steps 30

A step is zero_grad(set_to_none), forward, cross-entropy, backward and the optimizer's step, on a batch that already
lies in memory. One JSON line per model:

  model, batch, mode, threads, optimizer, steps (timed)
  median_ms, min_ms, mean_ms   wall time per step
  cpu_ms                       processor time per step, all threads: steadier than wall time beside other load
  loss                         of the last step
  max_rss_bytes                of the process so far
  blas                         the BLAS library loaded

Dense layers run on the system's BLAS: install libopenblas0-openmp first, netlib's reference makes a straw man.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python/references")]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch_models import MODELS  # noqa: E402
from train_curve import make_optimizer  # noqa: E402

DEFAULT_MODELS = "digits_cnn:128,mlp:128,resnet18:8"


MODES = ("eager", "channels-last", "compile")


def make_step(name: str, batch: int, optimizer_text: str, mode: str = "eager") -> Callable[[], float]:
    """A function that runs one training step on a fixed random batch and returns its loss. Channels last is the memory
    format of weights and batch; "compile" is torch.compile as it comes, the optimizer stays eager."""
    spec = MODELS[name]
    torch.manual_seed(0)
    module = spec.build().train()
    optimizer = make_optimizer(optimizer_text, module.named_parameters())
    x = torch.randn(batch, *spec.sample)
    y = torch.randint(0, spec.classes, (batch,))
    if mode == "channels-last":
        module = module.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last) if x.dim() == 4 else x
    forward = torch.compile(module) if mode == "compile" else module

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def measure(step: Callable[[], float], warmup: int, steps: int, seconds: float) -> tuple[list[float], float, float]:
    """(milliseconds of each timed step, processor ms per step, last loss); ends after `steps` steps, or early once `seconds` have passed."""
    loss = 0.0
    for _ in range(warmup):
        loss = step()
    times: list[float] = []
    cpu = time.process_time()
    end = time.perf_counter() + seconds
    while len(times) < steps and (len(times) < 3 or time.perf_counter() < end):
        begin = time.perf_counter()
        loss = step()
        times.append((time.perf_counter() - begin) * 1e3)
    return times, (time.process_time() - cpu) * 1e3 / len(times), loss


def blas_library() -> str:
    """The BLAS of this process, by its file's name where it is a library of its own: netlib's reference is many times
    slower than OpenBLAS. PyPI's PyTorch has MKL inside."""
    if torch.backends.mkl.is_available():
        return "mkl"
    names = {Path(line.split()[-1]).resolve().name for line in open("/proc/self/maps") if "blas" in line.rsplit("/", 1)[-1]}
    return ",".join(sorted(names)) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=DEFAULT_MODELS, help=f"NAME:BATCH,... (default: {DEFAULT_MODELS})")
    parser.add_argument("--optimizer", default="sgd:lr=0.01,momentum=0.9")
    parser.add_argument("--mode", choices=MODES, default="eager", help="default: eager")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100, help="timed steps at most")
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit per model")
    parser.add_argument("--warmup", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for item in args.models.split(","):
        name, _, batch = item.partition(":")
        if name not in MODELS:
            parser.error(f"no model named '{name}'")
        step = make_step(name, int(batch or 1), args.optimizer, args.mode)
        times, cpu_ms, loss = measure(step, args.warmup, args.steps, args.seconds)
        report = {
            "model": name, "batch": int(batch or 1), "mode": args.mode, "threads": args.threads, "optimizer": args.optimizer,
            "steps": len(times), "median_ms": round(statistics.median(times), 4), "min_ms": round(min(times), 4),
            "mean_ms": round(statistics.fmean(times), 4),
            "cpu_ms": round(cpu_ms, 4), "loss": round(loss, 6),
            "max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "blas": blas_library(),
        }  # fmt: skip
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
