"""Complex numbers as pairs of reals, as rotary embeddings of Llama 4 and DeepSeek-V2 use them: no file holds complex tensors.

A complex tensor of shape S becomes a real one of shape [*S, 2], its real parts and its imaginary parts, which is what
torch.view_as_real gives. Whatever moves elements about moves pairs; arithmetic is that of its definition.
"""

from typing import Any, Callable


def _is_complex(value: Any) -> bool:
    import torch

    tensor = value.meta.get("val") if isinstance(value, torch.fx.Node) else None
    return isinstance(tensor, torch.Tensor) and tensor.is_complex()


class _Pairs:
    """Writes the operations on pairs in front of the node that they replace."""

    def __init__(self, graph: Any) -> None:
        import torch

        self.graph, self.aten = graph, torch.ops.aten
        self.pairs: "dict[Any, Any]" = {}  #: of each complex node

    def call(self, target: Any, *arguments: Any, **named: Any) -> Any:
        return self.graph.call_function(target, arguments, named)

    def part(self, pair: Any, which: int) -> Any:
        return self.call(self.aten.select.int, pair, -1, which)

    def join(self, real: Any, imaginary: Any) -> Any:
        return self.call(self.aten.stack.default, [real, imaginary], -1)

    def multiply(self, a: Any, b: Any) -> Any:
        if not (_is_complex(a) and _is_complex(b)):
            pair, factor = (self.pairs[a], b) if _is_complex(a) else (self.pairs[b], a)
            return self.call(self.aten.mul.Tensor, pair, self.over_pairs(factor))
        (ar, ai), (br, bi) = ([self.part(self.pairs[x], which) for which in (0, 1)] for x in (a, b))
        multiply, aten = self.aten.mul.Tensor, self.aten
        return self.join(self.call(aten.sub.Tensor, self.call(multiply, ar, br), self.call(multiply, ai, bi)),
                         self.call(aten.add.Tensor, self.call(multiply, ar, bi), self.call(multiply, ai, br)))  # fmt: skip

    def over_pairs(self, real: Any) -> Any:
        import torch

        return self.call(self.aten.unsqueeze.default, real, -1) if isinstance(real, torch.fx.Node) else real

    def divide(self, a: Any, b: Any) -> Any:
        if _is_complex(b):
            raise NotImplementedError("a division by complex numbers")
        return self.call(self.aten.div.Tensor, self.pairs[a], self.over_pairs(b))

    def combine(self, target: Any) -> "Callable[..., Any]":
        def combined(a: Any, b: Any) -> Any:
            if not (_is_complex(a) and _is_complex(b)):
                raise NotImplementedError("a sum of a complex and a real tensor")
            return self.call(target, self.pairs[a], self.pairs[b])

        return combined

    def conjugate(self, a: Any) -> Any:
        return self.join(self.part(self.pairs[a], 0), self.call(self.aten.neg.default, self.part(self.pairs[a], 1)))

    def polar(self, size: Any, angle: Any) -> Any:
        return self.join(*(self.call(self.aten.mul.Tensor, size, self.call(function, angle))
                           for function in (self.aten.cos.default, self.aten.sin.default)))  # fmt: skip

    def moved(self, target: Any, dimensions: "tuple[int, ...]") -> "Callable[..., Any]":
        """An operation whose arguments of these numbers are dimensions: from the last counted one more."""

        def shift(dimension: int) -> int:
            return dimension if dimension >= 0 else dimension - 1

        def moving(a: Any, *rest: Any) -> Any:
            shifted = [shift(value) if i in dimensions else value for i, value in enumerate(rest)]
            return self.call(target, self.pairs[a], *shifted)

        return moving

    def shaped(self, target: Any) -> "Callable[..., Any]":
        return lambda a, shape: self.call(target, self.pairs[a], [*shape, 2])

    def rules(self) -> "dict[Any, Callable[..., Any]]":
        """From an operation that reads or makes complex tensors to what is written for it."""
        aten = self.aten

        def same(a: Any, *_: Any, **__: Any) -> Any:
            return self.pairs[a]

        return {
            aten.view_as_complex.default: lambda a: a, aten.view_as_real.default: same,
            aten.complex.default: self.join, aten.polar.default: self.polar,
            aten.real.default: lambda a: self.part(self.pairs[a], 0), aten.imag.default: lambda a: self.part(self.pairs[a], 1),
            aten.mul.Tensor: self.multiply, aten.div.Tensor: self.divide,
            aten.add.Tensor: self.combine(aten.add.Tensor), aten.sub.Tensor: self.combine(aten.sub.Tensor),
            aten.conj.default: self.conjugate, aten._conj.default: self.conjugate, aten.conj_physical.default: self.conjugate,
            aten.neg.default: lambda a: self.call(aten.neg.default, self.pairs[a]),
            aten.unsqueeze.default: self.moved(aten.unsqueeze.default, (0,)), aten.squeeze.dim: self.moved(aten.squeeze.dim, (0,)),
            aten.select.int: self.moved(aten.select.int, (0,)), aten.slice.Tensor: self.moved(aten.slice.Tensor, (0,)),
            aten.transpose.int: self.moved(aten.transpose.int, (0, 1)), aten.index_select.default: self.moved(aten.index_select.default, (0,)),
            aten.view.default: self.shaped(aten.reshape.default), aten.reshape.default: self.shaped(aten.reshape.default),
            aten.expand.default: self.shaped(aten.expand.default),
            aten._assert_tensor_metadata.default: lambda a, *_, **__: None,
            aten.clone.default: same, aten.contiguous.default: same, aten.alias.default: same, aten.to.dtype_layout: same,
            aten.to.device: same, aten.detach.default: lambda a: self.call(aten.detach.default, self.pairs[a]),
        }  # fmt: skip


def without_complex(program: Any) -> None:
    """Pairs of reals in the place of complex tensors. Raises NotImplementedError for an operation that none of the rules has."""
    graph = program.graph_module.graph
    nodes = [node for node in graph.nodes if _is_complex(node) or any(_is_complex(value) for value in node.all_input_nodes)]
    if not nodes:
        return
    pairs = _Pairs(graph)
    rules = pairs.rules()
    for node in nodes:
        rule = rules.get(node.target)
        if rule is None:
            raise NotImplementedError(f"complex numbers in {node.target} at {node.name}; expected them multiplied, added, conjugated, moved "
                                      "and read as pairs of reals")  # fmt: skip
        with graph.inserting_before(node):
            made = rule(*node.args, **node.kwargs)
        if _is_complex(node):
            pairs.pairs[node] = made
        elif made is not None:
            if "val" not in made.meta:
                made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
    for node in reversed(nodes):
        if not node.users and node.op == "call_function":
            graph.erase_node(node)
