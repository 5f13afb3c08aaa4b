"""Networks over sequences, written node by node with onnx.helper: parameters are graph inputs without data.

  gpt        GPT-2's architecture: token and position embedding, blocks of layer norm, causal attention and a GELU
             layer, a final norm, and a head that shares the token embedding's weights or has its own
  lstm       a long short-term memory layer unrolled over time; one set of parameters, read by every time step

Both come in the forms that exporters write: `decomposed` norms and GELUs (older opsets) or single nodes, a causal mask
that selects (Where) or is added.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class GptSize:
    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    tied: bool = True
    length: int | None = None  # tokens of a sample; none: the whole context

    @property
    def tokens(self) -> int:
        return self.length or self.context


@dataclass(frozen=True)
class LstmSize:
    steps: int
    features: int
    hidden: int
    classes: int


GPT_SIZES = {
    "gpt2": GptSize(12, 12, 768, 1024, 50257),
    "gpt2_untied": GptSize(12, 12, 768, 1024, 50257, tied=False),
    "char_gpt": GptSize(2, 4, 64, 32, 65),
    "char_gpt_untied": GptSize(2, 4, 64, 32, 65, tied=False),
}
LSTM_SIZES = {
    "lstm": LstmSize(24, 32, 64, 10),
    "lstm_long": LstmSize(500, 64, 256, 10),
}


class Graph:
    """Nodes, parameters and constants of one model; names are paths, as PyTorch's exporter makes them."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.parameters: list[onnx.ValueInfoProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.literals: set[str] = set()

    def node(self, op: str, name: str, inputs: list[str], outputs: int = 1, **attributes) -> str | list[str]:
        path = f"/{name.replace('.', '/')}/{op}"
        results = [f"{path}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, results, path, **attributes))
        return results[0] if outputs == 1 else results

    def parameter(self, name: str, *shape: int) -> str:
        self.parameters.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def constant(self, name: str, value) -> str:
        """Integers are initializers; numbers that are computed with are Constant nodes, which nobody trains."""
        tensor = numpy_helper.from_array(np.asarray(value), name)
        if tensor.data_type != TensorProto.FLOAT:
            self.constants[name] = tensor
        elif name not in self.literals:
            self.literals.add(name)
            self.nodes.append(helper.make_node("Constant", [], [name], f"/{name}/Constant", value=tensor))
        return name

    def floats(self, value: float) -> str:
        return self.constant(f"scalar_{value:g}", np.float32(value))

    def ints(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        product = self.node("MatMul", name, [x, self.parameter(f"{name}.weight", inputs, outputs)])
        return self.node("Add", name, [product, self.parameter(f"{name}.bias", outputs)])

    def model(self, name: str, data: onnx.ValueInfoProto, result: str, opset: int) -> onnx.ModelProto:
        output = onnx.ValueInfoProto(name=result)
        output.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, name, [data, *self.parameters], [output], list(self.constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="stowage-models")
        model.ir_version = 8
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        del model.graph.value_info[:]
        return model


def layer_norm(g: Graph, name: str, x: str, width: int, decomposed: bool) -> str:
    weight, bias = g.parameter(f"{name}.weight", width), g.parameter(f"{name}.bias", width)
    if not decomposed:
        return g.node("LayerNormalization", name, [x, weight, bias], axis=-1, epsilon=1e-5)
    centred = g.node("Sub", name, [x, g.node("ReduceMean", name, [x], axes=[-1])])
    square = g.node("Pow", name, [centred, g.floats(2)])
    variance = g.node("ReduceMean", f"{name}.variance", [square], axes=[-1])
    deviation = g.node("Sqrt", name, [g.node("Add", f"{name}.epsilon", [variance, g.floats(1e-5)])])
    scaled = g.node("Mul", name, [g.node("Div", name, [centred, deviation]), weight])
    return g.node("Add", name, [scaled, bias])


def gelu(g: Graph, name: str, x: str) -> str:
    """GPT-2's: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    cube = g.node("Mul", f"{name}.cube", [g.node("Pow", name, [x, g.floats(3)]), g.floats(0.044715)])
    inner = g.node("Mul", f"{name}.scale", [g.node("Add", f"{name}.sum", [x, cube]), g.floats(math.sqrt(2 / math.pi))])
    gate = g.node("Add", f"{name}.gate", [g.node("Tanh", name, [inner]), g.floats(1)])
    return g.node("Mul", name, [g.node("Mul", f"{name}.half", [x, g.floats(0.5)]), gate])


def causal_mask(g: Graph, scores: str, name: str, context: int, added: bool) -> str:
    """Scores of later positions become -inf, by selection or by a sum."""
    allowed = np.tril(np.ones((1, 1, context, context), bool))
    if added:
        mask = g.constant("mask", np.where(allowed, 0, -np.inf).astype(np.float32))
        return g.node("Add", name, [scores, mask])
    return g.node("Where", name, [g.constant("mask", allowed), scores, g.floats(-math.inf)])


def attention(g: Graph, name: str, x: str, size: GptSize, batch: int, added_mask: bool) -> str:
    width, heads, depth = size.width, size.heads, size.width // size.heads
    qkv = g.linear(f"{name}.c_attn", x, width, 3 * width)
    parts = g.node("Split", name, [qkv, g.ints("thirds", width, width, width)], outputs=3, axis=2)
    split = g.ints("heads", batch, size.tokens, heads, depth)

    def by_head(part: str, which: str, perm: list[int]) -> str:
        return g.node("Transpose", f"{name}.{which}", [g.node("Reshape", f"{name}.{which}", [part, split])], perm=perm)

    q = by_head(parts[0], "q", [0, 2, 1, 3])
    k = by_head(parts[1], "k", [0, 2, 3, 1])
    v = by_head(parts[2], "v", [0, 2, 1, 3])
    scores = g.node("Div", name, [g.node("MatMul", f"{name}.scores", [q, k]), g.floats(math.sqrt(depth))])
    weights = g.node("Softmax", name, [causal_mask(g, scores, name, size.tokens, added_mask)], axis=-1)
    mixed = g.node("Transpose", name, [g.node("MatMul", f"{name}.mix", [weights, v])], perm=[0, 2, 1, 3])
    joined = g.node("Reshape", name, [mixed, g.ints("joined", batch, size.tokens, width)])
    return g.linear(f"{name}.c_proj", joined, width, width)


def gpt(size: GptSize, batch: int, decomposed: bool = False, added_mask: bool = False) -> onnx.ModelProto:
    """Tokens [batch, length] to logits [batch, length, vocabulary]."""
    g = Graph()
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [batch, size.tokens])
    table = g.parameter("wte.weight", size.vocabulary, size.width)
    places = g.parameter("wpe.weight", size.context, size.width)
    x = g.node("Add", "embedding", [
        g.node("Gather", "wte", [table, "tokens"]),
        g.node("Gather", "wpe", [places, g.ints("positions", *range(size.tokens))]),
    ])  # fmt: skip
    for layer in range(size.layers):
        name = f"h.{layer}"
        normed = layer_norm(g, f"{name}.ln_1", x, size.width, decomposed)
        x = g.node("Add", f"{name}.residual_1", [x, attention(g, f"{name}.attn", normed, size, batch, added_mask)])
        normed = layer_norm(g, f"{name}.ln_2", x, size.width, decomposed)
        hidden = gelu(g, f"{name}.mlp.gelu", g.linear(f"{name}.mlp.c_fc", normed, size.width, 4 * size.width))
        x = g.node("Add", f"{name}.residual_2", [x, g.linear(f"{name}.mlp.c_proj", hidden, 4 * size.width, size.width)])
    x = layer_norm(g, "ln_f", x, size.width, decomposed)
    if size.tied:
        head = g.node("Transpose", "lm_head", [table], perm=[1, 0])
    else:
        head = g.parameter("lm_head.weight", size.width, size.vocabulary)
    logits = g.node("MatMul", "lm_head", [x, head])
    return g.model("gpt", tokens, logits, 14 if decomposed else 17)


def lstm(size: LstmSize, batch: int) -> onnx.ModelProto:
    """A sequence [batch, steps, features] to class scores [batch, classes], read off the last state."""
    g = Graph()
    sequence = helper.make_tensor_value_info("sequence", TensorProto.FLOAT, [batch, size.steps, size.features])
    from_input = g.parameter("lstm.weight_ih", size.features, 4 * size.hidden)
    from_state = g.parameter("lstm.weight_hh", size.hidden, 4 * size.hidden)
    bias = g.parameter("lstm.bias", 4 * size.hidden)
    state = cell = g.constant("zeros", np.zeros((batch, size.hidden), np.float32))
    quarters = g.ints("quarters", *[size.hidden] * 4)
    for t in range(size.steps):
        name = f"lstm.{t}"
        x = g.node("Gather", name, ["sequence", g.constant(f"time_{t}", np.int64(t))], axis=1)
        gates = g.node("Add", f"{name}.sum", [g.node("MatMul", f"{name}.ih", [x, from_input]),
                                               g.node("MatMul", f"{name}.hh", [state, from_state])])  # fmt: skip
        gates = g.node("Add", f"{name}.bias", [gates, bias])
        i, f, c, o = g.node("Split", name, [gates, quarters], outputs=4, axis=1)
        keep = g.node("Mul", f"{name}.keep", [g.node("Sigmoid", f"{name}.f", [f]), cell])
        write = g.node("Mul", f"{name}.write", [g.node("Sigmoid", f"{name}.i", [i]), g.node("Tanh", f"{name}.c", [c])])
        cell = g.node("Add", f"{name}.cell", [keep, write])
        state = g.node("Mul", f"{name}.state", [g.node("Sigmoid", f"{name}.o", [o]), g.node("Tanh", f"{name}.cell", [cell])])
    return g.model("lstm", sequence, g.linear("head", state, size.hidden, size.classes), 14)


SIZES = {**GPT_SIZES, **LSTM_SIZES}


def build(size: GptSize | LstmSize, batch: int, decomposed: bool = False, added_mask: bool = False) -> onnx.ModelProto:
    if isinstance(size, LstmSize):
        return lstm(size, batch)
    if size.tokens > size.context:
        raise SystemExit(f"a context of {size.context} tokens has no place for {size.tokens}")
    return gpt(size, batch, decomposed, added_mask)
