"""Which values of an exported program are detached.

The exporter writes a node for an out-of-place detach alone. What a module computes inside no_grad(), torch.export puts into a
program of its own, a region, whose results the rest reads. Here the regions join the program around them, and what comes out of them is
detached.

A call that returns its argument, as h.float() does where h is a float tensor, is another name of the same value. torch.export takes
the last name for the only one, so that what reads h after such a region reads a result of the region: that is h, with its gradient.
"""

from typing import Any, Iterator


def _same_as(node: Any) -> Any:
    """The argument that the operation of `node` returns as it is; None where it makes a value of its own."""
    import torch

    value, operation = node.meta.get("val"), node.target
    if not isinstance(operation, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return None
    if operation._schema.is_mutable:
        return None
    inputs = [other for other in node.all_input_nodes if isinstance(other.meta.get("val"), torch.Tensor)]
    if not any(other.meta["val"].dtype == value.dtype and other.meta["val"].dim() == value.dim() for other in inputs):
        return None
    arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), lambda other: other.meta["val"])
    with value.fake_mode, torch.no_grad():
        result = operation(*arguments, **named)
    return next((other for other in inputs if other.meta["val"] is result), None)


def _given(node: Any) -> Any:
    """The argument of a region that one of its results is, under this or another name; None for what the region computes."""
    while node is not None and node.op == "call_function":
        node = _same_as(node)
    return node if node is not None and node.op == "placeholder" else None


def written(node: Any) -> "Iterator[Any]":
    """The arguments that the operation of `node` writes."""
    import torch

    if isinstance(node.target, torch._ops.OpOverload):
        for i, argument in enumerate(node.target._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found = node.kwargs.get(argument.name) if argument.kwarg_only or i >= len(node.args) else node.args[i]
                yield from (entry for entry in (found if isinstance(found, (list, tuple)) else [found]) if isinstance(entry, torch.fx.Node))


def _written_argument(node: Any) -> Any:
    """The argument of a region that an operation of it has written and returned; None where there is none."""
    while node is not None and node.op == "call_function":
        node = next(written(node), None)
    return node if node is not None and node.op == "placeholder" else None


def _detached(graph: Any, node: Any) -> Any:
    """A detach of `node`, where the graph's insertion point is."""
    import torch

    result = graph.call_function(torch.ops.aten.detach.default, (node,))
    result.meta = dict(node.meta)
    return result


def _is_float(node: Any) -> bool:
    import torch

    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _inline(program: Any, call: Any) -> "list[Any]":
    """Puts the nodes of a region in the place of its call; returns what it computes. What it writes into tensors of its caller is
    detached before it is written."""
    import torch

    module, graph = program.graph_module, program.graph_module.graph
    region = getattr(module, call.args[1].target)
    for node in region.graph.nodes:
        if node.op == "get_attr":  # a program inside the region
            name = f"{call.args[1].target}_{node.target}"
            setattr(module, name, getattr(region, node.target))
            node.target = name
    places = [node for node in region.graph.nodes if node.op == "placeholder"]
    copies = dict(zip(places, call.args[2:]))
    with graph.inserting_before(call):
        outputs = list(graph.graph_copy(region.graph, copies))
    for node in [copies[node] for node in region.graph.nodes if node.op == "call_function" and not call.args[0]]:
        targets = list(written(node))
        if targets:
            with graph.inserting_before(node):
                node.args, node.kwargs = torch.fx.node.map_arg(
                    (node.args, node.kwargs), lambda other: _detached(graph, other) if other not in targets and _is_float(other) else other)
    return outputs


def _replace(program: Any, old: Any, new: Any) -> None:
    """In the graph and, for an output, in the program's signature."""
    old.replace_all_uses_with(new, lambda user: user is not new)
    program.graph_signature.replace_all_uses(old.name, new.name)
    program.graph_module.graph.erase_node(old)


def keep_detached(program: Any) -> None:
    """An out-of-place detach wherever the module computes without a gradient or detaches in place."""
    import torch

    graph = program.graph_module.graph
    buffers = program.graph_signature.inputs_to_buffers
    writes = any(True for node in graph.nodes for _ in written(node))
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.detach_.default:
            node.target = torch.ops.aten.detach.default
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled:
            continue
        keeps_gradients, reference = node.args[0], node.args[1]
        region = getattr(program.graph_module, reference.target)
        inner = next(reversed(region.graph.nodes)).args[0]
        places = [place for place in region.graph.nodes if place.op == "placeholder"]
        outer = _inline(program, node)
        for result in list(node.users):
            source = inner[result.args[1]]
            given, changed = _given(source), _written_argument(source)
            is_buffer = changed is not None and getattr(node.args[2 + places.index(changed)], "name", None) in buffers
            replacement = outer[result.args[1]]
            if given is not None:
                replacement = node.args[2 + places.index(given)]
            elif not keeps_gradients and not is_buffer and _is_float(result):
                with graph.inserting_before(node):
                    replacement = _detached(graph, replacement)
                    if writes:  # of a view that is written, the whole would be detached again afterwards
                        copy = graph.call_function(torch.ops.aten.clone.default, (replacement,))
                        copy.meta = dict(replacement.meta)
                        replacement = copy
            _replace(program, result, replacement)
        graph.erase_node(node)
        if not reference.users:
            graph.erase_node(reference)
            delattr(program.graph_module, reference.target)
