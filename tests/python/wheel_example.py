"""What scripts/test_wheel.sh trains in a bare system: wheel_example.py [MODULE...] imports the modules in that order, then trains the digits
network from its file, or, with torch among them, a module as the README shows it."""

import importlib
import sys
import tempfile
from pathlib import Path

for name in sys.argv[1:]:
    importlib.import_module(name)

import numpy as np
import stowage

data = np.load("digits.npz")
images, labels = data["x"], data["y"]


def train(step, batch):
    losses = [step(images[i : i + batch], labels[i : i + batch]) for _ in range(3) for i in range(0, len(images) - batch + 1, batch)]
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    assert last < first / 3, f"the loss went from {first} to {last}"
    print(f"{' then '.join(sys.argv[1:]) or 'numpy'}: {len(losses)} steps, loss {first:.3f} to {last:.3f}")


def use_jax():
    """Its compiler has an LLVM of its own in this process."""
    import jax

    assert jax.jit(lambda x: (x * x).sum())(jax.numpy.arange(5.0)) == 30


def from_module():
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1024, 10))
    step = stowage.compile(module, torch.tensor(images[:32]), loss="cross-entropy", optimizer="adamw:lr=3e-3", memory_budget="2MiB")
    print(str(step.plan).splitlines()[0])
    train(step, 32)
    module.load_state_dict(step.state_dict())
    right = (module(torch.tensor(data["x_test"])).argmax(1).numpy() == data["y_test"]).mean()
    assert right > 0.9, f"PyTorch finds {right} of the test images with the trained weights"


def from_file():
    step = stowage.compile("digits_cnn.onnx", loss="cross-entropy", optimizer="adamw:lr=1e-3", memory_budget="65%")
    print(str(step.plan).splitlines()[0])
    train(step, step.batch)
    with tempfile.TemporaryDirectory() as folder:
        step.save(Path(folder) / "weights.safetensors")


if "jax" in sys.argv:
    use_jax()
from_module() if "torch" in sys.argv else from_file()
if "jax" in sys.argv:
    use_jax()
