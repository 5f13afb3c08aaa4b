#!/usr/bin/env python3
"""Trains models of torchvision, timm and Transformers with Stowage and with PyTorch, three steps side by side.

  zoo.py run --stowage=build/release/bin/stowage --work=DIR [--routes=legacy,dynamo] [--timeout=SECONDS] [PATTERN...]
  zoo.py table --work=DIR -o docs/zoo.md
  zoo.py list

Per model and route of export: the file is exported, planned, compiled and trained for three steps of SGD on one batch; the
losses are compared with those of PyTorch eager on the module itself, from the same weights. A model is right when no loss
differs by more than 1e-3, or by no more than PyTorch's own losses differ when its weights are changed by 1e-7 (relative,
random, the largest of three tries): deep networks with batch normalization at small batches magnify rounding. Results are
kept in DIR as one JSON file per model and route; a run skips those that are there. The exit code is 1 when a file that PyTorch's
exporter wrote does not get through. Needed: PyTorch 2.6 or newer,
torchvision, timm, transformers, onnx, onnxscript; one thread.
"""

import argparse
import csv
import fnmatch
import json
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

STEPS = 3
RATE = 0.01
TOLERANCE = 1e-3
ROUTES = {
    "legacy": "torch.onnx.export(..., dynamo=False, training=TrainingMode.TRAINING, do_constant_folding=False, opset_version=18)",
    "dynamo": "torch.onnx.export(..., dynamo=True, optimize=False), which stowage.export calls",
}


def export(route: str, module: Any, inputs: dict[str, Any], path: Path) -> None:
    import torch

    names = dict(input_names=list(inputs), output_names=["logits"])
    arguments = tuple(inputs.values())
    if route == "legacy":
        torch.onnx.export(module.train(), arguments, str(path), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, opset_version=18, **names)  # fmt: skip
    else:
        torch.onnx.export(module.train(), arguments, str(path), dynamo=True, optimize=False, verbose=False, **names)


def reference(module: Any, case: Any, nudge: float, seed: int) -> list[float]:
    """Losses of PyTorch before each update; the weights are changed by `nudge` first. Leaves the module as it was."""
    import torch
    import torch.nn.functional as F

    saved = {name: value.clone() for name, value in module.state_dict().items()}
    module.train()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1 + nudge * torch.randn(parameter.shape, generator=generator))
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(*case.inputs.values()).movedim(case.class_axis, 1), case.target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    module.load_state_dict(saved)
    return losses


def difference(ours: list[float], theirs: list[float]) -> float:
    """Largest relative difference; a loss below a thousandth of the first counts as that much, as its bits are few."""
    return max(abs(a - b) / max(abs(b), 1e-3 * abs(theirs[0])) for a, b in zip(ours, theirs))


def command(words: list[Any], timeout: float) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: " + (done.stderr.strip() or done.stdout.strip()))
    return done.stdout


def run_one(name: str, route: str, stowage: str, work: Path, timeout: float) -> dict[str, Any]:
    """The stages that a model passed, its figures, and the error of the first stage that it did not."""
    warnings.filterwarnings("ignore")
    import numpy as np
    import torch
    from models import all_cases, switch_off_randomness

    torch.set_num_threads(1)
    torch.manual_seed(0)
    case = all_cases()[name]()
    switch_off_randomness(case.module)
    result: dict[str, Any] = {"model": name, "route": route, "parameters": sum(p.numel() for p in case.module.parameters()),
                              "stage": "export"}  # fmt: skip
    folder = work / f"{name.replace('/', '-')}-{route}.files"
    folder.mkdir(parents=True, exist_ok=True)
    path, executable, log = folder / "model.onnx", folder / "model", folder / "log.csv"
    begin = time.monotonic()
    try:
        weights = {key: value.clone() for key, value in case.module.state_dict().items()}
        export(route, case.module, case.inputs, path)
        case.module.load_state_dict(weights)
        result["stage"] = "plan"
        flags = ["--optimizer=sgd:momentum=0.9", "--no-dropout", "--threads=1",
                 f"--loss=cross-entropy:class-axis={case.class_axis}"]  # fmt: skip
        plan = json.loads(command([stowage, "plan", path, "--format=json", *flags], timeout))
        result["arena_bytes"] = plan["arena_bytes"]
        result["stage"] = "compile"
        command([stowage, "compile", path, "-o", executable, *flags], timeout)
        result["stage"] = "train"
        arrays = {key: np.concatenate([value.numpy()] * STEPS) for key, value in case.inputs.items()}
        np.savez(folder / "data.npz", **arrays, y=np.concatenate([case.target.numpy()] * STEPS))
        log.unlink(missing_ok=True)
        command([executable, "train", f"--data={folder / 'data.npz'}", f"--steps={STEPS}", "--no-shuffle", f"--lr={RATE}",
                 f"--log={log}", "--threads=1"], timeout)  # fmt: skip
        with open(log) as file:
            ours = [float(row["loss"]) for row in csv.DictReader(file)]
        result["stage"] = "compare"
        theirs = reference(case.module, case, 0, 0)
        result |= {"losses": ours, "reference": theirs, "difference": difference(ours, theirs)}
        if result["difference"] > TOLERANCE:
            tries = [reference(case.module, case, 1e-7, seed) for seed in (1, 2, 3)]
            result["sensitivity"] = max(difference(losses, theirs) for losses in tries)
        if result["difference"] <= max(TOLERANCE, result.get("sensitivity", 0)):
            result["stage"] = "done"
        else:
            result["error"] = f"losses differ by {result['difference']:.1e}"
    except Exception as error:
        text = str(error).strip() or traceback.format_exc().strip()
        result["error"] = f"{type(error).__name__}: {text}"[:4000]
    result["seconds"] = round(time.monotonic() - begin, 1)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return result


def run(args: argparse.Namespace) -> None:
    from models import all_cases

    args.work.mkdir(parents=True, exist_ok=True)
    names = [n for n in all_cases() if not args.patterns or any(fnmatch.fnmatch(n, p) for p in args.patterns)]
    failed = unwritten = 0
    for name in names:
        for route in args.routes.split(","):
            kept = args.work / f"{name.replace('/', '-')}-{route}.json"
            if args.fresh or not kept.exists():
                kept.unlink(missing_ok=True)
                words = [sys.executable, __file__, "one", name, route, f"--stowage={args.stowage}", f"--work={args.work}",
                         f"--timeout={args.timeout}"]  # fmt: skip
                done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                if not kept.exists():
                    kept.write_text(json.dumps({"model": name, "route": route, "stage": "export",
                                                "error": f"the exporter's process died: {done.stderr[-1000:]}"}))  # fmt: skip
            result = json.loads(kept.read_text())
            failed += result["stage"] not in ("done", "export")
            unwritten += result["stage"] == "export"
            print(f"{name:45} {route:7} {result['stage']:8} {result.get('difference', float('nan')):8.1e} "
                  f"{result.get('error', '')[:160]!r}", flush=True)  # fmt: skip
    print(f"{len(names) * len(args.routes.split(','))} files: {failed} did not get through, {unwritten} were not written by "
          "PyTorch's exporter")  # fmt: skip
    sys.exit(1 if failed else 0)


def one(args: argparse.Namespace) -> None:
    result = run_one(args.name, args.route, args.stowage, args.work, args.timeout)
    (args.work / f"{args.name.replace('/', '-')}-{args.route}.json").write_text(json.dumps(result, indent=1) + "\n")


def describe(result: dict[str, Any] | None) -> str:
    """One cell of the table."""
    if result is None:
        return "not run"
    if result["stage"] == "done":
        text = f"{result['difference']:.0e}"
        return text + (f" (own {result['sensitivity']:.0e})" if "sensitivity" in result else "")
    error = result.get("error", "").split("\n")[0].replace("|", "\\|")
    return f"**{result['stage']}**: {error[:110]}"


def table(args: argparse.Namespace) -> None:
    import importlib.metadata as metadata

    results = {(r["model"], r["route"]): r for r in (json.loads(p.read_text()) for p in sorted(args.work.glob("*.json")))}
    names = list(dict.fromkeys(model for model, _ in results))
    through = {route: sum(results.get((n, route), {}).get("stage") == "done" for n in names) for route in ROUTES}
    written = {route: sum(results.get((n, route), {"stage": "export"})["stage"] != "export" for n in names) for route in ROUTES}
    versions = ", ".join(f"{p} {metadata.version(p)}" for p in ("torch", "torchvision", "timm", "transformers"))
    lines = [
        "<!-- Written by python/zoo/zoo.py; do not edit. -->", "", "# Models that were tried", "",
        "Each is exported, planned, compiled and trained for three steps of SGD with momentum beside PyTorch eager, from the same",
        "weights and on the same batch. A cell is the largest relative difference of the three losses; \"own\" is what PyTorch's",
        "own losses change by when its weights are changed by 1e-7, stated where the difference is above 1e-3. In bold: the stage",
        f"that a model did not pass. {versions}.", "",
        *[f"- *{route}*: `{text}`: {through[route]} of the {written[route]} that PyTorch writes" for route, text in ROUTES.items()], "",
        "```", "python/zoo/zoo.py run --stowage=build/release/bin/stowage --work=build/zoo", "python/zoo/zoo.py table --work=build/zoo -o docs/zoo.md", "```", "",
        "| model | parameters | arena, bytes | " + " | ".join(ROUTES) + " |", "|---|---:|---:|" + "---|" * len(ROUTES),
    ]  # fmt: skip
    for name in names:
        rows = [results.get((name, route)) for route in ROUTES]
        known = [row for row in rows if row]
        parameters = next((f"{row['parameters']:,}" for row in known if "parameters" in row), "")
        arena = next((f"{row['arena_bytes']:,}" for row in known if "arena_bytes" in row), "")
        lines.append(f"| {name} | {parameters} | {arena} | " + " | ".join(map(describe, rows)) + " |")
    args.output.write_text("\n".join(lines) + "\n")
    print(f"{args.output}: " + ", ".join(f"{route} {through[route]} of {written[route]}" for route in ROUTES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("patterns", nargs="*", metavar="PATTERN", help="models, e.g. 'timm/*'; default: all")
    runner.add_argument("--routes", default=",".join(ROUTES))
    runner.add_argument("--fresh", action="store_true", help="run again what has a result")
    single = commands.add_parser("one")
    single.add_argument("name")
    single.add_argument("route", choices=ROUTES)
    for sub in (runner, single):
        sub.add_argument("--stowage", required=True)
        sub.add_argument("--work", type=Path, required=True)
        sub.add_argument("--timeout", type=float, default=600)
    writer = commands.add_parser("table")
    writer.add_argument("--work", type=Path, required=True)
    writer.add_argument("-o", "--output", type=Path, required=True)
    runner.set_defaults(call=run)
    single.set_defaults(call=one)
    writer.set_defaults(call=table)
    commands.add_parser("list").set_defaults(call=lambda _: print(*__import__("models").all_cases(), sep="\n"))
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
