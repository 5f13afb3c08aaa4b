#!/usr/bin/python3
"""Steps of several devices: processes over MPI on this machine.

  devices.py --stowage=build/release/bin/stowage --work=DIR [--mpi=openmpi|mpich]

  - N ranks end with the weights of one process that runs N batches in a step (--accumulate=N), bit for bit, and log its losses, with the
    optimizer's state on each or in shards;
  - so they do with several batches on each (--accumulate=K beside --devices=N is --accumulate=K*N), and where sums pass beside other commands (--network), as early and as late as plans allow, and what is waited for is planned;
  - batch normalization over all ranks (--sync-batch-norm) is that of one process on the whole batch;
  - evaluations, saves and resumed runs are those of one process;
  - a process without a launcher, another number of ranks, another program, other data or flags are refused by name;
  - a killed rank ends all of them, and one that is asked to end stops them behind a save;
  - a rank that hangs is told by its name, with the last save (--timeout);
  - all ranks write a save, one that is killed while they do leaves the last one whole, one that cannot write is named, and where not all see the folder rank 0
    writes alone;
  - no rank takes more memory than its plan states;
  - what does not go with --devices is refused.
"""

import argparse
import csv
import json
import os
import re
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
    # Shared memory alone, and nothing that asks for more rights than a container has; ranks with threads of their own.
    "openmpi": ("mpirun.openmpi", ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]),
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


def compare(runs: Runs, name: str, model: Path, data: Path, ranks: int, batch: int, *flags: object, each: int = 1) -> None:
    """Trains on `ranks` ranks, with the optimizer's state on each and in shards, and in one process on as many batches a step: `each` of `batch`
    samples for a rank."""
    runs.compile(f"{name}_one", model, f"--batch={ranks * each * batch}", f"--accumulate={ranks * each}", *flags)
    many = [f"--batch={each * batch}", f"--devices={ranks}", *([f"--accumulate={each}"] if each > 1 else []), *flags]
    runs.compile(f"{name}_many", model, *many)
    runs.compile(f"{name}_shards", model, "--shard-state=optimizer", *many)
    one, many, shards = (json.loads(run(runs.work / f"{name}_{kind}", "plan", "--format=json")) for kind in ("one", "many", "shards"))
    check(one.get("batches_per_step", 1) == ranks * each, f"{name}: the step of one process is not of {ranks * each} batches")
    check(many.get("batches_per_step", 1) == each, f"{name}: the step of a rank is not of {each} batches")
    steps = [graph for graph in many["graphs"] if graph["name"] != "eval"]
    check(many["devices"] == ranks and all(graph["reductions"]["count"] > 1 for graph in steps), f"{name}: no reductions in the plan")
    check(max(graph.get("reductions", {}).get("gathers", 0) for graph in shards["graphs"]) > 1, f"{name}: nothing is gathered")
    check(shards["persistent_bytes"] < many["persistent_bytes"], f"{name}: shards take no less")
    for steps in (1, STEPS):
        losses, saved = train(runs, 1, f"{name}_one", data, steps)
        check(len(losses) == steps, f"{name}: {len(losses)} steps")
        for kind, extra in (("many", []), ("shards", [f"--save-every={STEPS // 3}"])):
            found, tensors_found = train(runs, ranks, f"{name}_{kind}", data, steps, *extra)
            check(saved.keys() == tensors_found.keys(), f"{name}_{kind}: other tensors: {saved.keys() ^ tensors_found.keys()}")
            # Running statistics follow every batch in one process, and those of rank 0 here.
            different = {tensor for tensor in saved if saved[tensor] != tensors_found[tensor] and "running" not in tensor and "num_batches" not in tensor}
            check(not different and losses == found, f"{name}_{kind}: {ranks} ranks differ from {ranks * each} batches in {sorted(different)}")
    print(f"{name}: {ranks} ranks, {STEPS} steps: the bits of {ranks * each} batches; state {many['persistent_bytes']:,} -> {shards['persistent_bytes']:,} in shards")


def compare_synchronized(runs: Runs, model: Path, data: Path) -> None:
    """Batch normalization by the statistics of all ranks: what one process makes of the whole batch, up to rounding, running statistics included."""
    flags = ["--optimizer=sgd:lr=0.01,momentum=0.9", "--no-dropout"]
    runs.compile("whole_batch", model, "--batch=16", *flags)
    losses, saved = train(runs, 1, "whole_batch", data, STEPS)
    for kind, extra in (("", []), ("_network", ["--network=0.5,20", "--shard-state=optimizer"])):
        runs.compile(f"synchronized{kind}", model, "--batch=8", "--devices=2", "--sync-batch-norm", *extra, *flags)
        found, tensors_found = train(runs, 2, f"synchronized{kind}", data, STEPS)
        worst = max(abs(float(a) - float(b)) / abs(float(b)) for a, b in zip(found, losses, strict=True))
        statistics = [name for name in saved if "running" in name]
        apart = max(np.abs(np.frombuffer(saved[name], np.float32) - np.frombuffer(tensors_found[name], np.float32)).max() for name in statistics)
        check(len(statistics) > 0 and worst < 1e-4 and apart < 1e-4, f"synchronized{kind}: losses {worst}, running statistics {apart} from those of one process")
        print(f"synchronized{kind}: losses of {STEPS} steps differ by {worst:.1e}, running statistics by {apart:.1e}")
    runs.compile("apart", model, "--batch=8", "--devices=2", *flags)
    check(train(runs, 2, "apart", data, STEPS)[0] != found, "synchronized normalization is that of each rank")
    for words, said in ((["--sync-batch-norm"], "--devices=N"), (["--devices=2", "--sync-batch-norm", "--freeze-batch-norm"], "--freeze-batch-norm")):
        check(said in runs.compile("refused", model, "--batch=8", *words, code=1), f"{words} are not refused by name")


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
    check("--offload" not in text, f"remedies that --devices refuses: {text}")
    print(f"shards within a budget: {whole:,} -> {shards:,}")


def compare_beside_network(runs: Runs, name: str, model: Path, data: Path, batch: int, *flags: object) -> None:
    """Sums that pass beside other commands, at once, and as early and as late as plans allow: the bits of compare()."""
    wanted = tensors(runs.work / f"{name}_many.safetensors")
    for kind, extra in (("network", []), ("network_shards", ["--shard-state=optimizer"])):
        runs.compile(f"{name}_{kind}", model, f"--batch={batch}", "--devices=2", "--network=0.5,20", *extra, *flags)
        for graph in json.loads(run(runs.work / f"{name}_{kind}", "plan", "--format=json"))["graphs"]:
            if graph["name"] == "eval":
                continue
            sums = graph["reductions"]
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
    for flags in (["--offload=."], ["--input-gradients=x"]):
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


def check_saves(runs: Runs, data: Path) -> None:
    """Ranks die while all write: what lies at the save's name is always whole, and goes on on another number of ranks."""
    folder = runs.work / "saves"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    save, names = folder / "killed.safetensors", tensors(runs.work / "mlp_many.safetensors").keys()
    kills, steps = 8, []
    for turn in range(kills):
        launcher, ranks = start_long(runs, "mlp_shards", data, f"--save={save}", "--save-every=1", *(["--resume"] if save.exists() else []))
        try:
            wait_for(save)
            time.sleep(0.05 + 0.037 * turn)
            os.kill(ranks[turn % 2], signal.SIGKILL)
            check(launcher.wait(timeout=10) != 0, "a killed rank is no failure of the run")
        finally:
            launcher.kill()
            launcher.wait()
        check(tensors(save).keys() == names, f"a rank killed while others write leaves {tensors(save).keys()}")
        content = save.read_bytes()
        header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
        steps.append(int(header["__metadata__"]["step"]))
    check(steps == sorted(set(steps)), f"saves do not go on from each other: {steps}")
    one = runs.work / "from_killed.safetensors"
    run(runs.work / "mlp_one", "train", f"--data={data}", f"--steps={steps[-1] + 1}", f"--resume={save}", f"--save={one}")
    words = ["train", f"--data={data}", f"--steps={steps[-1] + 1}", f"--resume={save}", f"--save={save}"]
    runs.launch(2, "mlp_shards", *words)
    check([path.name for path in folder.iterdir() if "stowage" in path.name] == [], f"unfinished files are left: {list(folder.iterdir())}")
    check(tensors(one) == tensors(save), "a save that was left by a killed rank goes on elsewhere on one device")
    print(f"{kills} ranks killed while all save: saves of steps {steps} are whole")


def check_bad_saves(runs: Runs, data: Path) -> None:
    """A folder that becomes full while all write, and one that rank 1 does not see."""
    save = runs.work / "seen" / "bad.safetensors"
    shutil.rmtree(save.parent, ignore_errors=True)
    save.parent.mkdir()
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c"]
    if subprocess.run([*namespace, f"mount -t tmpfs none {save.parent}"], capture_output=True).returncode != 0:
        print("neither root nor user namespaces allow mounting here: faults of the folder are not tried")
        return
    words = ["train", f"--data={data}", "--steps=4", "--seed=7", f"--save={save}"]
    full = f'mount -t tmpfs -o size=64k none {save.parent} && "$0" "$@"; code=$?; ls -A {save.parent}; exit $code'
    text = run(*namespace, full, *runs.words(2, "mlp_shards", *words), code=None)
    check(re.search(rf"cannot write '{save.parent}.*: rank [01]: No space left on device", text) is not None, f"a full folder: {text}")
    check(text.count(".part") == text.count("cannot write"), f"a save that failed leaves something: {text}")
    unseen = [*namespace, f'mount -t tmpfs none {save.parent} && exec "$0" "$@"']
    text = run(*runs.words(1, "mlp_shards", *words), ":", "-n", 1, *unseen, runs.work / "mlp_shards", *words)
    check("note: not all ranks see the folder of" in text and "rank 1: No such file or directory" in text, f"rank 1 does not see the folder: {text}")
    alone = tensors(save)
    runs.launch(2, "mlp_shards", *words)
    check(tensors(save) == alone, "rank 0 alone writes another save than all ranks")
    print("a full folder is told by its rank; rank 0 alone writes the same save")


def check_memory(runs: Runs, data: Path) -> None:
    """The most that each rank has had at once, by the kernel, beside what its plan states."""
    for name in ("mlp_many", "mlp_network_shards"):
        save = runs.work / "memory.safetensors"
        save.unlink(missing_ok=True)
        launcher, ranks = start_long(runs, name, data, f"--save={save}", "--save-every=1")
        try:
            wait_for(save)
            time.sleep(0.5)
            peaks = [1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{rank}/status").read_text())[1]) for rank in ranks]
        finally:
            launcher.terminate()
            launcher.wait()
        plan = json.loads(run(runs.work / name, "plan", "--format=json"))
        stated = plan["arena_bytes"] + plan["outside_arena_bytes"] + data.stat().st_size
        check(max(peaks) <= stated, f"{name}: ranks take {peaks} bytes, stated {stated}")
        print(f"{name}: ranks take {', '.join(f'{peak / 2**20:.1f}' for peak in peaks)} MiB, stated {stated / 2**20:.1f}")


def listening(process: int) -> list[str]:
    """Addresses at which a process listens."""
    sockets = set()
    for path in Path(f"/proc/{process}/fd").iterdir():
        try:
            sockets.add(os.readlink(path))
        except OSError:
            continue  # it was the list's own
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{process}/net/{name}").read_text().splitlines()[1:]]
    return [fields[1] for fields in lines if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets]


def check_ports(runs: Runs, data: Path) -> None:
    """The runtime opens none; by shared memory neither does Open MPI."""
    launcher, ranks = start_long(runs, "mlp_many", data)
    try:
        found = {rank: listening(rank) for rank in ranks}
    finally:
        launcher.terminate()
        launcher.wait()
    check(runs.isMpich or not any(found.values()), f"ranks listen: {found}")
    print(f"addresses at which ranks listen: {list(found.values())}")


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


def asked(description: str) -> tuple[argparse.Namespace, Runs]:
    """The words of the test's command, and what runs programs by them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--mpi", choices=LAUNCHERS, default="openmpi")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    return args, Runs(args.stowage, args.work, args.mpi)


def main() -> None:
    args, runs = asked(__doc__)
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
        compare(runs, "mlp_parts", mlp, data, 2, 64, "--optimizer=adamw:lr=1e-2", each=2)
        compare(runs, "mlp_clipped_parts", mlp, data, 2, 32, "--optimizer=sgd:lr=0.1,momentum=0.9", "--clip-norm=0.5", each=3)
        compare(runs, "cnn", images, digits, 2, 8, "--optimizer=adamw:lr=1e-3")
        compare_synchronized(runs, images, digits)
        compare(runs, "cnn_parts", images, digits, 2, 8, "--optimizer=adamw:lr=1e-3", each=2)
        letters, tokens = args.work / "letters.onnx", args.work / "tokens.npz"
        build_model("char_gpt", letters, "--batch", 1)
        x, y = (rng.integers(0, 65, (100, 32)) for _ in range(2))
        y[:8] = 4  # whole rows of a step count for nothing
        np.savez(tokens, x=x, y=y)
        gpt = ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1,ignore-index=4"]
        compare(runs, "gpt", letters, tokens, 2, 8, *gpt)
        compare_beside_network(runs, "gpt", letters, tokens, 8, *gpt)
        compare(runs, "gpt_parts", letters, tokens, 2, 8, *gpt, each=2)
        compare_beside_network(runs, "gpt_parts", letters, tokens, 16, "--accumulate=2", *gpt)
    check_resume(runs, data)
    check_budget(runs, mlp)
    check_network(runs, mlp)
    check_on_paper(runs, mlp)
    check_evaluation(runs, data)
    check_refusals(runs, mlp, data)
    check_stopped(runs, data)
    check_killed(runs, data)
    check_saves(runs, data)
    check_bad_saves(runs, data)
    check_memory(runs, data)
    check_ports(runs, data)
    check_hang(runs, data)
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
