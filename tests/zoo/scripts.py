#!/usr/bin/env python3
"""Trains whole training scripts with Stowage and with PyTorch side by side: forward, losses, optimizer, schedule.

  scripts.py run --stowage=build/release/bin/stowage --work=DIR [--again] [PATTERN...]
  scripts.py table --work=DIR -o docs/training-scripts.md
  scripts.py list

Each case of training_scripts.py is what people have in a file: a module whose forward computes its loss (or a loss of
torch.nn beside it), an optimizer of torch.optim, and for some a schedule, limits of gradients or an average of weights. It goes
through `stowage.compile`, and both sides train on the same batches from the same weights. Compared are

- every loss: the largest relative difference;
- what was learned: the largest difference of a parameter or statistic after the last step, as a share of the farthest that
  any element of that tensor has moved.

Beside both stands PyTorch's own noise: the same figures between PyTorch and PyTorch with weights that were changed by 1e-7
(relative, random, the larger of two tries). A case is right where the losses differ by at most 1e-4, or by three times that noise.
The peak of PyTorch is the largest sum of live tensors in its second step (benchmarks/pytorch/peak_memory.py).

Needed: what scripts/install.sh python installs, and for some cases diffusers, peft, x-transformers, torch_geometric,
segmentation-models-pytorch, zuko; a case whose library is missing is skipped, which the table says. One thread.
"""

import argparse
import copy
import fnmatch
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benchmarks/pytorch"), str(Path(__file__).parent)]

NOISY = 3.0
NUDGE = 1e-7
LIMIT_SECONDS = 600


class Reference:
    """PyTorch's own run of a case on a copy of its module."""

    def __init__(self, script: Any, nudge: float = 0.0, seed: int = 1, count_bytes: bool = False) -> None:
        import torch
        from peak_memory import LiveBytes

        self.module, self.peak = copy.deepcopy(script.module), None
        self.losses: list[float] = []
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.module.parameters():
                if nudge:
                    parameter.mul_(1 + nudge * torch.randn(parameter.shape, generator=generator))
        optimizer = script.optimizer(self.module)
        rates = [group["lr"] for group in optimizer.param_groups]
        for number, batch in enumerate(script.batches[:2] if count_bytes else script.batches):
            with LiveBytes() if count_bytes and number == 1 else warnings.catch_warnings() as tracker:
                if count_bytes and number == 1:
                    moments = [entry for state in optimizer.state.values() for entry in state.values()]
                    tracker.add((list(self.module.parameters()), list(self.module.buffers()), moments, batch))
                if script.schedule:
                    for group, rate in zip(optimizer.param_groups, rates):
                        group["lr"] = rate * script.schedule(number)
                optimizer.zero_grad(set_to_none=True)
                loss = script.loss_of(self.module, batch)
                loss.backward()
                if script.clip_norm:
                    torch.nn.utils.clip_grad_norm_(self.module.parameters(), script.clip_norm)
                optimizer.step()
                self.losses.append(loss.item())
                del loss
            if count_bytes and number == 1:
                self.peak = tracker.peak

    def state(self) -> dict[str, Any]:
        return {name: tensor.detach().double().numpy() for name, tensor in self.module.state_dict().items()
                if tensor.is_floating_point()}  # fmt: skip


def difference(found: list[float], expected: list[float]) -> float:
    """Largest relative difference; infinite where a loss is no number."""
    scale = max(abs(value) for value in expected) * 1e-2
    differences = [abs(a - b) / max(abs(b), scale) for a, b in zip(found, expected)]
    return max(d if d == d else float("inf") for d in differences)


def learned(found: dict[str, Any], expected: dict[str, Any], start: dict[str, Any]) -> tuple[float, str]:
    """The largest difference of a tensor as a share of how far it moved, and its name; tensors that hardly move beside the
    others are held to a thousandth of the farthest."""
    import numpy as np

    def largest(array: Any) -> float:
        return float(np.abs(array).max(initial=0))

    moved = {name: largest(expected[name] - start[name]) for name in expected}
    farthest = max(moved.values(), default=0.0)
    shares = [(largest(found[name] - expected[name]) / max(moved[name], 1e-3 * farthest, 1e-30), name) for name in expected]
    return max(((s if s == s else float("inf")), n) for s, n in shares) if shares else (0.0, "")


def follow(script: Any, result: dict[str, Any], options: argparse.Namespace) -> None:
    """Takes a case through all stages, `result` with the one it is in."""
    import stowage

    result["parameters"] = sum(p.numel() for p in script.module.parameters())
    result["trained"] = sum(p.numel() for p in script.module.parameters() if p.requires_grad)
    result["stage"] = "PyTorch"
    reference = Reference(script)
    result["reference"] = reference.losses
    expected = reference.state()
    start = {name: tensor.detach().double().numpy() for name, tensor in script.module.state_dict().items()
             if tensor.is_floating_point()}  # fmt: skip
    start = {name: array.copy() for name, array in start.items()}
    nudged = [Reference(script, nudge=NUDGE, seed=seed) for seed in (1, 2)]
    result["own"] = max(difference(other.losses, reference.losses) for other in nudged)
    result["own_learned"] = max(learned(other.state(), expected, start)[0] for other in nudged)
    if not result["own"] < 1:
        raise RuntimeError(f"PyTorch's own losses differ by {result['own']}: nothing can be compared")
    result["peak_bytes"] = Reference(script, count_bytes=True).peak
    result["stage"] = "export"
    source = copy.deepcopy(script.module)
    flags = list(script.flags)
    if script.clip_norm:
        flags.append(f"--clip-norm={script.clip_norm}")
    model, optimizer = source, script.optimizer(source)
    try:
        step = stowage.compile(model, script.example(), loss=script.loss, optimizer=optimizer, flags=flags, threads=1,
                               binary=options.stowage, **script.settings)  # fmt: skip
    except stowage.CompileError:
        result["stage"] = "compile"
        raise
    result["stage"] = "train"
    result["arena_bytes"], result["extra_time"] = step.plan.arena_bytes, step.plan.extra_time
    base, losses, seconds = step.learning_rate, [], time.process_time()
    for number, batch in enumerate(script.batches):
        if script.schedule:
            step.learning_rate = base * script.schedule(number)
        losses.append(step(*script.step_inputs(batch, step)))
    result["processor_seconds"] = round(time.process_time() - seconds, 2)
    found = {name: tensor.double().numpy() for name, tensor in step.state_dict().items() if tensor.is_floating_point()}
    result |= {"losses": losses, "difference": difference(losses, reference.losses)}
    result["learned"], result["farthest"] = learned(found, expected, start)
    result["stage"] = "compare"
    if result["difference"] > max(script.tolerance, NOISY * result["own"]):
        raise RuntimeError(f"losses differ by {result['difference']:.1e}, PyTorch's own by {result['own']:.1e}")
    if result["learned"] > max(100 * script.tolerance, NOISY * result["own_learned"]):
        raise RuntimeError(f"{result['farthest']} differs by {result['learned']:.1e} of its way, PyTorch's own by {result['own_learned']:.1e}")
    result["stage"] = "done"


def all_scripts() -> dict[str, Any]:
    import training_scripts_parts  # noqa: F401
    import training_scripts_tasks  # noqa: F401
    import training_scripts_text  # noqa: F401
    from training_scripts import SCRIPTS

    return SCRIPTS


def kept_file(work: Path, name: str) -> Path:
    return work / f"{name}.json"


def run_one(name: str, options: argparse.Namespace) -> None:
    """One case, in a process of its own: exporters crash, and leave patches behind."""
    import torch
    SCRIPTS = all_scripts()

    with open(options.work / f"{name}.log", "w") as log:
        for stream in (1, 2):  # exporters print whole graphs
            os.dup2(log.fileno(), stream)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    result: dict[str, Any] = {"script": name, "stage": "build"}
    begin = time.monotonic()
    try:
        follow(all_scripts()[name](), result, options)
    except Exception as error:
        result["error"] = f"{type(error).__name__}: {str(error).strip() or traceback.format_exc()}"[:6000]
        traceback.print_exc()
    result["seconds"] = round(time.monotonic() - begin, 1)
    kept_file(options.work, name).write_text(json.dumps(result, indent=1) + "\n")


def run(options: argparse.Namespace) -> None:
    SCRIPTS = all_scripts()

    options.work.mkdir(parents=True, exist_ok=True)
    names = [n for p in options.patterns or ["*"] for n in SCRIPTS if fnmatch.fnmatch(n, p)]
    failed = 0
    for name in dict.fromkeys(names):
        file = kept_file(options.work, name)
        if options.again or not file.exists():
            file.unlink(missing_ok=True)
            process = multiprocessing.get_context("fork").Process(target=run_one, args=(name, options))
            process.start()
            process.join(LIMIT_SECONDS)
            process.kill()
            process.join()
            if not file.exists():
                file.write_text(json.dumps({"script": name, "stage": "died", "error": f"exit code {process.exitcode}"}))
        result = json.loads(file.read_text())
        failed += result["stage"] != "done"
        ratio = result.get("arena_bytes", 0) / result["peak_bytes"] if result.get("peak_bytes") else 0
        print(f"{name:32} {result['stage']:8} loss {result.get('difference', float('nan')):8.1e} own {result.get('own', float('nan')):8.1e} "
              f"learned {result.get('learned', float('nan')):8.1e} own {result.get('own_learned', float('nan')):8.1e} "
              f"memory {ratio:4.2f} {result.get('seconds', 0):6.1f} s  {result.get('error', '')[:300]!r}", flush=True)  # fmt: skip
    sys.exit(1 if failed else 0)


def figure(value: float, own: float) -> str:
    return f"{value:.0e} ({own:.0e})"


def reason(result: dict[str, Any]) -> str:
    """The first sentence of an error, as a cell."""
    text = result.get("error", "").split(": ", 1)[-1].replace("torch.onnx.export failed: ", "").split("\n")[0]
    text = text.split("; ")[0].split(". See the stack")[0].replace("|", "\\|").replace("`", "")
    return text if len(text) <= 160 else text[:157] + "..."


def table(options: argparse.Namespace) -> None:
    import importlib.metadata as metadata

    from training_scripts import NOTES

    scripts = all_scripts()
    results = {name: json.loads(kept_file(options.work, name).read_text()) for name in scripts if kept_file(options.work, name).exists()}
    done = {name: result for name, result in results.items() if result["stage"] == "done"}
    rest = {name: result for name, result in results.items() if result["stage"] != "done"}
    ratios = sorted(result["arena_bytes"] / result["peak_bytes"] for result in done.values())
    versions = []
    for package in ("torch", "torchvision", "transformers", "diffusers", "peft", "torch_geometric", "segmentation-models-pytorch", "zuko"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            pass
    lines = [HEADING.format(tried=len(results), done=len(done), low=ratios[0], middle=ratios[len(ratios) // 2], high=ratios[-1],
                            versions=", ".join(versions)), "## Those that train", "",
             "| script | trained | steps | losses | what was learned | memory | |", "|---|---:|---:|---|---|---:|---|"]  # fmt: skip
    for name, r in done.items():
        lines.append(f"| {name} | {r['trained']:,} | {len(r['losses'])} | {figure(r['difference'], r['own'])} | {figure(r['learned'], r['own_learned'])} | "
                     f"{r['arena_bytes'] / r['peak_bytes']:.2f} | {NOTES.get(name, '')} |")  # fmt: skip
    lines += ["", "## Those that do not", "", "| script | by whom | why | |", "|---|---|---|---|"]
    for name, r in rest.items():
        by = "PyTorch's exporter" if r["stage"] == "export" and ("torch.onnx" in r.get("error", "") or "Serde" in r["error"]) else f"Stowage, {r['stage']}"
        lines.append(f"| {name} | {by} | {reason(r)} | {NOTES.get(name, '')} |")
    options.o.write_text("\n".join(lines) + "\n")


HEADING = """\
<!-- Written by tests/zoo/scripts.py; do not edit. -->

# Training scripts that were tried

What people have in a file: a module whose forward computes its losses, an optimizer of torch.optim with its groups, a schedule, limits of
gradients, frozen parts. Each goes through `stowage.compile` and trains beside PyTorch eager on the same batches from the same weights; the
sources are `tests/zoo/training_scripts*.py`. Sizes are small, dropout is off, and random numbers that a loop draws are inputs.

{done} of {tried} train as in PyTorch. *Losses*: the largest relative difference of a step; *what was learned*: the largest difference of a parameter
or statistic at the end, as a share of the way that its tensor went; in parentheses the same between PyTorch and PyTorch with weights changed by
1e-7: Adam's first steps have the size of the rate whatever the gradient, so that a parameter whose gradient is rounding errors alone (a bias before a
normalization, the keys' bias of attention) goes its own way in PyTorch, too. *Memory*: the arena, without a budget, as a share of the largest sum of
live tensors in PyTorch's step: {low:.2f} to {high:.2f}, half of them below {middle:.2f}; at these sizes parameters and optimizer state are most of both.
{versions}; one thread.

```
tests/zoo/scripts.py run --stowage=build/release/bin/stowage --work=build/scripts
tests/zoo/scripts.py table --work=build/scripts -o docs/training-scripts.md
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--stowage", required=True)
    runs.add_argument("--work", type=Path, required=True)
    runs.add_argument("--again", action="store_true", help="also those whose result is there")
    runs.add_argument("patterns", nargs="*")
    runs.set_defaults(call=run)
    tables = commands.add_parser("table")
    tables.add_argument("--work", type=Path, required=True)
    tables.add_argument("-o", type=Path, required=True)
    tables.set_defaults(call=table)
    commands.add_parser("list").set_defaults(call=lambda _: print("\n".join(all_scripts())))
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
