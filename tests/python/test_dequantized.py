"""ONNX files whose weights are whole numbers with scales: they stay so in the arena, and train what lies around them as their values in
float32 do.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import stowage
from onnx import TensorProto, helper, numpy_helper

ROWS, WIDTH, CLASSES = 8, 128, 10


class Weight:
    """A matrix as a file has it, and what it stands for."""

    def __init__(self, name: str, type: int, low: int, high: int, axis: "int | None" = None, block: int = 0, zeros: bool = True, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.name, self.type, self.axis, self.block = name, type, axis, block
        self.codes = rng.integers(low, high + 1, (WIDTH, WIDTH))
        shape = () if axis is None else (WIDTH,) if not block else tuple(WIDTH // block if i == axis else WIDTH for i in range(2))
        self.scale = (rng.random(shape) * 0.02 / (high - low) + 0.1 / (high - low)).astype(np.float32)
        self.zero = rng.integers((low + high) // 2, (low + high) // 2 + 3, shape) if zeros else None

        def spread(values: np.ndarray) -> np.ndarray:
            if block:
                return np.repeat(values, block, axis)
            return values if axis is None else values.reshape([-1 if i == axis else 1 for i in range(2)])

        zero = 0 if self.zero is None else spread(self.zero)
        self.values = (self.codes - zero).astype(np.float32) * spread(self.scale)

    def nodes(self) -> "tuple[list[onnx.NodeProto], list[onnx.TensorProto]]":
        def tensor(name: str, values: np.ndarray) -> onnx.TensorProto:
            return helper.make_tensor(name, self.type, values.shape, values.flatten().tolist())

        inputs = [f"{self.name}_codes", f"{self.name}_scale"]
        tensors = [tensor(inputs[0], self.codes), numpy_helper.from_array(self.scale, inputs[1])]
        if self.zero is not None:
            inputs.append(f"{self.name}_zero")
            tensors.append(tensor(inputs[2], self.zero))
        attributes = {"axis": self.axis} if self.axis is not None else {}
        if self.block:
            attributes["block_size"] = self.block
        return [helper.make_node("DequantizeLinear", inputs, [self.name], **attributes)], tensors


def write(path: Path, weights: "list[Weight]", is_dequantized: bool) -> None:
    """Gemm, trained, then products with the weights, then Gemm, trained."""
    rng = np.random.default_rng(9)
    tensors = [numpy_helper.from_array(rng.normal(0, 0.05, shape).astype(np.float32), name)
               for name, shape in (("first.weight", (WIDTH, WIDTH)), ("first.bias", (WIDTH,)), ("last.weight", (CLASSES, WIDTH)), ("last.bias", (CLASSES,)))]
    nodes = [helper.make_node("Gemm", ["x", "first.weight", "first.bias"], ["h"], transB=1)]
    last = "h"
    for weight in weights:
        if is_dequantized:
            more, theirs = weight.nodes()
            nodes += more
            tensors += theirs
        else:
            tensors.append(numpy_helper.from_array(weight.values, weight.name))
        nodes += [helper.make_node("MatMul", [last, weight.name], [f"{weight.name}_product"]),
                  helper.make_node("Tanh", [f"{weight.name}_product"], [f"{weight.name}_out"])]  # fmt: skip
        last = f"{weight.name}_out"
    nodes.append(helper.make_node("Gemm", [last, "last.weight", "last.bias"], ["logits"], transB=1))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, WIDTH])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [ROWS, CLASSES])], tensors)  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


WEIGHTS = {
    "uint8, one scale": Weight("w", TensorProto.UINT8, 0, 255),
    "int8, a scale a column, no zero": Weight("w", TensorProto.INT8, -128, 127, axis=1, zeros=False),
    "int8, a scale a row": Weight("w", TensorProto.INT8, -128, 127, axis=0),
    "int8 in blocks of rows": Weight("w", TensorProto.INT8, -127, 127, axis=0, block=32),
    "uint4, one scale": Weight("w", TensorProto.UINT4, 0, 15),
    "int4, a scale a column": Weight("w", TensorProto.INT4, -8, 7, axis=1),
    "int4 in blocks of rows": Weight("w", TensorProto.INT4, -8, 7, axis=0, block=32, zeros=False),
    "uint4 in blocks of columns": Weight("w", TensorProto.UINT4, 0, 15, axis=1, block=64),
}


class Dequantized(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = Path(place.name) / "model.onnx"
        rng = np.random.default_rng(1)
        self.x = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
        self.y = rng.integers(0, CLASSES, ROWS)

    def compiled(self, weights: "list[Weight]", is_dequantized: bool, **options: object) -> stowage.Step:
        write(self.path, weights, is_dequantized)
        if not is_dequantized:
            options["freeze"] = ",".join(weight.name for weight in weights)
        return stowage.compile(self.path, optimizer="sgd:lr=0.5,momentum=0.9", threads=2, **options)

    def test_as_their_values(self) -> None:
        """Losses and trained weights of three steps, bit for bit."""
        for name, weight in WEIGHTS.items():
            with self.subTest(name):
                with self.compiled([weight], False) as step:
                    expected, trained = [step(self.x, self.y) for _ in range(3)], step.model.read("first.weight")
                with self.compiled([weight], True) as step:
                    self.assertEqual([step(self.x, self.y) for _ in range(3)], expected)
                    np.testing.assert_array_equal(step.model.read("first.weight"), trained)
                    self.assertLess(expected[-1], expected[0])
                    kept = {tensor["name"]: tensor for tensor in step.plan.buffers if tensor["kind"] == "frozen"}
                    bits = 4 if "int4" in name else 8
                    self.assertEqual((kept["w_codes"]["dtype"], kept["w_codes"]["size"]), ("u8", WIDTH * WIDTH * bits // 8))

    def test_takes_less(self) -> None:
        """Of several matrices one lies there as numbers at a time, under a budget, and the step's bits are the same."""
        weights = [Weight(f"w{i}", TensorProto.INT4, -8, 7, axis=0, block=32, seed=i) for i in range(6)]
        with self.compiled(weights, False, recompute="none") as step:
            whole, expected = step.plan, [step(self.x, self.y) for _ in range(3)]
        saved = int(6 * WIDTH * WIDTH * (4 - 0.5))
        budget = whole.arena_bytes - saved + 3 * 4 * WIDTH * WIDTH
        with self.compiled(weights, True, memory_budget=budget) as step:
            self.assertLessEqual(step.plan.arena_bytes, budget)
            self.assertEqual([step(self.x, self.y) for _ in range(3)], expected)

    def test_refused(self) -> None:
        rng = np.random.default_rng(0)
        weight = Weight("w", TensorProto.INT8, -128, 127, axis=1)
        weight.scale = rng.random(7).astype(np.float32)
        weight.zero = None
        with self.assertRaisesRegex(stowage.StowageError, "has scales of 7 for 128x128 along axis 1"):
            self.compiled([weight], True)
        weight = Weight("w", TensorProto.INT8, -128, 127, axis=0, block=32)
        weight.block = 48
        with self.assertRaisesRegex(stowage.StowageError, "has scales of 4x128 for 128x128 along axis 0 in blocks of 48"):
            self.compiled([weight], True)


if __name__ == "__main__":
    unittest.main()
