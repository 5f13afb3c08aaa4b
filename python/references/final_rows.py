"""What is kept of trained parameters to compare others with: of each tensor's change in the course of the training its norm,
and its product with a random vector of signs.

  write(path, initial, trained)                        one row per tensor: parameter,norm,product
  differences(path, initial, trained) -> {name: d}     relative to the norm of the stored change; 0 where both are the same

If the change of a tensor is off by a vector e, its norm is off by at most |e|. The signs know nothing of e, so that their product
with it is about |e| and hardly ever more than four times as large.
"""

import csv
from pathlib import Path
from typing import Mapping

import numpy as np
from onnx_init import stream

SIGNS = 4  # times |e|, once in 16,000 random vectors


def row(name: str, initial: np.ndarray, trained: np.ndarray) -> tuple[float, float]:
    change = (trained.astype(np.float64) - initial).ravel()
    return float(np.linalg.norm(change)), float(change @ np.sign(stream(0, name).standard_normal(change.size)))


def write(path: Path, initial: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["parameter", "norm", "product"])
        for name, tensor in trained.items():
            writer.writerow([name, *(f"{x:.9g}" for x in row(name, initial[name], tensor))])


def differences(path: Path, initial: Mapping[str, np.ndarray], trained: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Every tensor of the file has to be among the trained ones."""
    found: dict[str, float] = {}
    with open(path) as file:
        for stored in csv.DictReader(file):
            name, size, product = stored["parameter"], float(stored["norm"]), float(stored["product"])
            ours = row(name, initial[name], trained[name])
            off = max(abs(ours[0] - size), abs(ours[1] - product) / SIGNS)
            found[name] = off / size if size else float(off > 0)
    if not found:
        raise ValueError(f"{path} has no rows")
    return found
