"""Transformers beside GPT-2, written node by node with onnx.helper: parameters are graph inputs without data.

  bert     BERT with its masked-language head: norms behind the sums, GELU with erf, the head shares the tokens' table
  vit      a vision transformer on square images: patches by a strided convolution, a class token, norms before the blocks
  llama    LLaMA's architecture: RMS norms, rotary positions, grouped-query attention, SwiGLU, with or without tied head

Sizes are their papers' or model cards'; `dataclasses.replace` gives others.
"""

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from sequence_models import Graph, layer_norm


@dataclass(frozen=True)
class BertSize:
    layers: int
    heads: int
    width: int
    length: int
    positions: int
    vocabulary: int


@dataclass(frozen=True)
class VitSize:
    layers: int
    heads: int
    width: int
    image: int
    patch: int
    classes: int


@dataclass(frozen=True)
class LlamaSize:
    layers: int
    heads: int
    groups: int  # of query heads that share keys and values
    width: int
    hidden: int
    length: int
    vocabulary: int
    tied: bool


SIZES = {
    "bert": BertSize(12, 12, 768, 512, 512, 30522),
    "char_bert": BertSize(2, 4, 64, 32, 32, 65),
    "vit": VitSize(12, 12, 768, 224, 16, 1000),
    "tiny_vit": VitSize(2, 4, 64, 32, 8, 10),
    "llama_small": LlamaSize(8, 8, 2, 512, 1376, 512, 32000, True),
    "llama_1b": LlamaSize(16, 32, 8, 2048, 8192, 2048, 128256, True),
    "char_llama": LlamaSize(2, 4, 2, 64, 176, 32, 65, True),
}


def gelu(g: Graph, name: str, x: str) -> str:
    """0.5 x (1 + erf(x / sqrt 2))."""
    gate = g.node("Erf", name, [g.node("Div", name, [x, g.floats(math.sqrt(2))])])
    return g.node("Mul", name, [g.node("Mul", f"{name}.half", [x, g.floats(0.5)]), g.node("Add", name, [gate, g.floats(1)])])


def heads_first(g: Graph, name: str, x: str, batch: int, length: int, heads: int, depth: int, perm: list[int]) -> str:
    shape = g.ints(f"{heads}_heads", batch, length, heads, depth)
    return g.node("Transpose", name, [g.node("Reshape", name, [x, shape])], perm=perm)


def mixed(g: Graph, name: str, q: str, k: str, v: str, depth: int, mask: str | None) -> str:
    """softmax(q k / sqrt(depth) + mask) v, of queries and values [N, heads, length, depth] and keys [.., depth, length]."""
    scores = g.node("Div", name, [g.node("MatMul", f"{name}.scores", [q, k]), g.floats(math.sqrt(depth))])
    if mask is not None:
        scores = g.node("Where", name, [mask, scores, g.floats(-math.inf)])
    return g.node("MatMul", f"{name}.mix", [g.node("Softmax", name, [scores], axis=-1), v])


def attention(g: Graph, name: str, x: str, batch: int, length: int, heads: int, width: int) -> str:
    """Every position sees all others; one product each for queries, keys and values."""
    depth = width // heads
    parts = []
    for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
        split = g.linear(f"{name}.{part}", x, width, width)
        parts.append(heads_first(g, f"{name}.{part}", split, batch, length, heads, depth, perm))
    joined = g.node("Transpose", name, [mixed(g, name, *parts, depth, None)], perm=[0, 2, 1, 3])
    joined = g.node("Reshape", f"{name}.joined", [joined, g.ints("joined", batch, length, width)])
    return g.linear(f"{name}.output", joined, width, width)


def bert(size: BertSize, batch: int) -> onnx.ModelProto:
    """Tokens [batch, length] to logits [batch, length, vocabulary]; all of segment 0, nothing is padding."""
    g = Graph()
    width, length = size.width, size.length
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [batch, length])
    table = g.parameter("embeddings.word.weight", size.vocabulary, width)
    places = g.parameter("embeddings.position.weight", size.positions, width)
    segments = g.parameter("embeddings.segment.weight", 2, width)
    words = g.node("Gather", "embeddings.word", [table, "tokens"])
    placed = g.node("Add", "embeddings.position", [
        words, g.node("Gather", "embeddings.position", [places, g.ints("positions", *range(length))])])  # fmt: skip
    summed = g.node("Add", "embeddings.segment", [
        placed, g.node("Gather", "embeddings.segment", [segments, g.ints("segments", *[0] * length)])])  # fmt: skip
    x = layer_norm(g, "embeddings.norm", summed, width, False)
    for layer in range(size.layers):
        name = f"layer.{layer}"
        mixture = attention(g, f"{name}.attention", x, batch, length, size.heads, width)
        x = layer_norm(g, f"{name}.attention.norm", g.node("Add", f"{name}.attention.residual", [x, mixture]), width, False)
        hidden = gelu(g, f"{name}.gelu", g.linear(f"{name}.intermediate", x, width, 4 * width))
        hidden = g.linear(f"{name}.output", hidden, 4 * width, width)
        x = layer_norm(g, f"{name}.norm", g.node("Add", f"{name}.residual", [x, hidden]), width, False)
    x = layer_norm(g, "head.norm", gelu(g, "head.gelu", g.linear("head.dense", x, width, width)), width, False)
    product = g.node("MatMul", "head", [x, g.node("Transpose", "head", [table], perm=[1, 0])])
    logits = g.node("Add", "head", [product, g.parameter("head.bias", size.vocabulary)])
    return g.model("bert", tokens, logits, 17)


def vit(size: VitSize, batch: int) -> onnx.ModelProto:
    """Images [batch, 3, image, image] to logits [batch, classes]."""
    g = Graph()
    width, side = size.width, size.image // size.patch
    length = side * side + 1
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, size.image, size.image])
    kernel = [size.patch, size.patch]
    weight = g.parameter("patches.weight", width, 3, *kernel)
    patches = g.node("Conv", "patches", ["images", weight, g.parameter("patches.bias", width)],
                     kernel_shape=kernel, strides=kernel)  # fmt: skip
    rows = g.node("Transpose", "patches", [g.node("Reshape", "patches", [patches, g.ints("patches", batch, width, side * side)])],
                  perm=[0, 2, 1])  # fmt: skip
    first = g.node("Expand", "class_token", [g.parameter("class_token", 1, 1, width), g.ints("class_tokens", batch, 1, width)])
    x = g.node("Add", "positions", [g.node("Concat", "tokens", [first, rows], axis=1), g.parameter("positions", 1, length, width)])
    for layer in range(size.layers):
        name = f"block.{layer}"
        normed = layer_norm(g, f"{name}.norm_1", x, width, False)
        x = g.node("Add", f"{name}.residual_1", [x, attention(g, f"{name}.attention", normed, batch, length, size.heads, width)])
        normed = layer_norm(g, f"{name}.norm_2", x, width, False)
        hidden = gelu(g, f"{name}.mlp.gelu", g.linear(f"{name}.mlp.0", normed, width, 4 * width))
        x = g.node("Add", f"{name}.residual_2", [x, g.linear(f"{name}.mlp.1", hidden, 4 * width, width)])
    x = layer_norm(g, "norm", x, width, False)
    token = g.node("Gather", "class", [x, g.constant("class_place", np.int64(0))], axis=1)
    return g.model("vit", images, g.linear("head", token, width, size.classes), 17)


def rms_norm(g: Graph, name: str, x: str, width: int) -> str:
    mean = g.node("ReduceMean", name, [g.node("Mul", f"{name}.square", [x, x])], axes=[-1])
    deviation = g.node("Sqrt", name, [g.node("Add", name, [mean, g.floats(1e-5)])])
    return g.node("Mul", name, [g.node("Div", name, [x, deviation]), g.parameter(f"{name}.weight", width)])


def rotated(g: Graph, name: str, x: str, length: int, depth: int) -> str:
    """x cos + rotate(x) sin, x [N, heads, length, depth]; the halves of a head are the parts of complex numbers."""
    angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, depth, 2) / depth))
    both = np.concatenate([angles, angles], 1)
    cosine, sine = (g.constant(n, f(both).astype(np.float32)) for n, f in (("cosine", np.cos), ("sine", np.sin)))
    front, back = g.node("Split", name, [x, g.ints("halves", depth // 2, depth // 2)], outputs=2, axis=-1)
    turned = g.node("Concat", name, [g.node("Neg", name, [back]), front], axis=-1)
    return g.node("Add", name, [g.node("Mul", f"{name}.cosine", [x, cosine]), g.node("Mul", f"{name}.sine", [turned, sine])])


def llama_attention(g: Graph, name: str, x: str, size: LlamaSize, batch: int, mask: str) -> str:
    width, length, depth = size.width, size.length, size.width // size.heads

    def projected(part: str, count: int) -> str:
        product = g.node("MatMul", f"{name}.{part}", [x, g.parameter(f"{name}.{part}.weight", width, count * depth)])
        return heads_first(g, f"{name}.{part}", product, batch, length, count, depth, [0, 2, 1, 3])

    def shared(part: str, of_group: str) -> str:
        """Keys or values of a group, once for each of its query heads."""
        times = size.heads // size.groups
        if times == 1:
            return of_group
        apart = g.node("Unsqueeze", f"{name}.{part}.shared", [of_group, g.ints("group_axis", 2)])
        shape = g.ints("group_shape", batch, size.groups, times, length, depth)
        return g.node("Reshape", f"{name}.{part}.shared", [g.node("Expand", f"{name}.{part}.shared", [apart, shape]),
                                                            g.ints("by_head", batch, size.heads, length, depth)])  # fmt: skip

    q = rotated(g, f"{name}.q_rotated", projected("q_proj", size.heads), length, depth)
    k = shared("k_proj", rotated(g, f"{name}.k_rotated", projected("k_proj", size.groups), length, depth))
    v = shared("v_proj", projected("v_proj", size.groups))
    k = g.node("Transpose", f"{name}.k_turned", [k], perm=[0, 1, 3, 2])
    joined = g.node("Transpose", f"{name}.joined", [mixed(g, name, q, k, v, depth, mask)], perm=[0, 2, 1, 3])
    joined = g.node("Reshape", f"{name}.joined", [joined, g.ints("joined", batch, length, width)])
    return g.node("MatMul", f"{name}.o_proj", [joined, g.parameter(f"{name}.o_proj.weight", width, width)])


def swiglu(g: Graph, name: str, x: str, size: LlamaSize) -> str:
    def product(part: str, value: str, inputs: int, outputs: int) -> str:
        return g.node("MatMul", f"{name}.{part}", [value, g.parameter(f"{name}.{part}.weight", inputs, outputs)])

    gate = product("gate_proj", x, size.width, size.hidden)
    silu = g.node("Mul", f"{name}.silu", [gate, g.node("Sigmoid", f"{name}.silu", [gate])])
    hidden = g.node("Mul", f"{name}.gated", [silu, product("up_proj", x, size.width, size.hidden)])
    return product("down_proj", hidden, size.hidden, size.width)


def llama(size: LlamaSize, batch: int) -> onnx.ModelProto:
    """Tokens [batch, length] to logits [batch, length, vocabulary]."""
    g = Graph()
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, [batch, size.length])
    table = g.parameter("embed_tokens.weight", size.vocabulary, size.width)
    mask = g.constant("mask", np.tril(np.ones((1, 1, size.length, size.length), bool)))
    x = g.node("Gather", "embed_tokens", [table, "tokens"])
    for layer in range(size.layers):
        name = f"layers.{layer}"
        normed = rms_norm(g, f"{name}.input_norm", x, size.width)
        x = g.node("Add", f"{name}.residual_1", [x, llama_attention(g, f"{name}.attention", normed, size, batch, mask)])
        normed = rms_norm(g, f"{name}.post_norm", x, size.width)
        x = g.node("Add", f"{name}.residual_2", [x, swiglu(g, f"{name}.mlp", normed, size)])
    x = rms_norm(g, "norm", x, size.width)
    head = g.node("Transpose", "lm_head", [table], perm=[1, 0]) if size.tied else \
        g.parameter("lm_head.weight", size.width, size.vocabulary)  # fmt: skip
    return g.model("llama", tokens, g.node("MatMul", "lm_head", [x, head]), 17)


def build(size: BertSize | VitSize | LlamaSize, batch: int) -> onnx.ModelProto:
    return {BertSize: bert, VitSize: vit, LlamaSize: llama}[type(size)](size, batch)
