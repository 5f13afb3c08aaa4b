#!/usr/bin/python3
"""Mixed precision takes no more memory than f32 with everything kept, or on a GPU less time: every model of models/, plain and under budgets.

  mixed_memory.py --stowage=build/release/bin/stowage --work=DIR [--whole] [--target=cuda:h100] [--table=FILE] [MODEL...]

For each model in bf16, and in fp16 with the usual and with delayed loss scaling:

  - with everything kept (--recompute=none) its arena is no larger than in f32, nor without a flag, nor, whole, with --checkpoint=sqrt;
  - what stays in f32 is the same however it is planned: the notes say so in the same words;
  - what a plan in f32 fits, half of what is above the state, and the smallest arena that f32 reaches, it fits, or the refusal says how much
    either takes at least;
  - its frontier has a point within each of these budgets that it fits, none of which on the host takes more time than the plan under its
    budget (by day where some of the plans leave nodes in f32);
  - within what f32 takes with everything kept the batch fits that this is.

By day a few small models with everything kept and delayed scaling, and one whose calls need more scratch in 16 bits, so that its plan leaves some of them in f32
and says so; --whole has all. Nothing is executed. --table writes what was found as a page.
"""

import argparse
import csv
import io
import json
import subprocess
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from commands import build_model, check, half_budget

SGD = "--optimizer=sgd:lr=0.1,momentum=0.9"
ADAM = "--optimizer=adamw:lr=1e-3"
TOKENS = f"--loss=cross-entropy:class-axis=-1 {ADAM}"
PIXELS = f"--loss=cross-entropy:class-axis=1 {SGD}"
SENTENCES = f"--loss=output:loss --input=source,translation {ADAM}"
# Sizes for which weights outweigh activations are the hard ones: there is little to gain, and something to lose.
SUITE = {
    "digits_cnn": ("--batch 32", ADAM), "mlp": ("--batch 8", ADAM), "mlp_large": ("--batch 8", ADAM), "mlp_small": ("--batch 32", SGD),
    "mlp_wide": ("--batch 32", ADAM), "mlp_accumulation": ("--batch 32", ADAM), "mlp_block": ("--batch 32", ADAM),
    "my_model_small": ("--batch 16", f"--loss=mse {ADAM}"), "my_model_full_small": ("--batch 16", f"--loss=mse {ADAM}"),
    "my_model": ("--batch 4", f"--loss=mse {ADAM}"), "my_model_full": ("--batch 4", f"--loss=mse {ADAM}"),
    "unet_small": ("--batch 1 --image 8", PIXELS), "unet": ("--batch 1 --image 32", PIXELS), "lenet": ("--batch 16", SGD),
    "vgg11": ("--batch 1", SGD), "vgg16": ("--batch 1", SGD),
    "resnet18": ("--batch 4 --image 32", SGD), "resnet34": ("--batch 4 --image 32", SGD), "resnet50": ("--batch 16 --image 28", SGD),
    "mobilenet_v2": ("--batch 4 --image 32", SGD), "densenet121": ("--batch 2 --image 32", SGD), "inception": ("--batch 1", SGD),
    "gpt2": ("--batch 1 --length 32 --layers 2", TOKENS), "gpt2_untied": ("--batch 1 --length 32 --layers 2", TOKENS),
    "char_gpt": ("--batch 8", TOKENS), "char_gpt_untied": ("--batch 8", TOKENS), "lstm": ("--batch 8", ADAM), "lstm_long": ("--batch 8 --steps 10", f"--input=sequence {ADAM}"),
    "bert": ("--batch 1 --length 32 --layers 2", TOKENS), "char_bert": ("--batch 8", TOKENS), "vit": ("--batch 1 --layers 2 --image 64", ADAM),
    "tiny_vit": ("--batch 8", ADAM), "llama_small": ("--batch 1 --layers 2 --length 32", f"{TOKENS} --input=tokens"), "llama_1b": ("--batch 1 --layers 1 --length 32", f"{TOKENS} --input=tokens"),
    "char_llama": ("--batch 8", f"{TOKENS} --input=tokens"), "seq2seq": ("--batch 2 --length 4", SENTENCES), "seq2seq_cells": ("--batch 2 --length 4", SENTENCES),
    "digit_seq2seq": ("--batch 8", SENTENCES), "digit_seq2seq_cells": ("--batch 8", SENTENCES),
}  # fmt: skip
FASTER = "a step is faster in them on this device"
# Weights in 16 bits beside those in f32 outweigh what a layer's activations save, and products take most of the time.
ON_GPU = {"gpt2_long": ("gpt2 --batch 4 --length 1024 --layers 1", TOKENS)}
DAY = ("mlp_block", "char_gpt", "unet_small")
PRECISIONS = {"bf16": "--precision=bf16", "fp16": "--precision=fp16", "fp16, delayed": "--precision=fp16 --loss-scale=delayed"}


@dataclass(frozen=True)
class Outcome:
    arena: int  # bytes; 0: does not fit
    extra: float  # share of the step's time
    state: int
    notes: list[str]
    seconds: float = 0

    @property
    def wide(self) -> str:
        """Which of it runs in f32, or all, and why; empty where nothing does."""
        return next((note for note in self.notes if "in f32, since" in note), "")


class Planner:
    """`stowage` asked about one model."""

    def __init__(self, stowage: Path, name: str, target: str, work: Path) -> None:
        build, self.flags = ON_GPU[name] if name in ON_GPU else (f"{name} {SUITE[name][0]}", SUITE[name][1])
        self.stowage, self.target, self.model = stowage, target, work / f"{name}.onnx"
        kind, *words = build.split()
        self.batch = int(words[1])
        build_model(kind, self.model, "--weights", "none", *words)

    def run(self, command: str, *flags: str) -> subprocess.CompletedProcess[str]:
        words = [self.stowage, command, self.model, "--threads=1", f"--target={self.target}", *self.flags.split()]
        words += [word for flag in flags for word in flag.split()]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if self.target != "host" and done.returncode == 1 and "cuDNN" in done.stderr:
            print(f"skipped: {done.stderr}")
            raise SystemExit(77)
        check(done.returncode in (0, 2), f"{' '.join(str(word) for word in words)}: {done.stderr}")
        return done

    def plan(self, *flags: str) -> Outcome:
        done = self.run("plan", "--format=json", *flags)
        if done.returncode == 2:
            return Outcome(0, 0, 0, done.stderr.splitlines())
        plan = json.loads(done.stdout)
        return Outcome(plan["arena_bytes"], plan["extra_time_fraction"], plan["persistent_bytes"], plan["notes"], plan["step_seconds"])

    def names_both(self, refusal: Outcome) -> bool:
        """How much 16 bits take at least, and f32 where the step is not all in it."""
        lines = [line.strip() for line in refusal.notes]
        figures = [line for line in lines if line.startswith(("smallest achievable", "smallest in f32"))]
        return len(figures) == (1 if "everything is stored and computed in f32" in refusal.wide else 2)

    def largest(self, *flags: str) -> int:
        """Samples of the largest batch that fits, 0 where none does."""
        done = self.run("max-batch", *flags)
        return int(done.stdout.split(":")[1].split()[0]) if done.returncode == 0 else 0

    def frontier(self, *flags: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.run("frontier", "--format=csv", "--step=20", *flags).stdout)))

    def smallest(self) -> int:
        """In f32."""
        return min(int(row["arena_bytes"]) for row in self.frontier())


def compare(planner: Planner, name: str, whole: bool) -> list[tuple[str, ...]]:
    """Rows of the table, checked."""
    kept = planner.plan("--recompute=none")
    limits = {"--recompute=none": kept.arena, "": kept.arena}
    if whole:
        limits["--checkpoint=sqrt"] = kept.arena
        smallest = planner.smallest()
        half = half_budget({"persistent_bytes": kept.state, "arena_bytes": kept.arena})
        budgets = [smallest] if half <= smallest else [half, smallest]
    else:
        budgets = [kept.arena]
    limits |= {f"--memory-budget={budget}": budget for budget in budgets}
    rows = []
    for title, precision in PRECISIONS.items():
        if not whole and title == "fp16":
            continue
        found = {flag: planner.plan(precision, flag) for flag in limits}
        for flag, outcome in found.items():
            check(outcome.arena > 0 or planner.names_both(outcome), f"{name} {title} {flag}: refused without f32's figure: {outcome.notes}")
            isFaster = planner.target != "host" and FASTER in " ".join(outcome.notes) and outcome.seconds < kept.seconds * 1.02
            isWithin = outcome.arena <= limits[flag] or (isFaster and "budget" not in flag)
            check(isWithin, f"{name} {title} {flag}: {outcome.arena} bytes, {outcome.seconds} s, in f32 {limits[flag]}, {kept.seconds} s: {outcome.notes}")
            check(outcome.wide == found[""].wide, f"{name} {title} {flag}: {outcome.wide or 'nothing in f32'}, without a flag {found[''].wide or 'nothing'}")
        is_faster = any(FASTER in note for note in found[""].notes)
        check(name not in ON_GPU or is_faster, f"{name} {title}: expected 16 bits for their speed, found {found[''].notes}")
        points = planner.frontier(precision) if whole or found[""].wide else []
        for budget in [budget for budget in budgets if points and found[f"--memory-budget={budget}"].arena > 0]:
            check(any(int(point["arena_bytes"]) <= budget for point in points), f"{name} {title}: no point of the frontier is within {budget} bytes")
        for point in points if planner.target == "host" else []:  # on GPUs a plan's seconds count joined updates
            seconds = planner.plan(precision, f"--memory-budget={point['budget_bytes']}").seconds
            check(int(point["time_ns"]) * 1e-9 <= seconds * 1.001, f"{name} {title}: {seconds} s within {point['budget_bytes']} bytes, the frontier has {point}")
        room = f"--memory-budget={kept.arena} --limit=8"
        if not is_faster:
            check(planner.largest(precision, room) >= min(planner.batch, 8), f"{name} {title} {room}: the batch does not fit that does in f32")
        least = list(found.values())[-1]
        ratio = found["--recompute=none"].arena / kept.arena
        part = f"{least.arena / budgets[-1]:.3f}" if least.arena else "does not fit"
        wide = "" if not found[""].wide else "all" if ": everything" in found[""].wide else "in part"
        rows.append((name, title, f"{kept.arena:,}", f"{ratio:.3f}", f"{budgets[-1]:,}", part, f"{100 * least.extra:.1f} %", wide))
        print(" | ".join(rows[-1]), flush=True)
    return rows


def write_table(path: Path, rows: list[tuple[str, ...]], target: str) -> None:
    heads = ("model", "stored in", "f32, everything kept", "of it", "smallest in f32", "of it", "extra time", "in f32")
    lines = [f"## {target}, {date.today()}", "", f"| {' | '.join(heads)} |", "|---|---|---:|---:|---:|---:|---:|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--target", default="host")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--whole", action="store_true", help="all models, in every way to plan: minutes")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in args.models or ([*SUITE, *(ON_GPU if args.target != "host" else ())] if args.whole else DAY):
        rows += compare(Planner(args.stowage, name, args.target, args.work), name, args.whole)
    if not args.models and args.target == "host":  # one image that no call can cut into pieces, or with AVX-512 a product's scratch
        check(any(row[-1] for row in rows), "nothing runs in f32: what does this test show?")
    if args.table:
        write_table(args.table, rows, args.target)


if __name__ == "__main__":
    main()
