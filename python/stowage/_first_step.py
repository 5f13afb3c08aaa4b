"""Is the first step PyTorch's? `compile` runs it once on random targets, beside the module, and starts anew.

What is compared is the step itself where its gradients can be read off the state that it leaves: the update of plain SGD, the
momentum of SGD, Adam, AdamW and Lion, which after one step are the gradient times a known number. Otherwise, and where the module drops
elements at random or PyTorch would not find the memory, it is a copy of the step without dropout, of plain SGD, in float32 and
perhaps of fewer samples. That costs one forward and backward of PyTorch's; where something differs, two more say how far PyTorch's own
values move when its parameters move by rounding errors, or its values cross a kink.
"""

import contextlib
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Optional

import numpy as np

from . import _losses, _tool
from ._check import (NEAR, RATE, SMALL, CheckReport, _check_parameters, _disturbed, _float_output, _forward, _has_open_batch,
                     _largest, _moved_at_kinks, forward_twice, restore_buffers, training_without_dropout)  # fmt: skip
from ._library import Library, Model

#: PyTorch's live bytes beside the arena of a step that computes nothing again, at most: 2.1 were measured.
EAGER = 2.5
#: Flags that change how a step is run, not what it computes.
_HARMLESS = ("--recompute", "--memory-budget", "--threads", "--loss-output", "--profile", "--checkpoint", "--roofline", "--remarks",
             "--budget-covers", "--reserve", "--shapes", "--input-gradients", "--seed", "--target-cpu", "--loss-chunks", "--row-chunks", "--offload",
             "--offload-bandwidth", "--offload-capacity", "--offload-state", "--shard-state", "--network", "--host-memory",
             "--link")  # fmt: skip
#: Flags that a copy of the step leaves out.
_LEFT_OUT = ("--clip-norm", "--clip-value", "--group", "--no-decay", "--precision", "--keep-wide", "--loss-scale", "--no-dropout",
             "--target", "--optimizer")  # fmt: skip
#: Flags that say how much memory the step takes; the copy takes what it needs.
_PLANNING = ("--memory-budget", "--reserve", "--recompute", "--checkpoint", "--shapes", "--offload", "--offload-bandwidth", "--offload-capacity", "--offload-state",
             "--shard-state", "--network", "--host-memory", "--link")  # fmt: skip


class NotCompared(Exception):
    """Why the first step is not compared; no fault."""


def available_bytes() -> int:
    """What a process may still take: of the machine, and of the group that limits it."""
    found = []
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        with contextlib.suppress(OSError, ValueError):
            found.append(int((Path("/sys/fs/cgroup") / limit).read_text()) - int((Path("/sys/fs/cgroup") / used).read_text()))
    return max(min(found, default=sys.maxsize), 0)


def _name(flag: str) -> str:
    return flag.partition("=")[0]


def _optimizer(flags: "list[str]") -> "tuple[str, dict[str, str]]":
    text = next(flag for flag in flags if flag.startswith("--optimizer=")).partition("=")[2]
    name, _, rest = text.partition(":")
    return name, dict((part.partition("=")[0], part.partition("=")[2]) for part in rest.split(",") if part)


def _draws(path: Any) -> bool:
    """Whether the file's training drops or draws anything at random."""
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    return any(node.op_type in ("Dropout", "Bernoulli", "Multinomial") or node.op_type.startswith("Random") for node in graph.node)


def _final_activation(path: Any, output: str) -> str:
    """The operator that ends an output, views left out."""
    import onnx

    producers = {name: node for node in onnx.load(str(path), load_external_data=False).graph.node for name in node.output}
    node = producers.get(output)
    while node is not None and node.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"):
        node = producers.get(node.input[0])
    return "" if node is None else node.op_type


def _rows(example_inputs: Any, first: int, count: int) -> Any:
    """`count` samples of the example from number `first` on, counted round."""
    import torch

    from ._torch_export import example_arguments, map_tensors

    def chosen(tensor: Any) -> Any:
        return tensor.index_select(0, torch.arange(first, first + count, device=tensor.device) % tensor.shape[0])

    arguments, named = example_arguments(example_inputs)
    return {key: map_tensors(value, chosen, lambda other: other) for key, value in named.items()} if named else \
        tuple(map_tensors(value, chosen, lambda other: other) for value in arguments)  # fmt: skip


class _Eager:
    """The module's own step on these inputs, in `parts` of as many samples each: loss, gradients and buffers."""

    def __init__(self, module: Any, inputs: "list[Any]", position: int, loss: Any, targets: "list[Any]", names: "list[str]",
                 buffers: "list[str]", sums: bool) -> None:  # fmt: skip
        self.module, self.inputs, self.position, self.loss, self.targets = module, inputs, position, loss, targets
        self.names, self.buffers, self.sums = names, buffers, sums

    def run(self) -> "dict[str, np.ndarray]":
        parameters = dict(self.module.named_parameters())
        for parameter in parameters.values():
            parameter.grad = None
        total = 0.0
        for inputs, target in zip(self.inputs, self.targets):
            loss = self.loss(_forward(self.module, inputs)[self.position], target)
            loss = loss if self.sums else loss / len(self.inputs)
            if self.names and not loss.requires_grad:
                from ._torch_export import ExportError

                raise ExportError("the loss has no gradient in PyTorch, so that nothing would be trained: it, or the output that it reads, is "
                                  "computed inside no_grad() or detached, or its parameters are frozen")  # fmt: skip
            if loss.requires_grad:
                loss.backward()
            total += float(loss.detach())
        found = {"loss": np.array(total)}
        for name in self.names:
            gradient = parameters[name].grad
            found[f"gradient {name}"] = np.zeros(parameters[name].shape, np.float32) if gradient is None else gradient.float().numpy().copy()
            parameters[name].grad = None
        held = dict(self.module.named_buffers())
        found.update((f"buffer {name}", held[name].double().numpy().copy()) for name in self.buffers)
        return found


@contextlib.contextmanager
def _as_it_was(module: Any) -> "Any":
    """The module without dropout; its buffers, modes and gradients, and the random numbers to come, are as before afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]), training_without_dropout(module), torch.enable_grad():
        yield


def _gradient(model: Model, before: "dict[str, np.ndarray]", held: str, kind: str, settings: "dict[str, str]") -> np.ndarray:
    """What the step's optimizer has seen, off the state that it left. A parameter that no gradient reaches has no such state."""
    decay = float(settings.get("weight-decay", "0")) * before[held]
    if kind == "sgd" and float(settings.get("momentum", "0")) == 0:
        return (before[held] - model.read(held)) / RATE - decay
    moment = f"{held}.momentum" if kind == "sgd" else f"{held}.exp_avg"
    if all(tensor.name != moment for tensor in model.state):
        return np.zeros_like(before[held])
    if kind == "sgd":
        return model.read(moment) - decay
    share = 1 - float(settings.get("beta2", "0.99") if kind == "lion" else settings.get("beta1", "0.9"))
    return model.read(moment) / np.float32(share) - (decay if kind == "adam" else 0)


class FirstStep:
    """The comparison of one compilation: `source` of _step.py, the library's model and how it was asked for."""

    def __init__(self, source: Any, module: Any, example_inputs: Any, loss: Any, model: Model, plan: Any, tolerance: float = 1e-3) -> None:
        self.source, self.module, self.example, self.loss = source, module, example_inputs, loss
        self.model, self.plan, self.report = model, plan, CheckReport(tolerance)
        self.words: "list[str]" = []  #: what the line says beside the numbers
        if source.axes:
            self.example = self._in_a_shape()

    def _in_a_shape(self) -> Any:
        """The example in the smallest shape that holds it: with rows repeated, and zeros behind each, which PyTorch gets as well."""
        import torch

        from ._torch_export import example_arguments, length_of, map_tensors

        for axis, sizes in self.source.axes.items():
            if axis == "batch":
                self.example = _rows(self.example, 0, next((size for size in sizes if size >= self._part()), sizes[-1]))
                continue
            length = length_of(self.example)
            size = next((size for size in sizes if size >= length), None)
            if size is None:
                raise NotCompared(f"the example is longer than the largest shape, {axis}={sizes[-1]}")

            def fitted(tensor: Any, length: int = length, size: int = size) -> Any:
                if tensor.dim() < 2 or tensor.shape[1] != length:
                    return tensor
                missing = torch.zeros((tensor.shape[0], size - length, *tensor.shape[2:]), dtype=tensor.dtype)
                return torch.cat([tensor, missing], 1)

            arguments, named = example_arguments(self.example)
            self.example = map_tensors(named or arguments, fitted, lambda other: other)
        return self.example

    def _shape_flags(self) -> "list[str]":
        """--shapes of the example alone."""
        from ._torch_export import batches_of, example_arguments, length_of

        sizes = {axis: batches_of(*example_arguments(self.example))[0] if axis == "batch" else length_of(self.example) for axis in self.source.axes}
        return [f"--shapes={axis}:{size}" for axis, size in sizes.items()]

    def _reason_for_a_copy(self) -> Optional[str]:
        flags = [_name(flag) for flag in self.source.flags[1:]]
        kind, _ = _optimizer(self.source.flags)
        if kind not in ("sgd", "adam", "adamw", "lion"):
            return f"of SGD, whose gradients can be read ({kind}'s cannot)"
        if any(flag in _LEFT_OUT and flag != "--optimizer" for flag in flags):
            return "in float32, without what changes gradients"
        return "without dropout" if _draws(self.source.path) else None

    def _refuse_unknown(self) -> None:
        if any(tensor.device.type != "cpu" for tensor in (*self.module.parameters(), *self.module.buffers())):
            raise NotCompared("the module does not lie in the processor's memory")
        unknown = [flag for flag in self.source.flags[1:] if _name(flag) not in (*_HARMLESS, *_LEFT_OUT, "--freeze")]
        if unknown:
            raise NotCompared(f"{unknown[0]} changes what is computed, and the module does not know of it")

    def _samples(self) -> "tuple[int, bool]":
        """How many samples PyTorch has the memory for, of a part of the step; whether they are fewer."""
        part = self._part()
        needed, free = EAGER * self.plan.without_recompute_bytes, 0.8 * available_bytes()
        if needed <= free:
            return part, False
        state = 2 * sum(self.plan.breakdown.get(kind, 0) for kind in ("parameters", "frozen", "statistics"))
        fewer = int(part * (free - state) / ((1 + EAGER) * max(self.plan.without_recompute_bytes - state, 1)))
        if not _has_open_batch(self.source.path) or fewer < min(2, part):
            raise NotCompared(f"PyTorch would take about {needed / 2**30:.1f} GiB for it, {free / 2**30:.1f} are free")
        return fewer, True

    def _part(self) -> int:
        from ._torch_export import tensors_by_name

        if self.source.batch is not None:
            return self.source.batch // self.plan.json.get("batches_per_step", 1)
        return next((tensor.shape[0] for tensor in tensors_by_name(self.module, self.example).values() if tensor.dim()), 1)

    def run(self) -> CheckReport:
        """Compares; raises NotCompared where there is nothing to compare with."""
        self._refuse_unknown()
        samples, fewer = self._samples()
        reason = self._reason_for_a_copy()
        if fewer:
            reason = f"at {samples} samples, PyTorch's memory for more is not there" + (f"; {reason}" if reason else "")
        if reason is None:
            try:
                rate = self.model.learning_rate
                self.model.learning_rate = RATE
                self._compare(self.model, samples, self.plan.json.get("batches_per_step", 1), *_optimizer(self.source.flags))
            finally:
                self.model.reset(self.source.seed)
                self.model.learning_rate = rate
            return self.report
        self.words.append(reason)
        library = str(self.source.folder / "libcopy.so")
        flags = [flag for flag in self.source.flags if _name(flag) not in (*_LEFT_OUT, *_PLANNING)]
        flags += self._shape_flags()
        batch = [f"--batch={samples}"] if self.source.batch is not None else []
        _tool.run(["compile", self.source.path, "--emit=shared", "-o", library, *flags, *batch, f"--optimizer=sgd:lr={RATE}", "--no-dropout",
                   "--recompute=none"], self.source.binary)  # fmt: skip
        copy = Model(Library(library))
        try:
            self._compare(copy, samples, 1, "sgd", {})
        finally:
            copy.close()
            os.remove(library)
        return self.report

    def _loss_and_place(self) -> "tuple[Any, int, str]":
        text = self.source.flags[0].partition("=")[2]
        outputs, first, _ = _float_output(self.source.path)
        named = next((flag.partition("=")[2] for flag in self.source.flags if flag.startswith("--loss-output=")), first)
        output = _losses.output_name(text) or named
        if output not in outputs:
            raise NotCompared(f"the file has no output {output}")
        if re.search(r"weight=[^\[,0-9]", text):
            raise NotCompared("the loss reads weights from a file")
        left_out = (text.split(":")[0], _final_activation(self.source.path, output)) in (("cross-entropy", "Softmax"), ("bce-with-logits", "Sigmoid"))
        if left_out:
            raise NotCompared("the loss leaves out the activation that ends the module")
        return (_losses.torch_loss(text) if isinstance(self.loss, str) else self.loss), outputs.index(output), text

    def _compare(self, model: Model, samples: int, parts: int, kind: str, settings: "dict[str, str]") -> None:
        import torch

        from ._torch_export import tensors_by_name

        report, module = self.report, self.module
        names = _check_parameters(report, module, model, self.source.path, self.source.frozen)
        loss, position, text = self._loss_and_place()
        held = {tensor.name for tensor in model.state if tensor.kind == "statistic"}
        buffers = [name for name, tensor in module.named_buffers() if name in held and tensor.is_floating_point()]
        inputs = [self.example] if self.source.batch is None else [_rows(self.example, part * samples, samples) for part in range(parts)]
        with _as_it_was(module):
            kept = {name: tensor.clone() for name, tensor in module.named_buffers()}
            targets = self._targets(model, text, inputs, position)
            restore_buffers(module, kept)
            eager = _Eager(module, inputs, position, loss, targets, list(names), buffers, "reduction=sum" in text)
            expected = eager.run()
            self._refuse_lost_writes(kept, held)

            def moved(context: Any, factor: float) -> "dict[str, float]":
                restore_buffers(module, kept)
                with context:
                    other = eager.run()
                return {name: factor * _largest(other[name] - value) for name, value in expected.items()}

            tensors = [tensors_by_name(module, given) for given in inputs]
            given = {name: torch.cat([part[name] for part in tensors]) if parts > 1 else tensors[0][name] for name in tensors[0]}
            if targets[0] is not None:
                given[next(tensor.name for tensor in model.step_inputs if tensor.name not in given)] = torch.cat(targets) if parts > 1 else targets[0]
            before = {tensor: model.read(tensor) for tensor in names.values()}
            found = {"loss": np.array(model.step([given[tensor.name] for tensor in model.step_inputs]))}
            found.update((f"gradient {name}", _gradient(model, before, tensor, kind, settings)) for name, tensor in names.items())
            found.update((f"buffer {name}", model.read(name).astype(np.float64)) for name in buffers)
            largest = max((_largest(value) for name, value in expected.items() if name.startswith("gradient ")), default=0.0)
            scales = {name: max(_largest(value), SMALL * largest if name.startswith("gradient ") else 0.0) or 1.0 for name, value in expected.items()}
            moves = dict.fromkeys(expected, 0.0)
            # PyTorch's own movement is measured where it is asked for. compare() allows ten times a move; of what is near a kink all has
            # moved, so that twice is enough.
            for context, factor in ((lambda: _disturbed(module, list(names)), 1.0), *((lambda sign=sign: _moved_at_kinks(sign), 0.2) for sign in (0, 1, -1))):
                if all(_largest(found[name] - value) <= max(report.tolerance * scales[name], 10 * moves[name]) for name, value in expected.items()):
                    break
                other = moved(context(), factor)
                moves = {name: max(moves[name], other[name]) for name in moves}
        for name, value in expected.items():
            report.compare(name, found[name], value, scales[name], moves[name])

    def _refuse_lost_writes(self, before: "dict[str, Any]", held: "set[str]") -> None:
        """A buffer that PyTorch's step has written is state of the step, under this or another name."""
        import torch

        from ._torch_export import ExportError

        first = self.source.aliases
        known = {first.get(name, name) for name in held}
        lost = [name for name, tensor in self.module.named_buffers()
                if first.get(name, name) not in known and name.split(".")[-1] != "num_batches_tracked"
                and not torch.equal(tensor, before[name])]  # fmt: skip
        if lost:
            raise ExportError(f"forward writes the buffers {', '.join(lost)}, and PyTorch's exporter has lost what it writes; expected values that "
                              "forward writes in place, as in buffer.copy_(value)")  # fmt: skip

    def _targets(self, model: Model, text: str, inputs: "list[Any]", position: int) -> "list[Any]":
        """A target for each part; None where the loss has none. The forward is asked for twice where it may be random."""
        import torch

        generator = torch.Generator().manual_seed(0)
        info = next((tensor for tensor in model.step_inputs if tensor.kind == "target"), None)
        draws = _draws(self.source.path)
        if info is None and not draws:
            return [None] * len(inputs)
        targets = []
        for given in inputs:
            if draws:
                output, is_random = forward_twice(self.module, given, position)
                if is_random:
                    raise NotCompared("the module draws random numbers in forward that are no dropout")
            else:
                with torch.no_grad():
                    output = _forward(self.module, given)[position]
            shape = None if info is None else (info.shape[0] // len(inputs), *info.shape[1:])
            targets.append(None if info is None else _losses.draw_target(text, shape, output, generator))
        return targets


def compare_first_step(source: Any, module: Any, example_inputs: Any, loss: Any, model: Model, plan: Any) -> Optional[CheckReport]:
    """Compares and says so in one line; raises ExportError where the step is not the module's."""
    from ._torch_export import ExportError

    began, first = time.monotonic(), FirstStep(source, module, example_inputs, loss, model, plan)
    try:
        report = first.run()
    except NotCompared as reason:
        print(f"stowage: the first step is not compared with PyTorch's: {reason}", file=sys.stderr)
        return None
    if not report.ok:
        raise ExportError(f"the first step is not the module's (check=False leaves the comparison out):\n{report}")
    counts = [sum(name.startswith(kind) for name in report.errors) for kind in ("gradient ", "buffer ")]
    worst = max((error for name, error in report.errors.items() if name not in report.sensitive), default=0.0)
    said = f", {len(report.sensitive)} more by no more than PyTorch's own move" if report.sensitive else ""
    how = f"; {'; '.join(first.words)}" if first.words else ""
    print(f"stowage: the first step is PyTorch's: loss, {counts[0]} gradients and {counts[1]} buffers differ by at most {worst:.1e}"
          f"{said} ({time.monotonic() - began:.1f} s{how})", file=sys.stderr)  # fmt: skip
    return report
