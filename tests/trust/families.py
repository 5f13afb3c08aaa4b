"""Families of models of Transformers, small and without weights, compiled with the check of their first step and trained beside PyTorch.

  families.py run --stowage=build/release/bin/stowage --work=DIR [--page=docs/model-families.md] [--part=N/OF] [FAMILY...]
  families.py table --work=DIR -o docs/model-families.md

configurations.py says what a family is. Each is built from seed 0, compiled as `stowage.compile` does it by default, and trained for three steps of SGD with
momentum on one batch; the learning rate lets the first step lower the loss by a twentieth, as in the zoo, to which the losses are held by the
same rule. A family ends as *same losses*, or *refused* with its cause, or it is *wrong*. Every family runs in a process of its own,
which may take MEMORY bytes and SECONDS of processor time, as may each program that it starts.

Results are kept in DIR, one JSON file a family. The exit code is 1 when losses are wrong, or when a family does not train that has
trained according to the page. What configurations.py cannot build, or PyTorch not run, is left out of the page.
"""

import argparse
import collections
import gc
import importlib.metadata
import json
import multiprocessing
import os
import re
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests/zoo")]

MEMORY, SECONDS, WAIT = 12 << 30, 200, 2000
SAME, REFUSED, WRONG, UNBUILT = "same losses", "refused", "wrong", "not built"


def cause_of(error: BaseException) -> str:
    """One line, without places and numbers that change from run to run."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = re.sub(r'^loc\("[^"]*"[^)]*\)+: ', "", lines[0])
    if text.endswith(":") and len(lines) > 1:
        text += " " + lines[1]
    return re.sub(r"0x[0-9a-f]+|/tmp/\S*/", "", text)[:300]


def judge(family: str, result: dict[str, Any], stowage: str) -> None:
    """Takes a family through; fills in how it ended."""
    import configurations
    import torch
    from zoo import STEPS, TOLERANCE, Reference, difference

    import stowage as door

    result["outcome"] = UNBUILT
    case = configurations.case(family)
    reference = Reference(case)
    rate = reference.rate
    result |= {"parameters": sum(p.numel() for p in case.module.parameters()), "reference": reference.losses,
               "inputs": [name for name in case.inputs if name not in ("labels", "wanted")]}  # fmt: skip
    result["outcome"] = REFUSED
    inputs = tuple(case.inputs.values())
    torch.manual_seed(0)
    step = door.compile(configurations.Named(case.module), inputs, loss="output:loss", optimizer=f"sgd:lr={rate},momentum=0.9", threads=1, binary=stowage)
    result["first step"] = "compared" if step.check else "not compared"
    result["arena"] = step.plan.arena_bytes
    result["losses"] = [step(*inputs) for _ in range(STEPS)]
    result["difference"] = difference(result["losses"], reference.losses)
    if result["difference"] > 1e-5:
        result["own"] = reference.sensitivity
    result["outcome"] = SAME if result["difference"] <= max(TOLERANCE, result.get("own", 0)) else WRONG


def run_family(family: str, result: dict[str, Any], args: argparse.Namespace) -> None:
    """In a process of its own, whose words nobody reads: exporters print whole graphs."""
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        judge(family, result, args.stowage)
    except Exception as error:
        result["cause"], result["message"] = cause_of(error), f"{type(error).__name__}: {error}"[:6000]
    keep(args.work, result)


def keep(work: Path, result: dict[str, Any]) -> None:
    (work / f"{result['family']}.json").write_text(json.dumps(result, indent=1) + "\n")


def results_in(work: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(work.glob("*.json"))]


def trained_by(page: Path | None) -> set[str]:
    """The families of a page that train, where it is of the library's version that is here."""
    if page is None:
        return set()
    text = page.read_text()
    if f"transformers {importlib.metadata.version('transformers')}" not in text:
        print(f"families.py: {page} is of another version of transformers: what it says is not held against this run")
        return set()
    return set(re.findall(rf"^\| (\S+) \|.*\| {SAME}", text, re.M))


def run(args: argparse.Namespace) -> None:
    import configurations
    import onnxscript  # noqa: F401
    import torch
    import transformers
    import zoo  # noqa: F401

    import stowage as door

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    known = configurations.families()
    before = trained_by(args.page)
    door.export(torch.nn.Linear(2, 2), torch.zeros(1, 2), args.work / "first.onnx", check=False)  # what exporting imports
    gc.freeze()  # nobody looks through it again
    number, of = (int(text) for text in args.part.split("/"))
    names = args.families or [name for place, name in enumerate(sorted(known)) if place % of == number]
    failed = []
    for family in names:
        file, began = args.work / f"{family}.json", time.monotonic()
        if args.again and file.exists():
            continue
        file.unlink(missing_ok=True)
        result = {"family": family, "class": known[family].model}
        process = multiprocessing.get_context("fork").Process(target=run_family, args=(family, result, args))
        process.start()
        process.join(WAIT)
        process.kill()
        process.join()
        if not file.exists():
            ended = f"no answer within {WAIT} s" if process.exitcode == -9 else f"the process ended with {process.exitcode}"
            keep(args.work, result | {"outcome": REFUSED, "cause": f"{ended}; it may take {MEMORY >> 30} GiB and {SECONDS} s of processor time"})
        found = json.loads(file.read_text())
        lost = family in before and found["outcome"] != SAME
        if lost or found["outcome"] == WRONG:
            failed.append(family)
        print(f"{family:28} {found['outcome']:12} {found.get('difference', float('nan')):8.1e} {time.monotonic() - began:6.1f} s  "
              f"{found.get('cause', '')}{' (it has trained)' if lost else ''}", flush=True)  # fmt: skip
    counts = collections.Counter(json.loads((args.work / f"{name}.json").read_text())["outcome"] for name in names)
    print(", ".join(f"{outcome}: {count}" for outcome, count in sorted(counts.items())))
    if failed:
        print(f"families.py: failed, each built from seed 0: {' '.join(failed)}; alone: families.py run --stowage=... --work=... {failed[0]}")
    sys.exit(1 if failed else 0)


def heading(results: list[dict[str, Any]]) -> list[str]:
    import configurations

    counts = collections.Counter(result["outcome"] for result in results)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "transformers"))
    wrong = f"{counts[WRONG]} are" if counts[WRONG] > 1 else "one is" if counts[WRONG] else "none is"
    text = f"""\
<!-- Written by tests/trust/families.py; do not edit. -->

# Model families

{len(results)} families of Transformers, one model of each, small and without weights: {counts[SAME]} train with the losses of PyTorch, {counts[REFUSED]} are refused
with their cause, {wrong} wrong. {versions}; one thread.

The night tries each of the {len(configurations.families())} families that the library has a model of; this page has those that were tried before it was written, less what
cannot be built small or run by PyTorch alone.

A family is a type of configuration. Its model is that of the first of these tasks that it has: causal, masked and sequence-to-sequence
language modelling, classification of texts, tokens and images, segmentation, audio and video, depth, or the bare model. Sizes are made small by
what the configuration's fields are called ([configurations.py](../tests/trust/configurations.py)); nothing is random in training. The model's own loss is trained where it has labels,
otherwise the mean square from drawn values.

Each is compiled as `stowage.compile` does it by default, with its first step compared with PyTorch's, and trained for three steps of SGD
with momentum 0.9 on a batch of {configurations.BATCH}, the learning rate as in [the zoo](zoo.md). *Difference* is the largest relative one of the three losses; "own" is
what PyTorch's change by when its weights are changed by 1e-7, stated where the difference is above 1e-5.

```
ctest --test-dir build/release -C nightly -R trust/families     # runs all, and compares this page
build/python/bin/python tests/trust/families.py run --stowage=build/release/bin/stowage --work=build/families llama
build/python/bin/python tests/trust/families.py table --work=build/families -o docs/model-families.md
```
"""
    return text.split("\n")


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(args: argparse.Namespace) -> None:
    results = [result for result in results_in(args.work) if result["outcome"] != UNBUILT]
    lines = heading(results)
    causes = collections.defaultdict(list)
    for result in results:
        if result["outcome"] == REFUSED:
            causes[result["cause"]].append(result["family"])
    if causes:
        lines += ["## Why families are refused", "", "| cause | families |", "|---|---|"]
        lines += [f"| {cell(cause)} | {', '.join(names)} |" for cause, names in sorted(causes.items(), key=lambda item: (-len(item[1]), item[0]))]
        lines += [""]
    lines += ["## By family", "", "| family | model | reads | parameters | outcome | difference | arena, bytes |", "|---|---|---|---:|---|---|---:|"]
    for result in results:
        own = f" (own {result['own']:.0e})" if "own" in result else ""
        difference = f"{result['difference']:.0e}{own}" if "difference" in result else ""
        first = ", first step not compared" if result.get("first step") == "not compared" else ""
        lines.append(f"| {result['family']} | {result['class']} | {', '.join(result.get('inputs', []))} | {result.get('parameters', 0):,} | "
                     f"{result['outcome']}{first} | {difference} | {result.get('arena', '')} |")  # fmt: skip
    args.o.write_text("\n".join(lines) + "\n")
    print(f"families.py: {args.o}: {len(results)} families")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--stowage", required=True)
    running.add_argument("--work", type=Path, required=True)
    running.add_argument("--page", type=Path)
    running.add_argument("--part", default="0/1")
    running.add_argument("--again", action="store_true", help="leave out what the folder has a result of")
    running.add_argument("families", nargs="*")
    running.set_defaults(call=run)
    writing = commands.add_parser("table")
    writing.add_argument("--work", type=Path, required=True)
    writing.add_argument("-o", type=Path, required=True)
    writing.set_defaults(call=table)
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
