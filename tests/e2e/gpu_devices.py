#!/usr/bin/python3
"""Steps of several GPUs: processes over MPI on this machine, each with a simulated GPU (tests/gpu), connected by the stand-in for NCCL.

  gpu_devices.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

  - two and three ranks follow the losses of as many batches on one GPU (--accumulate), and of as many ranks on processors; the stand-in adds up in
    the order of the ranks;
  - so do two with two batches each, of four on one;
  - the optimizer's state in shards changes no bit, and weights in shards change none, in parts that are equal and in parts that are not;
  - every rank runs the same collectives, on memory that NCCL knows, in one captured graph a step;
  - ranks that no MPI connects, as torchrun starts them, end with the same bits;
  - what is missing or does not go together is refused by name; a rank that ends, or NCCL's error, ends all with the last save.
"""

import argparse
import csv
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
from commands import build_model, check, run
from devices import LAUNCHERS, check_hang, check_killed, plan_of, tensors, wait_for

STEPS = 6
TOLERANCE = 1e-6  # of losses: a product that adds to a sum rounds once where a sum over ranks rounds twice


class Runs:
    """As devices.Runs, for GPUs."""

    def __init__(self, stowage: Path, simulated: Path, work: Path) -> None:
        self.stowage, self.simulated, self.work, self.isMpich = stowage, simulated, work, False
        self.launcher, self.flags = LAUNCHERS["openmpi"]
        os.environ.update(LD_LIBRARY_PATH=str(simulated), STANDIN_DEVICES="4")

    def compile(self, name: str, model: Path, *flags: object, code: int = 0) -> str:
        return run(self.stowage, "compile", model, "-o", self.work / name, "--recompute=none", *flags, code=code)

    def words(self, ranks: int, name: str, *flags: object) -> list[object]:
        return [self.launcher, "-n", ranks, *self.flags, self.work / name, *flags]

    def launch(self, ranks: int, name: str, *flags: object, code: int | None = 0, **environment: str) -> str:
        words = self.words(ranks, name, *flags) if ranks > 1 else [self.work / name, *flags]
        return run(*words, code=code, environment=environment)

    def train(self, ranks: int, name: str, data: Path, *flags: object, code: int | None = 0, **environment: str) -> tuple[list[float], dict[str, bytes]]:
        log, save = self.work / f"{name}.csv", self.work / f"{name}.safetensors"
        log.unlink(missing_ok=True)
        words = ["train", f"--data={data}", f"--steps={STEPS}", "--seed=7", f"--log={log}", f"--save={save}", *flags]
        said = self.launch(ranks, name, *words, code=code, **environment)
        check(said.count("trained to step") == 1, f"{name}: not one process speaks: {said}")
        return [float(row["loss"]) for row in csv.DictReader(log.read_text().splitlines())], tensors(save)


def are_close(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) == STEPS and np.allclose(a, b, rtol=TOLERANCE, atol=0)


def compare(runs: Runs, name: str, model: Path, data: Path, ranks: int, batch: int, *flags: object) -> None:
    gpu = "--target=cuda:h100"
    runs.compile(f"{name}_one", model, f"--batch={ranks * batch}", f"--accumulate={ranks}", gpu, *flags)
    runs.compile(f"{name}_host", model, f"--batch={batch}", f"--devices={ranks}", "--threads=1", *flags)
    runs.compile(f"{name}_many", model, f"--batch={batch}", f"--devices={ranks}", gpu, *flags)
    runs.compile(f"{name}_shards", model, f"--batch={batch}", f"--devices={ranks}", gpu, "--shard-state=optimizer", *flags)
    runs.compile(f"{name}_weights", model, f"--batch={batch}", f"--devices={ranks}", gpu, "--shard-state=parameters", *flags)
    plan = plan_of(runs.work / f"{name}_shards", "plan", "--format=json")
    reductions = plan["graphs"][0]["reductions"]
    log = runs.work / f"{name}_nccl"
    one, _ = runs.train(1, f"{name}_one", data)
    host, _ = runs.train(ranks, f"{name}_host", data)
    many, weights = runs.train(ranks, f"{name}_many", data)
    shards, shard_weights = runs.train(ranks, f"{name}_shards", data, STANDIN_NCCL_LOG=str(log))
    check(are_close(many, one) and are_close(many, host), f"{name}: {many} of {ranks} GPUs, {one} of one, {host} of processors")
    check(many == shards and weights == shard_weights, f"{name}: shards change {[key for key in weights if weights[key] != shard_weights[key]]}")
    in_shards, in_shards_weights = runs.train(ranks, f"{name}_weights", data)
    check(many == in_shards and weights == in_shards_weights, f"{name}: weights in shards change {[key for key in weights if weights[key] != in_shards_weights[key]]}")
    calls = [(runs.work / f"{name}_nccl.{rank}").read_text().splitlines() for rank in range(ranks)]
    check(all(lines == calls[0] for lines in calls), f"{name}: ranks run other collectives: {calls}")
    # The first run of every call brings the library's code to the device, before the arena is there; the captured one is of registered memory.
    registered = [line.endswith("registered=1") for line in calls[0]]
    count = len(registered) // 2
    check(registered == [False] * count + [True] * count, f"{name}: {calls[0]}")
    check(count >= reductions["count"] + reductions["gathers"], f"{name}: {count} collectives, planned {reductions}")
    print(f"{name}: {ranks} ranks, {STEPS} steps, {count} collectives a step: shards change no bit; losses {many[0]:.6f} ... {many[-1]:.6f}")


def compare_parts(runs: Runs, name: str, model: Path, data: Path, batch: int, *flags: object) -> None:
    """Two batches on each of two GPUs beside four on one."""
    gpu, many = "--target=cuda:h100", [f"--batch={2 * batch}", "--accumulate=2", "--devices=2"]
    runs.compile(f"{name}_one", model, f"--batch={4 * batch}", "--accumulate=4", gpu, *flags)
    runs.compile(f"{name}_many", model, gpu, *many, *flags)
    runs.compile(f"{name}_shards", model, gpu, "--shard-state=optimizer", *many, *flags)
    for kind, batches in (("one", 4), ("many", 2), ("shards", 2)):
        found = plan_of(runs.work / f"{name}_{kind}", "plan", "--format=json").get("batches_per_step", 1)
        check(found == batches, f"{name}_{kind}: a step of {found} batches")
    one, _ = runs.train(1, f"{name}_one", data)
    many, weights = runs.train(2, f"{name}_many", data)
    shards, shard_weights = runs.train(2, f"{name}_shards", data)
    check(are_close(many, one), f"{name}: {many} of two GPUs, {one} of one")
    check(many == shards and weights == shard_weights, f"{name}: shards change {[key for key in weights if weights[key] != shard_weights[key]]}")
    print(f"{name}: 2 ranks with 2 batches each: losses {many[0]:.6f} ... {many[-1]:.6f}")


def check_failures(runs: Runs, data: Path) -> None:
    """What NCCL, a launch or a machine lacks, and what goes wrong in the middle."""
    save = runs.work / "failed.safetensors"
    save.unlink(missing_ok=True)
    words = ["train", f"--data={data}", "--steps=40", f"--save={save}", "--save-every=1", "--quiet"]
    text = runs.launch(2, "mlp_many", *words, code=None, STANDIN_NCCL_FAIL="run:60:6")
    check("in step " in text and "NCCL reports: remote process exited" in text and "the save after step" in text, f"an error of NCCL: {text}")
    text = runs.launch(2, "mlp_many", *words, code=None, STANDIN_NCCL_FAIL="ncclCommInitRank:1:2")
    check("connecting 2 ranks failed in NCCL: unhandled system error" in text, f"ranks that are not connected: {text}")
    text = runs.launch(2, "mlp_many", *words, code=None, STANDIN_DEVICES="1")
    check("Duplicate GPU detected" in text, f"two ranks on one GPU: {text}")
    text = runs.launch(3, "mlp3_many", *words, code=None, STANDIN_DEVICES="2")
    check("is number 2 on its machine (OMPI_COMM_WORLD_LOCAL_RANK), which has 2 GPUs" in text, f"more ranks than GPUs: {text}")
    without = runs.work / "without_nccl"
    without.mkdir(exist_ok=True)
    (without / "libnccl.so.2").write_bytes(b"")  # found before one that the machine may have
    text = runs.launch(2, "mlp_many", *words, code=None, LD_LIBRARY_PATH=f"{without}:{runs.simulated}")
    check("adds up over GPUs with NCCL, and there is none" in text and "nvidia-nccl" in text, f"no NCCL: {text}")
    text = runs.launch(1, "mlp_many", *words, code=1)
    check("mpirun -n 2" in text and "no launcher" in text, f"without a launcher: {text}")
    print("failures are told by name")


def start_by_hand(runs: Runs, name: str, words: list[object], ranks: int, **environment: str) -> list[subprocess.Popen]:
    """Ranks as torchrun starts them, at a free port of this machine alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(ranks):
        own = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
            "STANDIN_LOG": runs.work / f"driver.{rank}", **environment}  # fmt: skip
        command = [str(word) for word in (runs.work / name, *words)]
        started.append(subprocess.Popen(command, env={**os.environ, **{key: str(value) for key, value in own.items()}}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT))  # fmt: skip
    return started


def check_without_mpi(runs: Runs, data: Path) -> None:
    """The same ranks without MPI: the same bits; one that is killed or hangs ends the others, which say how to go on."""
    save = runs.work / "by_hand.safetensors"
    words = ["train", f"--data={data}", "--seed=7", f"--save={save}"]
    started = start_by_hand(runs, "mlp_shards", [*words, f"--steps={STEPS}"], 2)
    said = [rank.communicate(timeout=120)[0] for rank in started]
    check([rank.returncode for rank in started] == [0, 0] and not said[1], f"by hand: {said}")
    check(tensors(save) == tensors(runs.work / "mlp_shards.safetensors"), "ranks that no MPI connects end elsewhere")
    arena = plan_of(runs.work / "mlp_shards", "plan", "--format=json")["arena_bytes"]
    for rank in range(2):
        lines = (runs.work / f"driver.{rank}").read_text().splitlines()
        taken = [line for line in lines if line.startswith(f"cuMemCreate bytes={arena} ")]
        check(bool(taken) and all("shared=1 remote=1" in line for line in taken), f"an arena that NCCL cannot share: {taken}")
    for signal_, text in ((signal.SIGKILL, "rank 1 has ended"), (signal.SIGSTOP, "waited 2 s (--timeout) for rank 1, which does not answer")):
        save.unlink()
        started = start_by_hand(runs, "mlp_shards", [*words, "--steps=100000", "--save-every=1", "--quiet", "--timeout=2"], 2)
        try:
            wait_for(save)
            started[1].send_signal(signal_)
            said = started[0].communicate(timeout=10)[0]
        finally:
            for rank in started:
                rank.kill()
                rank.wait()
        check(started[0].returncode == 1 and text in said and "the save after step" in said, f"{text}: {said}")
    started = start_by_hand(runs, "mlp_host", [*words, "--steps=1"], 2)
    said = [rank.communicate(timeout=120)[0] for rank in started]
    check(all("torchrun has started this process" in each for each in said), f"processors by hand: {said}")
    started = start_by_hand(runs, "mlp_many", [*words, "--steps=1"], 3)
    said = [rank.communicate(timeout=120)[0] for rank in started]
    check(all("started 3 processes" in each for each in said), f"another number of ranks: {said}")
    print("ranks without MPI: the same bits, and a rank that ends or hangs is told by its name")


def check_stated(runs: Runs, model: Path) -> None:
    """NCCL's buffers are outside of the arena, which is that of one GPU but for what ranks add."""
    words = [runs.stowage, "plan", model, "--batch=16", "--target=cuda:h200", "--optimizer=adamw:lr=1e-2", "--recompute=none", "--format=json"]
    one, many = plan_of(*words), plan_of(*words, "--devices=2")
    check(many["outside_arena_bytes"] - one["outside_arena_bytes"] == 1152 << 20, f"{one['outside_arena_bytes']} -> {many['outside_arena_bytes']}")
    card = [*words, "--card=24GiB"]
    alone, together = (plan_of(*card, *flags)["verdict"]["process_bytes"] for flags in ((), ("--devices=2",)))
    check(together - alone == 1152 << 20, f"beside the arena, of a card: {alone} -> {together}")
    check("NCCL's buffers" in many["outside_note"] and "NCCL" not in one["outside_note"], many["outside_note"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    runs = Runs(args.stowage, args.simulated, args.work)
    rng = np.random.default_rng(0)
    mlp, data = args.work / "mlp.onnx", args.work / "rows.npz"
    build_model("mlp_accumulation", mlp, "--batch", 1)
    np.savez(data, x_train=rng.standard_normal((300, 64), dtype=np.float32), y_train=rng.integers(0, 2, 300),
        x_test=rng.standard_normal((40, 64), dtype=np.float32), y_test=rng.integers(0, 2, 40))  # fmt: skip
    compare(runs, "mlp", mlp, data, 2, 16, "--optimizer=adamw:lr=1e-2")
    compare(runs, "mlp3", mlp, data, 3, 8, "--optimizer=adamw:lr=1e-2")
    compare_parts(runs, "mlp_parts", mlp, data, 64, "--optimizer=adamw:lr=1e-2")
    check_stated(runs, mlp)
    check_failures(runs, data)
    check_without_mpi(runs, data)
    check_killed(runs, data)
    check_hang(runs, data)
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
