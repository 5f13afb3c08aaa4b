#!/usr/bin/env python3
"""Step times of the six workloads at small batches: Stowage beside eager and compiled PyTorch, in turns inside one process.

  scripts/install.sh python && taskset -c 0 build/python/bin/python benchmarks/pytorch/systems.py
  .../systems.py 1 6a --rounds=9 --peers=eager --precision=bf16

The workloads are those of benchmarks/plan/workloads.py, full width, with batches that a processor can run; my_model_full has
1,000 outputs per dense layer instead of 29,913, whose state alone takes 20 GB. Both sides have float32, or with --precision=bf16 our bf16
and PyTorch's autocast; and a last row then has our bf16 beside our float32. Both have the same optimizer
(PyTorch's fused form), one thread, and one batch in memory, which Stowage's side copies into its arena each step. A step is forward,
loss, backward and update. `compile` is torch.compile over model and loss.

Each round runs some steps of every side; the order turns with every round (ABBA). Medians and minima are over all steps;
processor time is per step over all rounds and the steadiest of the three beside other load. Our plain step keeps everything
(--recompute=none); "with recompute" is the same step in
half of the memory that the plain one has above its state, or in the least that can be; its extra time above our own plain step, by
the clock and by its plan, stands in the last columns.
"""

import argparse
import gc
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "models"), str(ROOT / "python/references")]

import onnx  # noqa: E402
import seq2seq  # noqa: E402
import seq2seq_models  # noqa: E402
import sequence_models  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from export import export_module  # noqa: E402
from objectives import make_optimizer  # noqa: E402
from onnx_init import initial_weights  # noqa: E402
from torch_models import MODELS, MyModelFull  # noqa: E402

import stowage  # noqa: E402

# So small a rate changes no time, and numbers stay in their range however many steps are taken.
SGD, ADAM, ADAMW = "sgd:lr=1e-6,momentum=0.9", "adam:lr=1e-6", "adamw:lr=1e-6"


@dataclass
class Workload:
    """One step on both sides: an ONNX model with its compiler flags, and PyTorch's loss of one (micro-)batch."""

    model: onnx.ModelProto
    loss: str
    optimizer: str
    batch: int
    inputs: tuple[torch.Tensor, ...]
    module: torch.nn.Module
    torch_loss: Callable[..., torch.Tensor]
    accumulate: int = 1
    flags: list[str] = field(default_factory=list)


def network(module: torch.nn.Module, sample: tuple[int, ...], batch: int, optimizer: str, target: torch.Tensor, loss: str,
            accumulate: int = 1) -> Workload:  # fmt: skip
    function = {"mse": F.mse_loss, "cross-entropy": F.cross_entropy}[loss]
    return Workload(export_module("model", module, sample, batch, 13), loss, optimizer, batch, (torch.randn(batch, *sample), target),
                    module.train(), lambda x, y: function(module(x), y) / accumulate, accumulate)  # fmt: skip


def classifier(name: str, batch: int, optimizer: str, image: int | None = None, accumulate: int = 1) -> Workload:
    spec = MODELS[name]
    sample = (spec.sample[0], image, image) if image else spec.sample
    return network(spec.build(), sample, batch, optimizer, torch.randint(0, spec.classes, (batch,)), "cross-entropy", accumulate)


def my_model_full(batch: int, outputs: int) -> Workload:
    module = MyModelFull(outputs=outputs).to_empty(device="cpu")
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.01)
    return network(module, MODELS["my_model_full"].sample, batch, ADAM, torch.randn(batch, 3 * outputs), "mse")


def translation(batch: int) -> Workload:
    size = seq2seq_models.SIZES["seq2seq"]
    model = seq2seq_models.build(size, batch)
    module, _ = seq2seq.torch_model(initial_weights(model, seed=0), size)
    tokens = tuple(torch.randint(seq2seq.FIRST_DIGIT, size.vocabulary, (batch, size.length)) for _ in range(2))
    return Workload(model, "output:loss", ADAM, batch, tokens, module, module, flags=["--input=source,translation"])


def gpt2(batch: int, length: int) -> Workload:
    import transformers

    vocabulary = 50304
    size = sequence_models.GptSize(12, 12, 768, 1024, vocabulary, length=length)
    config = transformers.GPT2Config(vocab_size=vocabulary, use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    module = transformers.GPT2LMHeadModel(config).train()
    tokens = torch.randint(0, vocabulary, (batch, length + 1))
    return Workload(sequence_models.build(size, batch), "cross-entropy:class-axis=-1", ADAMW, batch,
                    (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), module,
                    lambda x, y: F.cross_entropy(module(x).logits.flatten(0, 1), y.flatten()))  # fmt: skip


SYSTEMS: dict[str, tuple[str, Callable[[], Workload]]] = {
    "1": ("ResNet-18, batch 4, 224x224", lambda: classifier("resnet18", 4, SGD)),
    "1s": ("ResNet-18, batch 8, 64x64", lambda: classifier("resnet18", 8, SGD, image=64)),
    "2": ("seq2seq with attention, batch 8, T 50", lambda: translation(8)),
    "3a": ("my_model, batch 10", lambda: network(MODELS["my_model"].build(), MODELS["my_model"].sample, 10, ADAM, torch.randn(10, 3258), "mse")),
    "3b": ("my_model_full, 3 x 1,000 outputs, batch 10", lambda: my_model_full(10, 1000)),
    "4": ("MLP 64-128-2, batch 32", lambda: classifier("mlp_accumulation", 32, ADAMW)),
    "4x8": ("the same, 4 x 8", lambda: classifier("mlp_accumulation", 32, ADAMW, accumulate=4)),
    "5": ("ResNet-50 on 28x28, batch 32", lambda: classifier("resnet50", 32, SGD, image=28)),
    "6a": ("GPT-2, 1 x 64 tokens", lambda: gpt2(1, 64)),
    "6b": ("GPT-2, 1 x 256 tokens", lambda: gpt2(1, 256)),
}  # fmt: skip


def torch_step(work: Workload, mode: str, precision: str) -> Callable[[], Any]:
    """All of PyTorch's sides train one module."""
    def loss(*part: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            return work.torch_loss(*part)

    function = torch.compile(loss) if mode == "compile" else loss
    optimizer = make_optimizer(f"{work.optimizer},fused", work.module.named_parameters())
    parts = list(zip(*(tensor.chunk(work.accumulate) for tensor in work.inputs)))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for part in parts:
            function(*part).backward()
        optimizer.step()

    return step


def our_steps(work: Workload, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The plain step, and the one with recomputation where its budget asks for any."""
    path = folder / "model.onnx"
    onnx.save(work.model, path)
    settings = {"loss": work.loss, "optimizer": work.optimizer, "batch": work.batch, "threads": 1, "flags": work.flags,
                "accumulate": work.accumulate, "binary": args.stowage}  # fmt: skip
    flags = [*work.flags, f"--precision={args.precision}"]
    steps = {"plain": stowage.compile(path, **(settings | {"flags": [*flags, "--recompute=none"]}))}
    if args.precision != "f32":
        steps["float32"] = stowage.compile(path, **(settings | {"flags": [*work.flags, "--recompute=none"]}))
        return steps
    plan = steps["plain"].plan
    state = plan.json["persistent_bytes"]
    budget = state + (plan.arena_bytes - state) // 2
    settings["flags"] = [*flags, *([f"--profile={args.profile}"] if args.profile else [])]
    try:
        less = stowage.compile(path, memory_budget=budget, **settings)
    except stowage.InfeasibleBudget as refused:
        less = stowage.compile(path, memory_budget=refused.smallest_bytes, **settings)
    if less.plan.extra_time > 0:
        steps["recompute"] = less
    return steps


@dataclass
class Times:
    """Milliseconds."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)  # means of rounds

    def round(self, step: Callable[[], Any], seconds: float) -> None:
        """At least one step, and about `seconds`."""
        begin, processor, count = time.perf_counter(), time.process_time(), len(self.wall)
        now = begin
        while now == begin or now - begin < seconds:
            step()
            then, now = now, time.perf_counter()
            self.wall.append(1e3 * (now - then))
        self.processor.append(1e3 * (time.process_time() - processor) / (len(self.wall) - count))

    def figures(self) -> tuple[float, float, float]:
        """Median and least of wall time, median of processor time."""
        return statistics.median(self.wall), min(self.wall), statistics.median(self.processor)


def rows(name: str, title: str, args: argparse.Namespace) -> list[str]:
    torch.manual_seed(0)
    work = SYSTEMS[name][1]()
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        ours = our_steps(work, args, Path(folder))
    sides: dict[str, Callable[[], Any]] = {mode: lambda step=step: step(*work.inputs) for mode, step in ours.items()}
    sides |= {mode: torch_step(work, mode, args.precision) for mode in args.peers.split(",")}
    times = {side: Times() for side in sides}
    for step in sides.values():
        step(), step()
    for number in range(args.rounds):
        for side in list(sides)[:: 1 if number % 2 == 0 else -1]:
            times[side].round(sides[side], args.seconds)
    plain = times["plain"].figures()
    lines = []
    for peer in [*args.peers.split(","), *(["float32"] if "float32" in ours else [])]:
        theirs = times[peer].figures()
        lines.append(f"| {name} | {title} | {peer} | {plain[0]:.2f} | {theirs[0]:.2f} | "
                     + " | ".join(f"**{ours / other:.2f}**" for ours, other in zip(plain, theirs)) + " | | |")  # fmt: skip
    if "recompute" in times:
        less = times["recompute"].figures()
        extra = " / ".join(f"{100 * (more / base - 1):.1f}" for more, base in zip(less, plain))
        lines.append(f"| {name} | {title} | our own with recompute | {plain[0]:.2f} | {less[0]:.2f} | | | | {extra} | "
                     f"{100 * ours['recompute'].plan.extra_time:.1f} |")  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}; default: all")
    parser.add_argument("--peers", default="eager,compile", help="of eager and compile; default: both")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32", help="bf16: no row with recomputation")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round, at least one step")
    parser.add_argument("--profile", metavar="run|FILE", help="the compiler's: recomputations weighed by times measured here, not by the data sheet")
    parser.add_argument("--stowage", default=None, help="the compiler; default: as python/stowage finds it")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in SYSTEMS]:
        parser.error(f"no system named '{unknown[0]}'; there are {', '.join(SYSTEMS)}")
    if unknown := [peer for peer in args.peers.split(",") if peer not in ("eager", "compile")]:
        parser.error(f"no peer named '{unknown[0]}'; there are eager and compile")
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread, {args.rounds} rounds\n")
    print("| | system | beside | ours, ms | other, ms | median ratio | least ratio | processor ratio | extra % by the clock: median / least / "
          "processor | extra % planned |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|")  # fmt: skip
    for name in args.names or SYSTEMS:
        for line in rows(name, SYSTEMS[name][0], args):
            print(line, flush=True)
        torch.compiler.reset()
        gc.collect()


if __name__ == "__main__":
    main()
