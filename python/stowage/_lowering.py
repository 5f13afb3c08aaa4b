"""From an exported program to one whose operators the exporter translates, without running all of it again.

torch.onnx.export traces a program a second time, each operator through every layer of PyTorch's dispatcher, to take apart the few that it cannot
translate, and a third time to find operands that differ in type. Most operators come out of this as they went in. Here those alone are
traced that do not, and each kind once: equal operators on operands of equal types, shapes and strides come apart into equal ones, as in the
layers of a transformer. Types are promoted by the exporter's own rules, from the types that the program states.

A program that writes tensors in place, whose writes have to be followed through their views, or that holds programs inside, is traced as a whole
by the exporter, as it is without this file.
"""

import contextlib
import operator
from typing import Any, Iterator
from unittest import mock


class _Rules:
    """Which operators the exporter takes apart, and how."""

    def __init__(self, registry: Any) -> None:
        from torch.export.exported_program import _split_decomp_table_to_cia_and_python_decomp
        from torch.onnx._internal.exporter import _decomp

        self.translated = set(_decomp.get_onnx_implemented_overloads(registry))
        table = _decomp.create_onnx_friendly_decomposition_table(self.translated)
        self.composites, self.others = _split_decomp_table_to_cia_and_python_decomp(table)

    def keep(self, target: Any) -> bool:
        """Whether an operator stays what it is."""
        from torch._export.utils import _is_cia_op, _special_op_to_preserve_cia

        if target in self.others:
            return False
        return not _is_cia_op(target) or self.composites.get(target) is _special_op_to_preserve_cia


def _is_operator(node: Any) -> bool:
    import torch

    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def _writes(node: Any) -> bool:
    """Whether an operator writes an operand. Normalizations do not say so of their running statistics."""
    import torch

    aten = torch.ops.aten
    if node.target in (aten.batch_norm.default, aten.native_batch_norm.default, aten.instance_norm.default):
        return node.args[3] is not None and bool(node.args[5])
    return bool(node.target._schema.is_mutable)


def _is_plain(graph: Any) -> bool:
    """Whether a graph holds nothing but operators that compute new values, and says of each value what it is."""
    import torch

    for node in graph.nodes:
        if node.op not in ("placeholder", "call_function", "output") or isinstance(node.target, torch._ops.HigherOrderOperator):
            return False
        if node.op != "output" and "val" not in node.meta:
            return False
        if _is_operator(node) and _writes(node):
            return False
    return True


def _described(value: Any) -> Any:
    """What of an argument decides how an operator comes apart."""
    import torch

    if isinstance(value, torch.fx.Node):
        return ("value", _described(value.meta["val"]))
    if isinstance(value, torch.Tensor):
        places = [str(number) for number in (*value.shape, *value.stride(), value.storage_offset())]
        return ("tensor", value.dtype, value.device, value.layout, value.is_conj(), value.is_neg(), *places)
    if isinstance(value, (list, tuple)):
        return ("list", *map(_described, value))
    if isinstance(value, dict):
        return ("dict", *((key, _described(entry)) for key, entry in value.items()))
    return (type(value).__name__, str(value))


def _parts(node: Any, mode: Any, rules: _Rules) -> Any:
    """The graph that takes the operator's place, from its operands to its results."""
    import torch
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx

    def call(*values: Any) -> Any:
        given = dict(zip(node.all_input_nodes, values))
        arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), lambda operand: given[operand])
        return node.target(*arguments, **named)

    with mode, enable_python_dispatcher(), torch.no_grad():
        graph = make_fx(call, decomposition_table=rules.others)(*(operand.meta["val"] for operand in node.all_input_nodes)).graph
    results = graph.output_node().args[0]
    if not _is_plain(graph) or not all(isinstance(result, torch.fx.Node) for result in (results if isinstance(results, (list, tuple)) else [results])):
        raise NotImplementedError(f"{node.target} comes apart into what it writes or into numbers")
    # Of a whole program, a number of elements is the product of sizes of its inputs; of a part it is that of an operand.
    if unknown := [part.target for part in graph.nodes if _is_operator(part) and part.users and part.target not in rules.translated]:
        raise NotImplementedError(f"{node.target} comes apart into {unknown[0]}")
    return graph


def _all_parts(program: Any, rules: _Rules) -> "list[tuple[Any, Any]]":
    """The operators that come apart, with the graphs that take their places. The program is as before."""
    from torch._guards import detect_fake_mode
    from torch.export.exported_program import _override_composite_implicit_decomp

    nodes = program.graph_module.graph.nodes
    mode = detect_fake_mode([node.meta["val"] for node in nodes if node.op == "placeholder"])
    known: "dict[Any, Any]" = {}
    found = []
    with _override_composite_implicit_decomp(rules.composites):
        for node in nodes:
            if not _is_operator(node) or not node.users or rules.keep(node.target):
                continue
            order = node.all_input_nodes
            key = (node.target, _described(node.args), _described(node.kwargs),
                   tuple(order.index(operand) for operand in _operands((node.args, node.kwargs))))  # fmt: skip
            if key not in known:
                known[key] = _parts(node, mode, rules)
            found.append((node, known[key]))
    return found


def _operands(arguments: Any) -> "list[Any]":
    """The nodes among arguments, each as often as it stands there."""
    import torch

    found: "list[Any]" = []
    torch.fx.node.map_arg(arguments, found.append)
    return found


def _put(program: Any, node: Any, parts: Any) -> None:
    """The parts in the place of the operator, with its name of a place in the module and in its source."""
    graph = node.graph
    copies = dict(zip((place for place in parts.nodes if place.op == "placeholder"), node.all_input_nodes))
    with graph.inserting_before(node):
        results = graph.graph_copy(parts, copies)
    for part in parts.nodes:
        if part.op == "call_function":
            copies[part].meta = {**node.meta, "val": part.meta["val"]}
    replaced = [(user, results[user.args[1]]) for user in node.users] if isinstance(results, (list, tuple)) else [(node, results)]
    for old, new in replaced:
        old.replace_all_uses_with(new)
        program.graph_signature.replace_all_uses(old.name, new.name)
        graph.erase_node(old)
    if not isinstance(results, (list, tuple)):
        return
    graph.erase_node(node)


def _decomposer(whole: Any) -> Any:
    """In the place of the exporter's `whole`."""

    def decomposed(program: Any, registry: Any) -> Any:
        if not _is_plain(program.graph_module.graph):
            return whole(program, registry)
        try:
            found = _all_parts(program, _Rules(registry))
        except Exception:  # of an operator that does not come apart by itself; the exporter says so, where it does not either
            return whole(program, registry)
        for node, parts in found:
            _put(program, node, parts)
        program.graph_module.graph.eliminate_dead_code()
        return program

    return decomposed


def _promote(graph_module: Any) -> None:
    """The exporter's promotion of types, whose interpreter runs every operator to find its type, which the program states."""
    import torch
    from torch.onnx._internal.fx.passes import type_promotion

    class Promotion(type_promotion._TypePromotionInterpreter):
        def run_node(self, n: Any) -> Any:
            if "val" not in n.meta:
                return super().run_node(n)
            if _is_operator(n) and (rule := type_promotion.get_type_promotion_rule(n, self.type_promotion_table)):
                with self._set_current_node(n):
                    self._maybe_promote_node(n, rule)
            return n.meta["val"]

    with mock.patch.object(type_promotion, "_TypePromotionInterpreter", Promotion):
        for module in graph_module.modules():
            if isinstance(module, torch.fx.GraphModule):
                type_promotion.InsertTypePromotion(module).run()


@contextlib.contextmanager
def traced_once() -> "Iterator[None]":
    """torch.onnx.export without its second and third run of a program, which reads the schema of an operator once."""
    from onnx_ir.schemas import OpSignature
    from torch.onnx._internal.exporter import _fx_passes

    read, known = OpSignature.from_op_schema, {}

    def signature(schema: Any) -> Any:
        key = (schema.domain, schema.name, schema.since_version)
        if key not in known:
            known[key] = read(schema)
        return known[key]

    with mock.patch.object(_fx_passes, "decompose_with_registry", _decomposer(_fx_passes.decompose_with_registry)), \
         mock.patch.object(_fx_passes, "insert_type_promotion_nodes", _promote), mock.patch.object(OpSignature, "from_op_schema", signature):  # fmt: skip
        yield


@contextlib.contextmanager
def captured_once() -> "Iterator[None]":
    """torch.export that writes down each thing once: the Python code of a program, which it otherwise writes and compiles after every change and
    never calls, when it is called; a place in a source file, of which every operator has some hundred, when it is first met."""
    import traceback

    import torch
    from torch.fx.graph import _PyTreeCodeGen
    from torch.utils import _traceback

    write, frames = torch.fx.GraphModule.recompile, {}

    def later(module: Any) -> None:
        codegen = module._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            module._in_spec, module._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec

        def forward(self: Any, *arguments: Any, **named: Any) -> Any:
            write(self)
            return self(*arguments, **named)

        type(module).forward = forward

    def places(found: Any, skip: int) -> Any:
        stack = traceback.StackSummary()
        for frame in reversed(found[skip:]):
            place = (frame["filename"], frame["line"], frame["name"])
            if place not in frames:
                frames[place] = traceback.FrameSummary(*place)
            stack.append(frames[place])
        return stack

    with mock.patch.object(torch.fx.GraphModule, "recompile", later), mock.patch.object(_traceback, "_extract_symbolized_tb", places):
        yield
