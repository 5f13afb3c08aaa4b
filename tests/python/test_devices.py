"""Two ranks over MPI beside PyTorch's DistributedDataParallel, ZeroRedundancyOptimizer and fully_shard (FSDP2) on gloo.

Run in the environment of scripts/install.sh python.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Sequence

import numpy as np
import stowage
import torch
from devices_models import make, rate, samples
from stowage import _launch

RANKS, BATCH, STEPS = 2, 8, 20
MPIRUN = ["mpirun.openmpi", "-n", str(RANKS), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]  # fmt: skip


class Devices(unittest.TestCase):
    def compare(self, model: str, way: str, *flags: str, launcher: "Sequence[str]" = MPIRUN, batch: int = BATCH, steps: int = STEPS, **environment: str) -> None:
        """Losses of a run with these flags beside those of PyTorch's ranks."""
        self.assertIsNotNone(shutil.which(MPIRUN[0]), "no Open MPI; scripts/install.sh installs it")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            x, y = samples(model, RANKS * batch * steps)
            np.savez(folder / "rows.npz", x=x.numpy(), y=y.numpy())
            theirs = [subprocess.Popen([sys.executable, "-B", Path(__file__).with_name("ddp_rank.py"), folder, model, way, *map(str, (rank, RANKS, batch, steps))])
                      for rank in range(RANKS)]  # fmt: skip
            self.assertEqual([process.wait() for process in theirs], [0] * RANKS)
            stowage.export(make(model), x[:batch], folder / "model.onnx", check=False)
            subprocess.run([os.environ["STOWAGE_BINARY"], "compile", folder / "model.onnx", "-o", folder / "model", f"--batch={batch}", f"--devices={RANKS}", "--threads=1",
                            "--recompute=none", f"--optimizer=adamw:lr={rate(model)},weight-decay=0.01", *flags], check=True, capture_output=True)  # fmt: skip
            subprocess.run([*launcher, folder / "model", "train", f"--data={folder}/rows.npz", "--no-shuffle", f"--log={folder}/log.csv"], check=True, capture_output=True,
                           env={**os.environ, **environment})  # fmt: skip
            ours = [float(row["loss"]) for row in csv.DictReader((folder / "log.csv").read_text().splitlines())]
            expected = json.loads((folder / f"{way}.json").read_text())
            self.assertEqual(len(ours), steps)
            worst = max(abs(a - b) / abs(b) for a, b in zip(ours, expected, strict=True))
            print(f"{model}, {way}: losses of {steps} steps differ by {worst:.1e}")
            self.assertLess(worst, 1e-4)

    def test_mlp_is_that_of_distributed_data_parallel(self) -> None:
        self.compare("mlp", "ddp")

    def test_gpt_in_shards_is_that_of_zero_redundancy_optimizer(self) -> None:
        self.compare("gpt", "zero", "--loss=cross-entropy:class-axis=-1", "--shard-state=optimizer")

    def test_gpt_on_simulated_gpus_by_torchrun(self) -> None:
        """Ranks that no MPI connects: they meet by the store of torchrun's agent."""
        simulated = Path(os.environ["STOWAGE_BINARY"]).resolve().parents[1] / "lib/simulated"
        if not (simulated / "libnccl.so.2").exists():
            self.skipTest(f"no stand-ins for CUDA's libraries in {simulated}")
        torchrun = (sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}", "--no-python", "--")
        self.compare("gpt", "zero", "--loss=cross-entropy:class-axis=-1", "--shard-state=optimizer", "--target=cuda:h100", launcher=torchrun,
            LD_LIBRARY_PATH=str(simulated), STANDIN_DEVICES=str(RANKS))  # fmt: skip

    def test_mlp_is_that_of_fully_shard(self) -> None:
        self.compare("mlp", "fsdp")

    def test_gpt_in_shards_is_that_of_fully_shard(self) -> None:
        self.compare("gpt", "fsdp", "--loss=cross-entropy:class-axis=-1", "--shard-state=optimizer")

    def test_batch_norms_are_those_of_distributed_data_parallel(self) -> None:
        self.compare("residual", "ddp")


@unittest.skipUnless(os.environ.get("STOWAGE_NIGHTLY"), "in the night")
class Night(unittest.TestCase):
    """Whole networks, on small images and short rows."""

    compare = Devices.compare

    def test_resnet18_is_that_of_distributed_data_parallel(self) -> None:
        self.compare("resnet18", "ddp", batch=8, steps=3)

    def test_resnet18_in_shards_is_that_of_fully_shard(self) -> None:
        self.compare("resnet18", "fsdp", "--shard-state=optimizer", batch=8, steps=3)

    def test_gpt2_is_that_of_distributed_data_parallel(self) -> None:
        self.compare("gpt2", "ddp", "--loss=cross-entropy:class-axis=-1", batch=2, steps=4)

    def test_gpt2_in_shards_is_that_of_fully_shard(self) -> None:
        self.compare("gpt2", "fsdp", "--loss=cross-entropy:class-axis=-1", "--shard-state=optimizer", batch=2, steps=4)


class FromPython(unittest.TestCase):
    """Ranks that mpirun starts as scripts of Python."""

    def setUp(self) -> None:
        self.assertIsNotNone(shutil.which(MPIRUN[0]), "no Open MPI; scripts/install.sh installs it")
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, *words: object, launcher: "tuple[str, ...]" = tuple(MPIRUN), rows: int = 300, code: int = 0) -> str:
        script = Path(__file__).with_name("stowage_rank.py")
        done = subprocess.run([*launcher, sys.executable, "-B", script, self.folder, *map(str, words)], env={**os.environ, "ROWS": str(rows)}, timeout=300,
            capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode == 0, code == 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def result(self, way: str) -> dict:
        return json.loads((self.folder / f"{way}.json").read_text())

    def test_two_ranks_are_two_batches_of_one_process(self) -> None:
        """Shuffled, evaluated after each epoch, and gone on with."""
        self.start("wide", "accumulate", 64, 2, "shuffle", launcher=())
        alone = self.result("accumulate")
        self.assertEqual((alone["batches"], len(alone["losses"])), (2, 4))
        self.start("wide", "shards", 64, 1, "shuffle")
        first = self.result("shards")["losses"]
        said = self.start("wide", "shards", 64, 2, "shuffle")
        self.assertEqual(said.count("epoch 2 of 2"), 1, "not one process speaks")
        found = self.result("shards")
        self.assertEqual(first + found["losses"], alone["losses"])
        saved, expected = ((self.folder / f"{name}.safetensors").read_bytes() for name in ("shards", "accumulate"))
        self.assertEqual(self.tensors(saved), self.tensors(expected))
        self.assertTrue(found["checked"], "the first step is not compared with PyTorch's")
        for name in ("validation_accuracy", "validation_loss", "validation_mean"):
            self.assertAlmostEqual(found["records"][-1][name], alone["records"][-1][name], places=12)

    def test_two_batches_on_each_of_two_ranks_are_four_of_one_process(self) -> None:
        self.start("wide", "row", 64, 2, launcher=(), rows=600)
        self.start("wide", "parts", 64, 2, rows=600)
        alone, found = self.result("row"), self.result("parts")
        self.assertEqual((alone["batches"], found["batches"], found["devices"], len(found["losses"])), (4, 2, 2, 4))
        self.assertEqual(found["losses"], alone["losses"])
        saved, expected = ((self.folder / f"{name}.safetensors").read_bytes() for name in ("parts", "row"))
        self.assertEqual(self.tensors(saved), self.tensors(expected))

    @staticmethod
    def tensors(content: bytes) -> bytes:
        return content[8 + int.from_bytes(content[:8], "little") :]

    def test_losses_are_those_of_distributed_data_parallel(self) -> None:
        theirs = [subprocess.Popen([sys.executable, "-B", Path(__file__).with_name("ddp_rank.py"), self.folder, "residual", "ddp", *map(str, (rank, RANKS, BATCH, STEPS))])
                  for rank in range(RANKS)]  # fmt: skip
        self.assertEqual([process.wait() for process in theirs], [0] * RANKS)
        self.start("residual", "env", BATCH, 1, rows=RANKS * BATCH * STEPS)
        ours, expected = self.result("env")["losses"], json.loads((self.folder / "ddp.json").read_text())
        self.assertEqual(len(ours), STEPS)
        worst = max(abs(a - b) / abs(b) for a, b in zip(ours, expected, strict=True))
        print(f"residual from Python: losses of {STEPS} steps differ by {worst:.1e}")
        self.assertLess(worst, 1e-4)

    def test_synchronized_normalizations_see_both_batches(self) -> None:
        self.start("residual", "whole", BATCH, 1, launcher=())
        whole = self.result("whole")["losses"]
        self.start("residual", "sync", BATCH, 1)
        ours = self.result("sync")["losses"]
        self.assertEqual(len(ours), len(whole))
        worst = max(abs(a - b) / abs(b) for a, b in zip(ours, whole, strict=True))
        print(f"residual with SyncBatchNorm: losses of {len(ours)} steps differ by {worst:.1e} from those of one process")
        self.assertLess(worst, 1e-4)

    def test_some_synchronized_normalizations_are_refused(self) -> None:
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.SyncBatchNorm(4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
        with self.assertRaisesRegex(stowage.StowageError, "1 of 2 batch normalizations"):
            stowage.compile(module, torch.randn(8, 4), devices=2)

    def test_a_rank_that_fails_ends_the_other(self) -> None:
        said = self.start("mlp", "fail", 8, 3, code=1)
        self.assertIn("rank 1 fails", said)
        self.assertIn("rank 0 at step 2", said)


class Launches(unittest.TestCase):
    def test_ranks_of_launchers(self) -> None:
        for variables, place in (
            ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "1"}, (1, 4)),
            ({"PMI_RANK": "2", "PMI_SIZE": "3"}, (2, 3)),
            ({"PMIX_RANK": "5", "SLURM_STEP_NUM_TASKS": "8"}, (5, 8)),
            ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
            ({}, (0, 1)),
        ):
            self.assertEqual(_launch.place_of(variables), place)

    def test_launches_without_mpi_are_refused_by_name(self) -> None:
        for variables, text in (
            ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, "torchrun has started this process .RANK=1, WORLD_SIZE=2.*mpirun -n 2"),
            ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, "srun has started .*--mpi=pmix"),
            ({"PMI_RANK": "one", "PMI_SIZE": "2"}, "PMI_RANK of the launcher is 'one'"),
            ({"PMIX_RANK": "0"}, "SLURM_STEP_NUM_TASKS.*devices=N"),
        ):
            with self.assertRaisesRegex(stowage.StowageError, text):
                _launch.place_of(variables)

    def test_launches_without_mpi_are_those_of_gpus(self) -> None:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        for variables, place in (
            ({"RANK": "1", "WORLD_SIZE": "2", **meeting}, (1, 2)),
            ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", **meeting}, (3, 4)),
            ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3", "RANK": "0", "WORLD_SIZE": "2", **meeting}, (1, 3)),
            ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1)),
        ):
            self.assertEqual(_launch.place_of(variables, gpus=True), place)
        with self.assertRaisesRegex(stowage.StowageError, "torchrun has started .* not set: MASTER_PORT"):
            _launch.place_of({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}, gpus=True)
        for flags, gpus in ((["--target=cuda:h100", "--tf32"], True), (["--target=RTX4090"], True), (["--target=cpu"], False), (["--threads=2"], False)):
            self.assertEqual(_launch.are_gpus(flags), gpus)

    def test_batches_are_dealt_out(self) -> None:
        batches = [[1, 2], [3, 4], [5, 6], [7, 8], [9]]
        for whole, expected in ((True, [[[1, 2], [5, 6]], [[3, 4], [7, 8]]]), (False, [[[1, 2], [5, 6], [9]], [[3, 4], [7, 8]]])):
            for kind in (list, lambda given: (batch for batch in given)):
                found = [list(_launch.dealt(kind(batches), rank, 2, len, whole)) for rank in range(2)]
                self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
