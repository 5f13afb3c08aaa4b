"""scaled_dot_product_attention, translated whole, for tensors of any rank.

A query whose mask leaves it no key has the result 0 in PyTorch, and no gradients, whatever the mask's type; a softmax of nothing but
minus infinity is NaN. Such rows are found by their largest score: zeros take the place of their scores, which cuts the gradients, and
of the result.
"""

from typing import Any, Callable


def _repeated(op: Any, x: Any, count: int) -> Any:
    """`x` [..., heads, positions, size] with each head `count` times."""
    rank, heads = len(x.shape), int(x.shape[-3])
    extents = [1] * (rank + 1)
    extents[rank - 2] = count
    copies = op.Expand(op.Unsqueeze(x, [rank - 2]), op.Constant(value_ints=extents))
    return op.Reshape(copies, op.Constant(value_ints=[*[0] * (rank - 3), heads * count, -1, int(x.shape[-1])]))


def _triangle(op: Any, query: Any, key: Any) -> Any:
    """Holds where a key lies no later than the query."""
    sizes = [op.Shape(x, start=len(x.shape) - 2, end=len(x.shape) - 1) for x in (query, key)]
    places = [op.Range(0, op.Squeeze(size, [0]), 1) for size in sizes]
    return op.GreaterOrEqual(op.Unsqueeze(places[0], [1]), places[1])


def translations() -> "dict[Any, Callable[..., Any]]":
    """For torch.onnx.export's custom_translation_table."""
    import torch
    from onnxscript import ir
    from onnxscript import opset18 as op

    def number(value: float, like: Any) -> Any:
        return op.CastLike(op.Constant(value_float=value), like)

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
                  scale: Any = None, enable_gqa: bool = False) -> Any:  # fmt: skip
        rank, factor = len(key.shape), float(scale) if scale is not None else float(query.shape[-1]) ** -0.5
        seen = _triangle(op, query, key) if is_causal else None
        if enable_gqa and query.shape[-3] != key.shape[-3]:
            count = int(query.shape[-3]) // int(key.shape[-3])
            key, value = _repeated(op, key, count), _repeated(op, value, count)
        scores = op.MatMul(op.Mul(query, number(factor, query)), op.Transpose(key, perm=[*range(rank - 2), rank - 1, rank - 2]))
        least = number(float("-inf"), query)
        if seen is not None:
            scores = op.Where(seen, scores, least)
        elif attn_mask is not None:
            is_choice = attn_mask.dtype == ir.DataType.BOOL
            scores = op.Where(attn_mask, scores, least) if is_choice else op.Add(scores, attn_mask)
            none = op.Equal(op.ReduceMax(scores, [-1], keepdims=1), least)
            scores = op.Where(none, number(0.0, query), scores)
        weights = op.Softmax(scores, axis=-1)
        if dropout_p != 0:
            weights, _ = op.Dropout(weights, dropout_p)
        result = op.MatMul(weights, value)
        return result if attn_mask is None else op.Where(none, number(0.0, query), result)

    return {torch.ops.aten.scaled_dot_product_attention.default: attention}
