#!/usr/bin/python3
"""Steps of several devices: processes over MPI on this machine.

  devices.py --stowage=build/release/bin/stowage --work=DIR [--mpi=openmpi|mpich]

  - N ranks end with the weights of one process that runs N batches in a step (--accumulate=N), bit for bit, and log its losses;
  - evaluations, saves and resumed runs are those of one process;
  - a process without a launcher, another number of ranks, another program, other data or flags are refused by name;
  - a killed rank ends all of them;
  - what does not go with --devices is refused.
"""

import argparse
import csv
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from commands import build_model, check, run

STEPS = 20
LAUNCHERS = {
    # Shared memory alone, and nothing that asks for more rights than a container has.
    "openmpi": ("mpirun.openmpi", ["--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]),
    "mpich": ("mpirun.mpich", []),
}  # fmt: skip


def tensors(path: Path) -> dict[str, bytes]:
    """Bytes of a safetensors file by name, without its metadata."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: content[8 + size + entry["data_offsets"][0] : 8 + size + entry["data_offsets"][1]] for name, entry in header.items()}


class Runs:
    def __init__(self, stowage: Path, work: Path, mpi: str) -> None:
        self.stowage, self.work = stowage, work
        name, self.flags = LAUNCHERS[mpi]
        launcher = shutil.which(name)
        check(launcher is not None, f"no {name}; scripts/install.sh installs it")
        self.launcher = launcher

    def compile(self, name: str, model: Path, *flags: object, code: int = 0) -> str:
        return run(self.stowage, "compile", model, "-o", self.work / name, "--threads=1", "--recompute=none", *flags, code=code)

    def words(self, ranks: int, name: str, *flags: object) -> list[object]:
        return [self.launcher, "-n", ranks, *self.flags, self.work / name, *flags]

    def launch(self, ranks: int, name: str, *flags: object, code: int | None = 0) -> str:
        return run(*self.words(ranks, name, *flags), code=code)

    def log(self, name: str) -> list[str]:
        return [row["loss"] for row in csv.DictReader((self.work / name).read_text().splitlines())]


def compare(runs: Runs, name: str, model: Path, data: Path, ranks: int, batch: int, *flags: object) -> None:
    """Trains on `ranks` ranks and in one process on as many batches a step."""
    runs.compile(f"{name}_one", model, f"--batch={ranks * batch}", f"--accumulate={ranks}", *flags)
    runs.compile(f"{name}_many", model, f"--batch={batch}", f"--devices={ranks}", *flags)
    plans = [json.loads(run(runs.work / f"{name}_{kind}", "plan", "--format=json")) for kind in ("one", "many")]
    check(plans[0].get("batches_per_step", 1) == ranks, f"{name}: the step of one process is not of {ranks} batches")
    check(plans[1]["devices"] == ranks and plans[1]["graphs"][0]["reductions"]["count"] > 1, f"{name}: no reductions in the plan")
    for steps in (1, STEPS):
        logs, saves = {}, {}
        for kind in ("one", "many"):
            log, save = runs.work / f"{name}_{kind}.csv", runs.work / f"{name}_{kind}.safetensors"
            log.unlink(missing_ok=True)
            words = ["train", f"--data={data}", f"--steps={steps}", "--seed=7", f"--log={log}", f"--save={save}"]
            said = run(runs.work / f"{name}_one", *words) if kind == "one" else runs.launch(ranks, f"{name}_many", *words)
            check(said.count("trained to step") == 1, f"{name}: not one process speaks: {said}")
            logs[kind], saves[kind] = runs.log(log.name), tensors(save)
        one, many = saves["one"], saves["many"]
        check(one.keys() == many.keys() and len(logs["one"]) == len(logs["many"]) == steps, f"{name}: other tensors or steps")
        # Running statistics follow every batch in one process, and those of rank 0 here.
        different = {tensor for tensor in one if one[tensor] != many[tensor] and "running" not in tensor and "num_batches" not in tensor}
        check(not different and logs["one"] == logs["many"], f"{name}: {ranks} ranks differ from {ranks} batches in {sorted(different)}")
        print(f"{name}: {ranks} ranks, {steps} steps: the bits of {ranks} batches")


def check_resume(runs: Runs, data: Path) -> None:
    """Half of the steps, and the rest by another number of processes with as many samples a step."""
    half = runs.work / "half.safetensors"
    half.unlink(missing_ok=True)
    words = ["train", f"--data={data}", "--seed=7", f"--save={half}"]
    runs.launch(2, "mlp_many", *words, f"--steps={STEPS // 2}")
    runs.launch(2, "mlp_many", *words, f"--steps={STEPS}", "--resume")
    check(tensors(half) == tensors(runs.work / "mlp_many.safetensors"), "a resumed run ends elsewhere")
    run(runs.work / "mlp_one", "train", f"--data={data}", f"--steps={STEPS + 1}", f"--resume={half}", f"--save={runs.work}/more.safetensors")


def check_evaluation(runs: Runs, data: Path) -> None:
    words = ["eval", f"--data={data}", f"--weights={runs.work}/mlp_many.safetensors"]
    alone, together = run(runs.work / "mlp_many", *words).splitlines(), runs.launch(2, "mlp_many", *words).splitlines()
    results = [[line for line in lines if "loss" in line] for lines in (alone, together)]
    check(len(results[0]) == len(results[1]) == 1 and results[0] == results[1], f"evaluations differ: {results}")


def check_refusals(runs: Runs, model: Path, data: Path) -> None:
    words = ["train", f"--data={data}", "--steps=2"]
    text = run(runs.work / "mlp_many", *words, code=1)
    check("mpirun -n 2" in text and "no launcher" in text, f"without a launcher: {text}")
    text = runs.launch(4, "mlp_many", *words, code=None)
    check("compiled for 2 devices" in text and "started 4 processes" in text, f"other size: {text}")
    runs.compile("mlp_other", model, "--batch=8", "--devices=2", "--optimizer=sgd:lr=0.2")
    text = run(*split(runs, "mlp_many", words, "mlp_other", words), code=None)
    check("rank 1 has another program than rank 0" in text, f"other program: {text}")
    shorter = runs.work / "shorter.npz"
    arrays = np.load(data)
    np.savez(shorter, **{name: arrays[name][:-300] if not name.endswith("_test") else arrays[name] for name in arrays})
    text = run(*split(runs, "mlp_many", words, "mlp_many", ["train", f"--data={shorter}", "--steps=2"]), code=None)
    check("rank 1 has another number of samples" in text, f"other data: {text}")
    text = run(*split(runs, "mlp_many", words, "mlp_many", [*words, "--lr=0.5"]), code=None)
    check("rank 1 has another flag of the run" in text, f"other flags: {text}")
    text = runs.launch(2, "mlp_many", "train", f"--data={runs.work}/none.npz", code=None)
    check("none.npz" in text, f"no data: {text}")
    for flags in (["--accumulate=2"], ["--target=cuda:h100"], ["--emit=shared"], ["--precision=bf16"], ["--profile=run"]):
        text = runs.compile("refused", model, "--batch=8", "--devices=2", *flags, code=1)
        check("--devices" in text and flags[0].split("=")[0] in text, f"{flags}: {text}")


def split(runs: Runs, first: str, words: list[str], second: str, others: list[str]) -> list[object]:
    """Two ranks with a command each."""
    return [*runs.words(1, first, *words), ":", "-n", 1, runs.work / second, *others]


def children_of(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        if int(fields[1]) == process:
            number = int(path.parent.name)
            found += [number, *children_of(number)]
    return found


def lives(process: int) -> bool:
    """A process that has ended may stay in the list until somebody asks for its exit code."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check_killed(runs: Runs, data: Path) -> None:
    log = runs.work / "killed.csv"
    log.unlink(missing_ok=True)
    words = [str(word) for word in runs.words(2, "mlp_many", "train", f"--data={data}", "--steps=100000000", "--epochs=1", f"--log={log}", "--quiet")]
    words.remove("--epochs=1")
    launcher = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        ranks = [number for number in children_of(launcher.pid) if os.path.realpath(f"/proc/{number}/exe") == str((runs.work / "mlp_many").resolve())]
        check(len(ranks) == 2, f"expected two ranks, found {ranks}")
        killed = time.monotonic()
        os.kill(ranks[1], signal.SIGKILL)
        check(launcher.wait(timeout=10) != 0, "a killed rank is no failure of the run")
        while any(map(lives, ranks)) and time.monotonic() < killed + 10:
            time.sleep(0.1)
        check(not any(map(lives, ranks)), "a rank lives on")
    finally:
        launcher.kill()
        launcher.wait()
    print("a killed rank ends the other")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--mpi", choices=LAUNCHERS, default="openmpi")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    runs = Runs(args.stowage, args.work, args.mpi)
    rng = np.random.default_rng(0)
    mlp, images = args.work / "mlp.onnx", args.work / "cnn.onnx"
    build_model("mlp_accumulation", mlp, "--batch", 1)
    build_model("digits_cnn", images, "--batch", 1)
    data, digits = args.work / "rows.npz", Path(__file__).resolve().parents[2] / "models/data/digits.npz"
    np.savez(data, x_train=rng.standard_normal((1100, 64), dtype=np.float32), y_train=rng.integers(0, 2, 1100),
        x_test=rng.standard_normal((40, 64), dtype=np.float32), y_test=rng.integers(0, 2, 40))  # fmt: skip
    compare(runs, "mlp", mlp, data, 2, 128, "--optimizer=adamw:lr=1e-2")
    if args.mpi == "openmpi":
        compare(runs, "mlp4", mlp, data, 4, 64, "--optimizer=sgd:lr=0.1,momentum=0.9", "--clip-norm=0.5")
        compare(runs, "cnn", images, digits, 2, 8, "--optimizer=adamw:lr=1e-3")
        letters, tokens = args.work / "letters.onnx", args.work / "tokens.npz"
        build_model("char_gpt", letters, "--batch", 1)
        x, y = (rng.integers(0, 65, (100, 32)) for _ in range(2))
        y[:8] = 4  # whole rows of a step count for nothing
        np.savez(tokens, x=x, y=y)
        compare(runs, "gpt", letters, tokens, 2, 8, "--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1,ignore-index=4")
    check_resume(runs, data)
    check_evaluation(runs, data)
    check_refusals(runs, mlp, data)
    check_killed(runs, data)
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
