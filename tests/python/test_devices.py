"""Two ranks over MPI beside PyTorch's DistributedDataParallel and ZeroRedundancyOptimizer on gloo.

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

import numpy as np
import stowage
from devices_models import make, samples

RANKS, BATCH, STEPS = 2, 8, 20
MPIRUN = ["mpirun.openmpi", "-n", str(RANKS), "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]  # fmt: skip


class Devices(unittest.TestCase):
    def compare(self, model: str, way: str, *flags: str) -> None:
        """Losses of a run with these flags beside those of PyTorch's ranks."""
        self.assertIsNotNone(shutil.which(MPIRUN[0]), "no Open MPI; scripts/install.sh installs it")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            x, y = samples(model, RANKS * BATCH * STEPS)
            np.savez(folder / "rows.npz", x=x.numpy(), y=y.numpy())
            theirs = [subprocess.Popen([sys.executable, "-B", Path(__file__).with_name("ddp_rank.py"), folder, model, way, *map(str, (rank, RANKS, BATCH, STEPS))])
                      for rank in range(RANKS)]  # fmt: skip
            self.assertEqual([process.wait() for process in theirs], [0] * RANKS)
            stowage.export(make(model), x[:BATCH], folder / "model.onnx", check=False)
            subprocess.run([os.environ["STOWAGE_BINARY"], "compile", folder / "model.onnx", "-o", folder / "model", f"--batch={BATCH}", f"--devices={RANKS}", "--threads=1",
                            "--recompute=none", "--optimizer=adamw:lr=1e-2,weight-decay=0.01", *flags], check=True, capture_output=True)  # fmt: skip
            subprocess.run([*MPIRUN, folder / "model", "train", f"--data={folder}/rows.npz", "--no-shuffle", f"--log={folder}/log.csv"], check=True, capture_output=True)
            ours = [float(row["loss"]) for row in csv.DictReader((folder / "log.csv").read_text().splitlines())]
            expected = json.loads((folder / f"{way}.json").read_text())
            self.assertEqual(len(ours), STEPS)
            worst = max(abs(a - b) / abs(b) for a, b in zip(ours, expected, strict=True))
            print(f"{model}, {way}: losses of {STEPS} steps differ by {worst:.1e}")
            self.assertLess(worst, 1e-4)

    def test_mlp_is_that_of_distributed_data_parallel(self) -> None:
        self.compare("mlp", "ddp")

    def test_gpt_in_shards_is_that_of_zero_redundancy_optimizer(self) -> None:
        self.compare("gpt", "zero", "--loss=cross-entropy:class-axis=-1", "--shard-state=optimizer")

    def test_batch_norms_are_those_of_distributed_data_parallel(self) -> None:
        self.compare("residual", "ddp")


if __name__ == "__main__":
    unittest.main()
