#!/usr/bin/python3
"""Gradient accumulation: what it promises beside its loss curves against PyTorch's loop, which curves.py has.

  accumulate.py --stowage=build/release/bin/stowage --work=DIR [--whole] [--batch=N]

  - K batches give the losses of one large batch, up to rounding, classes that do not count included,
    in a smaller arena;
  - with --memory-budget, --checkpoint=sqrt and --poison they are the same bytes, but where a GPU's plan sums rows in other products;
  - saves stand between steps: a run that goes on from one logs the same bytes, as one batch or as K;
  - where K batches take no more or the peak is state, the plan says so and the step is one batch;
  - --accumulate=auto takes what fits the budget;
  - what does not go together is refused in plain words.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from commands import build_model, check, row_sums, run

PARTS, STEPS = 4, 6
LOSS = "--loss=cross-entropy:class-axis=-1,ignore-index=4"


class Runs:
    """char_gpt, which has no batch norm, compiled in several ways and trained on the same rows."""

    def __init__(self, stowage: Path, work: Path, batch: int) -> None:
        self.stowage, self.work, self.batch = stowage, work, batch
        self.model = work / "char_gpt.onnx"
        self.data = work / "rows.npz"
        build_model("char_gpt", self.model, "--batch", 1)
        rng = np.random.default_rng(0)
        rows = batch * STEPS
        tokens, labels = (rng.integers(0, 65, (rows, 32)) for _ in range(2))
        labels[: batch // PARTS] = 4  # the first part of the first step counts for nothing
        np.savez(self.data, x=tokens, y=labels)

    def compile(self, name: str, *flags: str) -> Path:
        self.said = run(self.stowage, "compile", self.model, "-o", self.work / name, f"--batch={self.batch}", "--threads=1", LOSS,
            "--optimizer=adamw:lr=1e-3", *flags)  # fmt: skip
        return self.work / name

    def train(self, name: str, *flags: str) -> list[str]:
        log = self.work / f"{name}.csv"
        if "--resume" not in flags:
            log.unlink(missing_ok=True)
        run(self.work / name, "train", f"--data={self.data}", "--no-shuffle", f"--log={log}", f"--steps={STEPS}", *flags)
        return log.read_text().splitlines()

    def plan(self, name: str) -> dict:
        return json.loads(run(self.work / name, "plan", "--format=json"))


def losses(lines: list[str]) -> list[float]:
    return [float(row["loss"]) for row in csv.DictReader(lines)]


def check_sums(runs: Runs) -> None:
    runs.compile("whole", "--recompute=none")
    runs.compile("parts", f"--accumulate={PARTS}", "--recompute=none")
    check("sums of gradients take" in runs.said, f"the compiler does not say what became of it: {runs.said}")
    whole, parts = losses(runs.train("whole")), losses(runs.train("parts"))
    worst = max(abs(a - b) / abs(a) for a, b in zip(whole, parts))
    check(len(whole) == STEPS and worst < 1e-5, f"{PARTS} parts differ from one batch by {worst:.1e}: {whole} {parts}")
    one, many = runs.plan("whole"), runs.plan("parts")
    check(many["arena_bytes"] < one["arena_bytes"], "the arena is not smaller")
    check([graph["name"] for graph in many["graphs"]] == ["commit", "accumulate", "eval"], "other graphs")
    check(many["batches_per_step"] == PARTS and many["breakdown"]["accumulators"] >= 4 * 106304, "no sums in the plan")
    check(any("sums of gradients take" in note for note in many["notes"]), "the plan does not say what sums take")
    print(f"{STEPS} steps in {PARTS} parts: relative difference {worst:.1e}; arena {one['arena_bytes']:,} -> {many['arena_bytes']:,}")


def check_same_bytes(runs: Runs) -> None:
    plain = runs.train("parts")
    full = runs.plan("parts")["arena_bytes"]
    for name, flags in {"budget": "--memory-budget=85%", "sqrt": "--checkpoint=sqrt"}.items():
        runs.compile(name, f"--accumulate={PARTS}", flags)
        found = runs.train(name, "--poison")
        if row_sums(runs.plan(name)) != row_sums(runs.plan("parts")):  # other last bits (docs/cuda.md)
            worst = max(abs(a - b) / abs(a) for a, b in zip(losses(plain), losses(found), strict=True))
            check(worst < 1e-5, f"{flags} logs losses that differ by {worst:.1e}")
        else:
            check(found == plain, f"{flags} logs other losses")
        check(runs.plan(name)["arena_bytes"] <= full, f"{flags}: the arena is larger")
    check(runs.plan("budget")["arena_bytes"] <= 0.85 * full, "the budget is not kept")


def check_resume(runs: Runs) -> None:
    """Three steps and a save, then the others; also by the program of one batch."""
    straight = runs.train("parts")
    save = runs.work / "half.safetensors"
    for second in ("parts", "whole"):
        save.unlink(missing_ok=True)
        log = runs.work / "parts.csv"
        log.unlink(missing_ok=True)
        first = [f"--data={runs.data}", "--no-shuffle", f"--log={log}", f"--save={save}"]
        run(runs.work / "parts", "train", *first, "--steps=3")
        run(runs.work / second, "train", *first, f"--steps={STEPS}", "--resume")
        lines = log.read_text().splitlines()
        if second == "parts":
            check(lines == straight, "a resumed run logs other losses")
        worst = max(abs(a - b) / abs(a) for a, b in zip(losses(straight), losses(lines)))
        check(len(lines) == len(straight) and worst < 1e-5, f"resumed by {second}: {worst:.1e}")


def check_profile(runs: Runs) -> None:
    path = runs.work / "profile.json"
    runs.train("parts", f"--profile={path}")
    graphs = json.loads(path.read_text())["graphs"]
    check([graph["graph"] for graph in graphs] == ["accumulate", "commit"], "the profile has other graphs")
    check(graphs[0]["steps"] == STEPS * (PARTS - 1) - 3 and all(c["ms"] > 0 for c in graphs[0]["commands"]), "no times")


def check_where_it_does_not_help(runs: Runs) -> None:
    """Parameters outweigh the activations: the sums would take more than the batch does."""
    mlp = runs.work / "mlp.onnx"
    build_model("mlp_accumulation", mlp, "--batch", 1, "--weights", "none")
    words = [runs.stowage, "plan", mlp, "--batch=32", "--optimizer=adamw:lr=1e-2", "--format=json"]
    whole, parts = (json.loads(run(*words, *flags)) for flags in ((), ("--accumulate=4",)))
    check(parts["arena_bytes"] == whole["arena_bytes"], "the arena is not that of one batch")
    notes = " ".join(parts["notes"])
    for words in ("--accumulate=4 does not lower the memory", "is run as one batch", "are parameters and optimizer state"):
        check(words in notes, f"the plan does not say '{words}': {notes}")


def check_auto(runs: Runs) -> None:
    """Many plans, as for the largest batch: in the night."""
    full = runs.plan("whole")["arena_bytes"]
    flags = [runs.model, f"--batch={runs.batch}", "--threads=1", "--optimizer=adamw:lr=1e-3", LOSS]
    budget = int(0.6 * full)
    plan = json.loads(run(runs.stowage, "plan", *flags, "--accumulate=auto", f"--memory-budget={budget}", "--format=json"))
    notes = " ".join(plan["notes"])
    check(plan["arena_bytes"] <= budget and "--accumulate=auto takes" in notes, f"auto: {notes}")
    roomy = json.loads(run(runs.stowage, "plan", *flags, "--accumulate=auto", f"--memory-budget={2 * full}", "--format=json"))
    check(f"takes one batch of {runs.batch}" in " ".join(roomy["notes"]) and "batches_per_step" not in roomy, "auto splits for nothing")
    text = run(runs.stowage, "plan", *flags, "--accumulate=auto", "--memory-budget=1000", code=2)
    check("STOW1001" in text and "no number of batches fits" in text, text)
    print(notes)


def check_max_batch(runs: Runs) -> None:
    budget = int(0.6 * runs.plan("whole")["arena_bytes"])
    text = run(runs.stowage, "max-batch", runs.model, "--accumulate=4", f"--memory-budget={budget}", "--threads=1", LOSS)
    largest = int(text.split("largest batch: ")[1].split()[0])
    check(largest % 4 == 0 and largest > 0, text)
    words = [runs.stowage, "plan", runs.model, "--accumulate=4", "--threads=1", LOSS, "--format=json"]
    fits = json.loads(run(*words, f"--batch={largest}", f"--memory-budget={budget}"))
    check(fits["arena_bytes"] <= budget, "the largest batch does not fit")


def check_refusals(runs: Runs) -> None:
    def refused(words: str, *flags: str) -> None:
        text = run(runs.stowage, "plan", runs.model, LOSS, *flags, code=1)
        check(words in text, f"{flags}: expected '{words}', found {text}")

    refused("does not divide the 30 samples of a step", "--batch=30", "--accumulate=4")
    refused("finds what fits --memory-budget", "--batch=32", "--accumulate=auto")
    refused("give one of them", "--batch=32", "--accumulate=4", "--input-gradients=tokens")
    refused("expected", "--batch=32", "--accumulate=0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="also what takes minutes")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    runs = Runs(args.stowage, args.work, args.batch)
    for part in (check_sums, check_same_bytes, check_resume, check_profile, check_where_it_does_not_help, check_refusals):
        part(runs)
    if args.whole:
        check_auto(runs)
        check_max_batch(runs)
    print("passed")


if __name__ == "__main__":
    main()
