"""PyTorch module -> ONNX graph, written node by node with onnx.helper.

The module is traced with torch.fx, so the model's definition stands in one place (torch_models.py). Names are those a
user sees after PyTorch's own exporter: node "/layer1/layer1.0/conv1/Conv", its result the same with "_output_0",
parameters by their state_dict names. The graph has inference semantics, as users' exports have: BatchNormalization
with running statistics, Dropout as a node with training_mode=false (PyTorch's exporter would drop it).
"""

import math
import operator
from collections import Counter
from typing import Any, Callable

import onnx
import torch
from onnx import TensorProto, helper
from torch import fx, nn


class ScopedTracer(fx.Tracer):
    """Records for every graph node the path of the module whose forward issued it."""

    def __init__(self) -> None:
        super().__init__()
        self.modules_entered: list[str] = []

    def call_module(self, m: nn.Module, forward: Callable, args: tuple, kwargs: dict) -> Any:
        self.modules_entered.append(self.path_of_module(m))
        result = super().call_module(m, forward, args, kwargs)
        self.modules_entered.pop()
        return result

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        node.meta["scope"] = self.modules_entered[-1] if self.modules_entered else ""
        return node


def scope_prefix(path: str) -> str:
    """"layer1.0.conv1" -> "/layer1/layer1.0/conv1/": a numbered child of a Sequential repeats its parent's name."""
    parts: list[str] = []
    for name in path.split(".") if path else []:
        # "layer1.0" keeps its parent in its own name, as a bare "0" says nothing in a report.
        parts.append(f"{parts[-1].rsplit('/', 1)[-1]}.{name}" if name.isdigit() and parts else name)
    return "/" + "".join(f"{part}/" for part in parts)


class Exporter:
    """Builds the node list; `shapes` are the static shapes found by running the traced graph once."""

    def __init__(self, module: nn.Module, sample: torch.Tensor, opset: int) -> None:
        self.opset = opset
        self.module = module.eval()
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.parameters: list[str] = []
        self.names: Counter[str] = Counter()
        self.value: dict[fx.Node, str] = {}
        self.shape: dict[fx.Node, tuple[int, ...]] = {}
        self.graph = ScopedTracer().trace(self.module)
        self.output_shape = self._infer_shapes(sample)

    def _infer_shapes(self, sample: torch.Tensor) -> tuple[int, ...]:
        """Fills `shape` for every tensor value and returns the shape of the result."""
        shape = self.shape

        class Recorder(fx.Interpreter):
            def run_node(self, n: fx.Node) -> Any:
                result = super().run_node(n)
                if isinstance(result, torch.Tensor):
                    shape[n] = tuple(result.shape)
                return result

        with torch.no_grad():
            result = Recorder(fx.GraphModule(self.module, self.graph)).run(sample)
        return tuple(result.shape)

    def add(self, op: str, scope: str, inputs: list[str], **attributes: Any) -> str:
        """Appends a node with one result and returns the result's name."""
        base = scope_prefix(scope) + op
        count = self.names[base]
        self.names[base] += 1
        name = f"{base}_{count}" if count else base
        result = f"{name}_output_0"
        self.nodes.append(helper.make_node(op, inputs, [result], name, **attributes))
        return result

    def constant(self, name: str, data_type: int, dims: list[int], values: list) -> str:
        self.constants.append(helper.make_tensor(name, data_type, dims, values))
        return name

    def parameter(self, path: str, name: str) -> str:
        full = f"{path}.{name}"
        if full not in self.parameters:
            self.parameters.append(full)
        return full

    # ---- one method per kind of traced node

    def convert(self) -> str:
        """Walks the traced graph in order and returns the name of the graph's result."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.value[node] = "input"
            elif node.op == "call_module":
                self.value[node] = self._module(node)
            elif node.op == "call_function":
                self.value[node] = self._function(node)
            elif node.op == "output":
                return self.value[node.args[0]]
            else:
                raise ValueError(f"cannot export traced node '{node.format_node()}'")
        raise ValueError("the traced graph has no output")

    def _module(self, node: fx.Node) -> str:
        path = str(node.target)
        module = self.module.get_submodule(path)
        handler = MODULE_HANDLERS.get(type(module))
        if handler is None:
            raise ValueError(f"cannot export module '{path}' of type {type(module).__name__}")
        return handler(self, path, module, node.args[0])

    def _function(self, node: fx.Node) -> str:
        scope = node.meta["scope"]
        if node.target in (operator.add, operator.iadd, torch.add):
            return self.add("Add", scope, [self.value[a] for a in node.args])
        if node.target is torch.cat:
            tensors, axis = node.args
            return self.add("Concat", scope, [self.value[t] for t in tensors], axis=axis)
        raise ValueError(f"cannot export function '{node.target}' in module '{scope}'")


def pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def export_conv(e: Exporter, path: str, m: nn.Conv2d, x: fx.Node) -> str:
    inputs = [e.value[x], e.parameter(path, "weight")]
    if m.bias is not None:
        inputs.append(e.parameter(path, "bias"))
    return e.add("Conv", path, inputs, dilations=pair(m.dilation), group=m.groups, kernel_shape=pair(m.kernel_size),
                 pads=pair(m.padding) * 2, strides=pair(m.stride))  # fmt: skip


def export_batch_norm(e: Exporter, path: str, m: nn.BatchNorm2d, x: fx.Node) -> str:
    names = [e.parameter(path, n) for n in ("weight", "bias", "running_mean", "running_var")]
    # ONNX's momentum weighs the old statistics, PyTorch's the new ones.
    return e.add("BatchNormalization", path, [e.value[x], *names], epsilon=m.eps, momentum=1.0 - m.momentum)


def export_conv_transpose(e: Exporter, path: str, m: nn.ConvTranspose2d, x: fx.Node) -> str:
    inputs = [e.value[x], e.parameter(path, "weight"), e.parameter(path, "bias")]
    return e.add("ConvTranspose", path, inputs, dilations=pair(m.dilation), group=m.groups, kernel_shape=pair(m.kernel_size),
                 pads=pair(m.padding) * 2, strides=pair(m.stride))  # fmt: skip


def export_linear(e: Exporter, path: str, m: nn.Linear, x: fx.Node) -> str:
    inputs = [e.value[x], e.parameter(path, "weight"), e.parameter(path, "bias")]
    return e.add("Gemm", path, inputs, alpha=1.0, beta=1.0, transB=1)


def export_relu6(e: Exporter, path: str, m: nn.ReLU6, x: fx.Node) -> str:
    bounds = [e.constant(f"{scope_prefix(path)}{n}", TensorProto.FLOAT, [], [v]) for n, v in (("min", 0.0), ("max", 6.0))]
    return e.add("Clip", path, [e.value[x], *bounds])


def export_max_pool(e: Exporter, path: str, m: nn.MaxPool2d, x: fx.Node) -> str:
    return e.add("MaxPool", path, [e.value[x]], ceil_mode=int(m.ceil_mode), kernel_shape=pair(m.kernel_size),
                 pads=pair(m.padding) * 2, strides=pair(m.stride))  # fmt: skip


def export_avg_pool(e: Exporter, path: str, m: nn.AvgPool2d, x: fx.Node) -> str:
    return e.add("AveragePool", path, [e.value[x]], ceil_mode=int(m.ceil_mode), kernel_shape=pair(m.kernel_size),
                 pads=pair(m.padding) * 2, strides=pair(m.stride), count_include_pad=1)  # fmt: skip


def export_adaptive_pool(e: Exporter, path: str, m: nn.AdaptiveAvgPool2d, x: fx.Node) -> str:
    """A pool onto one pixel is global; onto a divisor of the image it is a plain average pool."""
    image, target = list(e.shape[x][2:]), pair(m.output_size)
    if target == [1, 1]:
        return e.add("GlobalAveragePool", path, [e.value[x]])
    if any(a % b for a, b in zip(image, target)):
        raise ValueError(f"'{path}': adaptive pool from {image} to {target} has windows of unequal size")
    window = [a // b for a, b in zip(image, target)]
    return e.add("AveragePool", path, [e.value[x]], kernel_shape=window, strides=window)


def export_dropout(e: Exporter, path: str, m: nn.Dropout, x: fx.Node) -> str:
    prefix = scope_prefix(path)
    ratio = e.constant(f"{prefix}ratio", TensorProto.FLOAT, [], [m.p])
    training = e.constant(f"{prefix}training_mode", TensorProto.BOOL, [], [False])
    return e.add("Dropout", path, [e.value[x], ratio, training])


def export_lrn(e: Exporter, path: str, m: nn.LocalResponseNorm, x: fx.Node) -> str:
    return e.add("LRN", path, [e.value[x]], size=m.size, alpha=m.alpha, beta=m.beta, bias=m.k)


def export_relu(e: Exporter, path: str, m: nn.ReLU, x: fx.Node) -> str:
    return e.add("Relu", path, [e.value[x]])


def export_sigmoid(e: Exporter, path: str, m: nn.Sigmoid, x: fx.Node) -> str:
    return e.add("Sigmoid", path, [e.value[x]])


def export_flatten(e: Exporter, path: str, m: nn.Flatten, x: fx.Node) -> str:
    return e.add("Flatten", path, [e.value[x]], axis=m.start_dim)


MODULE_HANDLERS: dict[type, Callable[[Exporter, str, Any, fx.Node], str]] = {
    nn.Conv2d: export_conv,
    nn.ConvTranspose2d: export_conv_transpose,
    nn.BatchNorm2d: export_batch_norm,
    nn.Linear: export_linear,
    nn.ReLU: export_relu,
    nn.ReLU6: export_relu6,
    nn.Sigmoid: export_sigmoid,
    nn.MaxPool2d: export_max_pool,
    nn.AvgPool2d: export_avg_pool,
    nn.AdaptiveAvgPool2d: export_adaptive_pool,
    nn.Dropout: export_dropout,
    nn.LocalResponseNorm: export_lrn,
    nn.Flatten: export_flatten,
}


def export_module(name: str, module: nn.Module, sample_shape: tuple[int, ...], batch: int, opset: int) -> onnx.ModelProto:
    """The module as an ONNX model whose parameters are graph inputs (see `attach_weights`).

    The one data input is called "input", [batch, *sample_shape]; the result "output". Only shapes are read: a module on
    PyTorch's device "meta" is exported without computing anything."""
    if opset < 13:
        raise ValueError(f"opset {opset} is too old: expected 13 or newer")
    where = next(module.parameters()).device
    exporter = Exporter(module, torch.zeros(batch, *sample_shape, device=where), opset)
    last = exporter.convert()
    for node in exporter.nodes:
        node.output[:] = ["output" if value == last else value for value in node.output]
    state = module.state_dict()
    values = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, *sample_shape])]
    values += [helper.make_tensor_value_info(p, TensorProto.FLOAT, list(state[p].shape)) for p in exporter.parameters]
    result = helper.make_tensor_value_info("output", TensorProto.FLOAT, list(exporter.output_shape))
    graph = helper.make_graph(exporter.nodes, name, values, [result], exporter.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="stowage-models")
    # IR version 7 is what opset 13 came with; readers of that age accept the file.
    model.ir_version = 7 if opset == 13 else 8
    onnx.checker.check_model(model)
    assert math.prod(exporter.output_shape) > 0
    return model
