#!/usr/bin/env python3
"""Trains models of torchvision, timm and Transformers with Stowage and with PyTorch, three steps side by side.

  zoo.py run --stowage=build/release/bin/stowage --work=DIR [--routes=legacy,dynamo,gpu,simulated] [--timeout=SECONDS] [PATTERN...]
  zoo.py table --work=DIR -o docs/zoo.md
  zoo.py list

Per model and route of export: the file is exported, imported, planned, compiled and trained for three steps of SGD with
momentum on one batch; the losses are compared with those of PyTorch eager on the module itself, from the same weights.

The learning rate is 0.05 L / |g|^2, with the loss L and the gradient g of PyTorch's first step, in two digits: to first order each
model's first step lowers its loss by a twentieth. With one rate for all, some losses hardly move, so that nothing is compared, and
others leave the region where the gradient says anything: deep networks with batch normalization of few values then amplify
one rounding error to several percent within three steps, in PyTorch itself.

A model is right when no loss differs by more than 1e-3, or by no more than PyTorch's own losses differ when its weights are
changed by 1e-7 (relative, random, the largest of three tries). Buffers, and parameters that the module does not train, are
named in `--freeze`.

Two more routes take the legacy exporter's file to GPUs, and need none. `gpu` compiles it in f32 for an H100 and in bf16 for an A100 and
an H100, with cuDNN 9 and ptxas, and counts registers. `simulated` trains it in f32 for two steps on the stand-ins of tests/gpu, in the
folder that --simulated names; its losses are held to those of the host's executable.

Results are kept in DIR as one JSON file per model and route; a run skips those that are there, with
--again only those that passed. The exit code is 1 when a file that PyTorch's exporter wrote does not get through.
Needed: PyTorch 2.6 or newer, torchvision, timm, transformers, onnx, onnxscript, Linux; one thread.
"""

import argparse
import csv
import fnmatch
import functools
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

STEPS = 3
FIRST_STEP = 0.05
TOLERANCE = 1e-3
PLAIN = 1e-5  # above it, PyTorch's own sensitivity stands beside the difference
SIMULATED_STEPS = 2
GPU, SIMULATED = "gpu", "simulated"
GPU_TARGETS = {"f32": "cuda:h100", "bf16": "cuda:a100,h100"}
ROUTES = {
    "legacy": "torch.onnx.export(..., dynamo=False, training=TrainingMode.TRAINING, do_constant_folding=False, opset_version=18)",
    "dynamo": "torch.onnx.export(..., dynamo=True, optimize=False), which stowage.export calls",
}


def export(route: str, case: Any, path: Path) -> None:
    import torch

    names = dict(input_names=list(case.inputs), output_names=["loss" if case.target is None else "logits"])
    arguments = tuple(case.inputs.values())
    if route == "legacy":
        torch.onnx.export(case.module.train(), arguments, str(path), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, opset_version=18, **names)  # fmt: skip
    else:
        torch.onnx.export(case.module.train(), arguments, str(path), dynamo=True, optimize=False, verbose=False, **names)


def difference(ours: list[float], theirs: list[float]) -> float:
    """Largest relative difference; infinite where a loss is no number."""
    differences = [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]
    return max((d if d == d else float("inf") for d in differences))


class Reference:
    """PyTorch's own three steps of a case. The module is left as it was."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.weights = {key: value.clone() for key, value in case.module.state_dict().items()}

    @functools.cached_property
    def first(self) -> tuple[float, list[float]]:
        return self.train(0, 0, None)

    @property
    def rate(self) -> float:
        return self.first[0]

    @property
    def losses(self) -> list[float]:
        return self.first[1]

    def restore(self) -> None:
        import torch

        with torch.no_grad():
            for key, value in self.case.module.state_dict().items():
                value.copy_(self.weights[key])

    def train(self, nudge: float, seed: int, rate: float | None) -> tuple[float, list[float]]:
        """Losses before each update, the weights changed by `nudge` first; without a rate, by the rule above."""
        import torch

        module, target = self.case.module.train(), self.case.target
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1 + nudge * torch.randn(parameter.shape, generator=generator))
        optimizer, losses = None, []
        for _ in range(STEPS):
            module.zero_grad()
            loss = module(*self.case.inputs.values())
            if target is not None:
                loss = torch.nn.functional.cross_entropy(loss.movedim(self.case.class_axis, 1), target)
            loss.backward()
            if rate is None:
                square = sum(float(p.grad.double().pow(2).sum()) for p in module.parameters() if p.grad is not None)
                rate = float(f"{FIRST_STEP * loss.item() / square:.1e}")
            optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
            optimizer.step()
            losses.append(loss.item())
        self.restore()
        module.zero_grad()
        return rate, losses

    @functools.cached_property
    def sensitivity(self) -> float:
        return max(difference(self.train(1e-7, seed, self.rate)[1], self.losses) for seed in (1, 2, 3))


def command(words: list[Any], timeout: float, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: " + (done.stderr.strip() or done.stdout.strip()))
    return done.stdout


def untrained(module: Any, path: Path) -> list[str]:
    """Names of the module's tensors in the file that the module does not train, but a file without a signature might."""
    import onnx

    stored = {tensor.name for tensor in onnx.load(path, load_external_data=False).graph.initializer}
    fixed = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    fixed += [name for name, buffer in module.named_buffers() if buffer.is_floating_point() and "running_" not in name]
    return [name for name in fixed if name in stored]


def compile_program(case: Any, path: Path, executable: Path, stowage: str, timeout: float, *flags: str) -> None:
    loss = "output:loss" if case.target is None else f"cross-entropy:class-axis={case.class_axis}"
    frozen = untrained(case.module, path)
    command([stowage, "compile", path, "-o", executable, "--optimizer=sgd:momentum=0.9", "--no-dropout", "--threads=1",
             f"--loss={loss}", *([f"--freeze={','.join(frozen)}"] if frozen else []), *flags], timeout)  # fmt: skip


def train(case: Any, executable: Path, rate: float, steps: int, timeout: float, environment: dict[str, str] | None = None) -> list[float]:
    """Losses of an executable on the case's batch, before each of its steps."""
    import numpy as np

    log, data = executable.with_suffix(".csv"), executable.with_suffix(".npz")
    arrays = case.inputs | ({} if case.target is None else {"y": case.target})
    np.savez(data, **{key: np.concatenate([value.numpy()] * steps) for key, value in arrays.items()})
    command([executable, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", f"--lr={rate}", f"--log={log}",
             "--threads=1"], timeout, environment)  # fmt: skip
    with open(log) as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def compare(result: dict[str, Any], ours: list[float], theirs: list[float], reference: Reference) -> None:
    """Fills in how far losses lie apart; raises where they differ by more than they may."""
    result["stage"] = "compare"
    result |= {"losses": ours, "difference": difference(ours, theirs)}
    if result["difference"] > PLAIN:
        result["sensitivity"] = reference.sensitivity
    if result["difference"] > max(TOLERANCE, result.get("sensitivity", 0)):
        raise RuntimeError(f"losses differ by {result['difference']:.1e}, PyTorch's own by {result['sensitivity']:.1e}")


def run_host(case: Any, reference: Reference, result: dict[str, Any], folder: Path, options: argparse.Namespace) -> None:
    executable = folder / "model"
    result["stage"] = "compile"
    compile_program(case, folder / "model.onnx", executable, options.stowage, options.timeout)
    result["arena_bytes"] = json.loads(command([executable, "plan", "--format=json"], options.timeout))["arena_bytes"]
    result["stage"] = "train"
    compare(result, train(case, executable, reference.rate, STEPS, options.timeout), reference.losses, reference)


def run_gpu(case: Any, _: Reference, result: dict[str, Any], folder: Path, options: argparse.Namespace) -> None:
    from cubins import resources_of

    result["compiled"] = {}
    for precision, target in GPU_TARGETS.items():
        result["stage"], executable = f"compile {precision}", folder / precision
        flags = [f"--precision={precision}", f"--target={target}", "--recompute=none"]  # which has no other kernels
        compile_program(case, folder / "model.onnx", executable, options.stowage, options.timeout, *flags)
        result["compiled"][precision] = resources_of(executable)
        executable.unlink()


def run_simulated(case: Any, reference: Reference, result: dict[str, Any], folder: Path, options: argparse.Namespace) -> None:
    simulated = options.simulated.absolute()
    losses = {}
    for device, flags in {"host": [], "GPU": ["--target=cuda:h100", f"--cudnn={simulated}"]}.items():
        result["stage"] = f"compile for the {device}"
        compile_program(case, folder / "model.onnx", folder / device, options.stowage, options.timeout, *flags)
        result["stage"] = f"train on the {device}"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(simulated)}
        losses[device] = train(case, folder / device, reference.rate, SIMULATED_STEPS, options.timeout, environment)
    compare(result, losses["GPU"], losses["host"], reference)


def run_route(case: Any, reference: Reference, result: dict[str, Any], folder: Path, options: argparse.Namespace) -> None:
    """Takes a model through one route; fills `result` with its figures and the error of the first stage that it did not pass."""
    begin = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        result["stage"] = "export"
        follow = {GPU: run_gpu, SIMULATED: run_simulated}.get(result["route"], run_host)
        export("legacy" if follow is not run_host else result["route"], case, folder / "model.onnx")
        reference.restore()
        follow(case, reference, result, folder, options)
        result["stage"] = "done"
    except Exception as error:
        text = str(error).strip() or traceback.format_exc().strip()
        result["error"] = f"{type(error).__name__}: {text}"[:4000]
    result["seconds"] = round(time.monotonic() - begin, 1)
    shutil.rmtree(folder)


def keep(work: Path, result: dict[str, Any]) -> None:
    kept_file(work, result["model"], result["route"]).write_text(json.dumps(result, indent=1) + "\n")


def kept_file(work: Path, name: str, route: str) -> Path:
    return work / f"{name.replace('/', '-')}-{route}.json"


def run_model(name: str, routes: list[str], options: argparse.Namespace) -> None:
    """All routes of one model, in a process of its own: exporters crash, and leave patches behind."""
    import torch
    from models import all_cases, switch_off_randomness

    for stream in (1, 2):  # exporters print whole graphs
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    torch.manual_seed(0)
    common: dict[str, Any] = {"model": name, "stage": "build"}
    try:
        case = all_cases()[name]()
        switch_off_randomness(case.module)
        common["parameters"] = sum(p.numel() for p in case.module.parameters())
        reference = Reference(case)
        if routes != [GPU]:
            common |= {"rate": reference.rate, "reference": reference.losses}
    except Exception as error:
        for route in routes:
            keep(options.work, common | {"route": route, "error": f"{type(error).__name__}: {error}"})
        return
    for route in routes:
        result = common | {"route": route}
        run_route(case, reference, result, options.work / f"{name.replace('/', '-')}-{route}.files", options)
        keep(options.work, result)


def run(args: argparse.Namespace) -> None:
    import onnxscript  # noqa: F401
    import timm  # noqa: F401
    import torch
    import torchvision  # noqa: F401
    import transformers  # noqa: F401
    from models import all_cases

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    every = list(all_cases())
    names = [n for p in args.patterns or ["*"] for n in every if fnmatch.fnmatch(n, p)]
    idle = [p for p in args.patterns if not fnmatch.filter(every, p)]
    if idle:
        sys.exit(f"no model is called {', '.join(idle)}")
    routes = args.routes.split(",")
    if SIMULATED in routes and not args.simulated:
        sys.exit("the route simulated needs the folder of the stand-ins: --simulated=build/release/lib/simulated")
    failed = unwritten = 0
    untried = []
    for name in dict.fromkeys(names):
        kept = {route: kept_file(args.work, name, route) for route in routes}
        stages = {route: json.loads(file.read_text())["stage"] for route, file in kept.items() if file.exists()}
        wanted = [r for r in routes if args.fresh or r not in stages or (args.again and stages[r] != "done")]
        for route in wanted:
            kept[route].unlink(missing_ok=True)
        while missing := [route for route in wanted if not kept[route].exists()]:
            process = multiprocessing.get_context("fork").Process(target=run_model, args=(name, missing, args))
            process.start()
            process.join(4 * args.timeout)
            process.kill()
            process.join()
            died = next(route for route in missing if not kept[route].exists()) if process.exitcode != 0 else None
            if died:
                keep(args.work, {"model": name, "route": died, "stage": "export", "error": "the exporter's process died"})
        for route, file in kept.items():
            result = json.loads(file.read_text())
            failed += result["stage"] not in ("done", "export")
            unwritten += result["stage"] == "export"
            stages[route] = result["stage"]
            print(f"{name:45} {route:7} {result['stage']:8} {result.get('difference', float('nan')):8.1e} "
                  f"{result.get('seconds', 0):6.1f} s  {result.get('error', '')[:160]!r}", flush=True)  # fmt: skip
        if all(stages[route] == "export" for route in routes):
            untried.append(name)
    print(f"{len(names) * len(routes)} files: {failed} did not get through, {unwritten} were not written by PyTorch's exporter")
    if untried:
        print(f"written by no exporter, so not tried at all: {', '.join(untried)}")
    sys.exit(1 if failed or untried else 0)


def describe(result: dict[str, Any] | None) -> str:
    """One cell of the table."""
    if result is None:
        return "not run"
    if result["stage"] == "done":
        text = f"{result['difference']:.0e}" if result["difference"] else "0"
        return text + (f" (own {result['sensitivity']:.0e})" if "sensitivity" in result else "")
    error = re.sub(r'loc\("[^"]*"[^)]*\)+: error: ', "", result.get("error", "")).split("\n")[0].replace("|", "\\|")
    return f"**{result['stage']}**: {error[:110]}"


def describe_compiled(result: dict[str, Any] | None) -> str:
    """Most registers and bytes of stack of a thread in a model's programs for GPUs, in f32 and in bf16."""
    if result is None or result["stage"] != "done":
        return describe(result)
    texts = []
    for part in result["compiled"].values():
        stack = f" and {part['stack']} bytes" if part["stack"] else ""
        texts.append(f"{part['registers']}{stack}")
    return "; ".join(texts)


def heading(routes: dict[str, str], on_gpu: str, versions: str) -> list[str]:
    from models import CHANGED

    changed = "; ".join(f"{name.split('/')[1]}: {what}" for name, (what, _) in CHANGED.items())
    text = f"""\
<!-- Written by tests/zoo/zoo.py; do not edit. -->

# Models that were tried

Each is exported, planned, compiled and trained for three steps of SGD with momentum 0.9 beside PyTorch eager, from the same
weights and on the same batch of 2 or 4. A cell is the largest relative difference of the three losses; "own" is what
PyTorch's own losses change by when its weights are changed by 1e-7, stated where the difference is above 1e-5. In bold: the
stage that a model did not pass. {versions}; one thread.

The learning rate is the same for all in what it does: 0.05 L / |g|², with PyTorch's first loss L and gradient g, so that the first
step lowers the loss by a twentieth to first order. The column of losses shows how far it went in PyTorch. Images are 64 x 64 unless the
model prescribes a size; dropout and stochastic depth are switched off; weights are random. Buffers, and parameters that the
module does not train, are named in `--freeze`: legacy files do not tell them apart. `_own_loss` is a model that takes the labels and computes its loss
(`--loss=output:loss`).

Changed: models of more than 150 million parameters have fewer layers of full width, and one is made for this size of image
({changed}).

*GPU: compiles*: in f32 for an H100; in bf16 for an A100 and an H100: the most registers that a thread of a
generated kernel takes, and the bytes that one spills to local memory, where any does. *GPU: runs simulated*: the largest
relative difference of two losses on the simulated GPU (`tests/gpu`), in f32, to the host's; empty: not run. Both from
the files of the legacy exporter; seen on hardware: nothing ([cuda.md](cuda.md)).
"""
    return [*text.split("\n"), *[f"- *{route}*: `{ROUTES[route]}`: {count}" for route, count in routes.items()],
            f"- *GPU*: {on_gpu}", "",
            "```", "tests/zoo/zoo.py run --stowage=build/release/bin/stowage --work=build/zoo",
            "tests/zoo/zoo.py run --stowage=build/release/bin/stowage --work=build/zoo --routes=gpu",
            "tests/zoo/zoo.py table --work=build/zoo -o docs/zoo.md", "```", ""]  # fmt: skip


def table(args: argparse.Namespace) -> None:
    import importlib.metadata as metadata

    from models import all_cases

    results = {(r["model"], r["route"]): r for r in (json.loads(p.read_text()) for p in sorted(args.work.glob("*.json")))}
    names = [name for name in all_cases() if any((name, route) in results for route in ROUTES)]
    counts = {}
    for route in ROUTES:
        rows = [results[name, route] for name in names if (name, route) in results]
        written = [row for row in rows if row["stage"] not in ("export", "build")]
        done = sum(row["stage"] == "done" for row in written)
        counts[route] = (f"{done} of the {len(written)} files that PyTorch writes get through ({done / max(len(written), 1):.0%}); "
                         f"{len(rows) - len(written)} of the {len(rows)} models tried it does not write")  # fmt: skip
    versions = ", ".join(f"{p} {metadata.version(p)}" for p in ("torch", "torchvision", "timm", "transformers"))
    passed = {}
    for route in (GPU, SIMULATED):
        stages = [results[name, route]["stage"] for name in names if (name, route) in results]
        passed[route] = f"{stages.count('done')} of the {len(stages)}"
    on_gpu = f"{passed[GPU]} models tried compile; {passed[SIMULATED]} that ran simulated follow the host"
    lines = heading(counts, on_gpu, versions)
    lines += ["| model | parameters | arena, bytes | losses | " + " | ".join(ROUTES) + " | GPU: compiles | GPU: runs simulated |",
              "|---|---:|---:|---|" + "---|" * (len(ROUTES) + 2)]  # fmt: skip
    for name in names:
        rows = [results.get((name, route)) for route in ROUTES]
        known = [row for row in rows if row]
        parameters = next((f"{row['parameters']:,}" for row in known if "parameters" in row), "")
        arena = next((f"{row['arena_bytes']:,}" for row in known if "arena_bytes" in row), "")
        moved = next((f"{row['reference'][0]:.3g} to {row['reference'][-1]:.3g}" for row in known if "reference" in row), "")
        simulated = describe(results[name, SIMULATED]) if (name, SIMULATED) in results else ""
        lines.append(f"| {name} | {parameters} | {arena} | {moved} | " + " | ".join(map(describe, rows)) + f" | {describe_compiled(results.get((name, GPU)))} | {simulated} |")
    args.output.write_text("\n".join(lines) + "\n")
    print(f"{args.output}: " + "; ".join(f"{route}: {text}" for route, text in counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("patterns", nargs="*", metavar="PATTERN", help="models in this order, e.g. 'timm/*'; default: all")
    runner.add_argument("--routes", default=",".join(ROUTES))
    runner.add_argument("--fresh", action="store_true", help="run again what has a result")
    runner.add_argument("--again", action="store_true", help="run again what did not get through")
    runner.add_argument("--stowage", required=True)
    runner.add_argument("--work", type=Path, required=True)
    runner.add_argument("--simulated", type=Path, help="the folder of the stand-ins, for the route simulated")
    runner.add_argument("--timeout", type=float, default=600, help="seconds of one command; a model has four times as many")
    writer = commands.add_parser("table")
    writer.add_argument("--work", type=Path, required=True)
    writer.add_argument("-o", "--output", type=Path, required=True)
    runner.set_defaults(call=run)
    writer.set_defaults(call=table)
    commands.add_parser("list").set_defaults(call=lambda _: print(*__import__("models").all_cases(), sep="\n"))
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
