"""Random networks, compiled in many ways and trained beside PyTorch in double.

  random_graphs.py --stowage=build/release/bin/stowage [--first=SEED] [--cases=N] [--turns] [--keep=DIR]
  random_graphs.py --stowage=... --kinds                    how often each kind of operator comes in these seeds

Each seed is a network of some twenty of the operators of operators.py with one to three inputs, a loss, an optimizer and a number of
threads. It is compiled in float32 as it is, and the losses of three steps, the trained parameters and the running statistics are
compared with PyTorch's in double; how far PyTorch's own float32 is from them says what rounding does. Then it is compiled

  - within 80 and 50 % of that arena, or the smallest that a refusal names instead, and by segments, each run with every buffer filled with NaN at its death: the same bits;
  - in two batches a step, and in chunks of rows: PyTorch's losses again, since sums are in another order;
  - with another number of threads: the same bits;
  - in bf16 and fp16, as it is and within budgets: the same bits as each other, the first loss near PyTorch's;
  - in batches so large that values travel to slow memory, within half of the arena and the smallest that a refusal names, with copies
    made beside the commands, as early and as late as awaits allow, and with every buffer filled with NaN at its death: the same bits;
    and again with trained weights and what the optimizer keeps in slow memory from step to step, and with large parameters frozen, which
    lie there as well;
  - for two devices, every tenth seed for four, with all state on each, with the optimizer's in shards, and with sums beside other commands: as many
    processes over MPI end with the bits of one process that runs as many batches in a step.

With --turns, of which the day makes use, each seed is compiled as it is and in one of the other ways, the next seed in the next.

A network that fails is made smaller as long as it fails in the same way: a value after the other becomes an input. What is left is
printed and, with --keep, written with its data.
"""

import argparse
import collections
import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Optional, Sequence

import numpy as np
import torch

import operators
from graph import Graph, Run, random_data

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parents[1] / "e2e")]
import safetensors_io  # noqa: E402
from devices import LAUNCHERS  # noqa: E402

BATCH, STEPS, CLASSES = 4, 3, 4
BLOCK = 4096  # bytes below which nothing travels
LARGE = 256  # samples with which most values have more bytes than a block of slow memory
BUDGETS = ("--memory-budget=80%", "--memory-budget=50%", "--checkpoint=sqrt")
OPTIMIZERS = ("sgd:lr=0.05", "sgd:lr=0.02,momentum=0.9,nesterov", "adam:lr=1e-3", "adamw:lr=1e-3,weight-decay=0.1",
              "rmsprop:lr=1e-3,momentum=0.5", "adagrad:lr=1e-2", "lion:lr=1e-3,weight-decay=0.1", "adafactor:lr=1e-2")  # fmt: skip
TRIES = 80  # networks that making one smaller may try
STAGES = ("as it is", "budgets", "in two batches", "in chunks of rows", "loss in chunks", "threads", "bf16", "fp16", "travels", "on ranks")
PART = 64  # samples of a rank, so that activations outweigh parameters and steps are made of several batches
SHARDINGS = ((), ("--shard-state=optimizer",), ("--shard-state=optimizer", "--network=0.5,20"), ("--shard-state=parameters",), ("--shard-state=parameters", "--network=0.5,20"))
SENSITIVE = 1e-2  # where PyTorch's float32 is further than this from its double, the network says nothing


class Wrong(Exception):
    """What does not hold; the text before the first colon says of which kind it is."""


class Refused(Exception):
    """Exit code 1 or 2 of the compiler, with the first line of its error."""

    def __init__(self, said: str) -> None:
        super().__init__(next((line for line in said.splitlines() if "error: " in line), "no reason"))
        smallest = re.search(r"^ *smallest achievable +.*\((\d+) bytes\)", said, re.M)
        self.smallest = smallest[1] if smallest and "STOW1001" in said else None


@dataclass(frozen=True)
class Setting:
    loss: str
    optimizer: str
    threads: int
    clip: tuple[str, ...]


def draw_network(seed: int) -> tuple[Graph, Setting]:
    b = operators.Builder(seed)
    shapes = [(5,), (8,), (3, 4), (2, 6), (4, 6, 6), (2, 5, 5), (8, 4, 4)]
    for _ in range(b.rng.choice([1, 2, 2, 3])):
        b.input(b.rng.choice(shapes))
    kinds = sorted(operators.draws)
    while len(b.graph.steps) < 24:
        b.grow(kinds)
    read = {name for step in b.graph.steps for name in step.operands}
    leaves = [value for value in b.floats if value not in read]
    flat = [b.apply("Flatten", lambda v: v.flatten(1), leaf, axis=1) for leaf in leaves]
    joined = b.apply("Concat", lambda *v: torch.cat(v, 1), *flat, axis=1) if len(flat) > 1 else flat[0]
    weight, shift = b.parameter(CLASSES, b.shape(joined)[0]), b.parameter(CLASSES, scale=0.3)
    out = b.apply("Gemm", lambda v, w, s: torch.nn.functional.linear(v, w, s), joined, weight,
                  shift, named="out", transB=1)  # fmt: skip
    loss = b.rng.choice(["mse", "cross-entropy", "huber", "cross-entropy:label-smoothing=0.1", "output:loss"])
    if loss == "output:loss":
        square = b.apply("Mul", torch.mul, out, out)
        out = b.apply("ReduceMean", lambda v: v.mean(), square, named="loss", keepdims=0)
    b.graph.output = out
    clip = b.rng.choice([(), (), ("--clip-norm=0.5",), ("--clip-value=0.05",)])
    return b.graph.pruned(), Setting(loss, b.rng.choice(OPTIMIZERS), b.rng.choice([1, 2]), clip)


class Case:
    """A network with its data, and PyTorch's answers; `check` raises Wrong."""

    def __init__(self, seed: int, graph: Graph, setting: Setting, stowage: str, folder: Path) -> None:
        self.seed, self.graph, self.setting, self.stowage, self.folder = seed, graph, setting, stowage, folder
        self.data = self.draw(np.random.default_rng(seed), BATCH * STEPS)
        self.model, self.rows = folder / "model.onnx", folder / "rows.npz"
        self.write()

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
        data = random_data(self.graph, rng, rows)
        if self.setting.loss.startswith("cross-entropy"):
            data["y"] = rng.integers(0, CLASSES, rows)
        elif self.graph.output != "loss":
            data["y"] = rng.standard_normal((rows, *self.graph.shapes[self.graph.output])).astype(np.float32)
        return data

    def write(self) -> None:
        self.graph.write(self.model, BATCH)
        np.savez(self.rows, **self.data)

    def reference(self, batches: int, dtype: torch.dtype, noise: float = 0.0) -> tuple[list[float], dict[str, np.ndarray]]:
        run = Run(self.graph, dtype, noise)
        return run.train(self.data, self.setting.loss, self.setting.optimizer, STEPS, batches, self.setting.clip), run.state()

    def compile(self, *flags: str, threads: int = 0, batch: int = BATCH, frozen: Sequence[str] = ()) -> Path:
        program, setting = self.folder / "program", self.setting
        words = [self.stowage, "compile", self.model, "-o", program, f"--batch={batch}", f"--loss={setting.loss}",
                 f"--optimizer={setting.optimizer}", f"--threads={threads or setting.threads}", "--parameter=m.w*", f"--freeze={','.join(('c*', *frozen))}", *setting.clip, *flags]  # fmt: skip
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
        if done.returncode in (1, 2):
            raise Refused(done.stderr)
        if done.returncode:
            raise Wrong(f"compiler ends with {done.returncode}: {' '.join(flags)}: {done.stderr.strip()[:600]}")
        self.said = done.stdout
        return program

    def train(self, program: Path, *flags: str, rows: Optional[Path] = None, launcher: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[str, bytes]:
        log, saved = self.folder / "log.csv", self.folder / "saved.safetensors"
        for path in (log, saved):
            path.unlink(missing_ok=True)
        words = [*launcher, program, "train", f"--data={rows or self.rows}", f"--steps={STEPS}", "--no-shuffle", "--validation-split=0", "--allow-nonfinite",
                 "--quiet", f"--log={log}", f"--save={saved}", *flags]  # fmt: skip
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise Wrong(f"program ends with {done.returncode}: {done.stderr.strip()[:600]}")
        tensors = safetensors_io.load(saved)
        return log.read_text(), b"".join(name.encode() + tensors[name].tobytes() for name in sorted(tensors.keys() - set(without)))

    def losses(self, log: str) -> list[float]:
        return [float(row["loss"]) for row in csv.DictReader(log.splitlines())]

    def compare(self, what: str, log: str, batches: int, state: bool) -> bool:
        """Whether the network says anything: where rounding alone changes much, it does not."""
        exact, wanted = self.reference(batches, torch.float64)
        others = [self.reference(batches, torch.float32), self.reference(batches, torch.float64, 1e-6)]
        disturbance = max(abs(a - b) for losses, _ in others for a, b in zip(exact, losses))
        if not np.isfinite(disturbance) or disturbance > SENSITIVE * max(map(abs, exact)):
            return False
        found = self.losses(log)
        allowed = 1e-4 * max(0.1, *map(abs, exact)) + 20 * disturbance
        if len(found) != STEPS or not all(abs(a - b) <= allowed for a, b in zip(found, exact)):
            raise Wrong(f"other losses {what}: {found}, PyTorch {exact}, allowed {allowed:.1e}")
        saved = safetensors_io.load(self.folder / "saved.safetensors")
        moved = [name for name, array in self.graph.constants.items() if name in saved and not np.array_equal(saved[name], array)]
        if moved:
            raise Wrong(f"constants trained {what}: {', '.join(moved)}")
        if state:
            self.compare_state(what, saved, wanted, [found for _, found in others])
        return True

    def compare_state(self, what: str, saved: dict[str, np.ndarray], wanted: dict[str, np.ndarray], others: list[dict[str, np.ndarray]]) -> None:
        before = {**self.graph.parameters, **self.graph.statistics}
        for name, value in wanted.items():
            if name not in saved:
                raise Wrong(f"not trained {what}: '{name}' is not in the save")
            change = np.abs(value - before[name]).max()
            disturbance = max(np.abs(other[name] - value).max() for other in others)
            allowed = 2e-3 * change + 30 * disturbance + 2e-6 * np.abs(value).max()
            worst = np.abs(saved[name].reshape(value.shape) - value).max()
            if not worst <= allowed:
                raise Wrong(f"other state {what}: '{name}' is {worst:.2e} off, its change {change:.2e}, allowed {allowed:.2e}")

    def trained_as_it_is(self, *flags: str) -> tuple[str, bytes]:
        try:
            program = self.compile("--recompute=none", *flags)
        except Refused as refusal:
            raise Wrong(f"refused {' '.join(flags)}: {refusal}") from refusal
        return self.train(program, "--poison")

    def check_plain(self, counts: collections.Counter) -> None:
        log = self.trained_as_it_is()[0]
        # An optimizer that divides by a gradient's own size makes much of what is nothing but rounding: losses alone are compared.
        says = self.compare("as it is", log, 1, self.setting.optimizer.startswith("sgd"))
        counts["trained as it is" if says else "left out as sensitive to rounding"] += 1

    def within_budgets(self, *flags: str) -> Iterator[tuple[str, Path]]:
        """Programs of smaller arenas; in place of a budget that is refused, the smallest that the refusal names."""
        tried = set()
        for budget in BUDGETS:
            try:
                yield budget, self.compile(budget, *flags)
                continue
            except Refused as refusal:
                if not refusal.smallest:
                    raise Wrong(f"refused {budget}: {refusal}") from refusal
                smallest = f"--memory-budget={refusal.smallest}"
            if smallest in tried:
                continue
            tried.add(smallest)
            try:
                yield smallest, self.compile(smallest, *flags)
            except Refused as refusal:
                raise Wrong(f"refused what was named as achievable {budget}, then {smallest}: {refusal}") from refusal

    def check_bits(self, counts: collections.Counter, *flags: str) -> None:
        plain, name = self.trained_as_it_is(*flags), " ".join(flags) or "f32"
        if flags:
            exact, found = self.reference(1, torch.float64)[0][0], self.losses(plain[0])[0]
            if not abs(found - exact) <= 0.1 * max(1.0, abs(exact)):
                raise Wrong(f"other losses in {name}: {found}, PyTorch {exact}")
        for budget, program in self.within_budgets(*flags):
            if self.train(program, "--poison") != plain:
                raise Wrong(f"other bits in {name}: {budget}")
            counts[f"same bits in {name}"] += 1

    def check_travels(self, counts: collections.Counter) -> None:
        rows = self.folder / "large.npz"
        np.savez(rows, **self.draw(np.random.default_rng(0), LARGE * STEPS))
        try:
            program = self.compile("--recompute=none", batch=LARGE)
            plain = self.train(program, rows=rows)
            evaluated = self.evaluate(program, rows)
        except Refused as refusal:
            raise Wrong(f"refused --batch={LARGE}: {refusal}") from refusal
        offload = (f"--offload={self.folder}", "--offload-bandwidth=1e4,1e4,0")
        try:
            budget = "--memory-budget=50%"
            program = self.compile(budget, *offload, batch=LARGE)
        except Refused as refusal:
            if not refusal.smallest:
                raise Wrong(f"refused {budget} with --offload: {refusal}") from refusal
            budget = f"--memory-budget={refusal.smallest}"
            try:
                program = self.compile(budget, *offload, batch=LARGE)
            except Refused as again:
                raise Wrong(f"refused what was named as achievable with --offload: {budget}: {again}") from again
        travels = "slow memory:" in self.said
        for how in ("--poison", "--check=early-copies", "--check=late-copies") if travels else ("--poison",):
            if self.train(program, how, rows=rows) != plain:
                raise Wrong(f"other bits where values may travel: {budget} {how}")
        counts["same bits where values travel" if travels else "same bits where values may travel"] += 1
        program = self.check_state_away(counts, plain, rows, (*offload, "--offload-state=all"), ())
        if self.evaluate(program, rows) != evaluated:
            raise Wrong("another evaluation with weights in slow memory")
        frozen = [name for name, array in self.graph.parameters.items() if array.nbytes >= BLOCK]
        if frozen:
            program = self.compile("--recompute=none", batch=LARGE, frozen=frozen)
            plain = self.train(program, rows=rows)
            evaluated = self.evaluate(program, rows)
            program = self.check_state_away(counts, plain, rows, (*offload, "--offload-state=all"), frozen)
            if self.evaluate(program, rows) != evaluated:
                raise Wrong("another evaluation with frozen weights in slow memory")
            counts["same bits and evaluation where frozen weights lie in slow memory"] += 1

    def check_state_away(self, counts: collections.Counter, plain: tuple[str, bytes], rows: Path, state: Sequence[str], frozen: Sequence[str]) -> Path:
        """The same with state in slow memory from step to step, in the smallest arena that a refusal names."""
        try:
            self.compile("--memory-budget=1KiB", *state, batch=LARGE, frozen=frozen)
            raise Wrong("a budget of a KiB is kept with --offload-state")
        except Refused as refusal:
            budget = f"--memory-budget={refusal.smallest}"
        try:
            program = self.compile(budget, *state, batch=LARGE, frozen=frozen)
        except Refused as again:
            raise Wrong(f"refused what was named as achievable with {state[-1]}: {budget}: {again}") from again
        for how in ("--poison", "--check=late-copies") if "slow memory:" in self.said else ("--poison",):
            if self.train(program, how, rows=rows) != plain:
                raise Wrong(f"other bits with {state[-1]}: {budget} {how}")
        counts["same bits where state may lie in slow memory"] += 1
        return program

    def check_ranks(self, counts: collections.Counter) -> None:
        ranks = 4 if self.seed % 10 == 0 else 2
        rows, threads = self.folder / "ranks.npz", 1 if ranks > 2 else self.setting.threads
        np.savez(rows, **self.draw(np.random.default_rng(0), ranks * PART * STEPS))
        name, flags = LAUNCHERS["openmpi"]
        launcher = (shutil.which(name) or name, "-n", str(ranks), *flags)
        # Running statistics follow the batches of all in one process, and of rank 0 on ranks.
        try:
            program = self.compile("--recompute=none", f"--accumulate={ranks}", threads=threads, batch=ranks * PART)
            plan = json.loads(subprocess.run([program, "plan", "--format=json"], capture_output=True, check=True).stdout)
            if plan.get("batches_per_step") != ranks:
                counts["left out on ranks: in batches it takes no less"] += 1
                return
            plain = self.train(program, rows=rows, without=self.graph.statistics)
            for sharding in SHARDINGS:
                program = self.compile("--recompute=none", f"--devices={ranks}", *sharding, threads=threads, batch=PART)
                if self.train(program, "--poison", rows=rows, launcher=launcher, without=self.graph.statistics) != plain:
                    raise Wrong(f"other bits on {ranks} ranks than in {ranks} batches: {' '.join(sharding)}")
        except Refused as refusal:
            raise Wrong(f"refused on ranks: {refusal}") from refusal
        counts[f"same bits on {ranks} ranks"] += 1

    def evaluate(self, program: Path, rows: Path) -> str:
        """What an evaluation of the state that was saved last says."""
        words = [program, "eval", f"--data={rows}", f"--weights={self.folder / 'saved.safetensors'}", "--allow-nonfinite", "--poison"]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise Wrong(f"evaluation ends with {done.returncode}: {done.stderr.strip()[:600]}")
        return done.stdout.splitlines()[0]

    def check_close(self, counts: collections.Counter, name: str, batches: int, *flags: str) -> None:
        try:
            program = self.compile("--recompute=none", *flags)
        except Refused as refusal:
            counts[f"refused {name}: {refusal}"] += 1
            return
        if self.compare(name, self.train(program, "--poison")[0], batches, False):
            counts[f"trained {name}"] += 1

    def check_threads(self, counts: collections.Counter) -> None:
        others = 3 - self.setting.threads
        plain = self.trained_as_it_is()
        if self.train(self.compile("--recompute=none", threads=others), "--poison") != plain:
            raise Wrong(f"other bits on {others} thread(s) than on {self.setting.threads}")
        counts["same bits on other threads"] += 1

    def stages(self, counts: collections.Counter) -> dict[str, Callable[[], None]]:
        ways = (lambda: self.check_plain(counts),
                lambda: self.check_bits(counts),
                lambda: self.check_close(counts, "in two batches", 2, "--accumulate=2"),
                lambda: self.check_close(counts, "in chunks of rows", 1, "--row-chunks=2"),
                lambda: self.check_close(counts, "with the loss in chunks", 1, "--loss-chunks=2"),
                lambda: self.check_threads(counts),
                lambda: self.check_bits(counts, "--precision=bf16"),
                lambda: self.check_bits(counts, "--precision=fp16"),
                lambda: self.check_travels(counts),
                lambda: self.check_ranks(counts))  # fmt: skip
        return dict(zip(STAGES, ways, strict=True))

    def failures(self, counts: collections.Counter, names: Sequence[str]) -> dict[str, str]:
        """What is wrong in each of these stages. What breaks the reference itself is a fault of this test, and is not caught."""
        found = {}
        for name, stage in self.stages(counts).items():
            if name not in names:
                continue
            try:
                stage()
            except Wrong as wrong:
                found[name] = str(wrong)
            except subprocess.TimeoutExpired as expired:
                found[name] = f"no answer: {expired}"
        return found


def way_of(failure: str) -> str:
    """How a case failed: a refusal by its words, but for paths and numbers, everything else by what went wrong."""
    head = failure.split(":")[0]
    return re.sub(r'"[^"]*"|[\d.]+', "", failure)[:200] if "refused" in head else head


def reduced(case: Case, seed: int, stage: str, failure: str) -> tuple[Case, str]:
    """A smaller network that fails in the same stage and in the same way, within a bounded number of tries."""
    way, tries, smaller = way_of(failure), 0, True
    while smaller and tries < TRIES:
        smaller = False
        for step in reversed(case.graph.steps[:-1]):
            if not all(case.graph.is_real(name) for name in step.results):
                continue
            candidate = Case(seed, case.graph.cut(step.results), case.setting, case.stowage, case.folder)
            if len(candidate.graph.steps) >= len(case.graph.steps):
                continue
            tries += 1
            found = candidate.failures(collections.Counter(), [stage]).get(stage, "")
            if way_of(found) == way:
                case, failure, smaller = candidate, found, True
                break
            if tries >= TRIES:
                break
    case.write()
    return case, failure


def describe(graph: Graph) -> str:
    lines = [f"    {name}: {list(entry.shape)}{f' below {entry.classes}' if entry.classes else ''}" for name, entry in graph.inputs.items()]
    lines += [f"    {', '.join(step.results)} = {step.op}({', '.join(step.operands)}) {step.attributes or ''}" for step in graph.steps]
    return "\n".join(lines)


def report(case: Case, seed: int, stage: str, failure: str, keep: Optional[Path]) -> None:
    print(f"seed {seed}: {failure}\n  {case.setting}\n  alone: random_graphs.py --first={seed} --cases=1 --only '{stage}'", flush=True)
    case, failure = reduced(case, seed, stage, failure)
    print(f"  smallest found: {failure}\n{describe(case.graph)}", flush=True)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        name = f"random_{seed}_{stage.replace(' ', '_')}"
        shutil.copy(case.model, keep / f"{name}.onnx")
        shutil.copy(case.rows, keep / f"{name}.npz")
        print(f"  kept: {keep / name}.onnx and .npz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--cases", type=int, default=3, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="*", choices=STAGES, default=STAGES, metavar="STAGE", help="instead of all stages")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--kinds", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    counts, failures, seen = collections.Counter(), 0, collections.Counter()
    for seed in range(args.first, args.first + args.cases):
        graph, setting = draw_network(seed)
        seen.update({step.op for step in graph.steps})
        if args.kinds:
            continue
        with tempfile.TemporaryDirectory() as folder:
            case = Case(seed, graph, setting, args.stowage, Path(folder))
            found = case.failures(counts, (STAGES[0], STAGES[1 + (seed - args.first) % (len(STAGES) - 1)]) if args.turns else args.only)
            failures += bool(found)
            for stage, failure in found.items():
                report(case, seed, stage, failure, args.keep)
    print(f"{len(seen)} operators" + (": " + ", ".join(f"{op} {n}" for op, n in seen.most_common()) if args.kinds else ""))
    for what, count in sorted(counts.items()):
        print(f"  {what}: {count}")
    print(f"{args.cases - failures} passed, {failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
