"""Does a model file compute what the module computes? Parameters, forward and one gradient, compared through the compiled
library itself."""

import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import numpy as np

from . import _tool
from ._buffers import NEXT_VALUES
from ._library import Library, Model
from ._specs import trained_names

# A gradient is read off the state: the step subtracts RATE times it. With a large power of two, rounding the new value
# costs a relative error of the gradient, not one of the parameter.
RATE = 2.0**20
# A rounding error of float32, by which parameters are disturbed to see how far a gradient can be trusted: behind small
# batches, normalizations and kinks amplify it a thousandfold, in PyTorch as here.
NOISE = 2.0**-23
# A function with kinks, as relu, has one gradient on each side. Where its input lies closer to a kink than this many
# rounding errors of the input's largest value, PyTorch and the file may stand on different sides.
NEAR = 8
# Gradients this much smaller than the largest one are compared on the scale of that: a bias before a normalization has
# none but rounding errors.
SMALL = 1e-4


@dataclass
class CheckReport:
    """What was compared, the largest relative difference of each, and what differs by more than the tolerance."""

    tolerance: float
    trained: "list[str]" = field(default_factory=list)  #: parameters in the file and in the module
    unused: "list[str]" = field(default_factory=list)  #: parameters that the module's forward does not read
    errors: "dict[str, float]" = field(default_factory=dict)  #: "output logits", "loss", "gradient conv.weight", ...
    differences: "list[str]" = field(default_factory=list)
    sensitive: "list[str]" = field(default_factory=list)  #: beyond the tolerance, yet no further than PyTorch's own moves
    notes: "list[str]" = field(default_factory=list)  #: what could not be compared, and why

    @property
    def ok(self) -> bool:
        return not self.differences

    def compare(self, name: str, found: np.ndarray, expected: np.ndarray, scale: float, disturbance: float = 0.0) -> None:
        """Notes the largest difference as a share of `scale`. `disturbance` is how much PyTorch's own value moves when
        its parameters move by a rounding error; ten times that is no difference."""
        if found.shape != expected.shape:
            self.differences.append(f"{name}: expected the shape {expected.shape}, found {found.shape}")
            return
        scale = scale or 1.0
        error, allowed = _largest(found - expected) / scale, max(self.tolerance, 10 * disturbance / scale)
        self.errors[name] = error
        if self.tolerance < error <= allowed:
            self.sensitive.append(name)
        if not error <= allowed:
            self.differences.append(f"{name}: differs by {error:.2e} of its largest value, allowed are {allowed:.0e}")

    def __str__(self) -> str:
        worst = max(self.errors.items(), key=lambda item: item[1], default=("nothing", 0.0))
        lines = [f"{len(self.trained)} parameters, {len(self.errors)} tensors compared, largest difference {worst[1]:.1e} "
                 f"({worst[0]})"]  # fmt: skip
        if self.unused:
            lines.append(f"not read by forward, so not trained: {', '.join(self.unused)}")
        if self.sensitive:
            lines.append(f"{len(self.sensitive)} of them move as far in PyTorch when its values move by rounding errors")
        lines += self.notes
        shown = self.differences[:20]
        lines += shown
        if len(self.differences) > len(shown):
            lines.append(f"and {len(self.differences) - len(shown)} more differences")
        return "\n".join(lines)


@contextlib.contextmanager
def training_without_dropout(module: Any) -> "Iterator[None]":
    """The module in training mode, its dropouts switched off; buffers, gradients and modes are restored."""
    import torch

    functional = torch.nn.functional
    attention = functional.scaled_dot_product_attention

    def without(input, *arguments, **named):
        return input

    def attention_without(query, key, value, attn_mask=None, dropout_p=0.0, *arguments, **named):
        return attention(query, key, value, attn_mask, 0.0, *arguments, **named)

    from ._torch_export import training_mode

    buffers = {name: tensor.detach().clone() for name, tensor in module.named_buffers()}
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    try:
        for parameter in module.parameters():
            parameter.grad = None
        with contextlib.ExitStack() as patches:
            patches.enter_context(training_mode(module))
            for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
                patches.enter_context(mock.patch.object(functional, name, without))
            patches.enter_context(mock.patch.object(functional, "scaled_dot_product_attention", attention_without))
            yield
    finally:
        restore_buffers(module, buffers)
        for name, parameter in module.named_parameters():
            parameter.grad = gradients[name]


def restore_buffers(module: Any, kept: "dict[str, Any]") -> None:
    """What forward has written since `kept` was noted."""
    import torch

    with torch.no_grad():
        for name, tensor in module.named_buffers():
            tensor.copy_(kept[name])


def _tensors(output: Any) -> "list[Any]":
    """The tensors of a module's result in the exporter's order."""
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _forward(module: Any, example_inputs: Any) -> "list[Any]":
    from ._torch_export import example_arguments

    arguments, named = example_arguments(example_inputs)
    return _tensors(module(*arguments, **named))


def forward_twice(module: Any, example_inputs: Any, position: int) -> "tuple[Any, bool]":
    """An output of forward, and whether it is another one the second time. Buffers are as before afterwards."""
    import torch

    buffers, outputs = {name: tensor.detach().clone() for name, tensor in module.named_buffers()}, []
    for _ in range(2):
        with torch.no_grad():
            outputs.append(_forward(module, example_inputs)[position].clone())
        restore_buffers(module, buffers)
    output, again = outputs
    return output, not torch.allclose(output, again, rtol=1e-4, atol=1e-5 * float(output.abs().max()))


def _is_float(tensor: Any) -> bool:
    return tensor.elem_type in (1, 10, 11, 16)


def _is_number(tensor: Any) -> bool:
    return tensor.HasField("shape") and not tensor.shape.dim


def _float_output(path: Any) -> "tuple[list[str], str, bool]":
    """The file's outputs, the first of floating type, and whether that is a number: the module's own loss."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    listed = next((entry.value for entry in graph.metadata_props if entry.key == NEXT_VALUES), "")
    next_values = {line.split("\t")[0] for line in listed.splitlines()}
    outputs = [output for output in graph.output if output.name not in next_values]
    names = [output.name for output in outputs]
    floats = [output for output in outputs if _is_float(output.type.tensor_type)]
    if not floats:
        raise ValueError(f"{path}: no output holds floating-point numbers; found {', '.join(names)}")
    return names, floats[0].name, _is_number(floats[0].type.tensor_type)


def computes_loss(path: Any) -> bool:
    """Whether the file has an output `loss` that is a floating-point number."""
    import onnx

    outputs = ((output.name, output.type.tensor_type) for output in onnx.load(str(path), load_external_data=False).graph.output)
    return any(name == "loss" and _is_float(tensor) and _is_number(tensor) for name, tensor in outputs)


def _has_open_batch(path: Any) -> bool:
    import onnx

    inputs = onnx.load(str(path), load_external_data=False).graph.input
    return any(value.type.tensor_type.shape.dim[0].dim_param for value in inputs if value.type.tensor_type.shape.dim)


def parameters_of(module: Any) -> "dict[str, list[str]]":
    """Every parameter with elements that asks for a gradient, with all its names: tied ones have several."""
    names: "dict[int, list[str]]" = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and parameter.numel():
            names.setdefault(id(parameter), []).append(name)
    return {group[0]: group for group in names.values()}


def _graph_of(path: Any) -> Any:
    import onnx

    return onnx.load(str(path), load_external_data=False).graph


def _names_of(graph: Any) -> "set[str]":
    return {tensor.name for tensor in (*graph.initializer, *graph.input)}


def initializers_of(path: Any) -> "set[str]":
    """By name; in a file without weights they are inputs."""
    return _names_of(_graph_of(path))


def frozen_flags(module: Any, path: Any, optimizer: Any = "sgd") -> "list[str]":
    """--freeze for the parameters that the module or the optimizer does not train, but those that the file names itself, as ours do."""
    graph = _graph_of(path)
    listed = {entry.key: entry.value for entry in graph.metadata_props}
    named = set(listed.get("stowage.frozen", "").split("\n"))
    held, trained = _names_of(graph), trained_names(optimizer, module)
    frozen = [name for name, parameter in module.named_parameters(remove_duplicate=False)
              if name not in trained and name in held and name not in named and parameter.numel()]  # fmt: skip
    # Several flags, since a single argument of a process ends at 128 KiB.
    return [f"--freeze={','.join(frozen[i : i + 500])}" for i in range(0, len(frozen), 500)]


def _check_parameters(report: CheckReport, module: Any, model: Model, path: Any, frozen: "frozenset[str]" = frozenset()) -> "dict[str, str]":
    """Fills in the sets; returns the state's name for each trained parameter of the module. `frozen` are not to be trained."""
    groups, held = {first: group for first, group in parameters_of(module).items() if first not in frozen}, initializers_of(path)
    state = {tensor.name for tensor in model.state if tensor.kind == "parameter"}
    names = {}
    for first, group in groups.items():
        found = [name for name in group if name in state]
        if len(found) == 1:
            names[first] = found[0]
        elif found:
            report.differences.append(f"parameter {first}: tied in the module, trained as {len(found)} tensors: {', '.join(found)}")
        elif not any(name in held for name in group):
            report.unused.append(first)
        else:
            report.differences.append(f"parameter {first}: the module trains it, the file's step does not")
    report.trained = list(names)
    for extra in sorted(state - set(names.values())):
        report.differences.append(f"parameter {extra}: the file's step trains it, the module has no such parameter")
    return names


def _check_forward(report: CheckReport, module: Any, example_inputs: Any, model: Model, inputs: "list[Any]",
                   outputs: "list[str]") -> None:  # fmt: skip
    import torch

    modes = {name: child.training for name, child in module.named_modules()}
    buffers = {name: tensor.detach().clone() for name, tensor in module.named_buffers()}
    module.eval()
    with torch.no_grad():
        expected = [tensor.clone() for tensor in _forward(module, example_inputs)]
    restore_buffers(module, buffers)
    for name, child in module.named_modules():
        child.training = modes[name]
    found = dict(zip((tensor.name for tensor in model.eval_outputs), model.eval(inputs)))
    if len(expected) != len(outputs):
        report.notes.append(f"evaluation gives {len(expected)} tensors, training {len(outputs)}: the common ones are compared")
    for name, tensor in zip(outputs, expected):
        if name in found and tensor.is_floating_point():
            reference = tensor.double().numpy()
            report.compare(f"output {name}", found[name].astype(np.float64), reference, _largest(reference))


def _gradients(module: Any, example_inputs: Any, position: int, target: Any, names: "list[str]") -> "tuple[float, dict]":
    """PyTorch's loss, the mean squared error against `target` or, where that is None, the module's own, and its gradients;
    parameters that the loss does not reach have zeros."""
    import torch

    parameters = dict(module.named_parameters())
    for parameter in parameters.values():
        parameter.grad = None
    output = _forward(module, example_inputs)[position]
    loss = output if target is None else torch.nn.functional.mse_loss(output, target)
    loss.backward()
    gradients = {}
    for name in names:
        gradient = parameters[name].grad
        gradients[name] = np.zeros(parameters[name].shape) if gradient is None else gradient.double().numpy().copy()
    return float(loss.detach()), gradients


@contextlib.contextmanager
def _disturbed(module: Any, names: "list[str]") -> "Iterator[None]":
    """The parameters multiplied by numbers within NOISE of 1; restored afterwards."""
    import torch

    parameters, generator = dict(module.named_parameters()), torch.Generator().manual_seed(1)
    with torch.no_grad():
        kept = {name: parameters[name].clone() for name in names}
        for name in names:
            noise = torch.rand(parameters[name].shape, generator=generator, dtype=torch.float64) * 2 - 1
            parameters[name].mul_((1 + NOISE * noise).to(parameters[name].dtype))
    try:
        yield
    finally:
        with torch.no_grad():
            for name in names:
                parameters[name].copy_(kept[name])


def _kinked() -> "set[Any]":
    """Functions of PyTorch whose gradient jumps, and what chooses among values that may be equal."""
    import torch

    names = ("relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "prelu", "rrelu", "threshold", "hardtanh", "hardswish",
             "hardsigmoid", "hardshrink", "softshrink", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d",
             "adaptive_max_pool2d", "adaptive_max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
             "max_pool3d_with_indices", "abs", "clamp", "clip", "amax", "amin", "max", "min", "maximum", "minimum", "topk")  # fmt: skip
    homes = (torch, torch.Tensor, torch.nn.functional)
    return {function for name in names for home in homes if (function := getattr(home, name, None)) is not None}


def _moved_at_kinks(sign: int) -> Any:
    """A context in which the input of every function with kinks is moved by NEAR rounding errors of its largest value: by as
    much everywhere (sign 1 or -1), so that all that are near zero get on its other side in one of the two, or at random
    (sign 0), so that neighbours in a window, and what topk takes for equal, change places. What no gradient goes through, as a mask, has no
    kink."""
    import torch
    from torch.overrides import TorchFunctionMode

    kinked, generator = _kinked(), torch.Generator().manual_seed(2)

    class Moved(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), named=None):
            named = named or {}
            first = arguments[0] if arguments else None
            if function in kinked and isinstance(first, torch.Tensor) and first.is_floating_point() and first.numel() \
                    and (first.requires_grad or function.__name__ == "topk"):  # fmt: skip
                noise = torch.rand(first.shape, generator=generator) * 2 - 1 if sign == 0 else torch.full(first.shape, sign)
                shift = (NEAR * NOISE * float(first.detach().abs().max()) * noise).to(first.dtype)
                in_place = named.get("inplace") or getattr(function, "__name__", "").endswith("_")
                arguments = (first.add_(shift) if in_place else first + shift, *arguments[1:])
            return function(*arguments, **named)

    return Moved()


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array).max(initial=0))


def _check_gradient(report: CheckReport, module: Any, example_inputs: Any, model: Model, inputs: "list[Any]",
                    position: int, own_loss: bool, names: "dict[str, str]") -> None:  # fmt: skip
    import torch

    buffers = {name: tensor.detach().clone() for name, tensor in module.named_buffers()}

    def gradients() -> "tuple[float, dict]":
        restore_buffers(module, buffers)
        return _gradients(module, example_inputs, position, target, list(names))

    with training_without_dropout(module):
        output, is_random = forward_twice(module, example_inputs, position)
        if is_random:
            report.notes.append("the training forward is random without its dropouts, too: gradients are not compared")
            return
        target = None if own_loss else torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output.dtype)
        loss, expected = gradients()
        with _disturbed(module, list(names)):
            near_loss, near = gradients()
        moves = {name: _largest(near[name] - expected[name]) for name in names}
        for sign in (1, -1, 0):
            with _moved_at_kinks(sign):
                _, other = gradients()
            for name in names:
                # compare() allows ten times a move. Here all that are near have moved, so that twice is enough.
                moves[name] = max(moves[name], 0.2 * _largest(other[name] - expected[name]))
    before = {name: model.read(held).astype(np.float64) for name, held in names.items()}
    found_loss = model.step(inputs if own_loss else [*inputs, target])
    report.compare("loss", np.array(found_loss), np.array(loss), abs(loss), abs(near_loss - loss))
    scale = max((_largest(gradient) for gradient in expected.values()), default=0.0)
    for name, held in names.items():
        gradient = (before[name] - model.read(held).astype(np.float64)) / RATE
        own = max(_largest(expected[name]), SMALL * scale)
        report.compare(f"gradient {name}", gradient, expected[name], own, moves[name])


def check(module: Any, example_inputs: Any, path: Any, *, tolerance: float = 1e-3, binary: Any = None) -> CheckReport:
    """Compiles `path` and compares it with `module` on `example_inputs`: the set of trained parameters, every output of the
    evaluation, and the loss and gradients of one step in training mode (mean squared error against random numbers, or the
    module's own loss where its first output is a number; dropouts off). Differences are relative to the largest value of the tensor; a gradient may also differ by ten times what
    PyTorch's own moves by when the parameters move by a rounding error, or by twice what it moves by when inputs close to
    the kinks of relu, max pooling and the like get on their other side. The module is as before afterwards.
    """
    from ._torch_export import batch_of, example_arguments, tensors_by_name

    arguments, named = example_arguments(example_inputs)
    outputs, chosen, own_loss = _float_output(path)
    report = CheckReport(tolerance)
    with tempfile.TemporaryDirectory(prefix="stowage-") as folder:
        library = str(Path(folder) / "libcheck.so")
        flags = [f"--loss=output:{chosen}" if own_loss else "--loss=mse", f"--optimizer=sgd:lr={RATE}", "--no-dropout"]
        if _has_open_batch(path):
            flags.append(f"--batch={batch_of(arguments, named)}")
        if len(outputs) > 1 and not own_loss:
            flags.append(f"--loss-output={chosen}")
        flags += frozen_flags(module, path)
        _tool.run(["compile", str(path), "--emit=shared", "-o", library, *flags], binary)
        model = Model(Library(library))
        try:
            held = _check_parameters(report, module, model, path)
            given = tensors_by_name(module, example_inputs)
            unknown = [tensor.name for tensor in model.eval_inputs if tensor.name not in given]
            if unknown:
                raise ValueError(f"{path} reads the inputs {', '.join(unknown)}, which forward does not name")
            inputs = [given[tensor.name] for tensor in model.eval_inputs]
            _check_forward(report, module, example_inputs, model, inputs, outputs)
            _check_gradient(report, module, example_inputs, model, inputs, outputs.index(chosen), own_loss, held)
        finally:
            model.close()
    return report
