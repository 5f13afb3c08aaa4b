"""Checks and measures the executables of a bundle on the GPU of this machine.

  ./gpu-check.sh                                everything, in steps; those that have a result are not done again
  ./gpu-check.sh --limit=540                    ends by then; exit code 3: steps are left
  ./gpu-check.sh --out=FOLDER                   keeps results there; with what another machine has done already, goes on from it
  ./gpu-check.sh --only='numerics*'             of the steps, those that match; --list names them
  ./gpu-check.sh --again='table*'               forgets the results of these first
  ./gpu-check.sh --report                       only writes the report of what has a result

After every step FOLDER/results.json and FOLDER/report.md are written anew; the report is to be kept as benchmarks/results/DATE-CHIP.md.
Exit code 1: a check failed. Steps come in the order of their worth: what is right, our own figures and where their time goes, PyTorch's, then
what compute-sanitizer and ncu say, and further rounds.
Libraries are looked for where the linker looks, then in CUDA's folders and in Python's packages (nvidia-cublas, nvidia-cudnn-cu13).
What is missing is said first, a line each, and what needs it is left out: PyTorch and NumPy in the Python that runs this (PYTHON=..., 3.9 or
later), compute-sanitizer and ncu on PATH or beside a CUDA toolkit.
"""

import argparse
import csv
import datetime
import fnmatch
import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
SCRATCH = HERE / "scratch"
STEP_S = 240  # most that one command may take
LIBRARIES = ("libcublasLt.so.*", "libcudnn.so.*", "libnvrtc.so.*")
FIRST_PEERS = ("eager", "compile")
PEERS = (*FIRST_PEERS, "reduce-overhead", "max-autotune", "compile-budget", "checkpoint")
PYTHON = (3, 9)
# The order in which compute-sanitizer's tools are run, and those that come before our figures.
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
FIRST_SANITIZERS = ("memcheck", "racecheck")
SANITIZED = ("mlp", "char_gpt", "digits_cnn", "lstm")  # of numerics, those whose steps are short
DEAREST = 10
# Of a kernel, as ncu names them: time, shares of what the chip does at most, registers and occupancy.
METRICS = {
    "gpu__time_duration.sum": "ns",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "multiprocessors, %",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "memory, %",
    "sm__inst_executed_pipe_tensor.sum": "tensor instructions",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps, %",
    "launch__registers_per_thread": "registers",
}
GIB = 1 << 30


class CheckFailed(Exception):
    pass


class OutOfTime(Exception):
    """The limit of this run, and not of the step, has come."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckFailed(message)


class Clock:
    """Seconds that are left of this run."""

    end = float("inf")

    @classmethod
    def left(cls) -> float:
        return cls.end - time.monotonic()


class Results:
    """Of every step that was done, in one file, which is whole at any instant."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.path = folder, folder / "results.json"
        self.of: dict[str, dict] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def put(self, step: str, result: "dict | None") -> None:
        self.of.pop(step, None)
        if result is not None:
            self.of[step] = result
        self.write("results.json", json.dumps(self.of, indent=1) + "\n")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        new = path.with_name(name + ".new")
        new.write_text(text)
        return new.rename(path)

    def done(self, step: str) -> bool:
        return step in self.of and "cut" not in self.of[step]


def library_folders() -> list[str]:
    """Folders of CUDA's libraries that the linker does not look in by itself."""
    folders = [name for name in ("/usr/local/nvidia/lib64",) if os.path.exists(f"{name}/libcuda.so.1")]
    for place in (*sys.path, "/usr/local/cuda"):
        for pattern in LIBRARIES:
            found = glob.glob(f"{place}/nvidia/*/lib/{pattern}") + glob.glob(f"{place}/lib64/{pattern}")
            folders += [os.path.dirname(name) for name in found]
    return list(dict.fromkeys(folders))


def environment() -> dict[str, str]:
    paths = [os.environ.get("LD_LIBRARY_PATH", ""), *library_folders(), str(HERE / "lib")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def tool(name: str) -> "str | None":
    """A program of CUDA's toolkit: on PATH, or in the toolkit's folders."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *sorted(glob.glob("/usr/local/cuda-*"), reverse=True)]
    places = [f"{home}/{folder}" for home in homes if home for folder in ("bin", name, "extras/CUPTI/bin")]
    places += sorted(glob.glob("/opt/nvidia/nsight-compute/*"), reverse=True)
    return shutil.which(name) or next((f"{place}/{name}" for place in places if os.access(f"{place}/{name}", os.X_OK)), None)


def run(command: list[object], own: bool = True) -> str:
    """Of one of the bundle's executables, or of another program with the environment as it is. It is ended with what it started."""
    words = [str(word) for word in command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env=environment() if own else None)  # fmt: skip
    name = Path(words[1] if words[0] == sys.executable else words[0]).name
    try:
        output, errors = process.communicate(timeout=min(STEP_S, max(Clock.left(), 0)))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if Clock.left() <= 0:
            raise OutOfTime from None
        raise CheckFailed(f"{name} takes more than {STEP_S} s") from None
    require(process.returncode == 0, f"{name}: exit code {process.returncode}: {(errors or output).strip()[-800:]}")
    return output


def exact_bytes(text: str, what: str) -> int:
    found = re.search(rf"{what} -?[^()]*\((-?\d+) bytes\)", text)  # below 0 where another process gave memory back meanwhile
    require(found is not None, f"no '{what}' in: {text}")
    return -abs(int(found[1])) if f"{what} -" in text else int(found[1])


def driver_memory(output: str) -> dict:
    """The line that closes a run, which must add up."""
    lines = [line for line in output.splitlines() if line.startswith("memory of ") and " in use by all processes" in line]
    require(bool(lines), f"the run does not say what the driver reports:\n{output}")
    line = lines[-1]
    device, _, figures = line.removeprefix("memory of ").partition(": ")
    found = {"device": device, "arena": exact_bytes(line, "arena"), "unaccounted": exact_bytes(line, "unaccounted"),
             "contexts": exact_bytes(line, "context"), "code": exact_bytes(line, "code and libraries"),
             "graphs": exact_bytes(line, "graphs"), "in_use": exact_bytes("x " + figures, "x")}  # fmt: skip
    found["fixed"] = 0 if "fixed part not measured" in line else exact_bytes(line, "fixed part")
    require(found["in_use"] == found["arena"] + found["fixed"] + found["unaccounted"], f"does not add up: {line}")
    return found


#===-- steps ---------------------------------------------------------------------------------===#


def system_step(bundle: dict) -> dict:
    found = {"date": datetime.date.today().isoformat(), "command": " ".join(sys.argv), "libraries": library_folders()}
    try:
        query = "name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit"
        found["gpu"] = run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], own=False).strip()
    except (CheckFailed, OSError) as error:
        found["gpu"] = f"nvidia-smi: {error}"
    return found


def properties_step() -> dict:
    """For codegen/cuda/chips, and no check: a cuDNN that does not tell has not failed."""
    try:
        return json.loads(run([sys.executable, HERE / "device_properties.py"]))
    except CheckFailed as failure:
        return {"problem": str(failure)}


def kernels_step(bundle: dict) -> dict:
    """In several processes, each with a part of the cases: most of the time goes into the driver's compiler."""
    parts = min(os.cpu_count() or 1, 8)
    each = -(-bundle["kernel_cases"] // parts)
    with ThreadPoolExecutor(parts) as pool:
        pieces = pool.map(lambda part: run([HERE / "bin/kernel-check", HERE / "kernels", f"--from={part * each}", f"--count={each}"]), range(parts))
        summaries = [piece.splitlines()[-1] for piece in pieces]
    numbers = [re.fullmatch(r"(\d+) of \d+ cases, (\d+) failed, the largest difference ([\d.]+) of what is allowed", line) for line in summaries]
    require(all(numbers), f"no summary in: {summaries}")
    done, failed = (sum(int(found[group]) for found in numbers if found) for group in (1, 2))
    worst = max(float(found[3]) for found in numbers if found)
    return {"cases": done, "summary": f"{done} launches of generated kernels, {failed} failed, the largest difference {worst:.3f} of what is allowed"}


def copies_step() -> dict:
    return json.loads(run([sys.executable, HERE / "copy_bandwidth.py"]))


def train(name: str, data: Path, steps: int, *more: object) -> str:
    return run([HERE / "bin" / name, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", *more])


def losses(path: Path) -> list[float]:
    with open(path) as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def numerics_step(entry: dict) -> dict:
    name, folder = f"{entry['name']}-{entry['precision']}", HERE / "numerics" / entry["name"]
    log = SCRATCH / f"{name}.csv"
    log.unlink(missing_ok=True)
    output = train(name, folder / "data.npz", entry["steps"], f"--log={log}")
    ours, host = losses(log), losses(folder / f"{entry['precision']}.csv")
    require(len(ours) == len(host), f"{len(ours)} losses instead of {len(host)}")
    require(all(map(math.isfinite, ours)), f"losses are not finite: {ours}")
    worst = max(abs(a - b) / max(abs(b), 1e-3) for a, b in list(zip(ours, host))[: entry["compared"]])
    require(worst <= entry["tolerance"], f"losses differ from the host's by {worst:.1e}, {entry['tolerance']:.0e} is allowed: {ours} {host}")
    return {"difference": worst, "allowed": entry["tolerance"], "first": ours[0], "last": ours[-1], "memory": driver_memory(output)}


def determinism_step(entry: dict) -> dict:
    """Three runs, the last with dead buffers overwritten, to the same bytes of log and state."""
    name, data = f"{entry['name']}-{entry['precision']}", HERE / "numerics" / entry["name"] / "data.npz"
    states = []
    for number, more in enumerate(((), (), ("--poison",))):
        log, state = SCRATCH / f"{name}-{number}.csv", SCRATCH / f"{name}-{number}.safetensors"
        log.unlink(missing_ok=True)
        train(name, data, entry["steps"], f"--log={log}", f"--save={state}", *more)
        states.append((log.read_bytes(), state.read_bytes()))
        state.unlink()
    require(states[0] == states[1], "two runs differ")
    require(states[0] == states[2], "--poison changes the run")
    return {"runs": len(states), "bytes": len(states[0][1])}


def table_data(entry: dict) -> Path:
    path = SCRATCH / f"{entry['name']}.npz"
    if path.exists():
        return path
    import numpy as np

    rng = np.random.Generator(np.random.Philox(5))
    rows = 2 * entry["batch"]
    if entry["tokens"]:
        x, y = (rng.integers(0, entry["classes"], (rows, *entry["inputs"])) for _ in range(2))
    else:
        x, y = rng.random((rows, *entry["inputs"]), dtype=np.float32), rng.integers(0, entry["classes"], rows)
    new = path.with_suffix(".new.npz")
    np.savez(new, x=x, y=y)
    return new.rename(path)


def own_table_step(entry: dict, variant: str) -> dict:
    """Two runs; what the second takes longer is timed, so that loading and the first steps do not count."""
    name, data = f"{entry['name']}-{entry['precision']}-{variant}", table_data(entry)

    def seconds(steps: int) -> tuple[float, str]:
        output = train(name, data, steps)
        found = re.search(r"trained to step \d+ in .* ([\d.]+) ms per step", output)
        require(found is not None, f"no time in: {output}")
        return 1e-3 * float(found[1]) * steps, output

    first = entry["steps"]
    few, _ = seconds(first)
    more = min(max(first, int(entry["seconds"] / max(few / first, 1e-6))), 40 * first)
    many, output = seconds(first + more)
    memory = driver_memory(output)
    notes = [line for line in output.splitlines() if line.startswith("note: ")]
    return {"ms": 1e3 * (many - few) / more, "steps": more, "notes": notes, "allocated": memory["arena"], "reserved": memory["arena"],
            "driver": memory["in_use"], "memory": memory}  # fmt: skip


def profile_step(entry: dict, results: Path) -> dict:
    """Where a step's time goes, command by command, and what generated kernels move."""
    name, data = f"{entry['name']}-{entry['precision']}-{entry['ours'][0]}", table_data(entry)
    path = results / f"profile-{name}.json"  # stowage plan --target=... --profile=... reads it
    train(name, data, 2 + entry["steps"], f"--profile={path}")
    commands = json.loads(path.read_text())["commands"]
    kinds: dict[str, float] = {}
    for command in commands:
        kind = f"{command['kind']} {command['phase']}".strip()
        kinds[kind] = kinds.get(kind, 0) + command["ms"]
    largest = sorted(commands, key=lambda command: -command["ms"])[:12]
    wide = [c for c in commands if c["bytes"] >= 1e8 and c["ms"] > 0 and not c["kind"].startswith(("matmul", "conv", "attention"))]
    return {"ms": sum(kinds.values()), "kinds": dict(sorted(kinds.items(), key=lambda item: -item[1])),
            "largest": [{key: c[key] for key in ("kind", "phase", "name", "ms", "planned_ms", "flops", "bytes")} for c in largest],
            "wide": [[c["kind"], c["name"], c["bytes"], c["ms"]] for c in wide]}  # fmt: skip


def sanitizer_step(entry: dict, checker: str) -> dict:
    """One step of a small workload under a tool of compute-sanitizer, which must find nothing."""
    name, data = f"{entry['name']}-{entry['precision']}", HERE / "numerics" / entry["name"] / "data.npz"
    output = run([tool("compute-sanitizer"), f"--tool={checker}", "--print-limit=20", HERE / "bin" / name, "train", f"--data={data}", "--steps=1",
                  "--no-shuffle"])  # fmt: skip
    found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)", output)
    require(bool(found), f"compute-sanitizer has no summary: {output[-400:]}")
    said = [line for line in output.splitlines() if line.startswith("=========")]
    require(not any(map(int, found)), f"{checker} found {found}: {' '.join(said)[:600]}")
    return {"found": 0, "tool": checker}


def ncu(metrics: "list[str]", more: "list[object]", program: "list[object]") -> "list[dict[str, str]]":
    """A row for each launch that was measured, by the columns of its CSV."""
    output = run([tool("ncu"), "--csv", "--page=raw", "--print-units=base", "--print-kernel-base=function", f"--metrics={','.join(metrics)}", *more, *program])
    lines = output.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    require(first is not None, f"ncu wrote no table: {output[-400:]}")
    rows = list(csv.DictReader(line for line in lines[first:] if line.startswith('"')))
    return [row for row in rows if row["ID"]]  # the first row has the units


def ncu_step(entry: dict) -> dict:
    """The dearest kernels of a step, ours and the libraries', by what they reach of the chip's most."""
    program = [HERE / "bin" / f"{entry['name']}-{entry['precision']}-{entry['ours'][0]}", "train", f"--data={table_data(entry)}", "--steps=1",
               "--no-shuffle"]  # fmt: skip
    time_of = "gpu__time_duration.sum"
    try:
        launches = ncu([time_of], [], program)
    except CheckFailed as failure:
        if "ERR_NVGPUCTRPERM" in str(failure):  # a setting of the machine, and nothing of ours
            return {"problem": "this user may not read the GPU's counters (ERR_NVGPUCTRPERM)"}
        raise
    times: "dict[str, float]" = {}
    for launch in launches:
        times[launch["Kernel Name"]] = times.get(launch["Kernel Name"], 0) + number(launch[time_of])
    names = sorted(times, key=lambda name: -times[name])[:DEAREST]
    pattern = "|".join(map(re.escape, names))
    rows = ncu(list(METRICS), ["--filter-mode=per-launch-config", "--launch-count=1", "--kernel-name-base=function", f"--kernel-name=regex:^({pattern})$"], program)
    worst: "dict[str, dict[str, str]]" = {}  # of several sizes of a kernel, the one that takes longest
    for row in sorted(rows, key=lambda row: -number(row[time_of])):
        worst.setdefault(row["Kernel Name"], row)
    found = [{"kernel": name, "step_ns": times[name], **{key: worst.get(name, {}).get(key, "") for key in METRICS}} for name in names]
    return {"kernels": found, "launches": len(launches)}


def number(text: str) -> float:
    """As ncu writes them: "1,234.5"."""
    return float(text.replace(",", ""))


def peer_table_step(entry: dict, variant: str, device: str) -> dict:
    optimizer = "adamw" if any("adamw" in flag for flag in entry["flags"]) else "sgd"
    output = run([sys.executable, HERE / "pytorch_steps.py", f"--model={entry['model']}", f"--batch={entry['batch']}",
                  f"--shape={','.join(map(str, entry['inputs']))}", f"--classes={entry['classes']}", f"--optimizer={optimizer}",
                  f"--precision={entry['precision']}", f"--variant={variant}", f"--device={device}", f"--seconds={entry['seconds']}"],
                 own=False)  # fmt: skip
    return json.loads(output.splitlines()[-1])


def torch_runs_on(device: str) -> bool:
    """Asked in a process of its own: this one stays without PyTorch."""
    test = "import sys, torch; sys.exit(sys.argv[1] == 'cuda' and not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", test, device], capture_output=True).returncode == 0


@dataclass
class Machine:
    """What is here of what steps need beside a driver."""

    torch: bool
    numpy: bool
    sanitizer: bool
    ncu: bool

    @classmethod
    def find(cls, torch_device: str) -> "Machine":
        numpy = subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode == 0
        return cls(torch_runs_on(torch_device), numpy, tool("compute-sanitizer") is not None, tool("ncu") is not None)

    def missing(self, torch_device: str) -> "list[str]":
        """A sentence for each need, what does without it, and where it comes from."""
        python = sys.executable
        return [line for has, line in (
            (self.numpy, f"NumPy is not in {python}: no step table-*, profile-* or ncu-* (pip install numpy, or PYTHON=...)"),
            (self.torch, f"PyTorch does not run on {torch_device} in {python}: the table has our figures only (pip install torch, or PYTHON=...)"),
            (self.sanitizer, "compute-sanitizer is neither on PATH nor beside a CUDA toolkit: no step sanitizer-*"),
            (self.ncu, "ncu is neither on PATH nor beside a CUDA toolkit: no step ncu-*"),
        ) if not has]  # fmt: skip


@dataclass
class Step:
    run: Callable[[], dict]
    least: float = 0  # seconds without which it is not begun


Steps = dict[str, Step]


def sanitizer_steps(bundle: dict, checkers: "tuple[str, ...]") -> Steps:
    small = [entry for name in SANITIZED for entry in bundle["numerics"] if entry["name"] == name]
    return {f"sanitizer-{checker}-{entry['name']}-{entry['precision']}": Step(lambda entry=entry, checker=checker: sanitizer_step(entry, checker), 60)
            for checker in checkers for entry in small}  # fmt: skip


def peer_steps(entry: dict, variants: "tuple[str, ...]", number: int, device: str) -> Steps:
    steps = {}
    for variant in variants:
        if variant == "checkpoint" and entry["model"].startswith("lstm"):
            continue  # one layer, run by one call: it has no blocks
        name = f"table-{entry['name']}-{entry['precision']}-{variant}-{number}"
        steps[name] = Step(lambda variant=variant: peer_table_step(entry, variant, device), 30 if variant in ("eager", "checkpoint") else 60)
    return steps


def own_steps(entry: dict, number: int) -> Steps:
    return {f"table-{entry['name']}-{entry['precision']}-{variant}-{number}": Step(lambda variant=variant: own_table_step(entry, variant), 30)
            for variant in entry["ours"]}  # fmt: skip


def all_steps(bundle: dict, machine: Machine, device: str, folder: Path) -> Steps:
    """By name, in the order in which they are done: what is right, our figures and PyTorch's first ones, where time goes, then all of that more
    thoroughly."""
    steps = {"system": Step(lambda: system_step(bundle)), "properties": Step(properties_step), "kernels": Step(lambda: kernels_step(bundle)),
             "copies": Step(copies_step)}  # fmt: skip
    names = {f"{entry['name']}-{entry['precision']}": entry for entry in bundle["numerics"]}
    table = sorted(bundle["table"], key=lambda entry: entry["precision"] != "bf16")  # 16 bits first
    timed = [entry for entry in table if machine.numpy]
    measured = [entry for entry in timed if entry["ours"]]
    for name, entry in names.items():
        steps[f"numerics-{name}"] = Step(lambda entry=entry: numerics_step(entry), 10)
    for entry in timed:
        steps |= own_steps(entry, 0)
        if entry["ours"]:
            steps[f"profile-{entry['name']}-{entry['precision']}"] = Step(lambda entry=entry: profile_step(entry, folder), 20)
        steps |= peer_steps(entry, FIRST_PEERS if machine.torch else (), 0, device)
    if machine.sanitizer:
        steps |= sanitizer_steps(bundle, FIRST_SANITIZERS)
    for name, entry in names.items():
        steps[f"determinism-{name}"] = Step(lambda entry=entry: determinism_step(entry), 20)
    if machine.ncu:
        for entry in measured:
            steps[f"ncu-{entry['name']}-{entry['precision']}"] = Step(lambda entry=entry: ncu_step(entry), 120)
    for round_ in range(max((entry["rounds"] for entry in timed), default=0)):
        for entry in timed:
            if machine.torch and round_ < entry["rounds"]:
                steps |= {name: step for name, step in peer_steps(entry, PEERS, round_, device).items() if name not in steps}
                steps |= own_steps(entry, round_ + 1)
    if machine.sanitizer:
        steps |= {name: step for name, step in sanitizer_steps(bundle, SANITIZERS).items() if name not in steps}
    return steps


#===-- the report ----------------------------------------------------------------------------===#


def table_row(results: Results, entry: dict, variant: str) -> "str | None":
    name = f"table-{entry['name']}-{entry['precision']}-{variant}"
    rounds = [results.of[step] for number in range(entry["rounds"] + 1) if results.done(step := f"{name}-{number}")]
    if not rounds:
        return None
    problem = next((result.get("problem") or result.get("failed") for result in rounds if "ms" not in result), None)
    if problem:
        return f"| {entry['name']} | {entry['precision']} | {variant} | {' '.join(problem.split())[:160]} | | | |"
    times = [result["ms"] for result in rounds]
    memory = [f"{max(result[key] for result in rounds) / GIB:.3f}" if key in rounds[0] else "" for key in ("allocated", "reserved", "driver")]
    return f"| {entry['name']} | {entry['precision']} | {variant} | {min(times):.3f} to {max(times):.3f} | {' | '.join(memory)} |"


def numerics_lines(bundle: dict, done: "dict[str, dict]") -> list[str]:
    lines = ["## Numerics", "", done.get("kernels", {}).get("summary", "kernels: not run, or failed"), "",
             "| workload | precision | largest relative difference of a loss to the host's | allowed | runs with equal bytes |",
             "|---|---|---:|---:|---|"]  # fmt: skip
    for entry in bundle["numerics"]:
        name = f"{entry['name']}-{entry['precision']}"
        numbers, same = done.get(f"numerics-{name}", {}), done.get(f"determinism-{name}", {})
        difference = f"{numbers['difference']:.1e}" if "difference" in numbers else "failed" if numbers else "not run"
        equal = same.get("runs", "failed" if same else "not run")
        lines.append(f"| {entry['name']} | {entry['precision']} | {difference} | {entry['tolerance']:.0e} | {equal} |")
    return lines


def memory_lines(done: "dict[str, dict]") -> list[str]:
    keys = ("in_use", "arena", "fixed", "unaccounted", "contexts", "code", "graphs")
    rows = [f"| {step} | " + " | ".join(f"{result['memory'][key] / GIB:.4f}" for key in keys) + " |"
            for step, result in done.items() if "memory" in result]  # fmt: skip
    return ["", "## Memory, as the driver reports it (GiB)", "",
            "| workload | in use | arena | fixed | unaccounted | context | code and libraries | graphs |",
            "|---|---:|---:|---:|---:|---:|---:|---:|", *rows]  # fmt: skip


def profile_lines(done: "dict[str, dict]") -> list[str]:
    """Where steps spend their time; kernels that move 100 MB and more beside a copy."""
    copy = done.get("copies", {}).get("gb_per_s", 0)
    lines = ["", "## Where the time goes", "", f"A copy inside the GPU's memory moves {copy:.0f} GB/s, bytes read and written.", "",
             "| step | ms | its largest kinds of commands | generated kernels of 100 MB and more: share of the copy's bandwidth, least, median |",
             "|---|---:|---|---|"]  # fmt: skip
    for step, result in done.items():
        if not step.startswith("profile-") or "kinds" not in result:
            continue
        kinds = ", ".join(f"{kind} {ms:.2f}" for kind, ms in list(result["kinds"].items())[:5])
        shares = sorted(1e-6 * size / ms / copy for _, _, size, ms in result["wide"]) if copy else []
        wide = f"{shares[0]:.2f}, {shares[len(shares) // 2]:.2f} of {len(shares)}" if shares else "none"
        lines.append(f"| {step.removeprefix('profile-')} | {result['ms']:.3f} | {kinds} | {wide} |")
    return lines


def tool_lines(done: "dict[str, dict]") -> list[str]:
    """What compute-sanitizer found, and what ncu says of the dearest kernels."""
    checked = {step: result for step, result in done.items() if step.startswith("sanitizer-")}
    lines = []
    if checked:
        clean = sum("found" in result for result in checked.values())
        lines += ["", "## compute-sanitizer", "", f"{clean} of {len(checked)} steps of small workloads without a finding: {', '.join(checked)}."]
    for step, result in done.items():
        if step.startswith("ncu-") and "problem" in result:
            lines += ["", f"{step}: {result['problem']}"]
        elif step.startswith("ncu-") and "kernels" in result:
            lines += ["", f"## The dearest kernels of {step.removeprefix('ncu-')}, of {result['launches']} launches", "",
                      f"| kernel | ns a step, under ncu | {' | '.join(METRICS.values())} |", "|---|---:|" + "---:|" * len(METRICS)]  # fmt: skip
            lines += [f"| {kernel['kernel'][:80]} | {kernel['step_ns']:.0f} | {' | '.join(kernel[key] for key in METRICS)} |" for kernel in result["kernels"]]
    return lines


def write_report(bundle: dict, steps: Steps, missing: "list[str]", results: Results) -> Path:
    done = {step: results.of[step] for step in [*steps, *results.of] if results.done(step)}
    failed = {step: result["failed"] for step, result in done.items() if "failed" in result}
    system = done.get("system", {})
    torch = next((result["torch"] for result in done.values() if "torch" in result), "not measured")
    left = sum(not results.done(step) for step in steps)
    lines = [f"# On a GPU: {system.get('gpu', 'not known')}", "",
             f"{system.get('date', '')}, Stowage {bundle['commit'][:12]} compiled for {bundle['target']}, PyTorch {torch}. `{system.get('command', '')}`, "
             f"{len(done)} steps done, {left} left, {len(failed)} failed.", ""]  # fmt: skip
    lines += numerics_lines(bundle, done) + memory_lines(done) + profile_lines(done)
    lines += ["", "## Beside PyTorch on the same GPU", "",
              "Times of the fastest and the slowest round, in turns; both read a batch from the host in every step. Allocated and reserved are the "
              "peaks of PyTorch's allocator, ours the one allocation.", "",
              "| workload | precision | variant | ms per step | allocated, GiB | reserved, GiB | driver, GiB |", "|---|---|---|---|---:|---:|---:|"]  # fmt: skip
    for entry in bundle["table"]:
        rows = (table_row(results, entry, variant) for variant in (*entry["ours"], *PEERS))
        lines += [row for row in rows if row]
    lines += tool_lines(done)
    if missing:
        lines += ["", "## Not on this machine", ""] + [f"- {line}" for line in missing]
    if failed:
        lines += ["", "## Failed", ""] + [f"- {step}: {' '.join(reason.split())[:600]}" for step, reason in failed.items()]
    if bundle["left_out"]:
        lines += ["", "## Left out of the bundle", ""] + [f"- {item['name']}: {item['reason']}" for item in bundle["left_out"]]
    return results.write("report.md", "\n".join(lines) + "\n")


def do_step(name: str, step: Step, results: Results) -> bool:
    """False where the limit cut it; one that was cut twice takes longer than it is given, and has failed."""
    begin = time.monotonic()
    try:
        result = step.run()
    except CheckFailed as failure:
        result = {"failed": str(failure)}
    except OutOfTime:
        cuts = results.of.get(name, {}).get("cut", 0) + 1
        result = {"cut": cuts} if cuts < 2 else {"failed": "the limit of the run came twice before its end"}
    except Exception as error:  # one step's surprise is no reason to lose the others
        result = {"failed": f"{type(error).__name__}: {error}"}
    result["seconds"] = round(time.monotonic() - begin, 2)
    results.put(name, result)
    word = "FAILED" if "failed" in result else "cut" if "cut" in result else "done"
    print(f"{word:6s} {name} ({result['seconds']} s) {result.get('failed', '')}", flush=True)
    return "cut" not in result


def run_steps(bundle: dict, steps: Steps, missing: "list[str]", results: Results, only: str) -> int:
    """How many are left."""
    left = 0
    for name, step in steps.items():
        if results.done(name) or not fnmatch.fnmatch(name, only):
            continue
        if Clock.left() <= step.least or not do_step(name, step, results):
            left += 1
        else:
            write_report(bundle, steps, missing, results)
    return left


def main() -> int:
    if sys.version_info < PYTHON:
        print(f"gpu-check.sh needs Python {'.'.join(map(str, PYTHON))} or later, and {sys.executable} is {sys.version.split()[0]}; name another with PYTHON=...")
        return 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help="ends by then")
    parser.add_argument("--out", type=Path, default=HERE / "results", metavar="FOLDER", help="of the results (default: beside this script)")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--again", metavar="PATTERN")
    parser.add_argument("--list", action="store_true", help="names the steps, and says which have a result")
    parser.add_argument("--report", action="store_true", help="runs nothing")
    parser.add_argument("--torch-device", default="cuda", help="where PyTorch runs; cpu: to test this script")
    args = parser.parse_args()
    Clock.end = time.monotonic() + args.limit
    SCRATCH.mkdir(exist_ok=True)
    bundle = json.loads((HERE / "bundle.json").read_text())
    if "unfinished" in bundle:
        parser.error("this bundle was not written to its end; run gpu-bundle.sh again")
    results = Results(args.out)
    machine = Machine.find(args.torch_device)
    missing = machine.missing(args.torch_device)
    steps = all_steps(bundle, machine, args.torch_device, results.folder)
    for name in steps if args.again else ():
        if fnmatch.fnmatch(name, args.again):
            results.put(name, None)
    if args.list:
        for name in steps:
            print(f"{'done' if results.done(name) else '':5s} {name}")
        return 0
    for line in missing:
        print(line, flush=True)
    left = 0 if args.report else run_steps(bundle, steps, missing, results, args.only)
    print(f"report: {write_report(bundle, steps, missing, results)}")
    failed = [name for name in steps if "failed" in results.of.get(name, {})]
    if failed:
        print(f"{len(failed)} failed: {', '.join(failed)}")
        return 1
    if left:
        print(f"{left} steps are left: run it again")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
