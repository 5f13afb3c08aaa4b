"""Plans as memory snapshots, read by PyTorch's own torch/cuda/_memory_viz.py."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from torch.cuda import _memory_viz as reader

MODEL = str(Path(__file__).resolve().parents[2] / "models/digits_cnn.onnx")
FLAGS = ["--batch=32", "--threads=1", "--memory-budget=75%", "--optimizer=sgd:lr=0.1,momentum=0.9"]


class MemoryViz(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        plan = [os.environ["STOWAGE_BINARY"], "plan", MODEL, *FLAGS]
        cls.plan = json.loads(subprocess.run([*plan, "--format=json"], check=True, capture_output=True).stdout)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "plan.json").write_text(json.dumps(cls.plan))
            path = Path(folder) / "snapshot.pickle"
            subprocess.run([sys.executable, "-m", "stowage.convert", "memory-viz", Path(folder) / "plan.json", path], check=True)
            cls.data = path.read_bytes()

    def snapshot(self) -> dict:
        return pickle.loads(self.data)

    def test_segments(self) -> None:
        """segsum checks for itself that blocks and gaps add up to each segment."""
        text = reader.segsum(self.snapshot())
        graphs = len(self.plan["graphs"])
        self.assertIn(f"segments: {graphs}\n", text)
        self.assertIn(f"total_reserved: {reader.Bytes(graphs * self.plan['arena_bytes'])}\n", text)

    def test_trace(self) -> None:
        text = reader.trace(self.snapshot())
        sizes = [buffer["size"] for buffer in self.plan["buffers"] if buffer["size"]]
        train = text.split("Device 1")[0]
        self.assertEqual(train.count("MEM[") + train.count("a["), len(sizes))
        self.assertIn(f"a = cudaMalloc(0, {reader.Bytes(self.plan['arena_bytes'])})", train)

    def test_flame_graph(self) -> None:
        """What lies in the arena after the step, by module."""
        lines = reader.memory(self.snapshot(), format_flamegraph=lambda text: text)
        self.assertIn(";module:0:conv1;digits_cnn.onnx:0:conv1.weight;digits_cnn.onnx:0:parameter: conv1.weight 1152\n", lines)
        state = sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines() if "active_allocated" in line and "parameter" in line)
        parameters = sum(b["size"] for g in [self.plan["buffers"], *(g.get("buffers", []) for g in self.plan["graphs"])] for b in g
                         if b["kind"] == "parameter")  # fmt: skip
        self.assertEqual(state, parameters)

    def test_pages(self) -> None:
        for page in (reader.trace_plot(self.snapshot()), reader.segment_plot(self.snapshot()), reader.trace_plot(self.snapshot(), filter_freed=True)):
            self.assertIn("snapshot.pickle", page)


if __name__ == "__main__":
    unittest.main()
