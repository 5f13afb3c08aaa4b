#!/usr/bin/python3
"""Weights of which every rank keeps a shard (--shard-state=parameters), over MPI on this machine.

  weights_in_shards.py --stowage=build/release/bin/stowage --work=DIR [--mpi=openmpi|mpich]

  - ranks train, evaluate and save as with whole weights, bit for bit: with and without a budget under which weights are put together anew for the
    backward, beside the network as early and as late as plans allow, in float32, bf16 and fp16, and where one rank has more batches to evaluate;
  - a run goes on from a checkpoint of whole weights, and the other way round;
  - auto shards as little as a budget needs, and a budget that whole weights cannot meet names the shards among its remedies;
  - what does not go with weights in shards is refused.
"""

import json
import sys
from pathlib import Path

import numpy as np

from commands import build_model, check, run
from devices import STEPS, Runs, asked, plan_of, tensors, train


def differing(wanted: dict[str, bytes], found: dict[str, bytes]) -> list[str]:
    check(wanted.keys() == found.keys(), f"other tensors: {wanted.keys() ^ found.keys()}")
    return sorted(name for name in wanted if wanted[name] != found[name])


def described(runs: Runs, name: str) -> dict:
    return json.loads(run(runs.work / name, "plan", "--format=json"))


def compare(runs: Runs, name: str, model: Path, data: Path, ranks: int, batch: int, *flags: object) -> None:
    """Whole weights, and shards with all kept and within the smallest arena that is found."""
    words = [f"--batch={batch}", f"--devices={ranks}", *flags]
    runs.compile(f"{name}_whole", model, *words)
    losses, wanted = train(runs, ranks, f"{name}_whole", data, STEPS)
    shards = [*words, "--shard-state=parameters"]
    runs.compile(f"{name}_kept", model, *shards)
    kept, whole = described(runs, f"{name}_kept"), described(runs, f"{name}_whole")
    check(kept["persistent_bytes"] < whole["persistent_bytes"], f"{name}: shards take no less")
    # Under a budget that nothing meets the smallest arena is told.
    said = run(runs.stowage, "plan", model, "--threads=1", *shards, "--memory-budget=1KiB", code=2)
    line = next(line for line in said.splitlines() if "smallest achievable" in line)
    smallest = int(line.split("(")[1].split()[0]) if "(" in line else int(line.split()[-2])
    run(runs.stowage, "compile", model, "-o", runs.work / f"{name}_least", "--threads=1", *shards, f"--memory-budget={smallest}")
    least = described(runs, f"{name}_least")
    gathers = [plan["graphs"][0]["reductions"]["gathers"] for plan in (kept, least)]
    check(gathers[0] < gathers[1] or "mlp" in name, f"{name}: within {smallest:,} bytes no weight is put together again: {gathers}")
    check(least["arena_bytes"] <= kept["arena_bytes"] and least["arena_bytes"] < whole["arena_bytes"], f"{name}: {least['arena_bytes']:,} bytes")
    for kind in ("kept", "least"):
        found_losses, found = train(runs, ranks, f"{name}_{kind}", data, STEPS, *([f"--save-every={STEPS // 3}"] if kind == "least" else []))
        check(losses == found_losses and not differing(wanted, found), f"{name}_{kind}: other bits in {differing(wanted, found)}")
    print(f"{name}: {ranks} ranks, {STEPS} steps: the bits of whole weights; arena {whole['arena_bytes']:,} -> {least['arena_bytes']:,}, {gathers[0]} -> {gathers[1]} gathers")


def compare_beside_network(runs: Runs, name: str, model: Path, data: Path, batch: int, *flags: object) -> None:
    """Weights begin to be put together ahead of their readers; early-copies and late-copies are the ends of what a network may do."""
    losses, wanted = runs.log(f"{name}_whole.csv"), tensors(runs.work / f"{name}_whole.safetensors")
    runs.compile(f"{name}_network", model, f"--batch={batch}", "--devices=2", "--network=0.5,20", "--shard-state=parameters", *flags)
    sums = described(runs, f"{name}_network")["graphs"][0]["reductions"]
    check(sums["started"] > sums["count"], f"{name}: no weight begins ahead of its place: {sums}")
    check(0 <= sums["exposed_seconds"] < sums["seconds"], f"{name}: nothing is hidden: {sums}")
    for extra in ([], ["--check=early-copies"], ["--check=late-copies"], ["--check=canaries"]):
        found_losses, found = train(runs, 2, f"{name}_network", data, STEPS, *extra)
        check(losses == found_losses and not differing(wanted, found), f"{name} {extra}: other bits in {differing(wanted, found)}")
    print(f"{name}: the same bits beside the network, of {1e3 * sums['seconds']:.3f} ms on it {1e3 * sums['exposed_seconds']:.3f} exposed")


def check_resume(runs: Runs, data: Path) -> None:
    half, wanted = runs.work / "half.safetensors", tensors(runs.work / "mlp_whole.safetensors")
    words = ["train", f"--data={data}", "--seed=7", f"--save={half}"]
    for first, second in (("mlp_whole", "mlp_least"), ("mlp_least", "mlp_whole"), ("mlp_least", "mlp_kept")):
        half.unlink(missing_ok=True)
        runs.launch(2, first, *words, f"--steps={STEPS // 2}")
        runs.launch(2, second, *words, f"--steps={STEPS}", "--resume")
        check(not differing(wanted, tensors(half)), f"{first}, resumed by {second}, ends elsewhere")
    print("resumed: whole to shards and back")


def check_evaluation(runs: Runs, data: Path) -> None:
    """Five batches on two ranks, and one: who has fewer takes part in what the other runs."""
    for rows in (1100, 100):
        part = runs.work / "part.npz"
        arrays = np.load(data)
        np.savez(part, x=arrays["x_train"][:rows], y=arrays["y_train"][:rows])
        results = []
        for name in ("mlp_whole", "mlp_least"):
            said = runs.launch(2, name, "eval", f"--data={part}", f"--weights={runs.work}/mlp_whole.safetensors")
            results.append([line for line in said.splitlines() if "loss" in line])
        check(len(results[0]) == 1 and results[0] == results[1], f"evaluations of {rows} samples differ: {results}")


def check_budget(runs: Runs, model: Path) -> None:
    words = [runs.stowage, "plan", model, "--batch=16", "--devices=4", "--threads=1", "--recompute=none", "--optimizer=adamw:lr=1e-2"]
    state = plan_of(*words, "--shard-state=optimizer", "--format=json")["persistent_bytes"]
    weights = plan_of(*words, "--shard-state=parameters", "--format=json")["persistent_bytes"]
    check(weights < state, f"weights in shards take no less: {state} -> {weights}")
    words.remove("--recompute=none")
    least = [run(*words, f"--shard-state={kind}", "--memory-budget=1KiB", code=2) for kind in ("optimizer", "parameters")]
    smallest = [int(next(line for line in said.splitlines() if "smallest achievable" in line).split("bytes")[0].split()[-1].strip("(")) for said in least]
    check(smallest[1] < smallest[0], f"the smallest arenas: {smallest}")
    budget = sum(smallest) // 2
    plan = plan_of(*words, "--shard-state=auto", f"--memory-budget={budget}", "--format=json")
    check(plan["arena_bytes"] <= budget, f"auto within {budget}: {plan['arena_bytes']}")
    check(any("parameters lie in shards" in note for note in plan["notes"]), f"no weights in shards: {plan['notes']}")
    print(f"smallest arenas of a rank of 4: {smallest[0]:,} with state in shards, {smallest[1]:,} with weights")


def check_refusals(runs: Runs, model: Path, data: Path) -> None:
    text = run(runs.stowage, "compile", model, "-o", runs.work / "library.so", "--emit=shared", "--devices=2", "--shard-state=parameters", code=1)
    check("makes executables" in text, f"a library: {text}")
    text = runs.compile("alone", model, "--batch=8", "--shard-state=parameters", code=1)
    check("--devices=N" in text, f"shards of one device: {text}")
    text = run(runs.work / "mlp_least", "eval", f"--data={data}", f"--weights={runs.work}/mlp_whole.safetensors", code=None)
    check("mpirun -n 2" in text, f"an evaluation by one process: {text}")


def main() -> None:
    args, runs = asked(__doc__)
    rng = np.random.default_rng(0)
    mlp, letters = args.work / "mlp.onnx", args.work / "letters.onnx"
    build_model("mlp_accumulation", mlp, "--batch", 1)
    data, tokens = args.work / "rows.npz", args.work / "tokens.npz"
    np.savez(data, x_train=rng.standard_normal((1100, 64), dtype=np.float32), y_train=rng.integers(0, 2, 1100),
        x_test=rng.standard_normal((300, 64), dtype=np.float32), y_test=rng.integers(0, 2, 300))  # fmt: skip
    adam = "--optimizer=adamw:lr=1e-2"
    compare(runs, "mlp", mlp, data, 2, 128, adam)
    compare_beside_network(runs, "mlp", mlp, data, 128, adam)
    if args.mpi == "openmpi":
        compare(runs, "mlp_sgd", mlp, data, 3, 64, "--optimizer=sgd:lr=0.1")  # no state, and no shards of one size
        compare(runs, "mlp4", mlp, data, 4, 64, "--optimizer=sgd:lr=0.1,momentum=0.9", "--clip-norm=0.5")
        compare(runs, "mlp_bf16", mlp, data, 2, 128, adam, "--precision=bf16")
        compare(runs, "mlp_fp16", mlp, data, 2, 128, adam, "--precision=fp16")
        build_model("char_gpt", letters, "--batch", 1)
        x, y = (rng.integers(0, 65, (100, 32)) for _ in range(2))
        np.savez(tokens, x=x, y=y)
        gpt = ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1"]
        compare(runs, "gpt", letters, tokens, 2, 8, *gpt)
        compare_beside_network(runs, "gpt", letters, tokens, 8, *gpt)
    check_resume(runs, data)
    check_evaluation(runs, data)
    check_budget(runs, mlp)
    check_refusals(runs, mlp, data)
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
