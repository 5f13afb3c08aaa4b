"""Buffers that forward writes: spectral norm's vectors, moving averages, codebooks, running statistics.

The signature of an exported program names them and the value that each has after a step; the exporter leaves these values out of
the file. Here they become outputs of it, named in its metadata, and the compiler makes them state that the step updates.

An evaluation writes no buffer. What forward reads of one after it has written it, is the new value in training alone:
stowage::in_training(new, stored) says so. In the file that is a choice that is made for training; the compiler knows the operation by
its name.
"""

import contextlib
import functools
from typing import Any, Iterator
from unittest import mock

from ._detached import written

#: The key of the file's metadata: "OUTPUT<tab>BUFFER", a line each.
NEXT_VALUES = "stowage.next_values"
_BUFFER = "stowage.buffer"


@functools.cache
def in_training() -> Any:
    """The operation stowage::in_training(training, evaluation): the first where the module trains, the second elsewhere."""
    import torch

    @torch.library.custom_op("stowage::in_training", mutates_args=())
    def operation(training: torch.Tensor, evaluation: torch.Tensor) -> torch.Tensor:
        return training.clone()

    operation.register_fake(lambda training, evaluation: torch.empty_like(training))
    operation.register_autograd(lambda context, gradient: (gradient, None))
    return torch.ops.stowage.in_training.default


def translations() -> "dict[Any, Any]":
    """How the exporter writes it: for torch.onnx.export(custom_translation_table=...)."""
    import onnx
    from onnxscript import opset18 as op

    def choose(training: Any, evaluation: Any) -> Any:
        always = op.Constant(value=onnx.helper.make_tensor("always", onnx.TensorProto.BOOL, [], [True]))
        return op.Where(always, training, evaluation)

    return {in_training(): choose}


def _normalizations() -> "set[Any]":
    """Operations that update running statistics on their own."""
    import torch

    return {torch.ops.aten.batch_norm.default, torch.ops.aten._native_batch_norm_legit.default, torch.ops.aten.native_batch_norm.default}


def _viewed(node: Any) -> "list[Any]":
    """The arguments that the result of the operation may be a view of."""
    import torch

    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    pairs = zip(node.target._schema.arguments, node.args)
    return [found for argument, found in pairs if argument.alias_info is not None and isinstance(found, torch.fx.Node)]


class _Names:
    """Which nodes of a program are names of its buffers, or views of them, and which buffers have been written so far."""

    def __init__(self, program: Any) -> None:
        self.graph = program.graph_module.graph
        self.root: "dict[Any, Any]" = {}  #: the buffer's node
        self.view: "dict[Any, tuple[Any, Any]]" = {}  #: the operation of a view, and what it is of
        self.written: "set[Any]" = set()
        self.stored: "dict[Any, Any]" = {}  #: what stands for a name in evaluation
        buffers = program.graph_signature.inputs_to_buffers
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.last = node
                if node.name in buffers:
                    self.root[node] = node

    def is_written_later(self, node: Any) -> bool:
        """Whether an operation writes through this view or one of it."""
        return any(node in list(written(user)) or (node in _viewed(user) and self.is_written_later(user)) for user in node.users)

    def note(self, node: Any) -> bool:
        """Takes notice of an operation; True where it is one that reads, not one that gives a name or writes."""
        targets = [target for target in written(node) if target in self.root]
        for target in targets:
            self.written.add(self.root[target])
            self.root[node] = self.root[target]
            self.view[node] = (None, target)  # what it returns is its argument
        if targets:
            return False
        of = [found for found in _viewed(node) if found in self.root]
        if not of or (self.root[of[0]] in self.written and not self.is_written_later(node)):
            return True
        self.root[node] = self.root[of[0]]
        self.view[node] = (node, of[0])
        return False

    def stored_for(self, name: Any) -> Any:
        """The stored value under this name."""
        import torch

        if name not in self.stored:
            if name in self.view:
                operation, of = self.view[name]
                base = self.stored_for(of)
                if operation is None:
                    return base
                with self.graph.inserting_after(base):
                    self.stored[name] = self.graph.node_copy(operation, lambda other: base if other is of else other)
            else:
                with self.graph.inserting_after(self.last):
                    self.stored[name] = self.graph.call_function(torch.ops.aten.clone.default, (name,))
                self.stored[name].meta = dict(name.meta)
        return self.stored[name]

    def chosen(self, name: Any, reader: Any) -> Any:
        stored = self.stored_for(name)
        with self.graph.inserting_before(reader):
            result = self.graph.call_function(in_training(), (name, stored))
        result.meta = dict(name.meta)
        return result


def choose_reads(program: Any) -> None:
    """in_training at every read of a buffer that an earlier operation has written."""
    import torch

    names = _Names(program)
    for node in list(names.graph.nodes):
        if node.op == "output":
            for found in [entry for entry in node.args[0] if entry in names.root and names.root[entry] in names.written]:
                new = names.chosen(found, node)
                node.replace_input_with(found, new)
                program.graph_signature.replace_all_uses(found.name, new.name)
        elif node.op == "call_function" and names.note(node) and node.target not in _normalizations():
            late = {found for found in node.all_input_nodes if found in names.root and names.root[found] in names.written}
            if late:
                node.args, node.kwargs = torch.fx.node.map_arg(
                    (node.args, node.kwargs), lambda other: names.chosen(other, node) if other in late else other)


def follow_unread_norms(program: Any) -> None:
    """Batch normalizations whose results nothing reads, those of a branch that is left out, are no part of a file. What they do to
    their running statistics is."""
    import torch

    graph, aten = program.graph_module.graph, torch.ops.aten
    needed: "set[Any]" = set()
    for node in reversed(list(graph.nodes)):
        if node in needed or node.op == "output" or any(True for _ in written(node)):
            needed.update([node, *node.all_input_nodes])
    for node in list(graph.nodes):
        if node in needed or node.target is not aten.batch_norm.default or node.args[3] is None or not node.args[5]:
            continue
        x, mean, variance, momentum = node.args[0], node.args[3], node.args[4], node.args[6]
        dimensions = [0, *range(2, x.meta["val"].dim())]
        with graph.inserting_before(node):
            for statistic, batch in ((mean, graph.call_function(aten.mean.dim, (x, dimensions))),
                                     (variance, graph.call_function(aten.var.correction, (x, dimensions), {"correction": 1}))):  # fmt: skip
                batch.meta = dict(statistic.meta)
                old = graph.call_function(aten.mul_.Tensor, (statistic, 1 - momentum))
                new = graph.call_function(aten.add_.Tensor, (old, batch), {"alpha": momentum})
                old.meta = new.meta = dict(statistic.meta)
        graph.erase_node(node)


def _add_next_values(exported: Any) -> None:
    import onnx_ir

    graph, signature = exported.model.graph, exported.exported_program.graph_signature
    computed = {value.name: value for node in graph for value in node.outputs}
    given = {value.metadata_props.get("pkg.torch.onnx.original_node_name", value.name): value
             for value in (*graph.inputs, *graph.initializers.values())}  # fmt: skip
    for spec in signature.output_specs:
        buffer = graph.initializers.get(spec.target) if spec.kind.name == "BUFFER_MUTATION" else None
        if buffer is None or (spec.target.split(".")[-1] == "num_batches_tracked" and len(buffer.uses()) == 1):
            continue  # that counter is the number of steps
        value = source = computed.get(spec.arg.name) or given[spec.arg.name]
        while source.producer() is not None and source.producer().op_type == "Identity":
            source = source.producer().inputs[0]
        if source is buffer:
            continue  # a batch normalization's, which it updates itself
        node = onnx_ir.node("Identity", [value])
        graph.append(node)
        result = node.outputs[0]
        result.name, result.type, result.shape = f"{spec.target}.next", buffer.type, buffer.shape
        result.metadata_props[_BUFFER] = spec.target
        graph.outputs.append(result)


@contextlib.contextmanager
def kept_by_exporter() -> "Iterator[None]":
    """torch.onnx.export with the next values of buffers among the outputs: it drops them, and what computes them, otherwise."""
    from torch.onnx._internal.exporter import _core

    make = _core._exported_program_to_onnx_program

    def keeping(program: Any, **named: Any) -> Any:
        result = make(program, **named)
        _add_next_values(result)
        return result

    with mock.patch.object(_core, "_exported_program_to_onnx_program", keeping):
        yield


def name_next_values(exported: Any, module: Any) -> None:
    """Lists the outputs that are next values in the file's metadata, and keeps the buffers that nothing else in the file reads."""
    import onnx_ir

    graph, lines = exported.model.graph, []
    tensors = dict(module.named_buffers())
    for output in graph.outputs:
        buffer = output.metadata_props.get(_BUFFER)
        if buffer is None:
            continue
        lines.append(f"{output.name}\t{buffer}")
        if buffer not in graph.initializers:
            value = onnx_ir.tensor(tensors[buffer].detach().cpu().contiguous().numpy(), name=buffer)
            graph.register_initializer(onnx_ir.Value(name=buffer, const_value=value, type=output.type, shape=output.shape))
    if lines:
        graph.metadata_props[NEXT_VALUES] = "\n".join(lines)


def is_next_value(output: Any) -> bool:
    """Whether an output of an exported program is one."""
    return _BUFFER in output.metadata_props
