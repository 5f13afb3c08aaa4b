"""Translation with attention, written node by node with onnx.helper: parameters are graph inputs without data.

  source, translation [N, T] tokens; 0 pads, 1 begins a sentence
  encoder   table of tokens, bidirectional GRU over each sentence's own length (PyTorch's packed sequences)
  keys      tanh(linear(encoder states)); the decoder starts from tanh(linear(last state of the reverse direction))
  decoder   table of tokens; per step a GRU cell over the token before, additive attention over the encoder's states with
            the padding masked, a second GRU cell over the context
  head      tanh(linear(token, state, context)) of all steps, and from it the scores of the next token

Outputs: `loss`, the cross-entropy summed over the tokens that are not padding and divided by the batch, and `logits` [N, T, V].
Cells come in two forms with the same parameters, PyTorch's: GRU nodes as torch.nn.GRU is exported, and `cells` written out for
each step as torch.nn.GRUCell's arithmetic is.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from sequence_models import Graph

PAD, BEGIN = 0, 1


@dataclass(frozen=True)
class Seq2SeqSize:
    length: int
    vocabulary: int
    width: int  # of the tables
    hidden: int
    cells: bool = False  # written out instead of GRU nodes


SIZES = {
    "seq2seq": Seq2SeqSize(50, 30000, 500, 1000),
    "seq2seq_cells": Seq2SeqSize(50, 30000, 500, 1000, cells=True),
    "digit_seq2seq": Seq2SeqSize(5, 12, 12, 24),
    "digit_seq2seq_cells": Seq2SeqSize(5, 12, 12, 24, cells=True),
}


class Recurrence:
    """One set of weights of a GRU in either form, as PyTorch stores them; `directions` is 2 only for the encoder."""

    def __init__(self, g: Graph, name: str, size: Seq2SeqSize, batch: int, inputs: int, directions: int = 1) -> None:
        self.g, self.name, self.size, self.batch = g, name, size, batch
        rows, hidden = 3 * size.hidden, size.hidden
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden), "bias_ih": (rows,), "bias_hh": (rows,)}
        self.weights = [[g.parameter(f"{name}.{tensor}{suffix}", *shape) for tensor, shape in shapes.items()]
                        for suffix in ("", "_reverse")[:directions]]  # fmt: skip
        self.packed = [] if size.cells else self.pack()

    def pack(self) -> list[str]:
        """W, R and B of a GRU node: gates z r h in place of r z n, all directions in one, as PyTorch's exporter computes them."""
        g, hidden, first = self.g, self.size.hidden, self.g.ints("axis_0", 0)
        packed: list[list[str]] = [[], [], []]
        for direction, tensors in enumerate(self.weights):
            ordered = []
            for tensor in tensors:
                name = f"{self.name}.pack.{tensor.rsplit('.', 1)[1]}"
                gates = [g.node("Slice", f"{name}.{i}", [tensor, g.ints(f"row_{i * hidden}", i * hidden),
                                                         g.ints(f"row_{(i + 1) * hidden}", (i + 1) * hidden), first])
                         for i in (1, 0, 2)]  # fmt: skip
                ordered.append(g.node("Concat", name, gates, axis=0))
            ordered[2:] = [g.node("Concat", f"{self.name}.pack.bias.{direction}", ordered[2:], axis=0)]
            for i, tensor in enumerate(ordered):
                packed[i].append(g.node("Unsqueeze", f"{self.name}.pack.{direction}.{i}", [tensor, first]))
        return [g.node("Concat", f"{self.name}.pack.{i}", parts, axis=0) if len(parts) > 1 else parts[0]
                for i, parts in enumerate(packed)]  # fmt: skip

    def cell(self, name: str, x: str, h: str, direction: int = 0) -> str:
        """The arithmetic of torch.nn.GRUCell on [N, ...]."""
        g, thirds = self.g, self.g.ints("thirds", *[self.size.hidden] * 3)
        w_ih, w_hh, b_ih, b_hh = self.weights[direction]
        from_input = g.node("Split", f"{name}.ih", [g.node("Gemm", f"{name}.ih", [x, w_ih, b_ih], transB=1), thirds], 3, axis=1)
        from_state = g.node("Split", f"{name}.hh", [g.node("Gemm", f"{name}.hh", [h, w_hh, b_hh], transB=1), thirds], 3, axis=1)
        reset, update = (g.node("Sigmoid", f"{name}.{gate}", [g.node("Add", f"{name}.{gate}", [from_input[i], from_state[i]])])
                         for i, gate in enumerate(("reset", "update")))  # fmt: skip
        kept = g.node("Mul", f"{name}.kept", [reset, from_state[2]])
        new = g.node("Tanh", f"{name}.new", [g.node("Add", f"{name}.new", [from_input[2], kept])])
        change = g.node("Mul", f"{name}.change", [update, g.node("Sub", f"{name}.change", [h, new])])
        return g.node("Add", f"{name}.state", [new, change])

    def step(self, name: str, x: str, h: str) -> str:
        """One step of one direction: x and h [N, ...] to the next state."""
        if self.size.cells:
            return self.cell(name, x, h)
        g, first = self.g, self.g.ints("axis_0", 0)
        one, state = (g.node("Unsqueeze", f"{name}.{what}", [value, first]) for what, value in (("x", x), ("h", h)))
        _, last = g.node("GRU", name, [one, *self.packed, "", state], 2, hidden_size=self.size.hidden, linear_before_reset=1)
        return g.node("Squeeze", name, [last, first])


def encode_by_node(rnn: Recurrence, x: str, lengths: str) -> tuple[str, str]:
    """x [T, N, E] to the states [N, T, 2 H] and the last one of the reverse direction [N, H]."""
    g, size = rnn.g, rnn.size
    y, last = g.node("GRU", rnn.name, [x, *rnn.packed, lengths], 2, hidden_size=size.hidden, linear_before_reset=1,
                     direction="bidirectional")  # fmt: skip
    by_sample = g.node("Transpose", f"{rnn.name}.states", [y], perm=[2, 0, 1, 3])
    states = g.node("Reshape", f"{rnn.name}.states", [by_sample, g.ints("states", rnn.batch, size.length, 2 * size.hidden)])
    return states, g.node("Gather", f"{rnn.name}.last", [last, g.constant("reverse", np.int64(1))], axis=0)


def encode_by_cells(rnn: Recurrence, x: str, lengths: str) -> tuple[str, str]:
    """The same, step by step: beyond its length a sentence keeps its state and gives zeros."""
    g, size = rnn.g, rnn.size
    zeros = g.constant("no_state", np.zeros((rnn.batch, size.hidden), np.float32))
    column = g.node("Unsqueeze", f"{rnn.name}.lengths", [lengths, g.ints("axis_1", 1)])
    masks, results, last = {}, {}, zeros
    for direction, order in enumerate((range(size.length), reversed(range(size.length)))):
        state = zeros
        for t in order:
            name = f"{rnn.name}.{direction}.{t}"
            if t not in masks:
                masks[t] = g.node("Greater", f"{rnn.name}.{t}", [column, g.constant(f"time_{t}", np.int32(t))])
            token = g.node("Gather", name, [x, g.constant(f"step_{t}", np.int64(t))], axis=0)
            new = rnn.cell(name, token, state, direction)
            state = g.node("Where", f"{name}.state", [masks[t], new, state])
            results[direction, t] = g.node("Where", f"{name}.result", [masks[t], new, g.floats(0)])
        last = state
    sides = [g.node("Concat", f"{rnn.name}.{t}", [results[0, t], results[1, t]], axis=1) for t in range(size.length)]
    return stacked(g, f"{rnn.name}.states", sides), last


def stacked(g: Graph, name: str, parts: list[str]) -> str:
    """torch.stack(parts, 1)."""
    axis = g.ints("axis_1", 1)
    wide = [g.node("Unsqueeze", f"{name}.{t}", [part, axis]) for t, part in enumerate(parts)]
    return g.node("Concat", name, wide, axis=1)


def attend(g: Graph, name: str, state: str, keys: str, values: str, mask: str, size: Seq2SeqSize) -> str:
    """The mean of the values [N, T, 2 H] by tanh(query + keys) . v over what the mask lets through, [N, 2 H]."""
    query = g.node("Unsqueeze", name, [g.shared_linear(f"{name}.query", "map_query", state), g.ints("axis_1", 1)])
    together = g.node("Tanh", name, [g.node("Add", name, [query, keys])])
    scores = g.node("Squeeze", name, [g.shared_linear(f"{name}.score", "score", together), g.ints("axis_2", 2)])
    masked = g.node("Where", name, [mask, scores, g.floats(float("-inf"))])
    weights = g.node("Unsqueeze", f"{name}.weights", [g.node("Softmax", name, [masked], axis=1), g.ints("axis_1", 1)])
    return g.node("Squeeze", f"{name}.context", [g.node("MatMul", name, [weights, values]), g.ints("axis_1", 1)])


class Seq2SeqGraph(Graph):
    def define_linear(self, name: str, inputs: int, outputs: int) -> None:
        """Parameters of a layer that is called more than once."""
        self.parameter(f"{name}.weight", inputs, outputs)
        self.parameter(f"{name}.bias", outputs)

    def shared_linear(self, path: str, name: str, x: str) -> str:
        product = self.node("MatMul", path, [x, f"{name}.weight"])
        return self.node("Add", path, [product, f"{name}.bias"])


def build(size: Seq2SeqSize, batch: int) -> onnx.ModelProto:
    g, hidden = Seq2SeqGraph(), size.hidden
    mask = g.node("Not", "mask", [g.node("Equal", "mask", ["source", g.constant("pad", np.int64(PAD))])])
    counts = g.node("Cast", "lengths", [mask], to=TensorProto.INT32)
    lengths = g.node("ReduceSum", "lengths", [counts, g.ints("axis_1", 1)], keepdims=0)
    table = g.parameter("encoder.embedding.weight", size.vocabulary, size.width)
    by_time = g.node("Transpose", "encoder.embedding", [g.node("Gather", "encoder.embedding", [table, "source"])], perm=[1, 0, 2])
    encoder = Recurrence(g, "encoder.rnn", size, batch, size.width, directions=2)
    values, last = (encode_by_cells if size.cells else encode_by_node)(encoder, by_time, lengths)
    keys = g.node("Tanh", "map_key", [g.linear("map_key", values, 2 * hidden, hidden)])
    state = g.node("Tanh", "dec_init", [g.linear("dec_init", last, hidden, hidden)])

    # The decoder reads the translation one step late.
    early = g.node("Slice", "shift", ["translation", g.ints("zero", 0), g.ints("but_last", -1), g.ints("axis_1", 1)])
    tokens = g.node("Pad", "shift", [early, g.ints("one_before", 0, 1, 0, 0), g.constant("begin", np.int64(BEGIN))])
    table = g.parameter("decoder.embedding.weight", size.vocabulary, size.width)
    embedded = g.node("Gather", "decoder.embedding", [table, tokens])
    first, second = (Recurrence(g, f"decoder.cell_{i}", size, batch, inputs) for i, inputs in ((1, size.width), (2, 2 * hidden)))
    g.define_linear("map_query", hidden, hidden)
    g.define_linear("score", hidden, 1)
    states, contexts = [], []
    for t in range(size.length):
        name = f"decoder.{t}"
        token = g.node("Gather", name, [embedded, g.constant(f"step_{t}", np.int64(t))], axis=1)
        middle = first.step(f"{name}.first", token, state)
        contexts.append(attend(g, f"{name}.attention", middle, keys, values, mask, size))
        state = second.step(f"{name}.second", contexts[-1], middle)
        states.append(state)
    all_states, all_contexts = stacked(g, "states", states), stacked(g, "contexts", contexts)
    joined = g.node("Concat", "readout", [embedded, all_states, all_contexts], axis=2)
    readout = g.node("Tanh", "readout", [g.linear("readout", joined, size.width + 3 * hidden, size.width)])
    logits = g.linear("logit", readout, size.width, size.vocabulary)
    flat = g.node("Reshape", "loss.scores", [logits, g.ints("flat_scores", batch * size.length, size.vocabulary)])
    labels = g.node("Reshape", "loss.labels", ["translation", g.ints("flat_labels", batch * size.length)])
    total = g.node("SoftmaxCrossEntropyLoss", "loss", [flat, labels], reduction="sum", ignore_index=PAD)
    return finished(g, g.node("Div", "loss", [total, g.floats(batch)]), logits, size, batch)


def finished(g: Graph, loss: str, logits: str, size: Seq2SeqSize, batch: int) -> onnx.ModelProto:
    """The model with the outputs under their names."""
    for result, name in ((loss, "loss"), (logits, "logits")):
        g.nodes.append(helper.make_node("Identity", [result], [name], f"/{name}/Identity"))
    data = [helper.make_tensor_value_info(name, TensorProto.INT64, [batch, size.length]) for name in ("source", "translation")]
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, []),
               helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, size.length, size.vocabulary])]  # fmt: skip
    graph = helper.make_graph(g.nodes, "seq2seq", [*data, *g.parameters], outputs, list(g.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="stowage-models")
    model.ir_version = 8
    return model
