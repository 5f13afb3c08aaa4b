#!/usr/bin/python3
"""Memory, step time and compile time of Stowage beside bounds and PyTorch eager; writes one markdown report.

  benchmarks/run.py                                      all three parts, into benchmarks/results/DATE-cpu.md
  benchmarks/run.py --parts=time --models=mlp --rounds=3 --output=-
  benchmarks/run.py --stowage=build/dev/bin/stowage --blas=/opt/openblas/lib

Parts:
  memory    arena beside its lower bound and PyTorch's peak (peak_memory.py) for every model of models/build.py, with
            and without recomputation; nothing is executed
  time      time per training step against PyTorch (step_time.py; --peers names its modes, --peer-python another PyTorch,
            such as today's from PyPI in a virtual environment). Paired: all run in turns, ABBA, and the ratio
            is that of the medians over all rounds. Processor time (all threads) stands beside wall time: beside other
            load it is the steadier of the two. Ours includes copying each batch from the data file, PyTorch's batch
            lies ready.
  compile   seconds per stage of `stowage compile`

Needs python3-numpy, python3-onnx and python3-torch, and libopenblas0-openmp as PyTorch's BLAS: Debian's default, netlib's
reference, makes a straw man of it. --blas names a folder with another libblas.so.3. OpenBLAS does not know every
processor and may fall back to kernels that are five times slower: the fastest of its core types is measured and given to
PyTorch (OPENBLAS_CORETYPE).
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
OPTIMIZER = "sgd:lr=0.01,momentum=0.9"
MEMORY_BATCH = {
    "digits_cnn": 128, "mlp": 128, "mlp_large": 128, "lenet": 128, "vgg11": 32, "vgg16": 32, "resnet18": 128,
    "resnet34": 64, "resnet50": 32, "mobilenet_v2": 32, "densenet121": 32, "inception": 32,
}  # fmt: skip
# Sample shape, classes, batch, steps per round.
TIME_MODELS = {
    "digits_cnn": ((1, 8, 8), 10, 128, 120),
    "mlp": ((784,), 10, 128, 200),
    "resnet18": ((3, 224, 224), 1000, 8, 8),
}
MIB = 1 << 20
# Seconds of processor time for a product as the mlp has it, on one thread.
PRODUCT_SECONDS = """
import time, torch
torch.set_num_threads(1)
a, b = torch.randn(128, 784), torch.randn(784, 512)
for _ in range(5):
    a @ b
begin = time.process_time()
for _ in range(20):
    a @ b
print((time.process_time() - begin) / 20)
"""


def run(command: list[Any], **settings: Any) -> tuple[str, float, float]:
    """(standard output, wall seconds, processor seconds); a failure ends the benchmark with the command's own words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **settings)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown; every column but the first is pushed to the right."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in [head, rule, *rows])


class Bench:
    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args = args
        self.folder = folder
        self.environment = dict(os.environ)
        if args.blas:
            self.environment["LD_LIBRARY_PATH"] = str(args.blas)
        self.core_type = ""

    def model(self, name: str, batch: int) -> Path:
        path = self.folder / f"{name}-{batch}.onnx"
        if not path.exists():
            run([sys.executable, ROOT / "models/build.py", name, "-o", path, "--batch", batch])
        return path

    # ---- memory ------------------------------------------------------------------------------------------------------

    def memory(self) -> str:
        rows = []
        for name in self.args.models or MEMORY_BATCH:
            batch = MEMORY_BATCH[name]
            note(f"memory: {name} at batch {batch}")
            peer, _, _ = run([sys.executable, ROOT / "benchmarks/pytorch/peak_memory.py",
                              "--models", f"{name}:{batch}", "--optimizer", OPTIMIZER], env=self.environment)  # fmt: skip
            peak = json.loads(peer)["peak_bytes"]
            for mode in ("none", "sqrt"):
                command = [self.args.stowage, "plan", self.model(name, batch), "--format=json", f"--batch={batch}",
                           f"--optimizer={OPTIMIZER}", f"--checkpoint={mode}"]  # fmt: skip
                text, wall, cpu = run(command)
                plan = json.loads(text)
                arena, bound = plan["arena_bytes"], plan["lower_bound_bytes"]
                rows.append([f"{name} b{batch}", mode, f"{arena / MIB:,.2f}", f"{bound / MIB:,.2f}",
                             f"{arena / bound:.4f}", f"{peak / MIB:,.2f}", f"{arena / peak:.3f}",
                             f"{100 * plan['extra_time_fraction']:.1f} %", f"{wall:.2f}", f"{cpu:.2f}"])  # fmt: skip
        head = ["model", "checkpoint", "arena MiB", "lower bound MiB", "arena / bound", "PyTorch's peak MiB",
                "arena / PyTorch", "recomputed", "plan wall s", "plan processor s"]  # fmt: skip
        return (
            "## Memory\n\nThe arena holds parameters, optimizer state, batch, activations, gradients and workspaces. "
            "The lower bound is of the order and recomputation that the plan chose. PyTorch's peak is that of live "
            "tensors, without library scratch and fragmentation, of eager mode without checkpointing.\n\n"
        ) + table(head, rows)

    # ---- time --------------------------------------------------------------------------------------------------------

    def ours(self, executable: Path, data: Path, threads: int, steps: int) -> dict[str, Any]:
        report = self.folder / "profile.json"
        run([executable, "train", f"--data={data}", f"--steps={steps}", f"--threads={threads}", "--validation-split=0",
             "--allow-nonfinite", "--quiet", f"--profile={report}"],
            env=os.environ | {"OMP_NUM_THREADS": str(threads)})  # fmt: skip
        return json.loads(report.read_text())

    def choose_core_type(self) -> None:
        """Gives PyTorch's OpenBLAS the core type that is fastest here, unless the caller has chosen one."""
        if "OPENBLAS_CORETYPE" in os.environ:
            self.core_type = os.environ["OPENBLAS_CORETYPE"]
            return
        flags = set(Path("/proc/cpuinfo").read_text().split())
        types = [""] + ["Haswell"] * ("avx2" in flags) + ["SkylakeX"] * ("avx512f" in flags)
        seconds = {}
        for kind in types:
            environment = self.environment | {"OMP_NUM_THREADS": "1"} | ({"OPENBLAS_CORETYPE": kind} if kind else {})
            text, _, _ = run([self.args.peer_python, "-c", PRODUCT_SECONDS], env=environment)
            seconds[kind] = float(text)
            note(f"time: PyTorch's product with OpenBLAS core type {kind or 'as detected'}: {1e3 * float(text):.3f} ms")
        self.core_type = min(seconds, key=seconds.__getitem__)
        if self.core_type:
            self.environment["OPENBLAS_CORETYPE"] = self.core_type

    def theirs(self, name: str, mode: str, batch: int, threads: int, steps: int) -> dict[str, Any]:
        text, _, _ = run([self.args.peer_python, ROOT / "benchmarks/pytorch/step_time.py", "--models", f"{name}:{batch}",
                          "--mode", mode, "--optimizer", OPTIMIZER, "--threads", threads, "--steps", steps, "--warmup", 3,
                          "--seconds", 600],
                         env=self.environment | {"OMP_NUM_THREADS": str(threads)})  # fmt: skip
        return json.loads(text)

    def compare(self, name: str, threads: int) -> tuple[list[list[str]], dict[str, Any], str]:
        """(a row of the table per mode of the peer, profile of our last round, BLAS of the peer)."""
        shape, classes, batch, steps = TIME_MODELS[name]
        model = self.model(name, batch)
        executable = self.folder / f"{name}-{batch}-t{threads}"
        run([self.args.stowage, "compile", model, "-o", executable, f"--batch={batch}",
             f"--optimizer={OPTIMIZER}", f"--threads={threads}"])  # fmt: skip
        data = self.folder / f"{name}.npz"
        random = np.random.default_rng(0)
        count = 4 * batch
        np.savez(data, x=random.standard_normal((count, *shape), np.float32), y=random.integers(0, classes, count))
        sides = ["Stowage", *self.args.peers]
        wall: dict[str, list[float]] = {side: [] for side in sides}
        cpu: dict[str, list[float]] = {side: [] for side in sides}
        profile, blas = {}, ""
        for number in range(self.args.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                if side == "Stowage":
                    profile = self.ours(executable, data, threads, steps + 3)
                    wall[side].append(statistics.median(profile["step_ms"]))
                    cpu[side].append(profile["processor_ms"])
                else:
                    peer = self.theirs(name, side, batch, threads, steps)
                    wall[side].append(peer["median_ms"])
                    cpu[side].append(peer["cpu_ms"])
                    blas = peer["blas"]
            note(f"time: {name} b{batch}, {threads} threads, round {number + 1}: "
                 + ", ".join(f"{side} {wall[side][-1]:.3f} ms ({cpu[side][-1]:.3f} processor)" for side in sides))  # fmt: skip
        rows = []
        our_wall, our_cpu = statistics.median(wall["Stowage"]), statistics.median(cpu["Stowage"])
        for mode in self.args.peers:
            peer_wall, peer_cpu = statistics.median(wall[mode]), statistics.median(cpu[mode])
            rows.append([f"{name} b{batch}", str(threads), mode, f"{our_wall:.3f}", f"{peer_wall:.3f}",
                         f"**{our_wall / peer_wall:.3f}**", f"{our_cpu:.3f}", f"{peer_cpu:.3f}",
                         f"**{our_cpu / peer_cpu:.3f}**"])  # fmt: skip
        return rows, profile, blas

    def time(self) -> str:
        rows, profiles, libraries = [], [], set()
        self.choose_core_type()
        for name in self.args.models or TIME_MODELS:
            if name not in TIME_MODELS:
                continue
            for threads in self.args.threads:
                compared, profile, blas = self.compare(name, threads)
                rows += compared
                libraries.add(blas)
                if threads == self.args.threads[0]:
                    profiles.append(where_time_goes(compared[0][0], profile))
        head = ["model", "threads", "peer", "Stowage ms", "PyTorch ms", "ratio", "Stowage processor ms", "PyTorch processor ms",
                "ratio"]  # fmt: skip
        straw = "" if all("openblas" in name or name == "mkl" for name in libraries) else " **Not OpenBLAS: install libopenblas0-openmp.**"
        return (
            f"## Time per training step\n\nMedians over {self.args.rounds} rounds, PyTorch in turns with ours. "
            f"Optimizer `{OPTIMIZER}`. PyTorch's BLAS: `{', '.join(sorted(libraries))}`, core type "
            f"{self.core_type or 'as detected'}.{straw}\n\n"
            + table(head, rows) + "\n" + "\n".join(profiles)
        )  # fmt: skip

    # ---- compile -----------------------------------------------------------------------------------------------------

    def compile(self) -> str:
        rows, stages = [], []
        for name in self.args.models or MEMORY_BATCH:
            batch = MEMORY_BATCH[name]
            note(f"compile: {name} at batch {batch}")
            text, wall, cpu = run([self.args.stowage, "compile", self.model(name, batch), "-o", self.folder / "out",
                                   f"--batch={batch}", f"--optimizer={OPTIMIZER}", "--timing"])  # fmt: skip
            seconds = dict(re.findall(r"^  (\S.*?) +([0-9.]+) s$", text, re.MULTILINE))
            seconds.pop("total", None)
            stages = stages or list(seconds)
            rows.append([f"{name} b{batch}"] + [seconds.get(stage, "") for stage in stages]
                        + [f"{wall:.2f}", f"{cpu:.2f}"])  # fmt: skip
        head = ["model"] + [f"{stage} s" for stage in stages] + ["wall s", "processor s"]
        return "## Compile time by stage\n\n" + table(head, rows)


def where_time_goes(title: str, profile: dict[str, Any]) -> str:
    """Our step by kind of operation: milliseconds, share, work per second."""
    kinds: dict[str, list[float]] = {}
    for command in profile["commands"]:
        label = command["kind"] + (", " + command["phase"] if command["phase"] else "")
        sums = kinds.setdefault(label, [0, 0, 0, 0, 0])
        for i, value in enumerate((1, command["ms"], command["flops"], command["bytes"], command["processor_ms"])):
            sums[i] += value
    kinds["batch into the arena"] = [0, profile["input_ms"], 0, 0, profile["input_ms"]]
    kinds["loss and the rest"] = [0, profile["rest_ms"], 0, 0, profile["rest_ms"]]
    total = sum(sums[1] for sums in kinds.values())
    rows = []
    for label, (count, ms, flops, size, cpu) in sorted(kinds.items(), key=lambda item: (-item[1][1], item[0])):
        rows.append([label, str(count) if count else "", f"{ms:.4f}", f"{cpu:.4f}", f"{100 * ms / total:.1f}",
                     f"{flops / ms / 1e6:.1f}" if flops and ms else "",
                     f"{size / ms / 1e6:.1f}" if size and ms else ""])  # fmt: skip
    return f"### Where our time goes: {title}, {profile['threads']} thread(s)\n\n" + table(
        ["kind", "commands", "ms per step", "processor ms", "%", "GFLOP/s", "GB/s"], rows
    )


def machine() -> str:
    """The machine in a few lines."""
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    flags = set((re.search(r"flags\s*: (.*)", text) or [""])[0].split())
    wide = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_tile") if flag in flags]
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / (1 << 20)
    load = os.getloadavg()[0]
    return (
        f"- processor: {name[1] if name else platform.machine()}, {os.cpu_count()} cores ({', '.join(wide)}), "
        f"{memory:.0f} GiB of memory\n- system: {platform.freedesktop_os_release()['PRETTY_NAME']}, Linux "
        f"{platform.release()}\n- load average at the start: {load:.2f}"
        + (" (**not a quiet machine: trust processor time, not wall time**)" if load > 0.5 else "")
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, default=ROOT / "build/release/bin/stowage")
    parser.add_argument("--parts", default="memory,time,compile", help="default: memory,time,compile")
    parser.add_argument("--models", help="NAME,... instead of all")
    parser.add_argument("--threads", default="1,2", help="of the time part (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="of the time part (default: 5)")
    parser.add_argument("--peers", default="eager", help="of the time part: eager, channels-last, compile (default: eager)")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON",
                        help="Python with the PyTorch of the time part (default: this one)")  # fmt: skip
    parser.add_argument("--blas", type=Path, help="folder with PyTorch's libblas.so.3")
    parser.add_argument("--output", help="file, or - for standard output (default: benchmarks/results/DATE-cpu.md)")
    args = parser.parse_args()
    args.models = args.models.split(",") if args.models else None
    args.peers = args.peers.split(",")
    args.threads = [int(text) for text in args.threads.split(",")]
    parts = args.parts.split(",")
    unknown = [part for part in parts if part not in ("memory", "time", "compile")]
    unknown += [name for name in args.models or [] if name not in MEMORY_BATCH]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if not args.stowage.exists():
        parser.error(f"no {args.stowage}; build it first: cmake --preset release && cmake --build --preset release")
    today = datetime.date.today().isoformat()
    command = shlex.join(["benchmarks/run.py", *sys.argv[1:]])
    text = f"# Benchmarks on the CPU, {today}\n\n`{command}`\n\n{machine()}"
    with tempfile.TemporaryDirectory(prefix="stowage-bench-") as folder:
        bench = Bench(args, Path(folder))
        for part in parts:
            text += "\n" + getattr(bench, part)()
    if args.output == "-":
        print(text)
        return
    output = Path(args.output) if args.output else ROOT / f"benchmarks/results/{today}-cpu.md"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)
    note(str(output))


if __name__ == "__main__":
    main()
