#!/usr/bin/python3
"""Images that come as bytes: a uint8 input that the model casts, scales and shifts, as one kernel of the step does on the device.

  byte_images.py --stowage=build/release/bin/stowage --work=DIR [--simulated=build/release/lib/simulated]

On the host, and with --simulated on the simulated GPU: the losses are those of the same network on images that NumPy has cast, scaled and shifted,
bytes above 127 among them; the input takes a quarter of the memory, and of a GPU's copies. Bytes may be moved before the cast, not computed with; data that are no
bytes are refused.
"""

import argparse
import csv
import shutil
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from commands import check, run

BATCH, STEPS, SIDE = 4, 6, 8
MEAN = np.array([0.4, 0.5, 0.6], np.float32).reshape(1, 3, 1, 1)
DEVIATION = np.array([0.2, 0.25, 0.3], np.float32).reshape(1, 3, 1, 1)


def write_model(path: Path, prologue: list, kind: int, shape: list[int]) -> None:
    """A small network behind `prologue`, which makes `images` of `x`."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "f": rng.standard_normal((10, 288)).astype(np.float32) / 20,
               "mean": MEAN, "deviation": DEVIATION, "most": np.array(255, np.float32), "three": np.array(3, np.uint8)}  # fmt: skip
    node = helper.make_node
    nodes = [*prologue, node("Conv", ["images", "w"], ["y"], name="conv"), node("Relu", ["y"], ["r"], name="relu"), node("Flatten", ["r"], ["z"], name="flat"),
             node("Gemm", ["z", "f"], ["o"], name="fc", transB=1)]  # fmt: skip
    read = {name for each in nodes for name in each.input}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", kind, shape)], [helper.make_tensor_value_info("o", TensorProto.FLOAT, [BATCH, 10])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items() if name in read])  # fmt: skip
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def losses(path: Path) -> np.ndarray:
    with open(path) as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file)])


class Images:
    def __init__(self, args: argparse.Namespace) -> None:
        self.stowage, self.work, self.simulated = args.stowage, args.work, args.simulated
        node = helper.make_node
        normalize = [node("Cast", ["rows"], ["c"], name="cast", to=TensorProto.FLOAT), node("Div", ["c", "most"], ["d"], name="scale"),
                     node("Sub", ["d", "mean"], ["e"], name="shift"), node("Div", ["e", "deviation"], ["images"], name="spread")]  # fmt: skip
        write_model(self.work / "bytes.onnx", [node("Transpose", ["x"], ["rows"], name="rows", perm=[0, 3, 1, 2]), *normalize], TensorProto.UINT8,
                    [BATCH, SIDE, SIDE, 3])  # fmt: skip
        write_model(self.work / "floats.onnx", [node("Identity", ["x"], ["images"], name="same")], TensorProto.FLOAT, [BATCH, 3, SIDE, SIDE])
        write_model(self.work / "added.onnx", [node("Add", ["x", "three"], ["rows"], name="brighter"), *normalize], TensorProto.UINT8, [BATCH, 3, SIDE, SIDE])
        rng = np.random.default_rng(2)
        x, y = rng.integers(0, 256, (8 * BATCH, SIDE, SIDE, 3), dtype=np.uint8), rng.integers(0, 10, 8 * BATCH)
        images = (x.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255) - MEAN) / DEVIATION
        np.savez(self.work / "bytes.npz", x=x, y=y)
        np.savez(self.work / "floats.npz", x=images, y=y)
        np.savez(self.work / "large.npz", x=x.astype(np.int64) + 100, y=y)
        np.savez(self.work / "fractions.npz", x=x.astype(np.float32) / 255, y=y)

    def train(self, name: str, *flags: str) -> tuple[np.ndarray, Path]:
        """The losses of a few steps, and the calls of the driver on the simulated GPU."""
        program, log, calls = (self.work / f"{name}{''.join(flags).replace('=', '-').replace(':', '-').replace('/', '-')[-30:]}{suffix}" for suffix in ("", ".csv", ".calls"))
        run(self.stowage, "compile", self.work / f"{name}.onnx", "-o", program, "--loss=cross-entropy", "--optimizer=sgd:lr=0.01", *flags)
        run(program, "train", f"--data={self.work / name}.npz", f"--steps={STEPS}", "--no-shuffle", f"--log={log}",
            environment={"LD_LIBRARY_PATH": str(self.simulated), "STANDIN_LOG": str(calls)} if self.simulated else {})  # fmt: skip
        return losses(log), calls

    def compare(self, tolerance: float, *flags: str) -> tuple[Path, Path]:
        (found, calls), (expected, other) = self.train("bytes", *flags), self.train("floats", *flags)
        worst = np.max(np.abs(found - expected) / np.abs(expected))
        check(len(found) == STEPS and worst <= tolerance, f"losses of bytes {found}, of floats {expected} with {flags}")
        return calls, other

    def refusals(self) -> None:
        flags = ("--loss=cross-entropy", "--optimizer=sgd:lr=0.01")
        said = run(self.stowage, "plan", self.work / "added.onnx", *flags, code=1)
        check("reads 'x', which is uint8; cast it to float in front of it" in said, said)
        program = self.work / "program"
        run(self.stowage, "compile", self.work / "bytes.onnx", "-o", program, *flags)
        for data, expected in (("large", "which does not fit in u8"), ("fractions", "u8")):
            said = run(program, "train", f"--data={self.work / data}.npz", "--steps=1", code=1)
            check(expected in said, said)


def uploads(calls: Path) -> list[int]:
    """Sizes of what is copied to the device from pinned memory."""
    words = [line.split() for line in calls.read_text().splitlines() if line.startswith("cuMemcpyHtoDAsync")]
    return [int(dict(word.split("=", 1) for word in each[1:] if "=" in word)["bytes"]) for each in words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    images = Images(args)
    images.compare(1e-5)
    images.compare(5e-2, "--precision=bf16")
    images.refusals()
    if args.simulated:
        gpu = ("--target=cuda:h100", f"--cudnn={args.simulated}")
        calls, other = images.compare(1e-4, *gpu)
        batch = BATCH * 3 * SIDE * SIDE
        check(batch in uploads(calls) and 4 * batch not in uploads(calls), f"copies of bytes: {uploads(calls)}")
        check(4 * batch in uploads(other), f"copies of floats: {uploads(other)}")


if __name__ == "__main__":
    main()
