"""Checks and measures the executables of a bundle on the GPU of this machine.

  ./gpu-check.sh                                everything, in steps; those that have a result are not done again
  ./gpu-check.sh --limit=540                    begins no step after so many seconds; exit code 3: steps are left
  ./gpu-check.sh --only='numerics*'             of the steps, those that match; --list names them
  ./gpu-check.sh --again='table*'               forgets the results of these first
  ./gpu-check.sh --report                       only writes the report of what has a result

Every step writes results/STEP.json; the report is results/report.md, to be kept as benchmarks/results/DATE-CHIP.md. Exit code 1: a check
failed. Libraries are looked for where the linker looks, then in CUDA's folders and in Python's packages (nvidia-cublas, nvidia-cudnn-cu13).
Steps that compare with PyTorch need it in the Python that runs this (PYTHON=...); without it they say so and are left out.
"""

import argparse
import csv
import datetime
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
STEP_S = 400  # most that one command may take
LIBRARIES = ("libcublasLt.so.*", "libcudnn.so.*")
PEERS = ("eager", "compile", "compile-budget", "checkpoint")
GIB = 1 << 30


class CheckFailed(Exception):
    pass


def require(condition: bool, message: str) -> None:
    if not condition:
        raise CheckFailed(message)


def library_folders() -> list[str]:
    """Folders of CUDA's libraries that the linker does not look in by itself."""
    places = [*sys.path, "/usr/local/cuda"]
    folders = []
    for place in places:
        for pattern in LIBRARIES:
            found = glob.glob(f"{place}/nvidia/*/lib/{pattern}") + glob.glob(f"{place}/lib64/{pattern}")
            folders += [os.path.dirname(name) for name in found]
    return list(dict.fromkeys(folders))


def environment() -> dict[str, str]:
    paths = [os.environ.get("LD_LIBRARY_PATH", ""), *library_folders(), str(HERE / "lib")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def run(command: list[object], own: bool = True) -> str:
    """Of one of the bundle's executables, or of another program with the environment as it is."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=STEP_S, env=environment() if own else None)
    except subprocess.TimeoutExpired:
        raise CheckFailed(f"{Path(words[0]).name} takes more than {STEP_S} s") from None
    require(done.returncode == 0, f"{Path(words[0]).name}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


def exact_bytes(text: str, what: str) -> int:
    found = re.search(rf"{what} (-?)[^()]*\((\d+) bytes\)", text)
    require(found is not None, f"no '{what}' in: {text}")
    return int(found[1] + found[2])


def driver_memory(output: str) -> dict:
    """The line that closes a run, which must add up."""
    lines = [line for line in output.splitlines() if line.startswith("memory of ") and " in use by all processes" in line]
    require(bool(lines), f"the run does not say what the driver reports:\n{output}")
    line = lines[-1]
    device, _, figures = line.removeprefix("memory of ").partition(": ")
    found = {"device": device, "arena": exact_bytes(line, "arena"), "unaccounted": exact_bytes(line, "unaccounted"),
             "contexts": exact_bytes(line, "before the arena"), "code": exact_bytes(line, "code and libraries"),
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


def kernels_step(bundle: dict) -> dict:
    output = run([HERE / "bin/kernel-check", HERE / "kernels"])
    return {"cases": bundle["kernel_cases"], "summary": output.splitlines()[-1]}


def train(name: str, data: Path, steps: int, *more: object) -> str:
    return run([HERE / "bin" / name, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", *more])


def losses(path: Path) -> list[float]:
    with open(path) as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def numerics_step(entry: dict) -> dict:
    name, folder = f"{entry['name']}-{entry['precision']}", HERE / "numerics" / entry["name"]
    log = RESULTS / f"{name}.csv"
    output = train(name, folder / "data.npz", entry["steps"], f"--log={log}")
    ours, host = losses(log), losses(folder / f"{entry['precision']}.csv")
    require(len(ours) == len(host), f"{len(ours)} losses instead of {len(host)}")
    worst = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(ours, host))
    require(worst <= entry["tolerance"], f"losses differ from the host's by {worst:.1e}, {entry['tolerance']:.0e} is allowed: {ours} {host}")
    return {"difference": worst, "allowed": entry["tolerance"], "first": ours[0], "last": ours[-1], "memory": driver_memory(output)}


def determinism_step(entry: dict) -> dict:
    """Three runs, the last with dead buffers overwritten, to the same bytes of log and state."""
    name, data = f"{entry['name']}-{entry['precision']}", HERE / "numerics" / entry["name"] / "data.npz"
    states = []
    for number, more in enumerate(((), (), ("--poison",))):
        log, state = RESULTS / f"{name}-{number}.csv", RESULTS / f"{name}-{number}.safetensors"
        log.unlink(missing_ok=True)
        train(name, data, entry["steps"], f"--log={log}", f"--save={state}", *more)
        states.append((log.read_bytes(), state.read_bytes()))
        state.unlink()
    require(states[0] == states[1], "two runs differ")
    require(states[0] == states[2], "--poison changes the run")
    return {"runs": len(states), "bytes": len(states[0][1])}


def table_data(entry: dict) -> Path:
    path = RESULTS / f"{entry['name']}.npz"
    if path.exists():
        return path
    import numpy as np

    rng = np.random.Generator(np.random.Philox(5))
    rows = 2 * entry["batch"]
    if entry["tokens"]:
        x, y = (rng.integers(0, entry["classes"], (rows, *entry["inputs"])) for _ in range(2))
    else:
        x, y = rng.random((rows, *entry["inputs"]), dtype=np.float32), rng.integers(0, entry["classes"], rows)
    np.savez(path, x=x, y=y)
    return path


def own_table_step(entry: dict, variant: str) -> dict:
    name, data = f"{entry['name']}-{entry['precision']}-{variant}", table_data(entry)
    seconds = []
    for steps in entry["steps"]:  # the difference is what is timed: loading and the first steps are not
        output = train(name, data, steps)
        found = re.search(r"trained to step \d+ in ([\d.]+) s", output)
        require(found is not None, f"no time in: {output}")
        seconds.append(float(found[1]))
    memory = driver_memory(output)
    ms = 1e3 * (seconds[1] - seconds[0]) / (entry["steps"][1] - entry["steps"][0])
    return {"ms": ms, "allocated": memory["arena"], "reserved": memory["arena"], "driver": memory["in_use"], "memory": memory}


def peer_table_step(entry: dict, variant: str, device: str) -> dict:
    optimizer = "adamw" if any("adamw" in flag for flag in entry["flags"]) else "sgd"
    output = run([sys.executable, HERE / "pytorch_steps.py", f"--model={entry['model']}", f"--batch={entry['batch']}",
                  f"--shape={','.join(map(str, entry['inputs']))}", f"--classes={entry['classes']}", f"--optimizer={optimizer}",
                  f"--precision={entry['precision']}", f"--variant={variant}", f"--device={device}"], own=False)  # fmt: skip
    return json.loads(output.splitlines()[-1])


def torch_runs_on(device: str) -> bool:
    """Asked in a process of its own: this one stays without PyTorch."""
    test = "import sys, torch; sys.exit(sys.argv[1] == 'cuda' and not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", test, device], capture_output=True).returncode == 0


def all_steps(bundle: dict, device: str) -> dict[str, Callable[[], dict]]:
    """By name, in the order in which they are done. Peers and we take turns."""
    steps: dict[str, Callable[[], dict]] = {"system": lambda: system_step(bundle), "kernels": lambda: kernels_step(bundle)}
    for entry in bundle["numerics"]:
        name = f"{entry['name']}-{entry['precision']}"
        steps[f"numerics-{name}"] = lambda entry=entry: numerics_step(entry)
        steps[f"determinism-{name}"] = lambda entry=entry: determinism_step(entry)
    has_torch = torch_runs_on(device)
    for entry in bundle["table"]:
        for number in range(entry["rounds"]):
            prefix = f"table-{entry['name']}-{entry['precision']}"
            for variant in entry["ours"]:
                steps[f"{prefix}-{variant}-{number}"] = lambda entry=entry, variant=variant: own_table_step(entry, variant)
            for variant in PEERS if has_torch else ():
                if variant == "checkpoint" and entry["model"].startswith("lstm"):
                    continue  # one layer, run by one call: it has no blocks
                steps[f"{prefix}-{variant}-{number}"] = (
                    lambda entry=entry, variant=variant: peer_table_step(entry, variant, device)
                )  # fmt: skip
    return steps


#===-- the report ----------------------------------------------------------------------------===#


def result_of(step: str) -> dict | None:
    path = RESULTS / f"{step}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table_row(entry: dict, variant: str) -> str | None:
    name = f"{entry['name']}-{entry['precision']}-{variant}"
    rounds = [result for number in range(entry["rounds"]) if (result := result_of(f"table-{name}-{number}"))]
    if not rounds:
        return None
    problem = next((result.get("problem") or result.get("failed") for result in rounds if "ms" not in result), None)
    if problem:
        return f"| {entry['name']} | {entry['precision']} | {variant} | {' '.join(problem.split())[:160]} | | | |"
    times = [result["ms"] for result in rounds]
    memory = [f"{max(result[key] for result in rounds) / GIB:.3f}" if key in rounds[0] else "" for key in ("allocated", "reserved", "driver")]
    return f"| {entry['name']} | {entry['precision']} | {variant} | {min(times):.2f} to {max(times):.2f} | {' | '.join(memory)} |"


def write_report(bundle: dict, steps: dict) -> Path:
    system = result_of("system") or {}
    done = {step: result for step in steps if (result := result_of(step))}
    failed = {step: result["failed"] for step, result in done.items() if "failed" in result}
    torch = next((result["torch"] for result in done.values() if "torch" in result), "not measured")
    lines = [f"# On a GPU: {system.get('gpu', 'not known')}", "",
             f"{system.get('date', '')}, Stowage {bundle['commit'][:12]} compiled for {bundle['target']}, PyTorch {torch}. `{system.get('command', '')}`, "
             f"{len(done)} of {len(steps)} steps done, {len(failed)} failed.", ""]  # fmt: skip
    lines += ["## Numerics", "", (result_of("kernels") or {}).get("summary", "kernels: not run"), "",
              "| workload | precision | largest relative difference of a loss to the host's | allowed | runs with equal bytes |",
              "|---|---|---:|---:|---|"]  # fmt: skip
    for entry in bundle["numerics"]:
        name = f"{entry['name']}-{entry['precision']}"
        numbers, same = done.get(f"numerics-{name}", {}), done.get(f"determinism-{name}", {})
        difference = f"{numbers['difference']:.1e}" if "difference" in numbers else "failed" if numbers else "not run"
        equal = same.get("runs", "failed" if same else "not run")
        lines.append(f"| {entry['name']} | {entry['precision']} | {difference} | {entry['tolerance']:.0e} | {equal} |")
    lines += ["", "## Memory, as the driver reports it (GiB)", "",
              "| workload | in use | arena | fixed | unaccounted | before the arena | code and libraries | graphs |",
              "|---|---:|---:|---:|---:|---:|---:|---:|"]  # fmt: skip
    keys = ("in_use", "arena", "fixed", "unaccounted", "contexts", "code", "graphs")
    for step, result in done.items():
        if "memory" in result:
            lines.append(f"| {step} | " + " | ".join(f"{result['memory'][key] / GIB:.4f}" for key in keys) + " |")
    lines += ["", "## Beside PyTorch on the same GPU", "",
              "Rounds in turns, with the times of the fastest and the slowest. Allocated and reserved are the peaks of PyTorch's allocator, ours the one allocation.", "",
              "| workload | precision | variant | ms per step | allocated, GiB | reserved, GiB | driver, GiB |", "|---|---|---|---|---:|---:|---:|"]  # fmt: skip
    for entry in bundle["table"]:
        rows = (table_row(entry, variant) for variant in (*entry["ours"], *PEERS))
        lines += [row for row in rows if row]
    if failed:
        lines += ["", "## Failed", ""] + [f"- {step}: {' '.join(reason.split())[:600]}" for step, reason in failed.items()]
    if bundle["left_out"]:
        lines += ["", "## Left out of the bundle", ""] + [f"- {item['name']}: {item['reason']}" for item in bundle["left_out"]]
    path = RESULTS / "report.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def do_step(name: str, step: Callable[[], dict]) -> bool:
    begin = time.monotonic()
    try:
        result = step()
    except CheckFailed as failure:
        result = {"failed": str(failure)}
    result["seconds"] = round(time.monotonic() - begin, 2)
    path = RESULTS / f"{name}.json"
    path.with_suffix(".new").write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".new").rename(path)
    print(f"{'FAILED' if 'failed' in result else 'done':6s} {name} ({result['seconds']} s) {result.get('failed', '')}", flush=True)
    return "failed" not in result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--again", metavar="PATTERN")
    parser.add_argument("--list", action="store_true", help="names the steps, and says which have a result")
    parser.add_argument("--report", action="store_true", help="runs nothing")
    parser.add_argument("--torch-device", default="cuda", help="where PyTorch runs; cpu: to test this script")
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    bundle = json.loads((HERE / "bundle.json").read_text())
    steps = all_steps(bundle, args.torch_device)
    for name in steps if args.again else ():
        if fnmatch.fnmatch(name, args.again):
            (RESULTS / f"{name}.json").unlink(missing_ok=True)
    if args.list:
        for name in steps:
            print(f"{'done' if result_of(name) else '':5s} {name}")
        return 0
    if not any(name.split("-")[-2] in PEERS for name in steps if name.startswith("table")):
        print(f"PyTorch does not run on {args.torch_device} in {sys.executable}: the table has our figures only")
    begin, left = time.monotonic(), 0
    for name, step in steps.items():
        if args.report or result_of(name) or not fnmatch.fnmatch(name, args.only):
            continue
        if time.monotonic() - begin > args.limit:
            left += 1
            continue
        do_step(name, step)
    print(f"report: {write_report(bundle, steps)}")
    failed = [name for name in steps if (result := result_of(name)) and "failed" in result]
    if failed:
        print(f"{len(failed)} failed: {', '.join(failed)}")
        return 1
    if left:
        print(f"{left} steps are left: run it again")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
