"""Modules whose tensors have shapes and no values: built on PyTorch's meta device, or inside its FakeTensorMode. And modules in 16 bits.

In the file of the first, weights are inputs: a plan asks for no more than types and shapes. Weights in 16 bits are in float32 in any file,
as a step keeps those that it trains; `stowage.stored` in its metadata says which they are.
"""

import contextlib
from typing import Any, Callable, Iterator

#: Types of 16 bits, as --precision spells them.
HALVES = {"torch.bfloat16": "bf16", "torch.float16": "fp16"}


def has_no_values(tensor: Any) -> bool:
    """On the meta device, or fake."""
    from torch._subclasses.fake_tensor import FakeTensor

    return bool(tensor.is_meta) or isinstance(tensor, FakeTensor)


def without_value(tensor: Any) -> Any:
    """A tensor on the meta device in place of `tensor`; what is none, as it is."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return tensor
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)


def stored_precision(module: Any) -> "str | None":
    """The type of 16 bits that the module's parameters have, as --precision spells it."""
    return next((HALVES[f"torch.{dtype}"] for dtype in stored_types(module).values()), None)


def stored_types(module: Any) -> "dict[str, str]":
    """The parameters in 16 bits by name, with their types."""
    return {name: str(parameter.dtype).removeprefix("torch.") for name, parameter in module.named_parameters(remove_duplicate=False)
            if str(parameter.dtype) in HALVES}  # fmt: skip


def lacks_weights(module: Any) -> bool:
    """True where a parameter or a buffer has no values."""
    return any(has_no_values(tensor) for tensor in (*module.parameters(), *module.buffers()))


def in_float32(tensor: Any) -> Any:
    """A tensor of 16 bits in float32; everything else as it is."""
    import torch

    return tensor.float() if isinstance(tensor, torch.Tensor) and str(tensor.dtype) in HALVES else tensor


def on_meta(module: Any) -> "contextlib.AbstractContextManager[None]":
    """The module with all of its tensors on the meta device."""
    return _replaced(module, without_value)


def widened(module: Any) -> "contextlib.AbstractContextManager[None]":
    """The module with its tensors of 16 bits in float32."""
    return _replaced(module, in_float32)


@contextlib.contextmanager
def _replaced(module: Any, replace: "Callable[[Any], Any]") -> "Iterator[None]":
    """The module with other tensors, the same ones where they were the same; as before afterwards."""
    import torch

    held: "list[tuple[dict[str, Any], dict[str, Any]]]" = []
    swapped: "dict[int, Any]" = {}

    def swap(tensor: Any) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in swapped:
            other = replace(tensor)
            is_parameter = isinstance(tensor, torch.nn.Parameter) or getattr(tensor, "_is_param", False)
            if is_parameter and other is not tensor:
                other = torch.nn.Parameter(other.detach(), tensor.requires_grad)
            swapped[id(tensor)] = other
        return swapped[id(tensor)]

    try:
        for child in module.modules():
            for tensors in (child._parameters, child._buffers):
                held.append((tensors, dict(tensors)))
                tensors.update({name: swap(tensor) for name, tensor in tensors.items()})
        yield
    finally:
        for tensors, before in held:
            tensors.update(before)


def weights_as_inputs(program: Any, module: Any) -> None:
    """Initializers without values become inputs of the file, which its signature names parameters and buffers as before. What has values in
    the module, as the adapters of a base without, and tables that are computed, keeps them."""
    import onnx_ir
    from onnx_ir.passes import common

    common.RemoveUnusedNodesPass()(program.model)  # afterwards it takes out no input
    graph = program.model.graph
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    for name, value in list(graph.initializers.items()):
        raw = getattr(value.const_value, "raw", None)
        if raw is None or not hasattr(raw, "is_meta") or not has_no_values(raw):
            continue
        if name in own and not has_no_values(own[name]):
            value.const_value = onnx_ir.tensor(in_float32(own[name].detach()).contiguous().numpy(), name=name)
            continue
        value.shape, value.dtype = value.const_value.shape, value.const_value.dtype
        del graph.initializers[name]
        value.const_value = None
        graph.inputs.append(value)


@contextlib.contextmanager
def parameters_without_values() -> "Iterator[None]":
    """Modules that are made inside have their parameters on the meta device; buffers, which are computed, have values."""
    import torch

    register = torch.nn.Module.register_parameter

    def without_values(module: Any, name: str, parameter: Any) -> None:
        register(module, name, parameter)
        if parameter is not None and not parameter.is_meta:
            module._parameters[name] = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    torch.nn.Module.register_parameter = without_values
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register
