#!/usr/bin/python3
"""How long `stowage plan` takes by the number of a step's commands: chain, U-Net, transformer, unrolled recurrence.

  benchmarks/plan/planning_time.py                               1,000, 10,000 and 50,000 commands, every flag at its default
  benchmarks/plan/planning_time.py chain --commands=1000,2000 --flags=--memory-budget=80%
  benchmarks/plan/planning_time.py -o FILE

Nothing is executed. Models are as small as their kind allows, so that the number of commands alone counts: layers of 16
features, 8 samples. Seconds are processor time of the whole command, reading and printing included: one thread works.
"""

import argparse
import json
import resource
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
ROWS, WIDTH = 8, 16


class Graph:
    """Nodes and weights of a model with one input `x`, in order."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        value = self.random.standard_normal(shape).astype(np.float32) / shape[-1]
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def linear(self, x: str) -> str:
        return self.op("MatMul", x, self.weight(WIDTH, WIDTH))

    def finish(self, y: str, shape: list[int], result: list[int]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        graph = helper.make_graph(
            self.nodes, "planning", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)], self.weights)  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def chain(layers: int) -> onnx.ModelProto:
    """Layers of a product and tanh."""
    g, x = Graph(), "x"
    for _ in range(layers):
        x = g.op("Tanh", g.linear(x))
    return g.finish(x, [ROWS, WIDTH], [ROWS, WIDTH])


def unet(layers: int) -> onnx.ModelProto:
    """Convolutions down and up again between 16x16 and 2x2 pixels, each level joined with its other side by a sum: one
    U behind the other, 14 convolutions each."""
    g, x = Graph(), "x"

    def block(x: str) -> str:
        return g.op("Relu", g.op("Conv", x, g.weight(4, 4, 3, 3), pads=[1, 1, 1, 1]))

    for _ in range(max(layers // 14, 1)):
        sides = []
        for _ in range(3):
            x = block(block(x))
            sides.append(x)
            x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x = block(block(x))
        for side in reversed(sides):
            x = g.op("ConvTranspose", x, g.weight(4, 4, 2, 2), strides=[2, 2])
            x = block(block(g.op("Add", x, side)))
    return g.finish(x, [2, 4, 16, 16], [2, 4, 16, 16])


def transformer(layers: int) -> onnx.ModelProto:
    """Blocks of attention with one head and a hidden layer, each behind a layer normalization."""
    g, x = Graph(), "x"

    def normalized(x: str) -> str:
        return g.op("LayerNormalization", x, g.weight(WIDTH), g.weight(WIDTH))

    for _ in range(layers):
        h = normalized(x)
        q, k, v = g.linear(h), g.linear(h), g.linear(h)
        weights = g.op("Softmax", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1])), axis=-1)
        x = g.op("Add", x, g.linear(g.op("MatMul", weights, v)))
        x = g.op("Add", x, g.linear(g.op("Tanh", g.linear(normalized(x)))))
    return g.finish(x, [2, ROWS, WIDTH], [2, ROWS, WIDTH])


def recurrence(steps: int) -> onnx.ModelProto:
    """A gated cell unrolled over time: the same two matrices in every step, whose input is a slice of `x`."""
    g = Graph()
    gate, change = g.weight(WIDTH, WIDTH), g.weight(WIDTH, WIDTH)
    parts = [f"x{i}" for i in range(steps)]
    g.nodes.append(helper.make_node("Split", ["x"], parts, axis=1, num_outputs=steps))
    axes = numpy_helper.from_array(np.array([1]), "axes")
    g.weights.append(axes)
    state = g.op("Squeeze", parts[0], "axes")
    for part in parts[1:]:
        x = g.op("Squeeze", part, "axes")
        open_ = g.op("Sigmoid", g.op("MatMul", state, gate))
        state = g.op("Add", g.op("Mul", open_, state), g.op("Tanh", g.op("MatMul", x, change)))
    return g.finish(state, [ROWS, steps, WIDTH], [ROWS, WIDTH])


KINDS = {"chain": (chain, 6), "unet": (unet, 11), "transformer": (transformer, 40), "recurrence": (recurrence, 12)}


def plan(stowage: str, model: onnx.ModelProto, flags: list[str]) -> tuple[int, float]:
    """(commands of the training step, processor seconds)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        words = [stowage, "plan", str(path), "--input=x", "--loss=mse", "--format=json", *flags]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    graphs = {graph["name"]: graph for graph in json.loads(done.stdout)["graphs"]}
    return graphs["train"]["step_count"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--commands", default="1000,10000,50000", help="of a training step, about")
    parser.add_argument("--flags", default="", help="of `stowage plan`")
    parser.add_argument("--stowage", default=str(ROOT / "build/release/bin/stowage"))
    parser.add_argument("-o", "--output", type=Path, help="a file for the table, else standard output")
    args = parser.parse_args()
    if unknown := [kind for kind in args.kinds if kind not in KINDS]:
        parser.error(f"{', '.join(unknown)} is no kind; expected {', '.join(KINDS)}")
    lines = ["| kind | commands | processor s | s for 1,000 commands |", "|---|---:|---:|---:|"]
    for kind in args.kinds or KINDS:
        build, per_layer = KINDS[kind]
        for wanted in map(int, args.commands.split(",")):
            commands, seconds = plan(args.stowage, build(max(wanted // per_layer, 1)), shlex.split(args.flags))
            lines.append(f"| {kind} | {commands:,} | {seconds:.1f} | {1000 * seconds / commands:.2f} |")
            print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
