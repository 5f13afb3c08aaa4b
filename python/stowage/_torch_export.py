"""A training export: a PyTorch module as an ONNX file that still holds what training needs.

torch.export takes the module in training mode, so that normalizations and dropouts stay operators with their settings, and
parts that were set to evaluation mode stay in it; no pass folds, merges or drops anything afterwards. The file's metadata then carries the exported program's signature:
which tensors are parameters, which are buffers.
"""

import contextlib
import inspect
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional
from unittest import mock

import numpy as np

from . import _attention, _buffers, _strides, _types
from ._complex import without_complex
from ._custom_gradients import CustomGradients, hooks_of
from ._decisions import Decisions, needs_values
from ._detached import keep_detached
from ._functions import define, keep_bounds, translations
from ._library import StowageError
from ._lowering import captured_once, traced_once
from ._quiet import quiet_exporter, uncollected
from ._spellings import exportable
from ._tool import StowageWarning, caller_level
from ._weightless import has_no_values, in_float32, lacks_weights, on_meta, stored_types, weights_as_inputs, widened, without_value


class ExportError(StowageError):
    """The module cannot be exported as it is; the text says what stopped it and what to do."""


def _as_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    return torch.from_numpy(value)


def example_arguments(example_inputs: Any) -> "tuple[tuple, dict]":
    """Positional and named arguments of forward: a tensor, a tuple or list of arguments, or a mapping by name. NumPy's arrays become
    tensors."""
    example_inputs = map_tensors(example_inputs, lambda tensor: tensor, _as_tensor)
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def _bound_arguments(module: Any, arguments: tuple, named: dict) -> "dict[str, Any]":
    """forward's parameters with their values: that of *name is a tuple, that of **name a dictionary."""
    signature = inspect.signature(module.forward)
    try:
        return dict(signature.bind(*arguments, **named).arguments)
    except TypeError as error:
        given = [*(f"argument {i}" for i in range(len(arguments))), *named]
        raise ExportError(f"the example inputs ({', '.join(given)}) are not what forward{signature} takes: {error}; expected a tensor, a tuple of "
                          "forward's arguments or a mapping by name") from error  # fmt: skip


def _leaves(name: str, value: Any) -> "Iterator[tuple[str, Any]]":
    """The tensors inside tuples, lists and dictionaries, named by their path as torch.export names them."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for i, entry in enumerate(value):
            yield from _leaves(f"{name}_{i}", entry)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _leaves(f"{name}_{key}", entry)


def tensors_by_name(module: Any, example_inputs: Any) -> "dict[str, Any]":
    """The example's tensors under the names of forward's arguments, as the exported file has them."""
    arguments, named = example_arguments(example_inputs)
    parameters = inspect.signature(module.forward).parameters
    found: "dict[str, Any]" = {}
    for name, value in _bound_arguments(module, arguments, named).items():
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            for key, entry in value.items():
                found.update(_leaves(key, entry))
        else:
            found.update(_leaves(name, value))
    return found


def batches_of(arguments: tuple, named: dict) -> "list[int]":
    """The different sizes of dimension 0 of the example's tensors."""
    return sorted({tensor.shape[0] for _, tensor in _leaves("", [*arguments, *named.values()]) if tensor.dim() > 0})


def batch_of(arguments: tuple, named: dict) -> int:
    """The batch of the example: dimension 0, in which all tensors agree."""
    sizes = batches_of(arguments, named)
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


def map_tensors(value: Any, of_batch: "Callable[[Any], Any]", of_other: "Callable[[Any], Any]") -> Any:
    """The structure with `of_batch` of each tensor with a batch in its place, and `of_other` of all else that is no container."""
    import torch

    if isinstance(value, (tuple, list)):
        make = getattr(type(value), "_make", type(value))  # that of a named tuple
        return make(map_tensors(entry, of_batch, of_other) for entry in value)
    if isinstance(value, Mapping):
        return {key: map_tensors(entry, of_batch, of_other) for key, entry in value.items()}
    return (of_batch if isinstance(value, torch.Tensor) and value.dim() > 0 else of_other)(value)


def _two_rows(value: Any) -> Any:
    """A batch of one as a batch of two: torch.export takes a dimension of 1 for a constant."""
    import torch

    return map_tensors(value, lambda tensor: torch.cat([tensor, tensor]), lambda other: other)


def _type_of(value: Any) -> Any:
    """The type of a value's elements, where the file says it. The exporter writes down none for constants."""
    from onnx_ir import DataType

    producer = value.producer()
    if value.dtype is not None or producer is None or producer.op_type != "Constant":
        return value.dtype
    name, attribute = next(iter(producer.attributes.items()))
    if name == "value":
        return attribute.value.dtype
    return {"value_int": DataType.INT64, "value_ints": DataType.INT64, "value_float": DataType.FLOAT, "value_floats": DataType.FLOAT}.get(name)


def _tidy(model: Any) -> None:
    """Takes out what no output depends on (the counters of batch normalizations), and spells out the type of each
    CastLike. Computes nothing and keeps every parameter that is read."""
    from onnx_ir import AttrInt64
    from onnx_ir.passes import common

    def casts() -> "list[Any]":
        return [node for node in model.graph.all_nodes() if node.op_type == "CastLike"]

    common.RemoveUnusedNodesPass()(model)
    if any(_type_of(node.inputs[1]) is None for node in casts()):
        common.ShapeInferencePass()(model)
    for node in casts():
        dtype = _type_of(node.inputs[1])
        if dtype is not None:
            node.op_type = "Cast"
            node.attributes["to"] = AttrInt64("to", int(dtype))
            node.resize_inputs(1)
    common.RemoveUnusedNodesPass()(model)


def _rename_values(model: Any) -> None:
    """Names of their own for results of nodes: the program calls them after their operations, as a module may have called a buffer
    ("mean") or a parameter ("add")."""
    inputs, stored = {value.name for value in model.graph.inputs}, {value.name for value in model.graph.initializers.values()}
    if both := sorted(inputs & stored):
        raise ExportError(f"{both[0]!r} is an argument of forward and a parameter or buffer of the module, and a file has one name for "
                          "both; expected another name for one of them")  # fmt: skip
    taken = inputs | stored
    for node in model.graph.all_nodes():
        for output in node.outputs:
            name, count = output.name, 0
            while output.name in taken:
                count += 1
                output.name = f"{name}_result{count}"
            taken.add(output.name)


def _name_outputs(program: Any) -> None:
    """Outputs of a dictionary, a named tuple or a class of outputs under its keys, where no other value is called so."""
    import torch
    from torch.utils import _pytree

    exported = program.exported_program
    spec, leaves = exported.call_spec.out_spec, exported.graph_signature.user_outputs
    outputs = [output for output in program.model.graph.outputs if not _buffers.is_next_value(output)]
    if spec is None or spec.num_leaves != len(leaves):
        return
    paths = [path for path, _ in _pytree.tree_flatten_with_path(_pytree.tree_unflatten([torch.zeros(())] * len(leaves), spec))[0]]
    named = [path for path, leaf in zip(paths, leaves) if leaf is not None]
    if len(named) != len(outputs):
        return
    taken = {value.name for node in program.model.graph.all_nodes() for value in (*node.inputs, *node.outputs) if value is not None}
    taken |= {value.name for value in (*program.model.graph.inputs, *program.model.graph.initializers.values())}
    for path, output in zip(named, outputs):
        keys = [getattr(key, "key", getattr(key, "name", getattr(key, "idx", None))) for key in path]
        name = "_".join(str(key) for key in keys)
        if any(isinstance(key, str) for key in keys) and name not in taken:
            output.name = name
            taken.add(name)


@contextlib.contextmanager
def training_mode(module: Any) -> "Iterator[None]":
    """The module as it trains. In training mode already, its parts keep their modes: a script that sets a teacher or its
    normalizations to evaluation mode means it. Otherwise all of it is switched. A configuration that asks for caches of keys and values, which
    generation reads, asks for none. All is as before afterwards."""
    modes = {name: child.training for name, child in module.named_modules()}
    configurations = {id(child.config): child.config for child in module.modules()
                      if getattr(getattr(child, "config", None), "use_cache", None) is True}  # fmt: skip
    try:
        if not module.training:
            module.train()
        for configuration in configurations.values():
            configuration.use_cache = False
        yield
    finally:
        for configuration in configurations.values():
            configuration.use_cache = True
        for name, child in module.named_modules():
            child.training = modes[name]


def _warn_of_evaluated(module: Any) -> None:
    """Says which parts of a module in training mode are not, and behave as if they were not trained."""
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.dropout import _DropoutNd

    found = [name for name, child in module.named_modules() if module.training and not child.training
             and ((isinstance(child, _DropoutNd) and child.p > 0) or (isinstance(child, _NormBase) and child.track_running_stats))]  # fmt: skip
    if found:
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        warnings.warn(f"in evaluation mode inside a module in training mode, and left so (running statistics, no dropout): {shown}; "
                      "where that is not meant, call module.train() first", stacklevel=4)  # fmt: skip


def _state_modes(program: Any) -> None:
    """Normalizations of the file that take running statistics are meant to."""
    program.model.graph.metadata_props["stowage.modes"] = "kept"


def _name_frozen(program: Any, module: Any, stored: "dict[str, str]") -> None:
    """Lists the parameters that ask for no gradient in the file's metadata: the signature counts them among the parameters. And those in
    16 bits, which the file may hold in more: a frozen one is stored as the module has it."""
    properties = program.model.graph.metadata_props
    if frozen := [name for name, parameter in module.named_parameters(remove_duplicate=False) if not parameter.requires_grad]:
        properties["stowage.frozen"] = "\n".join(frozen)
    if stored:
        properties["stowage.stored"] = "\n".join(f"{name}\t{dtype}" for name, dtype in stored.items())


def _name_tied(program: Any, module: Any) -> None:
    """Lists in the file's metadata the other names of the parameters that a module has under several: "NAME OTHER", a tab between."""
    graph, groups = program.model.graph, {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        groups.setdefault(id(parameter), []).append(name)
    held = {*graph.initializers, *(value.name for value in graph.inputs)}
    lines = [f"{kept}\t{other}" for names in groups.values() for kept in [name for name in names if name in held][:1]
             for other in names if other != kept]  # fmt: skip
    if lines:
        graph.metadata_props["stowage.tied"] = "\n".join(lines)


def _without_views(program: Any) -> None:
    """Reshapes in the place of views: elements may lie in another order once the exporter has taken an operator apart."""
    import torch

    graph = program.graph_module.graph
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default
        if node.target is torch.ops.aten.scaled_dot_product_attention.default:
            # What stays a view of it is one of a copy in the usual order.
            with graph.inserting_after(node):
                copy = graph.call_function(torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
            copy.meta = dict(node.meta)
            node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)


def _numbers_last(program: Any) -> None:
    """A sum that begins with a number, which another operation takes for a tensor, with the number at its end."""
    import torch

    aten, graph = torch.ops.aten, program.graph_module.graph
    for node in list(graph.nodes):
        if node.target is aten.add.Tensor and not isinstance(node.args[0], torch.fx.Node):
            number, tensor = node.args
            with graph.inserting_before(node):
                scaled = graph.call_function(aten.mul.Tensor, (tensor, node.kwargs.get("alpha", 1)))
            scaled.meta = {**node.meta, "val": tensor.meta["val"]}
            node.args, node.kwargs = (scaled, number), {}


def _for_training(program: Any) -> Any:
    """The exported program as the exporter is to take it."""
    _without_views(program)
    _numbers_last(program)
    keep_detached(program)
    without_complex(program)
    keep_bounds(program)
    _buffers.follow_unread_norms(program)
    _buffers.choose_reads(program)
    if getattr(program, "_guards_code", None):
        program._guards_code = []  # comparisons of sizes, which the exporter runs, and cannot where forward takes **named
    return program


def _root_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@contextlib.contextmanager
def _training_programs(has_halves: bool) -> "Iterator[None]":
    """torch.onnx.export on programs as `_for_training` leaves them, in float32."""
    import torch

    make = torch.export.export

    def export(*arguments: Any, **named: Any) -> Any:
        with captured_once():
            program = make(*arguments, **named)
        if has_halves:
            _types.in_float32(program)
        return _for_training(program)

    with mock.patch.object(torch.export, "export", export):
        yield


def _refuse_hooks(hooked: "list[str]") -> None:
    if hooked:
        shown = ", ".join(hooked[:5]) + (f" and {len(hooked) - 5} more" if len(hooked) > 5 else "")
        raise ExportError(f"hooks on gradients are Python functions that no file can hold: {shown}; expected the module without them: "
                          "a gradient that is scaled or masked is x * m - (x * m).detach() + x.detach() in the forward")  # fmt: skip


def _refuse_written(program: Any) -> None:
    """A parameter that forward itself writes has a new value from then on, which no output of a file holds."""
    written = [spec.target for spec in program.exported_program.graph_signature.output_specs if spec.kind.name == "PARAMETER_MUTATION"]
    if written:
        raise ExportError(f"forward writes the parameters {', '.join(written)} in place, and a file does not hold their new values; expected a "
                          "forward that computes with a changed copy (weight.clamp(...)); the training loop may write them between steps")  # fmt: skip


def _classify(custom: CustomGradients, module: Any, arguments: tuple, named: dict) -> None:
    from ._check import training_without_dropout

    with training_without_dropout(module):
        refused = custom.classify(lambda: module(*arguments, **named))
    if refused:
        raise ExportError(f"the backward of {', '.join(refused)} is neither the gradient of its forward nor a factor for each element, "
                          "and a file holds the forward alone; write it with detach(): y.detach() + g - g.detach() has the value y and "
                          "the gradient of g")  # fmt: skip


def _run(module: Any, arguments: tuple, named: dict, times: int = 1) -> None:
    """Runs forward as it trains, on the example; buffers and the random numbers to come are as before afterwards."""
    import torch

    from ._check import restore_buffers

    kept = {name: tensor.clone() for name, tensor in module.named_buffers()}
    with torch.random.fork_rng(devices=[]), training_mode(module), torch.no_grad():
        for _ in range(times):
            module(*arguments, **named)
    restore_buffers(module, kept)


def _why_not_run(module: Any, arguments: tuple, named: dict) -> str:
    """What PyTorch says where forward itself fails on the example, or nothing."""
    try:
        with on_meta(module) if lacks_weights(module) else contextlib.nullcontext():
            _run(module, arguments, named)
    except NotImplementedError:  # an operator that needs values
        return ""
    except Exception as error:
        return (str(error).strip() or type(error).__name__).rstrip(".")
    return ""


def _shapes_of(module: Any, arguments: tuple, named: dict) -> str:
    """"x [4, 3, 32, 32], lengths [4]"."""
    bound = _bound_arguments(module, arguments, named)
    return ", ".join(f"{name} {list(tensor.shape)}" for key, value in bound.items() for name, tensor in _leaves(key, value))


def length_of(example_inputs: Any) -> int:
    """What dimension 1 of the example's tensors measures: that of the first which has one."""
    arguments, named = example_arguments(example_inputs)
    lengths = [tensor.shape[1] for _, tensor in _leaves("", [*arguments, *named.values()]) if tensor.dim() > 1]
    if not lengths:
        raise ExportError("no tensor among the example inputs has a dimension behind the batch; expected one whose size may change")
    return lengths[0]


def export(module: Any, example_inputs: Any, path: Any, *, dynamic_batch: bool = True, dynamic_length: "Optional[str]" = None,
           opset: int = 18, check: bool = True, tolerance: float = 1e-3, binary: Any = None) -> "Optional[Any]":  # fmt: skip
    """Writes `module` to `path` (.onnx) for training.

    `example_inputs` is a tensor, a tuple of forward's arguments or a mapping by name; dimension 0 is the batch, which
    stays open in the file unless dynamic_batch=False. `dynamic_length` is a name ("sequence") under which dimension 1 stays open, too, of
    every tensor that has there what the first of them has: the tokens of a row. A module in training mode is taken as it stands, parts in evaluation mode
    included; one in evaluation mode is switched to training. With check=True the file is compiled and compared with the module:
    parameters, forward and one gradient (`stowage.check`, whose report is returned); raises ExportError where they differ.
    The module's mode and state are as before afterwards. Of a module without values, on the meta device or of fake tensors, weights are
    inputs of the file, and check=False is expected. Of a module in 16 bits the file is in float32, and says what the module keeps.
    """
    _needs_torch()
    import torch

    stored, without_values = stored_types(module), lacks_weights(module)
    if without_values:
        if check:
            raise ExportError("the module is without values (on the meta device, or of fake tensors), and nothing can be compared with it; "
                              "expected check=False: the file's weights are then inputs, of which stowage plan needs no more than the shapes")  # fmt: skip
        example_inputs = map_tensors(example_inputs, without_value, without_value)
    taken = _types.taken_by(module)
    arguments, named = map_tensors(example_arguments(example_inputs), taken, taken)
    export_arguments, export_named, shapes = arguments, named, None
    if dynamic_batch:
        if batch_of(arguments, named) == 1:
            export_arguments, export_named = _two_rows(arguments), _two_rows(named)
        batch = torch.export.Dim("batch")
        bound, open_dimensions = _bound_arguments(module, arguments, named), {0: batch}
        if dynamic_length is not None:
            size = length_of(example_inputs)
            if size < 2:
                raise ExportError("dimension 1 of the example inputs is 1, which torch.export takes for a constant; expected a longer example")
            along = {**open_dimensions, 1: torch.export.Dim(dynamic_length)}
        shapes = map_tensors(bound, lambda tensor: along if dynamic_length is not None and tensor.dim() > 1 and tensor.shape[1] == size
                             else open_dimensions, lambda other: None)  # fmt: skip

    def write() -> Any:
        try:
            with training_mode(module), warnings.catch_warnings(), _training_programs(bool(stored)), custom.recorded(), exportable(), \
                 decisions.replayed(), quiet_exporter(), uncollected(), _buffers.kept_by_exporter(), traced_once(), on_meta(module) if without_values else contextlib.nullcontext():  # fmt: skip
                warnings.simplefilter("ignore")  # that the module is in training mode is the point
                return torch.onnx.export(module, export_arguments, kwargs=export_named or None, dynamo=True, optimize=False,
                                         opset_version=opset, dynamic_shapes=shapes, verbose=False,
                                         custom_translation_table={**translations(), **_attention.translations(), **_buffers.translations(),
                                                                   **_strides.translations()})  # fmt: skip
        except Exception as error:  # the exporter's own classes changed with every version
            if not (without_values or decisions.found) and needs_values(error):
                # Twice: a condition on a buffer that forward writes may come out otherwise then.
                if decisions.record(lambda: _run(module, arguments, named, times=2)):
                    return write()
            if reason := _why_not_run(module, arguments, named):
                raise ExportError(f"forward does not run on the example inputs ({_shapes_of(module, arguments, named)}): {reason}; expected example "
                                  "inputs as the training loop passes them, the batch first") from error  # fmt: skip
            cause = str(error.__cause__ or error).strip().removesuffix(" See the stack trace for more information.")
            root = str(_root_cause(error)).strip()
            cause = (cause if root in cause else f"{cause} {root}").rstrip(".")
            hint = "; if the batch cannot stay open, dynamic_batch=False bakes that of the example in" if dynamic_batch else ""
            hint = "; without shapes=, the example's sizes are baked in" if dynamic_length is not None else hint
            hint = decisions.wavering() or hint
            raise ExportError(f"torch.onnx.export failed: {cause}{hint}") from error

    custom, decisions = CustomGradients(), Decisions()
    _warn_of_evaluated(module)
    _refuse_hooks(hooks_of(module))
    program = write()
    _refuse_hooks(["a value of the forward"] if custom.hooked else [])
    _refuse_written(program)
    if custom.used and without_values:
        raise ExportError(f"the backward of {', '.join(kind.__qualname__ for kind in custom.used)} is written in Python, and whether a file "
                          "can hold it, only values show; expected a module with its weights")  # fmt: skip
    if custom.used:
        with widened(module):
            _classify(custom, module, *map_tensors((arguments, named), in_float32, in_float32))
        if custom.products:
            program = write()
    for words in decisions.words():
        warnings.warn(words, StowageWarning, stacklevel=caller_level())
    if without_values:
        weights_as_inputs(program, module)
    typed = _types.typed_values(program)
    _rename_values(program.model)
    _tidy(program.model)
    define(program)
    _name_outputs(program)
    _name_frozen(program, module, stored)
    _name_tied(program, module)
    _types.write_types(program, typed)
    _buffers.name_next_values(program, module)
    _state_modes(program)
    bytes_of_state = sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values() if not has_no_values(tensor))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        program.save(str(path), external_data=bytes_of_state > 1 << 30)
    except Exception as error:  # a constant whose values the exporter did not keep, at the end of a chain of causes
        raise ExportError(f"torch.onnx.export made a program that cannot be written: {_root_cause(error)}") from error
    if not check:
        return None
    from ._check import check as compare

    with widened(module):
        report = compare(module, map_tensors(example_inputs, in_float32, in_float32), path, tolerance=tolerance, binary=binary)
    if not report.ok:
        hint = ("\nthe module was compared in float32: one that asks for its tensors' types may compute something else there, and check=False "
                "leaves the comparison out") if stored else ""  # fmt: skip
        raise ExportError(f"{path} does not compute what the module computes:\n{report}{hint}")
    return report
