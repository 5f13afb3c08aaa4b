"""The Python blocks of README.md under "Your own model", as one program: a reader of the second block has typed the first."""

import os
import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
# What the blocks name and do not define.
PRELUDE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 7, stride=32), torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4 * 49, 10)
    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).flatten(1))
model = module = Model()
example_images = images = torch.randn(32, 3, 224, 224)
labels = torch.randint(0, 10, (32,))
loader = test_loader = [(images, labels)]
"""


class Documented(unittest.TestCase):
    def test_your_own_model(self) -> None:
        text = (ROOT / "README.md").read_text()
        blocks = BLOCK.findall(text.split("## Your own model", 1)[-1].split("\n## ", 1)[0])
        self.assertGreaterEqual(len(blocks), 2)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(folder.name)
        exec(compile(PRELUDE + "\n".join(blocks), "README.md", "exec"), {"__name__": "__main__"})
        self.assertTrue(Path("model.onnx").is_file())
