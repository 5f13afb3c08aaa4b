"""Programs of modules in 16 bits: the file computes in float32, and says in which type the module has each value.

  module      x: bf16 --> x.float() --> norm: f32 --> to(bf16): bf16 --> linear: bf16
  file        x: f32  --> norm: f32 --> linear: f32                      stowage.types: x, to, linear are in bfloat16
"""

from typing import Any, Callable


def taken_by(module: Any) -> "Callable[[Any], Any]":
    """What turns example inputs in float32, as arrays are that have no type of 16 bits, into those of a module whose parameters are all in one
    such type. A module of several types takes its inputs as they are."""
    import torch

    from ._weightless import HALVES

    types = {parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()}
    own = next(iter(types)) if len(types) == 1 and str(next(iter(types))) in HALVES else None

    def taken(value: Any) -> Any:
        return value.to(own) if own and isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value

    return taken


#: Where a node says in which type the module has its value: what PyTorch carries over to the nodes that take its place.
_PLACE, _TYPE = "custom", "stowage.type"


def in_float32(program: Any) -> None:
    """Turns a captured program to float32, in place. Its nodes say in which of the types of 16 bits their values were; a conversion from or to
    one of them stays a copy."""
    import torch
    from torch.utils import _pytree

    from ._weightless import HALVES
    from ._weightless import in_float32 as widened

    def is_half(dtype: Any) -> bool:
        return isinstance(dtype, torch.dtype) and str(dtype) in HALVES

    def wide_type(argument: Any) -> Any:
        return torch.float32 if is_half(argument) else argument

    def kept(tensor: Any) -> Any:
        other = widened(tensor)
        return torch.nn.Parameter(other.detach(), tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) and other is not tensor else other

    conversions = (torch.ops.aten.to, torch.ops.aten.type_as, torch.ops.aten._to_copy)

    def converts(node: Any, types: "dict[Any, Any]") -> bool:
        """Between floating types that were others, one of them of 16 bits."""
        both = [types.get(node.args[0]), types.get(node)]
        return all(dtype is not None and dtype.is_floating_point for dtype in both) and any(map(is_half, both)) and both[0] != both[1]

    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        types = {node: node.meta["val"].dtype for node in module.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)}
        for node in module.graph.nodes:
            if getattr(node.target, "overloadpacket", None) in conversions and converts(node, types):
                # What it is without a change of type, its operand, would be taken out.
                node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, node.args[:1], {"dtype": torch.float32}
            node.args, node.kwargs = _pytree.tree_map(wide_type, (node.args, node.kwargs))
            value = node.meta.get("val")
            tensors = [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            if tensors and is_half(tensors[0].dtype):
                node.meta[_PLACE] = {**(node.meta.get(_PLACE) or {}), _TYPE: str(tensors[0].dtype).removeprefix("torch.")}
            if tensors:
                node.meta["val"] = _pytree.tree_map(widened, value)
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: kept(tensor) for name, tensor in tensors.items()})
    program._state_dict = {name: kept(tensor) for name, tensor in program.state_dict.items()}
    program._constants = {name: kept(constant) for name, constant in program.constants.items()}


def _values(graph: Any) -> "list[Any]":
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]


def typed_values(program: Any) -> "list[tuple[Any, str]]":
    """The values of an exporter's file that the module has in 16 bits, with their types."""
    graph, exported = program.model.graph, program.exported_program
    signature = exported.graph_signature
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    types = {targets.get(node.name, node.name): (node.meta.get(_PLACE) or {}).get(_TYPE) for node in exported.graph_module.graph.nodes}
    return [(value, types[value.name]) for value in _values(graph) if types.get(value.name)]


def write_types(program: Any, typed: "list[tuple[Any, str]]") -> None:
    """Lists the values that the module has in 16 bits, by the names that they have now, in the file's metadata."""
    graph = program.model.graph
    left = set(_values(graph))
    if listed := [f"{value.name}\t{dtype}" for value, dtype in typed if value in left]:
        graph.metadata_props["stowage.types"] = "\n".join(listed)
