#!/usr/bin/python3
"""Steps of several devices: processes over MPI on this machine.

  devices.py --stowage=build/release/bin/stowage --work=DIR [--mpi=openmpi|mpich]

  - N ranks end with the weights of one process that runs N batches in a step (--accumulate=N), bit for bit, and log its losses, with the
    optimizer's state on each or in shards;
  - so they do where sums pass beside other commands (--network), as early and as late as plans allow, and what is waited for is planned;
  - evaluations, saves and resumed runs are those of one process;
  - a process without a launcher, another number of ranks, another program, other data or flags are refused by name;
  - a killed rank ends all of them, and one that is asked to end stops them behind a save;
  - a rank that hangs is told by its name, with the last save (--timeout);
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
        self.isMpich = mpi == "mpich"
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


def train(runs: Runs, ranks: int, name: str, data: Path, steps: int, *flags: object) -> tuple[list[str], dict[str, bytes]]:
    """Losses of a run of so many steps, and what it saves."""
    log, save = runs.work / f"{name}.csv", runs.work / f"{name}.safetensors"
    log.unlink(missing_ok=True)
    words = ["train", f"--data={data}", f"--steps={steps}", "--seed=7", f"--log={log}", f"--save={save}", *flags]
    said = run(runs.work / name, *words) if ranks == 1 else runs.launch(ranks, name, *words)
    check(said.count("trained to step") == 1, f"{name}: not one process speaks: {said}")
    return runs.log(log.name), tensors(save)


def compare(runs: Runs, name: str, model: Path, data: Path, ranks: int, batch: int, *flags: object) -> None:
    """Trains on `ranks` ranks, with the optimizer's state on each and in shards, and in one process on as many batches a step."""
    runs.compile(f"{name}_one", model, f"--batch={ranks * batch}", f"--accumulate={ranks}", *flags)
    runs.compile(f"{name}_many", model, f"--batch={batch}", f"--devices={ranks}", *flags)
    runs.compile(f"{name}_shards", model, f"--batch={batch}", f"--devices={ranks}", "--shard-state=optimizer", *flags)
    one, many, shards = (json.loads(run(runs.work / f"{name}_{kind}", "plan", "--format=json")) for kind in ("one", "many", "shards"))
    check(one.get("batches_per_step", 1) == ranks, f"{name}: the step of one process is not of {ranks} batches")
    check(many["devices"] == ranks and many["graphs"][0]["reductions"]["count"] > 1, f"{name}: no reductions in the plan")
    check(shards["graphs"][0]["reductions"]["gathers"] > 1, f"{name}: nothing is gathered")
    check(shards["persistent_bytes"] < many["persistent_bytes"], f"{name}: shards take no less")
    for steps in (1, STEPS):
        losses, saved = train(runs, 1, f"{name}_one", data, steps)
        check(len(losses) == steps, f"{name}: {len(losses)} steps")
        for kind, extra in (("many", []), ("shards", [f"--save-every={STEPS // 3}"])):
            found, tensors_found = train(runs, ranks, f"{name}_{kind}", data, steps, *extra)
            check(saved.keys() == tensors_found.keys(), f"{name}_{kind}: other tensors: {saved.keys() ^ tensors_found.keys()}")
            # Running statistics follow every batch in one process, and those of rank 0 here.
            different = {tensor for tensor in saved if saved[tensor] != tensors_found[tensor] and "running" not in tensor and "num_batches" not in tensor}
            check(not different and losses == found, f"{name}_{kind}: {ranks} ranks differ from {ranks} batches in {sorted(different)}")
    print(f"{name}: {ranks} ranks, {STEPS} steps: the bits of {ranks} batches; state {many['persistent_bytes']:,} -> {shards['persistent_bytes']:,} in shards")


def compare_in_16_bits(runs: Runs, model: Path, data: Path) -> None:
    """The loss scale follows from the gradients of all ranks: one sample overflows in fp16, on one of them."""
    compare(runs, "mlp_bf16", model, data, 2, 128, "--optimizer=adamw:lr=1e-2", "--precision=bf16")
    large = runs.work / "large.npz"
    arrays = dict(np.load(data))
    arrays["x_train"][300] = 6e4
    np.savez(large, **arrays)
    for kind in ("dynamic", "delayed"):
        compare(runs, f"mlp_{kind}", model, large, 2, 128, "--optimizer=adamw:lr=1e-2", "--precision=fp16", f"--loss-scale={kind}")
        rows = list(csv.DictReader((runs.work / f"mlp_{kind}_shards.csv").read_text().splitlines()))
        check(0 < int(rows[-1]["skipped"]) < STEPS / 2, f"{kind}: {rows[-1]} of {STEPS} steps")


def check_resume(runs: Runs, data: Path) -> None:
    """Half of the steps, and the rest by other processes with as many samples a step: each with its state whole or in shards."""
    half, whole = runs.work / "half.safetensors", tensors(runs.work / "mlp_many.safetensors")
    words = ["train", f"--data={data}", "--seed=7", f"--save={half}"]
    for first, second in (("mlp_many", "mlp_many"), ("mlp_many", "mlp_shards"), ("mlp_shards", "mlp_many")):
        half.unlink(missing_ok=True)
        runs.launch(2, first, *words, f"--steps={STEPS // 2}")
        runs.launch(2, second, *words, f"--steps={STEPS}", "--resume")
        check(tensors(half) == whole, f"{first}, resumed by {second}, ends elsewhere")
    more = runs.work / "more.safetensors"
    run(runs.work / "mlp_one", "train", f"--data={data}", f"--steps={STEPS + 1}", f"--resume={half}", f"--save={more}")
    ends = []
    for name in ("mlp4_many", "mlp4_shards") if (runs.work / "mlp4_many").exists() else ():
        runs.compile(name, runs.work / "mlp.onnx", "--batch=64", "--devices=4", "--optimizer=adamw:lr=1e-2",
            *(["--shard-state=optimizer"] if name == "mlp4_shards" else []))  # fmt: skip
        runs.launch(4, name, "train", f"--data={data}", f"--steps={STEPS + 3}", f"--resume={half}", f"--save={more}")
        ends.append(tensors(more))
    check(all(end == ends[0] for end in ends), "four ranks go on elsewhere with shards")


def plan_of(*words: object) -> dict:
    """What a command prints, without what it says of its progress."""
    return json.loads(subprocess.run([str(word) for word in words], check=True, capture_output=True).stdout)


def check_budget(runs: Runs, model: Path) -> None:
    """Shards as far as a budget asks for them, and as a remedy where it is not met."""
    words = [runs.stowage, "plan", model, "--batch=16", "--devices=4", "--threads=1", "--optimizer=adamw:lr=1e-2", "--format=json"]
    whole, shards = (plan_of(*words, f"--shard-state={kind}")["arena_bytes"] for kind in ("none", "optimizer"))
    check(shards < 0.9 * whole, f"shards: {whole} -> {shards}")
    for budget, some in ((whole, False), (shards, True)):
        plan = plan_of(*words, "--shard-state=auto", f"--memory-budget={budget}")
        check(plan["arena_bytes"] <= budget and ("gathers" in plan["graphs"][0]["reductions"]) == some, f"auto within {budget}: {plan['notes']}")
    text = run(*words, f"--memory-budget={(whole + shards) // 2}", code=2)
    check("on each of 4 devices, which fits: --shard-state=optimizer" in text, f"no shards among the remedies: {text}")
    check("--offload" not in text and "--accumulate" not in text, f"remedies that --devices refuses: {text}")
    print(f"shards within a budget: {whole:,} -> {shards:,}")


def compare_beside_network(runs: Runs, name: str, model: Path, data: Path, batch: int, *flags: object) -> None:
    """Sums that pass beside other commands, at once, and as early and as late as plans allow: the bits of compare()."""
    wanted = tensors(runs.work / f"{name}_many.safetensors")
    for kind, extra in (("network", []), ("network_shards", ["--shard-state=optimizer"])):
        runs.compile(f"{name}_{kind}", model, f"--batch={batch}", "--devices=2", "--network=0.5,20", *extra, *flags)
        sums = json.loads(run(runs.work / f"{name}_{kind}", "plan", "--format=json"))["graphs"][0]["reductions"]
        check(sums["started"] == sums["count"] + sums.get("gathers", 0), f"{name}_{kind}: not all are started: {sums}")
        check(0 <= sums["exposed_seconds"] < sums["seconds"], f"{name}_{kind}: nothing is hidden: {sums}")
        for check_flag in ([], ["--check=early-copies"], ["--check=late-copies"]):
            losses, found = train(runs, 2, f"{name}_{kind}", data, STEPS, *check_flag)
            different = {tensor for tensor in wanted if wanted[tensor] != found[tensor] and "running" not in tensor and "num_batches" not in tensor}
            check(not different and losses == runs.log(f"{name}_many.csv"), f"{name}_{kind} {check_flag}: other bits in {sorted(different)}")
    print(f"{name}: the same bits beside the network, of {1e3 * sums['seconds']:.3f} ms on it {1e3 * sums['exposed_seconds']:.3f} exposed")


def check_network(runs: Runs, model: Path) -> None:
    """Bytes against overlap: what a budget leaves room for is under way; a faster network is waited for no longer."""
    words = [runs.stowage, "plan", model, "--batch=128", "--devices=2", "--threads=1", "--recompute=none", "--optimizer=adamw:lr=1e-2", "--format=json"]
    still = plan_of(*words)
    check("seconds" not in still["graphs"][0]["reductions"], "a network that nobody named has a time")
    exposed = []
    for network in ("0.01,100", "0.1,50", "1,20"):
        plan = plan_of(*words, f"--network={network}")
        exposed.append(plan["graphs"][0]["reductions"]["exposed_seconds"])
    check(exposed == sorted(exposed, reverse=True), f"faster networks are waited for longer: {exposed}")
    free, tight = plan_of(*words, "--network=0.1,50"), plan_of(*words, "--network=0.1,50", f"--memory-budget={still['arena_bytes']}")
    check(tight["arena_bytes"] <= still["arena_bytes"], f"a budget of {still['arena_bytes']} is not kept: {tight['arena_bytes']}")
    waits = [plan["graphs"][0]["reductions"]["exposed_seconds"] for plan in (free, tight)]
    check(waits[0] <= waits[1], f"with less memory there is less to wait for: {waits}")
    for flags, said in ((["--network=10gbe"], "--devices=N"), (["--devices=2", "--network=10gb"], "10gbe"), (["--devices=2", "--network=0,3"], "gigabytes a second")):
        check(said in run(runs.stowage, "plan", model, *flags, code=1), f"{flags} are not refused by name")


def check_on_paper(runs: Runs, model: Path) -> None:
    """A step of 1,000 devices is planned and checked without them: what a rank keeps and sends."""
    ranks, line = 1000, 64
    weights = [128 * 64, 128, 2 * 128, 2]  # of the model
    words = [runs.stowage, "plan", model, "--batch=16", "--threads=1", "--optimizer=adamw:lr=1e-2", "--recompute=none", "--format=json"]
    one, many = plan_of(*words), plan_of(*words, f"--devices={ranks}", "--shard-state=optimizer")

    def padded(elements: int) -> int:
        return -(-4 * elements // line) * line

    in_shards = [count for count in weights if 4 * count > line]
    saved = sum(2 * (padded(count) - padded(-(-count // ranks))) for count in in_shards)
    check(one["persistent_bytes"] - many["persistent_bytes"] == saved, f"{ranks} ranks save {one['persistent_bytes'] - many['persistent_bytes']}, not {saved}")
    # A shard comes from all others and goes to all others; a whole sum's pieces, of the bias, the loss and its divisor, as well.
    sent = 4 * sum(2 * (ranks - 1) * -(-count // ranks) for count in in_shards) + 4 * sum(count - 1 + ranks - 1 for count in (2, 1, 1))
    check(many["graphs"][0]["reductions"]["sent_bytes"] == sent, f"{ranks} ranks: {many['graphs'][0]['reductions']}, not {sent} bytes")
    print(f"{ranks} ranks on paper: arena {one['arena_bytes']:,} -> {many['arena_bytes']:,}")


def check_evaluation(runs: Runs, data: Path) -> None:
    words = ["eval", f"--data={data}", f"--weights={runs.work}/mlp_many.safetensors"]
    alone, together = run(runs.work / "mlp_many", *words).splitlines(), runs.launch(2, "mlp_many", *words).splitlines()
    results = [[line for line in lines if "loss" in line] for lines in (alone, together)]
    check(len(results[0]) == len(results[1]) == 1 and results[0] == results[1], f"evaluations differ: {results}")


def check_refusals(runs: Runs, model: Path, data: Path) -> None:
    words = ["train", f"--data={data}", "--steps=2"]
    text = run(runs.work / "mlp_many", *words, code=1)
    check("mpirun -n 2" in text and "no launcher" in text, f"without a launcher: {text}")
    text = run("env", "RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", runs.work / "mlp_many", *words, code=1)
    check("torchrun has started this process" in text and "mpirun -n 2" in text, f"torchrun: {text}")
    text = runs.launch(4, "mlp_many", *words, code=None)
    check("compiled for 2 devices" in text and "started 4 processes" in text, f"other size: {text}")
    runs.compile("mlp_other", model, "--batch=8", "--devices=2", "--optimizer=sgd:lr=0.2")
    text = run(*split(runs, "mlp_many", words, "mlp_other", words), code=None)
    check("rank 1 has another program than rank 0" in text, f"other program: {text}")
    changed = runs.work / "mlp_changed"
    changed.write_bytes((runs.work / "mlp_many").read_bytes() + b"0")
    changed.chmod(0o755)
    text = run(*split(runs, "mlp_many", words, "mlp_changed", words), code=None)
    check("rank 1 has another executable than rank 0; both hold the same program" in text, f"other executable: {text}")
    shorter = runs.work / "shorter.npz"
    arrays = np.load(data)
    np.savez(shorter, **{name: arrays[name][:-300] if not name.endswith("_test") else arrays[name] for name in arrays})
    text = run(*split(runs, "mlp_many", words, "mlp_many", ["train", f"--data={shorter}", "--steps=2"]), code=None)
    check("rank 1 has another number of samples" in text, f"other data: {text}")
    text = run(*split(runs, "mlp_many", words, "mlp_many", [*words, "--lr=0.5"]), code=None)
    check("rank 1 has another flag of the run" in text, f"other flags: {text}")
    text = runs.launch(2, "mlp_many", "train", f"--data={runs.work}/none.npz", code=None)
    check(text.count("none.npz") == 1, f"no data, told by one rank: {text}")
    text = runs.compile("refused", model, "--batch=8", "--shard-state=optimizer", code=1)
    check("--shard-state" in text and "--devices=N" in text, f"shards of one device: {text}")
    for flags in (["--accumulate=2"], ["--profile=run"]):
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


def start_long(runs: Runs, name: str, data: Path, *flags: object, launcher_flags: tuple[str, ...] = ()) -> tuple[subprocess.Popen, list[int]]:
    """A run of two ranks that takes steps, and their processes."""
    log = runs.work / "long.csv"
    log.unlink(missing_ok=True)
    words = [str(word) for word in runs.words(2, name, "train", f"--data={data}", "--steps=100000000", f"--log={log}", "--quiet", *flags)]
    words[1:1] = launcher_flags
    with (runs.work / "long.txt").open("w") as said:
        launcher = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    ranks = [number for number in children_of(launcher.pid) if os.path.realpath(f"/proc/{number}/exe") == str((runs.work / name).resolve())]
    check(len(ranks) == 2, f"expected two ranks, found {ranks}")
    return launcher, ranks


def check_killed(runs: Runs, data: Path) -> None:
    save = runs.work / "killed.safetensors"
    save.unlink(missing_ok=True)
    # Open MPI leaves the others a second to end, which is short on a busy machine.
    time_to_end = () if runs.isMpich else ("--mca", "odls_base_sigkill_timeout", "4")
    launcher, ranks = start_long(runs, "mlp_many", data, f"--save={save}", "--save-every=1", launcher_flags=time_to_end)
    try:
        wait_for(save)
        killed = time.monotonic()
        os.kill(ranks[1], signal.SIGKILL)
        check(launcher.wait(timeout=10) != 0, "a killed rank is no failure of the run")
        while any(map(lives, ranks)) and time.monotonic() < killed + 10:
            time.sleep(0.1)
        check(not any(map(lives, ranks)), "a rank lives on")
    finally:
        launcher.kill()
        launcher.wait()
    said = (runs.work / "long.txt").read_text()
    # Open MPI asks the others to end first; MPICH ends them at once. NCCL may tell a GPU's rank before.
    told = any(f"{text}; the save after step" in said for text in ("waits for rank 1, which may have ended", "rank 1 does not answer")) and "is intact: go on with --resume" in said
    check(told or runs.isMpich, f"a killed rank: nothing of the last save: {said}")
    print("a killed rank ends the other")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    check(path.exists(), f"no {path}")


def check_hang(runs: Runs, data: Path) -> None:
    """A rank that is stopped answers nobody; the other says so, be it rank 0 or not."""
    for stopped in (1, 0):
        save = runs.work / "hang.safetensors"
        save.unlink(missing_ok=True)
        launcher, ranks = start_long(runs, "mlp_shards", data, f"--save={save}", "--save-every=1", "--timeout=2")
        try:
            wait_for(save)
            time.sleep(0.5)  # the other has heard of the save
            os.kill(ranks[stopped], signal.SIGSTOP)
            check(launcher.wait(timeout=60) != 0, "a rank that hangs is no failure of the run")
        finally:
            for number in ranks:
                if lives(number):
                    os.kill(number, signal.SIGKILL)
            launcher.kill()
            launcher.wait()
        said = (runs.work / "long.txt").read_text()
        check(f"waited 2 s (--timeout) for rank {stopped}, which does not answer" in said, f"rank {stopped} hangs: {said}")
        check("the save after step" in said and "is intact: go on with --resume" in said and said.count("(--timeout)") == 1, f"rank {stopped} hangs: {said}")
    check("--timeout" in run(runs.work / "mlp_one", "train", f"--data={data}", "--timeout=2", code=1), "--timeout of one device")
    print("a rank that hangs is told by its name")


def check_stopped(runs: Runs, data: Path) -> None:
    """A request to end that reaches one rank: all stop behind one step, and the shards of all are saved."""
    save = runs.work / "stopped.safetensors"
    save.unlink(missing_ok=True)
    launcher, ranks = start_long(runs, "mlp_shards", data, f"--save={save}")
    try:
        os.kill(ranks[1], signal.SIGTERM)
        check(launcher.wait(timeout=60) != 0 and save.exists(), "a rank that is asked to end stops no run, or nothing is saved")
    finally:
        launcher.kill()
        launcher.wait()
    check(tensors(save).keys() == tensors(runs.work / "mlp_many.safetensors").keys(), "a stopped run saves other tensors")
    print("a rank that is asked to end stops all, and all is saved")


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
    compare_beside_network(runs, "mlp", mlp, data, 128, "--optimizer=adamw:lr=1e-2")
    if args.mpi == "openmpi":
        compare_in_16_bits(runs, mlp, data)
        compare(runs, "mlp4", mlp, data, 4, 64, "--optimizer=sgd:lr=0.1,momentum=0.9", "--clip-norm=0.5")
        compare(runs, "cnn", images, digits, 2, 8, "--optimizer=adamw:lr=1e-3")
        letters, tokens = args.work / "letters.onnx", args.work / "tokens.npz"
        build_model("char_gpt", letters, "--batch", 1)
        x, y = (rng.integers(0, 65, (100, 32)) for _ in range(2))
        y[:8] = 4  # whole rows of a step count for nothing
        np.savez(tokens, x=x, y=y)
        gpt = ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1,ignore-index=4"]
        compare(runs, "gpt", letters, tokens, 2, 8, *gpt)
        compare_beside_network(runs, "gpt", letters, tokens, 8, *gpt)
    check_resume(runs, data)
    check_budget(runs, mlp)
    check_network(runs, mlp)
    check_on_paper(runs, mlp)
    check_evaluation(runs, data)
    check_refusals(runs, mlp, data)
    check_stopped(runs, data)
    check_killed(runs, data)
    check_hang(runs, data)
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
