#!/usr/bin/python3
"""What two networks learn from real data in PyTorch, beside which tests/e2e/learns.py sets the compiled executables.

  learn.py [TASK...]    writes tests/data/curves/learned.csv: task,value

  text      GPT-2's architecture (models/sequence_models.py, 174,000 parameters) on the licences that Debian's base-files brings,
            character by character; the value is bits per character of the tenth of the text that it never saw
  digits    ResNet-18 on scikit-learn's handwritten digits (models/data/digits.npz), each pixel four by four pixels in three
            channels; the value is the accuracy on the test images in percent

Weights come from seeds, batches from a seed and a fixed order, so that both sides see the same ones.
"""

import csv
import hashlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python"), str(ROOT / "python/references")]

from onnx_init import stream  # noqa: E402

LEARNED = ROOT / "tests/data/curves/learned.csv"
LICENCES = Path("/usr/share/common-licenses")
TEXTS = ("Apache-2.0", "Artistic", "GFDL-1.3", "GPL-2", "GPL-3", "LGPL-2.1", "MPL-1.1", "MPL-2.0")
TEXT_SHA256 = "11fc36c5945ba6e453d8e9c4f3534ea6b170c92874bc16706f3ea557831bde2b"
LENGTH, CHARACTERS = 64, 128
HELD_OUT = 0.1  # of each licence, its end


class NoData(Exception):
    """The data are not on this machine, or others than those that the reference was made with."""


@dataclass(frozen=True)
class Task:
    build: tuple[str, ...]  # arguments of models/build.py
    batch: int
    steps: int
    optimizer: str
    loss: str
    unit: str


TASKS = {
    "text": Task(("gpt2", f"--length={LENGTH}", "--layers=2", "--heads=4", "--width=64", "--vocabulary=128", "--weights=seed:0"), 16, 1500, "adamw:lr=3e-3",
                 "cross-entropy:class-axis=-1", "bits per character"),
    "digits": Task(("resnet18", "--image=32", "--weights=he:0"), 32, 220, "sgd:lr=0.003,momentum=0.9", "cross-entropy", "% of the test images"),
}  # fmt: skip


def text_data(task: Task) -> dict[str, np.ndarray]:
    """Training rows in the order in which they are read, and test rows that cover the held-out ends."""
    paths = [LICENCES / name for name in TEXTS]
    if missing := [path for path in paths if not path.exists()]:
        raise NoData(f"there is no {missing[0]}; it comes with Debian's base-files")
    texts = [path.read_bytes() for path in paths]
    digest = hashlib.sha256(b"".join(texts)).hexdigest()
    if digest != TEXT_SHA256:
        raise NoData(f"{LICENCES}: expected texts with the SHA-256 {TEXT_SHA256}, found {digest}; write {LEARNED.name} again with learn.py")
    codes = [np.minimum(np.frombuffer(text, np.uint8), CHARACTERS - 1).astype(np.int64) for text in texts]
    cuts = [int(len(code) * (1 - HELD_OUT)) for code in codes]
    seen = np.concatenate([code[:cut] for code, cut in zip(codes, cuts)])
    begins = stream(0, "text").integers(0, len(seen) - LENGTH, task.batch * task.steps)
    rows = seen[begins[:, None] + np.arange(LENGTH + 1)]
    kept = np.concatenate([code[cut:] for code, cut in zip(codes, cuts)])
    tests = kept[: (len(kept) - 1) // LENGTH * LENGTH + 1]
    return {"x": rows[:, :-1], "y": rows[:, 1:], "x_test": tests[:-1].reshape(-1, LENGTH), "y_test": tests[1:].reshape(-1, LENGTH)}


def digits_data(task: Task) -> dict[str, np.ndarray]:
    with np.load(ROOT / "models/data/digits.npz") as stored:
        arrays = dict(stored)
    for name in ("x", "x_test"):
        arrays[name] = arrays[name].repeat(3, 1).repeat(4, 2).repeat(4, 3)
    count, epoch = task.batch * task.steps, len(arrays["x"])
    order = np.concatenate([stream(i, "digits").permutation(epoch) for i in range(-(-count // epoch))])[:count]
    return arrays | {"x": arrays["x"][order], "y": arrays["y"][order]}


def make_data(name: str) -> dict[str, np.ndarray]:
    return {"text": text_data, "digits": digits_data}[name](TASKS[name])


def build_model(name: str, path: Path) -> None:
    import build

    task = TASKS[name]
    build.main([task.build[0], "-o", str(path), f"--batch={task.batch}", *task.build[1:]])


def learn(name: str, folder: Path) -> float:
    """PyTorch's value after the task's steps."""
    import torch
    from objectives import loss_of, make_optimizer
    from onnx_torch import OnnxTorch

    task, data = TASKS[name], {key: torch.from_numpy(array) for key, array in make_data(name).items()}
    build_model(name, folder / "model.onnx")
    model = onnx.load(folder / "model.onnx")
    network = OnnxTorch(model, {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer})
    optimizer = make_optimizer(task.optimizer, [(key, network.state[key]) for key in network.trainable])
    for step in range(task.steps):
        rows = slice(step * task.batch, (step + 1) * task.batch)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(task.loss, network.forward(data["x"][rows]), data["y"][rows])
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{name}: step {step}, loss {loss.item():.4f}", flush=True)
    network.training = False
    with torch.no_grad():
        outputs = torch.cat([network.forward(part) for part in data["x_test"].split(task.batch)])
    if name == "text":
        return loss_of(task.loss, outputs, data["y_test"]).item() / math.log(2)
    return 100 * float((outputs.argmax(1) == data["y_test"]).float().mean())


def learned() -> dict[str, float]:
    with open(LEARNED) as file:
        return {row["task"]: float(row["value"]) for row in csv.DictReader(file)}


def main() -> None:
    import tempfile

    import torch

    torch.set_num_threads(1)
    values = learned() if LEARNED.exists() else {}
    for name in sys.argv[1:] or TASKS:
        with tempfile.TemporaryDirectory() as folder:
            values[name] = learn(name, Path(folder))
        print(f"{name}: {values[name]:.4f} {TASKS[name].unit} after {TASKS[name].steps} steps", flush=True)
    LEARNED.write_text("task,value\n" + "".join(f"{name},{values[name]:.6g}\n" for name in TASKS))


if __name__ == "__main__":
    main()
