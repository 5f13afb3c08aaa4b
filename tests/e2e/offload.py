#!/usr/bin/python3
"""Activations that travel to a file, against the same step with everything kept.

  offload.py --stowage=build/release/bin/stowage --work=DIR [--quick]

A perceptron, a convolutional network and a transformer are compiled for the smallest arena that a refusal names, less than
recomputation alone can do. Each trains to the same losses and state, bit for bit: with every buffer filled with NaN at its death, and
with copies as early and as late as their awaits allow. So does a step over two batches, whose halves both travel. What the flags
do not allow is refused by name. With all of a disk stated, plan, explain, frontier and max-batch say what travels without a folder.
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python")]

try:
    import numpy as np
    import onnx  # noqa: F401
    import torch  # noqa: F401  # image models are exported from modules
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy, python3-onnx and python3-torch")
    sys.exit(77)

from commands import build_model, check, run  # noqa: E402
from safetensors_io import load  # noqa: E402

STEPS = 3
LETTERS, LENGTH = 65, 32
# Model, samples of a step, shape of a sample (of letters: those of char_gpt), classes and shape of its targets, and flags. The loss takes
# dimension 1 of what the transformer gives as classes.
NETWORKS = {
    "mlp_wide": (512, (128,), 10, (), []),
    "digits_cnn": (128, (1, 8, 8), 10, (), []),
    "char_gpt": (16, (LENGTH,), LENGTH, (LETTERS,), []),
    "digits_cnn in two batches": (256, (1, 8, 8), 10, (), ["--accumulate=2"]),
}
OPTIMIZERS = {"mlp_wide": "adamw:lr=1e-3", "digits_cnn": "sgd:lr=0.1,momentum=0.9", "char_gpt": "adam:lr=1e-3",
              "digits_cnn in two batches": "adam:lr=1e-3"}  # fmt: skip
FROZEN = {"digits_cnn in two batches": "fc*.weight"}  # which travel, too
COPIES = "--offload-bandwidth=20,20,5"  # stated, so that plans depend on no disk


def smallest(said: str) -> int:
    found = re.search(r"smallest achievable +.*\((\d+) bytes\)", said)
    check("STOW1001" in said and found is not None, f"a budget of one byte is refused with its smallest: {said}")
    check("0 B (0 bytes)" not in said, f"what takes no memory is listed: {said}")
    return int(found[1])


def check_network(name: str, args: argparse.Namespace) -> None:
    batch, shape, classes, targets, extra = NETWORKS[name]
    stem = name.replace(" ", "_")
    model, data = args.work / f"{stem}.onnx", args.work / f"{stem}.npz"
    build_model(name.split()[0], model, "--batch", batch)
    draw, rows = np.random.default_rng(0), batch * STEPS
    x = draw.integers(0, LETTERS, (rows, *shape)) if name == "char_gpt" else draw.standard_normal((rows, *shape)).astype(np.float32)
    np.savez(data, x=x, y=draw.integers(0, classes, (rows, *targets)))
    flags = ["--threads=1", "--target-cpu=x86-64-v3", "--no-dropout", *extra]
    travel = [f"--offload={args.work}", COPIES]
    known = {}

    def trained(program: Path, *how: str) -> "tuple[str, dict]":
        saved, log = args.work / "saved.safetensors", args.work / "log.csv"
        run(program, "train", f"--data={data}", f"--steps={STEPS}", "--no-shuffle", "--validation-split=0", f"--save={saved}", f"--log={log}", *how)
        return log.read_text(), load(saved)

    def same(found: "tuple[str, dict]") -> bool:
        return found[0] == known["log"] and all(np.array_equal(found[1][key], known["state"][key]) for key in known["state"])

    plain, travelling = args.work / f"{stem}-plain", args.work / f"{stem}-travels"
    run(args.stowage, "compile", model, "-o", plain, "--recompute=none", *flags)
    known["log"], known["state"] = trained(plain)
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, code=2))
    with_copies = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, *travel, code=2))
    check(with_copies < least, f"{name}: {with_copies} bytes with copies, {least} with recomputation alone")
    said = run(args.stowage, "compile", model, "-o", travelling, f"--memory-budget={with_copies}", *flags, *travel)
    check("slow memory: " in said, f"{name}: no word of what travels: {said}")
    for how in ((), ("--poison",), ("--check=early-copies",), ("--check=late-copies",)):
        check(same(trained(travelling, *how)), f"{name}: other bits with {how}")
    print(f"{name}: {least} bytes with recomputation alone, {with_copies} with copies, the same bits")


def check_state(name: str, args: argparse.Namespace) -> None:
    """What the optimizer keeps lies in slow memory from step to step: less than any plan takes with it in the arena, with the same bits, also
    where a run is killed and goes on."""
    batch, _shape, _classes, _targets, extra = NETWORKS[name]
    stem, kinds = name.replace(" ", "_"), "optimizer"
    model, data = args.work / f"{stem}.onnx", args.work / f"{stem}.npz"
    flags = ["--threads=1", "--target-cpu=x86-64-v3", "--no-dropout", f"--optimizer={OPTIMIZERS[name]}", *extra]
    if name in FROZEN:
        flags, kinds = [*flags, f"--freeze={FROZEN[name]}"], "all"
    travel = [f"--offload={args.work}", COPIES]
    plain, away = args.work / f"{stem}-state-plain", args.work / f"{stem}-state-away"
    saved, part = args.work / "state.safetensors", args.work / "part.safetensors"
    run(args.stowage, "compile", model, "-o", plain, "--recompute=none", *flags)
    with_state = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, *travel, code=2))
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, *travel, f"--offload-state={kinds}", code=2))
    check(least < with_state, f"{name}: {least} bytes without the optimizer's state, {with_state} with it")
    run(args.stowage, "compile", model, "-o", away, f"--memory-budget={least}", *flags, *travel, "--offload-state=auto")

    def trained(program: Path, *how: str, steps: int = STEPS) -> dict:
        run(program, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", "--validation-split=0", f"--save={saved}", *how)
        return load(saved)

    expected = trained(plain)
    if name == "digits_cnn":
        buffers = json.loads(run(away, "plan", "--format=json"))["buffers"]
        check(any(buffer["kind"] == "fetched_optimizer" and buffer.get("layout") for buffer in buffers), "no state of a convolution travels")
    for how in ((), ("--poison",), ("--check=early-copies",), ("--check=late-copies", "--poison")):
        found = trained(away, *how)
        check(found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in expected), f"{name}: other bits with {how}")
    trained(away, steps=1)
    saved.replace(part)
    found = trained(away, f"--resume={part}")
    check(all(np.array_equal(found[key], expected[key]) for key in expected), f"{name}: other bits after a resume")
    print(f"{name}: {with_state} bytes with the optimizer's state in the arena, {least} with it in slow memory, the same bits")


def check_shapes(args: argparse.Namespace) -> None:
    """State in slow memory of a step of two shapes: one place for both, the same bits as with all of it in the arena, also after a resume."""
    model, data, rows = args.work / "mlp_wide.onnx", args.work / "shapes.npz", (64, 32)
    draw = np.random.default_rng(0)
    count = 2 * rows[0] + rows[1] - 2  # batches in the larger shape and, with fewer rows than that has, in the smaller
    np.savez(data, x=draw.standard_normal((count, 128)).astype(np.float32), y=draw.integers(0, 10, count))
    flags = ["--threads=1", "--target-cpu=x86-64-v3", f"--optimizer={OPTIMIZERS['mlp_wide']}", "--freeze=2.weight", f"--shapes=batch:{rows[0]},{rows[1]}"]
    travel = [f"--offload={args.work}", COPIES]
    plain, away = args.work / "shapes-plain", args.work / "shapes-away"
    saved, part = args.work / "shapes.safetensors", args.work / "part.safetensors"
    run(args.stowage, "compile", model, "-o", plain, "--recompute=none", *flags)
    with_state = smallest(run(args.stowage, "plan", model, "--memory-budget=1KiB", *flags, *travel, code=2))
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=1KiB", *flags, *travel, "--offload-state=all", code=2))
    check(least < with_state, f"two shapes: {least} bytes without state, {with_state} with it")
    said = run(args.stowage, "plan", model, "--memory-budget=1KiB", *flags, code=2)
    check("--offload-state=all (all but" in said, f"the remedy for state is not named for two shapes: {said}")

    def trained(program: Path, *how: str, steps: int = 6) -> bytes:
        said = run(program, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", "--validation-split=0", f"--save={saved}", *how)
        check(re.search(r"^batches: \d+ in batch=64, \d+ in batch=32$", said, re.M) is not None or steps < 6, f"batches run in both shapes: {said}")
        return saved.read_bytes()

    def evaluated(program: Path, *how: str) -> str:
        return run(program, "eval", f"--data={data}", f"--weights={part}", *how).splitlines()[0]

    expected = trained(plain)
    for state, budget in (("all", least), ("auto", (least + with_state) // 2)):
        run(args.stowage, "compile", model, "-o", away, f"--memory-budget={budget}", *flags, *travel, f"--offload-state={state}")
        for how in ((), ("--poison",), ("--check=early-copies",), ("--check=late-copies", "--poison")):
            check(trained(away, *how) == expected, f"two shapes, {state}: other bits with {how}")
        trained(away, steps=2)
        saved.replace(part)
        whole = evaluated(plain)
        for how in ((), ("--poison", "--check=late-copies")):
            check(evaluated(away, *how) == whole, f"two shapes, {state}: another evaluation with {how}")
        check(trained(away, f"--resume={part}") == expected, f"two shapes, {state}: other bits after a resume")
    written = args.work / "shapes.json"
    run(args.stowage, "plan", model, f"--memory-budget={least}", *flags, *travel, "--offload-state=all", "--format=json", "-o", written)
    plan = json.loads(written.read_text())
    names = [{copy["name"] for copy in graph["copies"]["each"] if copy["direction"] == "in"} for graph in plan["graphs"] if graph["name"] == "train"]
    check(len(names) == 2 and names[0] == names[1] >= {"2.weight", "0.weight.exp_avg"}, f"what is fetched in each shape: {names}")
    names = [{copy["name"] for copy in graph["copies"]["each"]} for graph in plan["graphs"] if graph["name"] == "eval"]
    check(len(names) == 2 and all(name == {"0.weight", "2.weight", "4.weight"} for name in names), f"what evaluations fetch in each shape: {names}")
    print(f"two shapes: {with_state} bytes with state in the arena, {least} with it in slow memory, the same bits")


def check_frozen(name: str, stored: str, kinds: str, args: argparse.Namespace) -> None:
    """Frozen weights lie in slow memory, and are fetched where they are read: forward, backward and in evaluations. All matrices are frozen, and
    what is trained are the vectors beside them, so that every gradient passes through all of the matrices."""
    _batch, shape, classes, targets, _extra = NETWORKS[name]
    batch = 16
    model, data = args.work / f"{name}-{batch}.onnx", args.work / f"{name}-{batch}.npz"
    build_model(name, model, "--batch", batch)
    draw, rows = np.random.default_rng(0), batch * STEPS
    x = draw.integers(0, LETTERS, (rows, *shape)) if name == "char_gpt" else draw.standard_normal((rows, *shape)).astype(np.float32)
    np.savez(data, x=x, y=draw.integers(0, classes, (rows, *targets)))
    flags = ["--threads=1", "--target-cpu=x86-64-v3", "--no-dropout", "--optimizer=adam:lr=1e-3", "--freeze=*.weight", f"--frozen={stored}"]
    travel = [f"--offload={args.work}", COPIES]
    plain, away = args.work / f"{name}-frozen-plain", args.work / f"{name}-frozen-away"
    saved, log, part = args.work / "frozen.safetensors", args.work / "frozen.csv", args.work / "part.safetensors"
    with_state = smallest(run(args.stowage, "plan", model, "--memory-budget=1KiB", *flags, *travel, code=2))
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=1KiB", *flags, *travel, f"--offload-state={kinds}", code=2))
    check(least < with_state, f"{name} in {stored}: {least} bytes without frozen weights, {with_state} with them")
    run(args.stowage, "compile", model, "-o", plain, "--recompute=none", *flags)
    said = run(args.stowage, "compile", model, "-o", away, f"--memory-budget={least}", *flags, *travel, f"--offload-state={kinds}")
    check("slow memory: train sends" in said, f"{name} in {stored}: no word of what travels: {said}")

    def trained(program: Path, *how: str, steps: int = STEPS) -> "tuple[str, bytes]":
        run(program, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", "--validation-split=0", f"--save={saved}", f"--log={log}", *how)
        return log.read_text(), saved.read_bytes()

    expected = trained(plain)
    for how in ((), ("--poison",), ("--check=early-copies",), ("--check=late-copies", "--poison"), ("--check=canaries",)):
        check(trained(away, *how) == expected, f"{name} in {stored}: other bits with {how}")

    def evaluated(program: Path, *how: str) -> str:
        return run(program, "eval", f"--data={data}", f"--weights={saved}", *how).splitlines()[0]

    whole = evaluated(plain)
    for how in ((), ("--poison",), ("--check=late-copies", "--poison"), ("--check=early-copies",)):
        check(evaluated(away, *how) == whole, f"{name} in {stored}: another evaluation with {how}")
    # From weights of a file, and after a resume.
    saved.replace(part)
    check(trained(away, f"--init-from={part}") == trained(plain, f"--init-from={part}"), f"{name} in {stored}: other bits from weights of a file")
    trained(away, steps=1)
    saved.replace(part)
    check(trained(away, f"--resume={part}")[1] == expected[1], f"{name} in {stored}: other bits after a resume")
    print(f"{name}: {with_state} bytes with frozen weights in {stored} in the arena, {least} with {kinds} state in slow memory, the same bits")


def check_parameters(name: str, args: argparse.Namespace, *how: str, batch: int = 16) -> None:
    """Trained weights lie in slow memory, fetched as often as the plan wants before their update, and sent behind it."""
    _batch, shape, classes, targets, _extra = NETWORKS[name]
    model, data = args.work / f"{name}-{batch}.onnx", args.work / f"{name}-{batch}.npz"
    build_model(name, model, "--batch", batch)
    draw, rows = np.random.default_rng(0), batch * STEPS
    x = draw.integers(0, LETTERS, (rows, *shape)) if name == "char_gpt" else draw.standard_normal((rows, *shape)).astype(np.float32)
    np.savez(data, x=x, y=draw.integers(0, classes, (rows, *targets)))
    flags = ["--threads=1", "--target-cpu=x86-64-v3", "--no-dropout", "--optimizer=adamw:lr=1e-3", *how]
    travel, name = [f"--offload={args.work}", COPIES], " ".join([name, *how])
    stem = name.replace(" ", "_")
    plain, away = args.work / f"{stem}-trained-plain", args.work / f"{stem}-trained-away"
    saved, log, part = args.work / "trained.safetensors", args.work / "trained.csv", args.work / "part.safetensors"
    least = {kinds: smallest(run(args.stowage, "plan", model, "--memory-budget=1KiB", *flags, *travel, f"--offload-state={kinds}", code=2))
             for kinds in ("none", "optimizer", "parameters", "all")}  # fmt: skip
    check(least["parameters"] < least["none"] and least["all"] < least["optimizer"] < least["none"], f"{name}: {least}")
    run(args.stowage, "compile", model, "-o", plain, "--recompute=none", *flags)

    def trained(program: Path, *how: str, steps: int = STEPS) -> "tuple[str, bytes]":
        run(program, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", "--validation-split=0", f"--save={saved}", f"--log={log}", *how)
        return log.read_text(), saved.read_bytes()

    def evaluated(program: Path, *how: str) -> str:
        return run(program, "eval", f"--data={data}", f"--weights={part}", *how).splitlines()[0]

    expected = trained(plain)
    trained(plain, steps=1)
    saved.replace(part)
    whole, resumed = evaluated(plain), trained(plain, f"--init-from={part}")
    again = False
    # Within the smallest arena and midway, where as little travels as has to: the optimizer's state first.
    for kinds, budget in (("parameters", least["parameters"]), ("all", least["all"]), ("auto", (least["all"] + least["optimizer"]) // 2)):
        written = args.work / "parameters.json"
        planned = [*flags, *travel, f"--offload-state={kinds}", f"--memory-budget={budget}"]
        run(args.stowage, "plan", model, *planned, "--format=json", "-o", written)
        plan = json.loads(written.read_text())
        for graph in plan["graphs"]:
            each = graph["copies"]["each"] if "copies" in graph else []
            weights = [copy["name"] for copy in each if copy["direction"] == "in" and copy["name"].endswith(".weight")]
            again |= len(weights) > len(set(weights))
            check(len(weights) > 0, f"{name}, {kinds}: {graph['name']} fetches no weight")
        run(args.stowage, "compile", model, "-o", away, *planned)
        for how in ((), ("--poison",), ("--check=early-copies",), ("--check=late-copies", "--poison"), ("--check=canaries",)):
            check(trained(away, *how) == expected, f"{name}, {kinds}: other bits with {how}")
        check(trained(away, f"--init-from={part}") == resumed, f"{name}, {kinds}: other bits from weights of a file")
        for how in ((), ("--poison", "--check=late-copies"), ("--check=early-copies",)):
            check(evaluated(away, *how) == whole, f"{name}, {kinds}: another evaluation with {how}")
        check(trained(away, f"--resume={part}")[1] == expected[1], f"{name}, {kinds}: other bits after a resume")
    check(again, f"{name}: no weight is fetched twice in a step")
    print(f"{name}: {least} bytes by what lies in slow memory, the same bits")


def check_outside(args: argparse.Namespace) -> None:
    """The executable has the first values of weights that lie in slow memory as well, beside the arena."""
    model, written, parameters = args.work / "mlp_wide-16.onnx", args.work / "outside.json", 4 * 333834
    run(args.stowage, "plan", model, "--threads=1", "--target-cpu=x86-64-v3", "--optimizer=adamw:lr=1e-3", "--memory-budget=4MiB", f"--offload={args.work}",
        COPIES, "--offload-state=parameters", "--format=json", "-o", written)  # fmt: skip
    plan = json.loads(written.read_text())
    sent = {copy["name"]: copy["bytes"] for copy in plan["graphs"][0]["copies"]["each"] if copy["direction"] == "out"}
    check({"0.weight", "2.weight", "4.weight"} == sent.keys(), f"weights alone travel: {sent}")
    sums = 8 * ((sum(sent.values()) >> 20) + len(sent))  # a checksum for each piece of a MiB
    rest = (plan["outside_arena_bytes"] - parameters) % (32 << 10)  # less the process, its calls and the lanes
    check(rest == sums, f"{plan['outside_arena_bytes']} bytes outside the arena: {parameters} of weights leave {rest}, and {sums} are checksums")


def check_words(args: argparse.Namespace) -> None:
    """With bandwidth and capacity stated there need be no folder."""
    model, flags = args.work / "mlp_wide.onnx", ["--threads=1", "--target-cpu=x86-64-v3"]
    flags += [f"--offload={args.work}/missing", COPIES, "--offload-capacity=1GiB"]
    budget = f"--memory-budget={smallest(run(args.stowage, 'plan', model, '--memory-budget=64KiB', *flags, code=2))}"
    for command in ("plan", "explain"):
        said = run(args.stowage, command, model, budget, *flags)
        check("slow memory: train sends 2.00 MiB and fetches 2.00 MiB" in said, f"{command} says nothing of what travels: {said}")
    points = run(args.stowage, "frontier", model, "--format=csv", "--step=20", *flags)
    check(re.search(r"^\d.*,copies$", points, re.M) is not None, f"no point of the frontier has copies: {points}")
    batch = 900  # within so much recomputation alone finds no plan
    run(args.stowage, "plan", model, f"--batch={batch}", "--memory-budget=6MiB", *flags[:2], code=2)
    said = run(args.stowage, "max-batch", model, f"--limit={batch}", "--memory-budget=6MiB", *flags)
    check(f"largest batch: {batch}" in said, f"max-batch makes nothing of copies: {said}")

    # What the lanes of a step take beside the arena is of the copies of all its shapes.
    written = args.work / "shapes.json"
    run(args.stowage, "plan", model, budget, "--shapes=batch:512,448", "--format=json", "-o", written, *flags)
    plan = json.loads(written.read_text())
    copies = [graph["copies"]["bytes_out"] for graph in plan["graphs"] if "copies" in graph]
    check(len(copies) == 2, f"what travels in both shapes: {copies}")
    starts = sum(plan["strings"][step["op"]] == "copy_out" for graph in plan["graphs"] for step in graph["steps"])
    sums = 8 * ((sum(copies) >> 20) + starts)  # a checksum for each piece of a MiB
    rest = (plan["outside_arena_bytes"] - plan["breakdown"]["parameters"]) % (32 << 10)  # less the process, its calls and the lanes
    check(rest == sums, f"{sums} bytes of checksums in two shapes, found {rest}")


def check_kinds(args: argparse.Namespace) -> None:
    """State that is fetched is no activation and no gradient, in the sum at the peak and among the buffers; what travels is listed by its name."""
    model = args.work / "mlp_wide.onnx"
    # With few samples weights and their state are the peak.
    flags = ["--threads=1", "--target-cpu=x86-64-v3", "--batch=64", "--optimizer=adamw:lr=1e-3"]
    flags += [f"--offload={args.work}/missing", COPIES, "--offload-capacity=1GiB"]
    for freeze, kind, part in (("", "fetched_optimizer", "optimizer, fetched"), ("", "fetched_weight", "weights, fetched"),
                               ("--freeze=*.weight", "fetched_weight", "weights, fetched")):  # fmt: skip
        away = [*flags, "--offload-state=all", *([freeze] if freeze else [])]
        budget = f"--memory-budget={smallest(run(args.stowage, 'plan', model, '--memory-budget=1KiB', *away, code=2))}"
        written = args.work / "kinds.json"
        run(args.stowage, "plan", model, budget, *away, "--format=json", "-o", written)
        plan = json.loads(written.read_text())
        check(sum(plan["breakdown"].values()) == plan["arena_bytes"], f"the parts add up to {sum(plan['breakdown'].values())} of {plan['arena_bytes']}")
        check(plan["breakdown"][kind] >= 1 << 18, f"{kind} of {plan['breakdown']}, whose matrices are 256 KiB and more")
        said = run(args.stowage, "plan", model, budget, *away)
        check(re.search(rf"^ +\+ +{part} ", said, re.M) is not None and kind in said, f"no {part} in {said}")
        check("from slow memory" in run(args.stowage, "explain", model, budget, *away), "explain has no group for what is fetched")
        buffers, copies = plan["buffers"], plan["graphs"][0]["copies"]
        for buffer in buffers:
            why = plan["strings"][buffer["reason"]]
            fetched = why.startswith("weight fetched") or why.startswith("state fetched")
            check(fetched == buffer["kind"].startswith("fetched_"), f"{buffer['name']} is {buffer['kind']}: {why}")
        for direction in ("out", "in"):
            each = [copy for copy in copies["each"] if copy["direction"] == direction]
            check(sum(copy["bytes"] for copy in each) == copies[f"bytes_{direction}"], f"{each} are not all that goes {direction}")
            check(all(buffers[copy["buffer"]]["size"] == copy["bytes"] and copy["seconds"] > 0 for copy in each), f"copies of other buffers: {each}")
        names = {copy["name"] for copy in copies["each"] if buffers[copy["buffer"]]["kind"] == kind}
        expected = {"2.weight"} if kind == "fetched_weight" else {"2.weight.exp_avg", "2.weight.exp_avg_sq"}
        check(expected <= names, f"{names} travel, without {expected}")


def check_run(args: argparse.Namespace) -> None:
    """The step that --profile=run chose is run, and what of it travels does so in the folder."""
    model, flags = args.work / "digits_cnn.onnx", ["--threads=1", "--target-cpu=x86-64-v3", f"--offload={args.work}", "--offload-bandwidth=1,1,5"]
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *flags, code=2))
    said = run(args.stowage, "plan", model, f"--memory-budget={least + least // 50}", "--profile=run", *flags)
    check("slow memory: train sends" in said and "run beside the step with everything kept" in said, f"no run of the step with copies: {said}")
    # Ops are timed in the step with all state in the arena; the step that is chosen fetches it.
    flags += ["--optimizer=adam:lr=1e-3", "--freeze=fc*.weight", "--offload-state=all"]
    flags.append(f"--memory-budget={smallest(run(args.stowage, 'plan', model, '--memory-budget=64KiB', *flags, code=2))}")
    times = args.work / "times.json"
    said = run(args.stowage, "plan", model, "--profile=run", f"--save-profile={times}", *flags)
    check("slow memory: train sends" in said and "run beside the step that waits for each copy of state" in said, f"no run of the step whose state travels: {said}")
    check(not re.search(r'"op": *"(copy|await)', times.read_text()), "copies are not timed as ops")
    check("slow memory: train sends" in run(args.stowage, "plan", model, f"--profile={times}", *flags), "a step is planned with times of a file")


def check_batches(args: argparse.Namespace) -> None:
    """A plan that computes nothing again, but waits for a slow disk, does not end the search for the fastest number of batches."""
    model, flags = args.work / "mlp_wide.onnx", ["--threads=1", "--accumulate=auto", "--memory-budget=4600000", "--format=json"]

    def planned(*flags: str) -> dict:
        return json.JSONDecoder().raw_decode(run(args.stowage, "plan", model, *flags))[0]  # notes stand behind it

    alone = planned(*flags)
    slow = planned(*flags, f"--offload={args.work}", "--offload-bandwidth=0.01,0.01,5")
    check(slow["step_seconds"] <= alone["step_seconds"], f"a step takes {slow['step_seconds']} s with a slow disk, {alone['step_seconds']} without")
    one = [flag for flag in flags if flag != "--accumulate=auto"]
    waiting = planned(*one, f"--offload={args.work}", "--offload-bandwidth=0.01,0.01,5")
    waits = sum(graph["copies"]["exposed_seconds"] for graph in waiting["graphs"] if "copies" in graph)
    extra = waiting["extra_time_fraction"]
    check(0 < waits <= extra * waiting["step_seconds"] and waiting["extra_time_bound_fraction"] <= extra, f"{waits} s of waits are extra time: {extra}")


def check_refusals(args: argparse.Namespace) -> None:
    model, travel = args.work / "mlp_wide.onnx", [f"--offload={args.work}", COPIES]

    def refused(*flags: str) -> str:
        return run(args.stowage, "plan", model, *flags, code=1)

    said = refused(f"--offload={args.work}")
    check("without a budget nothing travels" in said and "as measured now" not in said, f"a budget is asked for, before the folder is measured: {said}")
    check("--offload=FOLDER is for programs on the CPU" in refused(*travel, "--memory-budget=1MiB", "--target=cuda:h100"), "GPUs are refused")
    check("--offload-capacity is about --offload=FOLDER" in refused("--offload-capacity=1GiB", "--memory-budget=1MiB"), "a folder is asked for")
    check("--offload-bandwidth: expected gigabytes a second" in refused(f"--offload={args.work}", "--offload-bandwidth=0", "--memory-budget=1MiB"),
          "a bandwidth of zero is refused")  # fmt: skip
    check("--offload-state is about --offload=FOLDER" in refused("--offload-state=optimizer", "--memory-budget=1MiB"), "a folder is asked for")
    check("expected none, optimizer, parameters, frozen, all or auto" in refused(*travel, "--offload-state=some", "--memory-budget=1MiB"), "other words are refused")
    # Without the flags a refusal prices them by bounds, which no plan is below; a plan for that budget keeps what it says.
    said = run(args.stowage, "plan", model, "--optimizer=adam:lr=1e-3", "--memory-budget=64KiB", "--threads=1", code=2)
    bound = re.search(r"values that travel to a disk and back: --offload=FOLDER \(at most: the bound of such plans is .*?\((\d+) bytes\), above the budget\)", said)
    check(bound is not None and "--offload-state=all (all but the largest tensor" in said, f"no remedy on a disk: {said}")
    told = run(args.stowage, "plan", model, "--optimizer=adam:lr=1e-3", "--memory-budget=64KiB", "--threads=1", *travel, code=2)
    check(int(bound[1]) <= smallest(told) < smallest(said), f"{bound[1]} bytes as a bound: {told}")
    check("--offload=FOLDER (" not in told, f"what is given is named as a remedy: {told}")
    # Where joins are placed anew for every order that price is no bound, and is not called one.
    joined = args.work / "unet_small.onnx"
    build_model("unet_small", joined, "--batch", 1)
    told = run(args.stowage, "plan", joined, "--memory-budget=64KiB", "--threads=1", "--recompute=none", code=2)
    check("--offload=FOLDER (an estimate, since joins are placed anew: such plans take about " in told, f"a price with joins: {told}")
    # A share of the arena is one of the arena with all state in it, whatever of it travels.
    shares = {re.search(r"budget +.*\((\d+) bytes\)", run(args.stowage, "plan", model, *travel, "--optimizer=adam:lr=1e-3", "--memory-budget=5%",
                                                           f"--offload-state={kind}", code=2))[1] for kind in ("none", "optimizer", "parameters", "all", "auto")}  # fmt: skip
    said = run(args.stowage, "plan", model, *travel, "--optimizer=adam:lr=1e-3", "--memory-budget=95%", "--offload-state=optimizer")
    check("without recompute: of the step that computes nothing again and waits for each copy of state" in said, f"what waits for copies is not named: {said}")
    check(len(shares) == 1, f"5 % of the arena are so many bytes: {shares}")
    said = refused(*travel, "--offload-state=optimizer", "--optimizer=adam:lr=1e-3", "--offload-capacity=4096", "--memory-budget=1MiB")
    check("--offload-state: the state takes" in said, f"a folder without room is refused: {said}")
    missing = [f"--offload={args.work}/missing", COPIES, "--memory-budget=1MiB"]
    check("a plan without it needs both" in refused(*missing), "a missing folder whose capacity is not stated is refused")
    check("expected a folder" in refused(*missing, "--offload-capacity=1GiB", "--profile=run"), "a missing folder is refused where the step runs")
    again = re.search(r"as measured now; to plan the same again: (--offload-bandwidth=\S+) (--offload-capacity=\d+)",
                      run(args.stowage, "plan", model, f"--offload={args.work}", "--memory-budget=94%"))  # fmt: skip
    check(again is not None, "what was measured can be stated")
    said = run(args.stowage, "plan", model, f"--offload={args.work}", *again.groups(), "--memory-budget=94%")
    check("as measured now" not in said, f"what is stated is not measured: {said}")
    # Where slow memory has no room the smallest arena is that of recomputation alone.
    least = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", code=2))
    empty = smallest(run(args.stowage, "plan", model, "--memory-budget=64KiB", *travel, "--offload-capacity=4096", code=2))
    check(empty == least, f"in slow memory of one block {empty} bytes, {least} without")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="the first two networks, for the day")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in list(NETWORKS)[: 2 if args.quick else None]:
        check_network(name, args)
    for name in [name for name in OPTIMIZERS if not args.quick or name in list(NETWORKS)[:2]]:
        check_state(name, args)
    check_frozen("mlp_wide", "f32", "frozen", args)
    check_frozen("char_gpt", "nf4", "all", args)
    if not args.quick:
        check_frozen("char_gpt", "int8", "frozen", args)
        check_frozen("char_gpt", "bf16", "all", args)
        check_frozen("digits_cnn", "f32", "frozen", args)
    check_parameters("mlp_wide", args)
    check_outside(args)
    if not args.quick:
        check_parameters("mlp_wide", args, "--accumulate=2")
        check_parameters("char_gpt", args, "--clip-norm=0.5")
        check_parameters("char_gpt", args, "--precision=bf16")
    check_shapes(args)
    check_words(args)
    check_kinds(args)
    if not args.quick:
        check_run(args)
    check_batches(args)
    check_refusals(args)


if __name__ == "__main__":
    main()
