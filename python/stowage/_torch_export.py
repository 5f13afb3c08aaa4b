"""A training export: a PyTorch module as an ONNX file that still holds what training needs.

torch.export takes the module in training mode, so that normalizations and dropouts stay operators with their settings;
no pass folds, merges or drops anything afterwards. The file's metadata then carries the exported program's signature:
which tensors are parameters, which are buffers.
"""

import inspect
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional

from ._library import StowageError


class ExportError(StowageError):
    """The module cannot be exported as it is; the text says what stopped it and what to do."""


def example_arguments(example_inputs: Any) -> "tuple[tuple, dict]":
    """Positional and named arguments of forward: a tensor, a tuple or list of arguments, or a mapping by name."""
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def tensors_by_name(module: Any, example_inputs: Any) -> "dict[str, Any]":
    """The example's tensors under the names of forward's arguments, as the exported file has them."""
    import torch

    arguments, named = example_arguments(example_inputs)
    bound = inspect.signature(module.forward).bind(*arguments, **named).arguments
    return {name: value for name, value in bound.items() if isinstance(value, torch.Tensor)}


def batch_of(arguments: tuple, named: dict) -> int:
    """The batch of the example: dimension 0, in which all tensors agree."""
    import torch

    tensors = [value for value in [*arguments, *named.values()] if isinstance(value, torch.Tensor) and value.dim() > 0]
    sizes = sorted({tensor.shape[0] for tensor in tensors})
    if len(sizes) != 1:
        raise ExportError(f"the example inputs have {sizes or 'no'} rows in dimension 0; expected one batch that all share"
                          ", or dynamic_batch=False")  # fmt: skip
    return sizes[0]


def _needs_torch() -> None:
    try:
        import torch
    except ImportError:
        raise ExportError("exporting needs PyTorch 2.6 or newer; pip install stowage[torch]") from None
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 6):
        raise ExportError(f"exporting needs PyTorch 2.6 or newer, found {torch.__version__}")
    try:
        import onnxscript  # noqa: F401 (the exporter imports it late and fails obscurely)
    except ImportError:
        raise ExportError("exporting needs the package onnxscript; pip install stowage[torch]") from None


def _dynamic(value: Any, batch: Any) -> Any:
    import torch

    return {0: batch} if isinstance(value, torch.Tensor) and value.dim() > 0 else None


def _two_rows(value: Any) -> Any:
    """A batch of one as a batch of two: torch.export takes a dimension of 1 for a constant."""
    import torch

    return torch.cat([value, value]) if isinstance(value, torch.Tensor) and value.dim() > 0 else value


def _tidy(model: Any) -> None:
    """Takes out what no output depends on (the counters of batch normalizations), and spells out the type of each
    CastLike. Computes nothing and keeps every parameter that is read."""
    from onnx_ir import AttrInt64
    from onnx_ir.passes import common

    def casts() -> "list[Any]":
        return [node for node in model.graph.all_nodes() if node.op_type == "CastLike"]

    common.RemoveUnusedNodesPass()(model)
    if any(node.inputs[1].dtype is None for node in casts()):
        common.ShapeInferencePass()(model)
    for node in casts():
        if node.inputs[1].dtype is not None:
            node.op_type = "Cast"
            node.attributes["to"] = AttrInt64("to", int(node.inputs[1].dtype))
            node.resize_inputs(1)
    common.RemoveUnusedNodesPass()(model)


def export(module: Any, example_inputs: Any, path: Any, *, dynamic_batch: bool = True, opset: int = 18,
           check: bool = True, tolerance: float = 1e-3, binary: Any = None) -> "Optional[Any]":  # fmt: skip
    """Writes `module` to `path` (.onnx) for training.

    `example_inputs` is a tensor, a tuple of forward's arguments or a mapping by name; dimension 0 is the batch, which
    stays open in the file unless dynamic_batch=False. With check=True the file is compiled and compared with the module:
    parameters, forward and one gradient (`stowage.check`, whose report is returned); raises ExportError where they differ.
    The module's mode and state are as before afterwards.
    """
    _needs_torch()
    import torch

    arguments, named = example_arguments(example_inputs)
    export_arguments, export_named, shapes = arguments, named, None
    if dynamic_batch:
        if batch_of(arguments, named) == 1:
            export_arguments = tuple(map(_two_rows, arguments))
            export_named = {key: _two_rows(value) for key, value in named.items()}
        batch = torch.export.Dim("batch")
        shapes = tuple(_dynamic(value, batch) for value in arguments) if arguments else {
            key: _dynamic(value, batch) for key, value in named.items()}  # fmt: skip
    modes = {name: child.training for name, child in module.named_modules()}
    try:
        module.train()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the module is in training mode is the point
            program = torch.onnx.export(module, export_arguments, kwargs=export_named or None, dynamo=True, optimize=False,
                                        opset_version=opset, dynamic_shapes=shapes, verbose=False)  # fmt: skip
    except Exception as error:  # the exporter's own classes changed with every version
        cause = error.__cause__ or error
        hint = "; if the batch cannot stay open, dynamic_batch=False bakes that of the example in" if dynamic_batch else ""
        raise ExportError(f"torch.onnx.export failed: {str(cause).strip()}{hint}") from error
    finally:
        for name, child in module.named_modules():
            child.training = modes[name]
    _tidy(program.model)
    bytes_of_state = sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values())
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    program.save(str(path), external_data=bytes_of_state > 1 << 30)
    if not check:
        return None
    from ._check import check as compare

    report = compare(module, example_inputs, path, tolerance=tolerance, binary=binary)
    if not report.ok:
        raise ExportError(f"{path} does not compute what the module computes:\n{report}")
    return report
