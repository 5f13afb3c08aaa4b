"""Two ranks over MPI beside PyTorch's DistributedDataParallel on gloo.

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
import torch
import torch.nn as nn

RANKS, BATCH, STEPS = 2, 8, 20
MPIRUN = ["mpirun.openmpi", "-n", str(RANKS), "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]  # fmt: skip


class Devices(unittest.TestCase):
    def test_losses_are_those_of_distributed_data_parallel(self) -> None:
        self.assertIsNotNone(shutil.which(MPIRUN[0]), "no Open MPI; scripts/install.sh installs it")
        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            module = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
            torch.save(module.state_dict(), folder / "weights.pt")
            rng = np.random.default_rng(0)
            rows = RANKS * BATCH * STEPS
            np.savez(folder / "rows.npz", x=rng.standard_normal((rows, 20), dtype=np.float32), y=rng.integers(0, 5, rows))
            theirs = [subprocess.Popen([sys.executable, "-B", Path(__file__).with_name("ddp_rank.py"), folder, *map(str, (rank, RANKS, BATCH, STEPS))])
                      for rank in range(RANKS)]  # fmt: skip
            self.assertEqual([process.wait() for process in theirs], [0] * RANKS)
            stowage.export(module, torch.zeros(BATCH, 20), folder / "model.onnx", check=False)
            compiler = os.environ["STOWAGE_BINARY"]
            subprocess.run([compiler, "compile", folder / "model.onnx", "-o", folder / "model", f"--batch={BATCH}", f"--devices={RANKS}", "--threads=1",
                            "--optimizer=adamw:lr=1e-2,weight-decay=0.01"], check=True, capture_output=True)  # fmt: skip
            subprocess.run([*MPIRUN, folder / "model", "train", f"--data={folder}/rows.npz", "--no-shuffle", f"--log={folder}/log.csv"], check=True, capture_output=True)
            ours = [float(row["loss"]) for row in csv.DictReader((folder / "log.csv").read_text().splitlines())]
            expected = json.loads((folder / "losses.json").read_text())
            self.assertEqual(len(ours), STEPS)
            np.testing.assert_allclose(ours, expected, rtol=2e-5)


if __name__ == "__main__":
    unittest.main()
