#!/usr/bin/env python3
"""Step times of the zoo's models: Stowage beside PyTorch of today, in turns inside one process.

  scripts/install.sh python && build/python/bin/python benchmarks/pytorch/paired_steps.py
  .../paired_steps.py --models=torchvision/resnet18,timm/levit_128s --peers=eager,channels-last,compile --rounds=9

Each round times some steps of Stowage and of each peer; the order turns with every round (ABBA). Printed are the medians
of wall time per step, their ratio, and the ratio of processor time, which is steadier beside other load. Both sides have
the same number of threads. Models and batches are tests/zoo/models.py's and three of whole size (mlp_512, gpt2_2x128, bert_8x64), the optimizer is SGD with momentum; a step is
forward, cross-entropy, backward and update on a batch in memory, which Stowage's side copies into its arena each time.
With --precision=bf16 peers run forward and loss in torch.autocast.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/zoo")]

import models as zoo  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import stowage  # noqa: E402

DEFAULT_MODELS = ("torchvision/convnext_tiny,torchvision/vit_b_16,torchvision/swin_t,timm/deit_tiny_patch16_224,torchvision/efficientnet_b0,"
                  "torchvision/mobilenet_v2,torchvision/mobilenet_v3_small,timm/mixer_s32_224,torchvision/resnet18")  # fmt: skip
PEERS = ("eager", "channels-last", "compile")


def perceptron() -> Any:
    layers = [part for before, after in ((768, 3072), (3072, 768), (768, 3072)) for part in (torch.nn.Linear(before, after), torch.nn.ReLU())]
    return zoo.Case(torch.nn.Sequential(*layers, torch.nn.Linear(3072, 10)), {"x": torch.randn(512, 768)}, torch.randint(0, 10, (512,)))


def whole_gpt2(t: Any) -> Any:
    return t.GPT2LMHeadModel(t.GPT2Config(use_cache=False))


def whole_bert(t: Any) -> Any:
    return t.BertForMaskedLM(t.BertConfig())


# The zoo's models of language are small; these have the sizes of those that are trained.
WHOLE = {
    "mlp_512": perceptron, "gpt2_2x128": zoo.language_model(whole_gpt2, vocabulary=50257, length=128),
    "bert_8x64": zoo.language_model(whole_bert, vocabulary=30522, batch=8, length=64),
}  # fmt: skip
RATE, MOMENTUM = 1e-3, 0.9


def peer_step(case: Any, mode: str, precision: str) -> Callable[[], Any]:
    """One training step of PyTorch on the case's batch."""
    module = case.module
    inputs = list(case.inputs.values())
    if mode == "channels-last":
        module = module.to(memory_format=torch.channels_last)
        inputs = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs]
    forward = torch.compile(module) if mode == "compile" else module
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(forward(*inputs).movedim(case.class_axis, 1), case.target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def our_step(case: Any, args: argparse.Namespace) -> Callable[[], Any]:
    options = {"precision": "bf16"} if args.precision == "bf16" else {}
    step = stowage.compile(case.module, tuple(case.inputs.values()), loss=f"cross-entropy:class-axis={case.class_axis}",
                           optimizer=f"sgd:lr={RATE},momentum={MOMENTUM}", threads=args.threads, binary=args.stowage, **options)  # fmt: skip
    return lambda: step(*case.inputs.values(), case.target)


def timed(step: Callable[[], Any], seconds: float) -> "tuple[float, float]":
    """(wall, processor) milliseconds per step, over at least one step and about `seconds`."""
    count, begin, processor = 0, time.perf_counter(), time.process_time()
    while count == 0 or time.perf_counter() - begin < seconds:
        step()
        count += 1
    return 1e3 * (time.perf_counter() - begin) / count, 1e3 * (time.process_time() - processor) / count


def fresh_case(name: str) -> Any:
    torch.manual_seed(0)
    case = {**zoo.all_cases(), **WHOLE}[name]()
    zoo.switch_off_randomness(case.module)
    case.module.train()
    return case


def compare(name: str, args: argparse.Namespace) -> None:
    case = fresh_case(name)
    batch = "x".join(map(str, next(iter(case.inputs.values())).shape))
    steps = {"Stowage": our_step(case, args)}
    for mode in args.peers.split(","):
        steps[mode] = peer_step(fresh_case(name), mode, args.precision)
    for step in steps.values():
        step(), step()
    wall: "dict[str, list[float]]" = {side: [] for side in steps}
    processor: "dict[str, list[float]]" = {side: [] for side in steps}
    for number in range(args.rounds):
        for side in list(steps)[:: 1 if number % 2 == 0 else -1]:
            one, other = timed(steps[side], args.seconds)
            wall[side].append(one)
            processor[side].append(other)
    ours, ours_processor = statistics.median(wall["Stowage"]), statistics.median(processor["Stowage"])
    for side in list(steps)[1:]:
        theirs, theirs_processor = statistics.median(wall[side]), statistics.median(processor[side])
        print(f"| {name} | {batch} | {side} | {ours:.2f} | {theirs:.2f} | **{ours / theirs:.2f}** "
              f"| {ours_processor / theirs_processor:.2f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=DEFAULT_MODELS, help="names of the zoo, with commas between")
    parser.add_argument("--peers", default="eager", help=f"of {', '.join(PEERS)}; default: eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round, at least one step")
    parser.add_argument("--stowage", default=None, help="the compiler; default: as python/stowage finds it")
    args = parser.parse_args()
    cases = {**zoo.all_cases(), **WHOLE}
    for name in args.models.split(","):
        if name not in cases:
            parser.error(f"no model named '{name}'; known are tests/zoo/models.py's and {', '.join(WHOLE)}")
    for peer in args.peers.split(","):
        if peer not in PEERS:
            parser.error(f"no peer named '{peer}'; known are {', '.join(PEERS)}")
    torch.set_num_threads(args.threads)
    print(f"PyTorch {torch.__version__}, {args.threads} thread(s), {args.precision}, SGD with momentum, {args.rounds} rounds\n")
    print("| model | batch | peer | ours, ms | PyTorch, ms | wall ratio | processor ratio |\n|---|---|---|---:|---:|---:|---:|")
    for name in args.models.split(","):
        compare(name, args)


if __name__ == "__main__":
    main()
