"""A compiled training step as a function."""

import json
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from . import _specs, _tool
from ._batches import OtherSizes, rows_of
from ._configurations import configured, is_configuration, weights_of
from ._launch import are_gpus, device_flags, norm_flags, speaks
from ._library import Library, Model, StowageError, TensorInfo
from ._plan import Plan
from ._quiet import uncollected


def _is_module(model: Any) -> bool:
    return hasattr(model, "state_dict") and hasattr(model, "named_parameters")


def _precision_of(module: Any, flags: "list[str]") -> "list[str]":
    """--precision for a module whose parameters are in 16 bits, where no flag says it."""
    from ._weightless import stored_precision

    half = stored_precision(module)
    if half is None or any(flag.startswith("--precision=") for flag in flags):
        return []
    warnings.warn(f"the module's parameters are in {half}: planned with precision=\"{half}\", which keeps what is trained and the optimizer in float32",
                  _tool.StowageWarning, stacklevel=_tool.caller_level())  # fmt: skip
    return [f"--precision={half}"]


class _Source:
    """The model file and the flags that every command about it shares. Owns the folder of what it wrote itself."""

    def __init__(self, model: Any, example_inputs: Any, loss: Any, optimizer: Any, batch: Optional[int],
                 threads: Optional[int], target_cpu: Optional[str], flags: Sequence[str], options: Mapping[str, Any], binary: Any,
                 dynamic_batch: bool, seed: int = 0, shapes: Any = None) -> None:  # fmt: skip
        self.binary, self.seed = binary, seed
        self.folder = Path(tempfile.mkdtemp(prefix="stowage-"))
        self.module_state: "dict[str, Any]" = {}
        self.frozen: "frozenset[str]" = frozenset()  # parameters that a given optimizer of PyTorch does not hold
        self.counters: "set[str]" = set()  # of batches, which batch normalizations in training mode keep
        self.aliases: "dict[str, str]" = {}
        self.weights: Optional[str] = None  # where the first values come from, if not from the module
        self.adapters: Any = None  # AdapterFiles of a module of PEFT's
        module = model if _is_module(model) else None
        self.loss = "cross-entropy" if loss is None else loss
        self.flags = [f"--loss={_specs.loss_flag(self.loss)}", *_specs.optimizer_flags(optimizer, module)]
        if threads is not None:
            self.flags.append(f"--threads={threads}")
        if target_cpu is not None:
            self.flags.append(f"--target-cpu={target_cpu}")
        self.flags += [*flags, *_specs.option_flags(options)]
        self.axes = _specs.shape_axes(shapes)
        self.flags += [f"--shapes={name}:{','.join(str(size) for size in sizes)}" for name, sizes in self.axes.items()]
        if module is not None:
            self.flags += _precision_of(module, self.flags)
        self.batch = batch
        if not _is_module(model):
            self.path = os.fspath(model)
            return
        from ._check import computes_loss, frozen_flags
        from ._torch_export import batch_of, example_arguments, export

        if example_inputs is None:
            raise ValueError("a module needs example_inputs: a tensor, a tuple of forward's arguments or a mapping by name")
        lengths = [name for name in self.axes if name != "batch"]
        if len(lengths) > 1 or (self.axes and not dynamic_batch):
            raise ValueError(f"shapes={shapes!r}: of a module, the batch (dimension 0) and one more axis can stay open, dimension 1 of the "
                             "example's tensors; further ones take an ONNX file")  # fmt: skip
        if batch is None and dynamic_batch and "batch" not in self.axes:
            self.batch = batch_of(*example_arguments(example_inputs))
        self.path = str(self.folder / f"{type(model).__name__}.onnx")
        export(model, example_inputs, self.path, dynamic_batch=dynamic_batch, dynamic_length=lengths[0] if lengths else None, check=False,
               binary=binary)  # fmt: skip
        if loss is None and computes_loss(self.path):
            self.loss = "output:loss"
            self.flags[0] = f"--loss={self.loss}"
        self.flags += frozen_flags(model, self.path, optimizer)
        self.frozen = frozenset(dict(model.named_parameters(remove_duplicate=False))) - _specs.trained_names(optimizer, model)
        self._remember(model)

    def _remember(self, module: Any) -> None:
        """The module's own names: which are the same tensor, and what the library will not hold."""
        first: "dict[Any, str]" = {}
        for name, tensor in module.state_dict(keep_vars=True).items():
            self.aliases[name] = first.setdefault(id(tensor), name)
        self.module_state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        import torch

        from ._adapters import adapter_files

        self.adapters = adapter_files(module)

        norms = torch.nn.modules.batchnorm._BatchNorm  # instance normalizations have the buffer and never count
        self.counters = {f"{path}.num_batches_tracked".lstrip(".") for path, part in module.named_modules()
                         if isinstance(part, norms) and (part.training or not module.training)}  # fmt: skip

    def other_names(self) -> "list[tuple[str, str]]":
        """Pairs of names of one tensor."""
        groups: "dict[str, list[str]]" = {}
        for name, first in self.aliases.items():
            groups.setdefault(first, []).append(name)
        return [(name, other) for names in groups.values() for name in names for other in names if name != other]

    def arguments(self, with_batch: bool = True) -> "list[str]":
        batch = [f"--batch={self.batch}"] if with_batch and self.batch is not None else []
        return [self.path, *self.flags, *batch]

    def __del__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_one_sample(example_inputs: Any) -> bool:
    """Whether the example is a batch of one: no plan of it asks for another, and a file of its sizes takes a third less time to export."""
    from ._torch_export import batches_of, example_arguments

    return batches_of(*example_arguments(example_inputs)) == [1]


def _accumulate_flag(accumulate: Any) -> "list[str]":
    return [] if accumulate == 1 else [f"--accumulate={accumulate}"]


def _budget_flag(memory_budget: Any) -> "list[str]":
    return [] if memory_budget is None else [f"--memory-budget={memory_budget}"]


def compile(model: Any, example_inputs: Any = None, *, loss: Any = None, optimizer: Any = "sgd",
            memory_budget: Any = None, batch: Optional[int] = None, accumulate: Any = 1, shapes: Any = None,
            devices: Any = 1, timeout: int = 0, threads: Optional[int] = None, target_cpu: Optional[str] = None, seed: int = 0, output: Any = None,
            flags: Sequence[str] = (), check: bool = True,
            dynamic_batch: bool = True, binary: Any = None, weights: Any = None, method: Any = None, **options: Any) -> "Step":  # fmt: skip
    """Compiles a training step: a torch.nn.Module with example inputs, or the path of a .onnx or .mlir file, or a folder of Transformers with a
    configuration and weights, with (batch, tokens) as example.

    `loss` and `optimizer` are strings of the command line ("cross-entropy:ignore-index=-1", "adamw:lr=1e-3") or PyTorch's
    objects; of an optimizer also the class, with its defaults. Without `loss`, it is the module's own where its output `loss` is a number,
    as with the labels that modules of Transformers take, and cross-entropy otherwise. `memory_budget` is "2GiB", a number of bytes or "70%". `batch` defaults
    to that of the example, or of the file.
    `accumulate` runs a step as so many batches of batch / accumulate samples whose gradients are added up; "auto": as many
    as take the least time within the budget.
    `shapes` are sizes that a batch may have, {"sequence": [128, 256, 512]}: dimension 1 of the example's tensors, or "batch", dimension 0. Each
    has a graph of its own, all share state and arena, and a batch runs in the smallest that holds it, padded with zeros, and with labels
    that do not count; all sizes of several axes are combined.
    `devices` is the number of processes that run a step together, each on a batch of its own: "env" is that of the launch by mpirun or srun, on
    GPUs also by torchrun, that this process is part of, 1 without one. A process that waits longer than `timeout` seconds for another (0: 600; negative: without end)
    raises StowageError with that one's name. Every process compiles the step; weights start as on rank 0. The loss is that of all.
    `target_cpu` is the least processor that the step is to run on, with the same bits on all: "x86-64-v3" (AVX2), "x86-64-v4"
    (AVX-512), ...; without it, this one. `options` are the other flags of `stowage compile` by name: precision="bf16",
    loss_output="logits", no_dropout=True; `flags` are such flags as they are written there. `output` keeps the library there. Of a
    module, the first step's loss, gradients and buffers are compared with PyTorch's own, one line says how that went, and the step
    starts anew; check=False leaves it out. dynamic_batch=False exports a module at the example's sizes, of which none need be a batch (a graph's
    nodes and edges). `weights` is where parameters without values have their first ones from: a safetensors file, or a folder of them, read
    into the arena a piece at a time; of a folder with a configuration it is that folder. `method` as `plan` has it. Raises InfeasibleBudget where the budget cannot be kept, CompileError where the compiler refuses
    the model, ExportError where PyTorch does, or where the step is not the module's.
    """
    weights = os.fspath(weights) if weights is not None else weights_of(model)
    if is_configuration(model) and weights is None:
        raise StowageError("a configuration has no values to train from; expected weights=FOLDER, or the folder that has both")
    model, example_inputs, options = configured(model, example_inputs, method, options, trains=True)
    if _is_module(model):
        _require_values(model, weights)
        check = check and weights is None
    source = _Source(model, example_inputs, loss, optimizer, batch, threads, target_cpu, flags, options, binary, dynamic_batch, seed, shapes)
    gpus = are_gpus(source.flags)
    shared = device_flags(devices, gpus)
    synchronized = norm_flags(model) if shared and _is_module(model) else []
    checked = check and _is_module(model)
    report = _checked_alone(source, model, example_inputs, seed, accumulate, memory_budget) if shared and checked and speaks(devices, gpus) else None
    source.flags += shared + synchronized
    library = str(source.folder / "libmodel.so") if output is None else os.fspath(output)
    arguments = [*source.arguments(), *_accumulate_flag(accumulate), *_budget_flag(memory_budget)]
    _tool.run(["compile", *arguments, "--emit=shared", "-o", library], binary)
    source.weights = weights
    step = Step(Library(library), seed=seed, source=source, memory_budget=memory_budget, timeout=timeout if shared else 0)
    step.check = _compared(source, model, example_inputs, step.model, step.plan) if checked and not shared else report
    return step


def _compared(source: _Source, module: Any, example_inputs: Any, model: Model, plan: Plan) -> Any:
    """How the first step differs from the module's own."""
    from ._first_step import compare_first_step
    from ._torch_export import map_tensors
    from ._weightless import in_float32, widened

    with widened(module):
        return compare_first_step(source, module, map_tensors(example_inputs, in_float32, in_float32), source.loss, model, plan)


def _checked_alone(source: _Source, module: Any, example_inputs: Any, seed: int, accumulate: Any, memory_budget: Any) -> Any:
    """The same of a step for several devices, whose loss is that of all: by rank 0 alone, of the step on one device."""
    path = str(source.folder / "libalone.so")
    flags = [flag for flag in source.flags if not flag.startswith(("--shard-state=", "--network=", "--sync-batch-norm"))]
    arguments = [source.path, *flags, *source.arguments()[1 + len(source.flags) :], *_accumulate_flag(accumulate), *_budget_flag(memory_budget)]
    _tool.run(["compile", *arguments, "--emit=shared", "-o", path], source.binary)
    library = Library(path)
    model = Model(library, seed=seed, weights=source.weights, aliases=source.other_names())
    try:
        return _compared(source, module, example_inputs, model, Plan(library.plan_json()))
    finally:
        model.close()


def _require_values(module: Any, weights: Optional[str]) -> None:
    from ._weightless import has_no_values, lacks_weights

    if weights is None and lacks_weights(module):
        raise StowageError("the module has no values to train from (it is on the meta device, or made of fake tensors); stowage.plan, "
                           "max_batch and frontier need none; for a step, expected weights=FOLDER with its safetensors, or a module with its "
                           "weights")  # fmt: skip
    if weights is not None and not any(has_no_values(parameter) for parameter in module.parameters()):
        raise StowageError(f"weights={weights!r} are for a module without values, and all parameters of this one have theirs; leave weights out, or "
                           "make the module inside torch.device(\"meta\")")  # fmt: skip
    # Of a buffer that no file holds, a table or a mask, nobody else knows the values.
    kept = module.state_dict(keep_vars=True)
    lost = [name for name, buffer in module.named_buffers() if has_no_values(buffer) and name not in kept]
    if weights is not None and lost:
        raise StowageError(f"the buffers {', '.join(lost[:3])} have no values, and no file of weights holds them, as the module does not save them; "
                           "expected a module whose parameters alone are without values: of a configuration of Transformers, give its folder")  # fmt: skip


def plan(model: Any, example_inputs: Any = None, *, loss: Any = None, optimizer: Any = "sgd",
         memory_budget: Any = None, batch: Optional[int] = None, accumulate: Any = 1, shapes: Any = None, threads: Optional[int] = None,
         target_cpu: Optional[str] = None, flags: Sequence[str] = (), dynamic_batch: bool = True, binary: Any = None, method: Any = None,
         **options: Any) -> Plan:  # fmt: skip
    """The plan of a step, without code: will it fit? Arguments as for `compile`, and the module may be without weights: on PyTorch's
    meta device, or of fake tensors; or a configuration of Transformers, or its file, with (batch, tokens) as example, and with adapters by
    method="lora" or "qlora". `options` are the other flags of `stowage plan` by name: target="cuda:h100", precision="bf16",
    card="24GiB". `plan.verdict` says whether the step fits the card; with fit=True it is DoesNotFit where it does not."""
    with uncollected():
        model, example_inputs, options = configured(model, example_inputs, method, options)
        asks_batch = batch is not None or shapes is not None or accumulate != 1 or any(flag.startswith(("--batch", "--accumulate")) for flag in flags)
        if dynamic_batch and not asks_batch and _is_module(model):
            dynamic_batch = not _is_one_sample(example_inputs)
        source = _Source(model, example_inputs, loss, optimizer, batch, threads, target_cpu, flags, options, binary, dynamic_batch, shapes=shapes)
    flags = [*_accumulate_flag(accumulate), *_budget_flag(memory_budget), "--format=json"]
    return Plan(_tool.run(["plan", *source.arguments(), *flags], binary))


def frontier(model: Any, example_inputs: Any = None, *, loss: Any = None, optimizer: Any = "sgd", batch: Optional[int] = None,
             threads: Optional[int] = None, target_cpu: Optional[str] = None, flags: Sequence[str] = (), dynamic_batch: bool = True,
             binary: Any = None, method: Any = None, **options: Any) -> "list[dict[str, Any]]":  # fmt: skip
    """Time against memory, as `Step.frontier` has it, of what `plan` takes. Of a list of numbers, devices=[1, 2, 4], records have `devices`
    and `shard_state` as well."""
    model, example_inputs, options = configured(model, example_inputs, method, options)
    return _frontier(_Source(model, example_inputs, loss, optimizer, batch, threads, target_cpu, flags, options, binary, dynamic_batch))


def max_batch(model: Any, example_inputs: Any = None, *, memory_budget: Any = None, loss: Any = None, optimizer: Any = "sgd",
              threads: Optional[int] = None, target_cpu: Optional[str] = None, flags: Sequence[str] = (), binary: Any = None,
              method: Any = None, **options: Any) -> "int | list[dict[str, Any]]":  # fmt: skip
    """The largest batch whose step fits the budget, of what `plan` takes; without a budget, the card of `target` or `card`. Of a list of
    numbers, devices=[1, 2, 4], a record for each of them and for what lies in shards there (shard_state; "auto": each kind), with `batch`
    of a device and `batch_of_all`: 0 where not even one sample fits."""
    compares = isinstance(options.get("devices"), (list, tuple))
    model, example_inputs, options = configured(model, example_inputs, method, options)
    source = _Source(model, example_inputs, loss, optimizer, None, threads, target_cpu, flags, options, binary, dynamic_batch=True)
    if compares:
        flags = [*source.arguments(with_batch=False), *_budget_flag(memory_budget), "--format=json"]
        records: "list[dict[str, Any]]" = json.loads(_tool.run(["max-batch", *flags], binary))
        return records
    return _max_batch(source, memory_budget)


def _frontier(source: _Source) -> "list[dict[str, Any]]":
    lines = _tool.run(["frontier", *source.arguments(), "--format=csv"], source.binary).splitlines()
    keys = lines[0].split(",")
    records = []
    for line in lines[1:]:
        record: "dict[str, Any]" = dict(zip(keys, line.split(",")))
        for key in keys:
            if key not in ("method", "shard_state"):
                record[key] = float(record[key]) if key == "extra_time_percent" else int(record[key])
        records.append(record)
    return records


def _max_batch(source: _Source, budget: Any) -> int:
    text = _tool.run(["max-batch", *source.arguments(with_batch=False), *_budget_flag(budget)], source.binary)
    found = re.search(r"^largest batch: (\d+)$", text, re.M)
    if not found:
        raise StowageError(f"stowage max-batch printed no batch: {text}")
    return int(found[1])


def load(path: Any, seed: int = 0, threads: int = 0, offload: Any = None, gpu: int = 0, timeout: int = 0) -> "Step":
    """A library that `compile(..., output=path)` or `stowage compile --emit=shared` has written. What travels to slow memory is kept in
    the folder `offload`, or in that of the compilation. A step for GPUs runs on number `gpu` of its driver's order. `timeout` as of
    `compile`."""
    return Step(Library(path), seed=seed, threads=threads, offload=offload, gpu=gpu, timeout=timeout)


class Step:
    """A training step inside one arena: call it with a batch, get the loss.

    Its state starts at the module's (or the file's) values. Inputs are copied into the arena once.
    """

    def __init__(self, library: Library, *, seed: int = 0, threads: int = 0, source: Optional[_Source] = None,
                 memory_budget: Any = None, offload: Any = None, gpu: int = 0, timeout: int = 0) -> None:  # fmt: skip
        self.library = library
        weights, aliases = (source.weights, source.other_names()) if source is not None else (None, ())
        self.model = Model(library, seed=seed, threads=threads, weights=weights, aliases=aliases, offload=offload, gpu=gpu, timeout=timeout)
        self.plan = Plan(library.plan_json())
        self.batch = library.batch
        self.devices, self.rank = library.device_count, self.model.rank  #: that train together, and which of them this process is
        # Evaluation runs on the batches that a step is made of.
        self.eval_batch = next((info.shape[0] for info in self.model.eval_inputs if info.shape), self.batch)
        self._source = source
        self._memory_budget = memory_budget
        self._sizes = OtherSizes(self.model, self.batch, self.plan.json.get("batches_per_step", 1), source)
        parts = self.plan.json.get("batches_per_step", 1)
        self._batches = {shape["extents"].get("batch", self.batch) for shape in self.plan.shapes} or {self.batch}  # that shapes have
        self._fills = library.fills_batches and parts == 1
        self.check: Any = None  #: how the first step differs from the module's own, a CheckReport, where it was compared

    def __enter__(self) -> "Step":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        inputs = ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in self.model.step_inputs)
        return f"<stowage.Step of {self.library.model} ({inputs}), arena {self.plan.arena_bytes} bytes>"

    def _ordered(self, inputs: "list[TensorInfo]", batch: Sequence[Any], named: Mapping[str, Any]) -> "list[Any]":
        """The arrays in the order of `inputs`, from positional ones, one tuple, one mapping, or by name."""
        if len(batch) == 1 and not named and isinstance(batch[0], Mapping):
            batch, named = (), batch[0]
        elif len(batch) == 1 and not named and isinstance(batch[0], (tuple, list)):
            # One input may also be a list of numbers; a loader's batch holds arrays.
            if len(inputs) > 1 or all(hasattr(value, "shape") for value in batch[0]):
                batch = batch[0]
        names = [tensor.name for tensor in inputs]
        unknown = [name for name in named if name not in names]
        rest = [name for name in names if name not in named]
        if unknown or len(batch) != len(rest):
            found = f"{len(batch)} arrays by position" + (f" and {', '.join(named)} by name" if named else "")
            raise StowageError(f"expected {', '.join(names)}, found {found}")
        given = {**named, **dict(zip(rest, batch))}
        return [given[name] for name in names]

    def __call__(self, *batch: Any, **named: Any) -> float:
        """Trains on a batch and returns its loss: step(images, labels), step((images, labels)) or by the names of
        `step.model.step_inputs`. A batch of fewer samples, as the last one of an epoch, is a step of that size: the first of it compiles the
        model for it, and every one moves the state to another arena and back, so that there is one at a time."""
        return self._train(self._batch(batch, named))

    def _batch(self, batch: Sequence[Any], named: Mapping[str, Any]) -> "list[Any]":
        values = self._ordered(self.model.step_inputs, batch, named)
        return [value if hasattr(value, "shape") else np.asarray(value) for value in values]

    def _rows_of(self, batch: Any) -> "Optional[int]":
        return rows_of(self.model.step_inputs, self.batch, self._batch((batch,), {}))

    def _train(self, values: "list[Any]") -> float:
        rows = rows_of(self.model.step_inputs, self.batch, values)
        if rows is None or rows in self._batches or self._fills or not 0 < rows < self.batch:
            return self.model.step(values)
        if self.devices > 1:
            raise StowageError(f"expected {self.batch} samples, found {rows}; a step of several devices has one size: leave out the last batch of an "
                               "epoch (drop_last=True)")  # fmt: skip
        with self._sizes.model(rows) as model:
            return model.step(values)

    def evaluate(self, loader: Any, metrics: "Optional[Mapping[str, Any]]" = None) -> "dict[str, float]":
        """Loss, and accuracy where the loss has classes, over a loader's batches of any size, which hold what a step takes: computed from the
        outputs as the executable does, with running statistics and without dropout. `metrics` are further ones by name: functions of
        outputs and targets whose means over the samples are told, or objects with update(outputs, targets) and compute(), as torchmetrics
        has them; where the module computes its loss itself, they get the batch by name in place of targets."""
        from ._fit import evaluate

        return evaluate(self, loader, metrics)

    def fit(self, loader: Any, epochs: int = 1, *, schedule: Any = None, schedule_interval: str = "step", validation: Any = None,
            metrics: "Optional[Mapping[str, Any]]" = None, callbacks: Sequence[Any] = (), checkpoint: Any = None,
            save_every: Optional[int] = None, resume: bool = False, tensorboard: Any = None, seed: Optional[int] = 0,
            quiet: bool = False) -> "list[dict[str, Any]]":  # fmt: skip
        """Trains for so many epochs of a loader, anything that gives batches as a step takes them and can be walked again; returns a record
        per epoch: epoch, step, loss (the mean over its samples), learning_rate, seconds, samples_per_second, validation_loss, ...

        `schedule` is a function of the steps done, which gives the next one's learning rate, or a scheduler of PyTorch, which is advanced
        after every step (schedule_interval="epoch": after every epoch). `validation` is a loader that `evaluate` walks after each epoch, with
        `metrics`. Of `callbacks`, the methods on_step(step, record) and on_epoch(step, record) are called, or the function itself after each
        epoch; one that returns True ends the run. `checkpoint` is a file that is replaced after each epoch, every `save_every` steps, and on
        Ctrl-C; resume=True goes on from it where it exists, in the middle of an epoch too, and gives the losses of a run that nobody
        interrupted: a loader of PyTorch draws in each epoch what follows from `seed` and the epoch (None: what it likes). `tensorboard` is a
        folder for event files. A loss that is not finite raises StowageError."""
        from ._fit import Fit, _Schedule

        run = Fit(self, loader, epochs, _Schedule(self, schedule, schedule_interval), validation, metrics, callbacks, checkpoint, save_every, seed,
                  quiet)  # fmt: skip
        return run.run(resume, tensorboard)

    def eval(self, *batch: Any, **named: Any) -> Any:
        """The model's output, or a tuple of them, with running statistics and without dropout. Any number of rows:
        they are evaluated in batches, the last one filled up. Torch tensors where the inputs are, NumPy arrays otherwise.
        """
        inputs = self._ordered(self.model.eval_inputs, batch, named)
        wants_torch = any(hasattr(value, "data_ptr") for value in inputs)
        inputs = [value if hasattr(value, "shape") else np.asarray(value) for value in inputs]
        if any(info.shape[:1] != (self.eval_batch,) for info in self.model.eval_inputs):
            return self._joined([self.model.eval(inputs)], wants_torch)  # of several sizes, none of which is a batch
        rows = {int(value.shape[0]) for value in inputs if len(value.shape) > 0}
        if len(rows) != 1 or rows == {0}:
            raise StowageError(f"expected inputs with one number of rows of at least 1, found {sorted(rows)}")
        count = rows.pop()
        parts: "list[list[np.ndarray]]" = []
        for first in range(0, count, self.eval_batch):
            outputs = self.model.eval([self._rows(value, first) for value in inputs])
            parts.append([self._valid(output, min(count - first, self.eval_batch)) for output in outputs])
        return self._joined(parts, wants_torch)

    def _joined(self, parts: "list[list[np.ndarray]]", wants_torch: bool) -> Any:
        joined = [part[0] if len(parts) == 1 else np.concatenate(part) for part in zip(*parts)]
        if wants_torch:
            joined = [self._tensor(array, info.dtype) for array, info in zip(joined, self.model.eval_outputs)]
        return joined[0] if len(joined) == 1 else tuple(joined)

    def _rows(self, value: Any, first: int) -> Any:
        part = value[first : first + self.eval_batch]
        missing = self.eval_batch - part.shape[0]
        if missing == 0:
            return part
        part = np.asarray(part)
        return np.concatenate([part, np.repeat(part[:1], missing, axis=0)])

    def _valid(self, output: np.ndarray, rows: int) -> np.ndarray:
        if rows == self.eval_batch:
            return output
        if output.ndim == 0 or output.shape[0] % self.eval_batch != 0:
            raise StowageError(f"an output of shape {output.shape} has no rows of the batch; evaluate multiples of "
                               f"{self.eval_batch} rows")  # fmt: skip
        return output[: output.shape[0] // self.eval_batch * rows]

    @staticmethod
    def _tensor(array: np.ndarray, dtype: str) -> Any:
        import torch

        if dtype == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    @property
    def shape(self) -> "Optional[str]":
        """The shape in which the last step ran, "sequence=256"; None for a step of one shape."""
        return self.plan.shapes[self.model.step_shape]["name"] if self.plan.shapes else None

    def parameters(self) -> "list[TensorInfo]":
        """What is trained."""
        return [tensor for tensor in self.model.state if tensor.kind == "parameter"]

    def _own_names(self) -> "list[tuple[str, Optional[str]]]":
        """Pairs of a name of the module (or the file) and the state that holds it, if any; of a module without values, of what its step
        holds as it is: frozen weights may be rounded or quantized."""
        kinds = {tensor.name: tensor.kind for tensor in self.model.state if tensor.kind != "optimizer"}
        if self._source is None or not self._source.module_state:
            return [(tensor.name, tensor.name) for tensor in self.model.state if tensor.name in kinds and tensor.saved]
        from ._weightless import has_no_values

        names = []
        for name, first in self._source.aliases.items():
            same = [other for other, its in self._source.aliases.items() if its == first]
            held = next((other for other in same if other in kinds), None)
            if not has_no_values(self._source.module_state[name]) or (held is not None and kinds[held] != "frozen"):
                names.append((name, held))
        return names

    def state_dict(self) -> "dict[str, Any]":
        """Parameters and statistics under the module's own names: torch tensors for a module, NumPy arrays for a file.

        Entries that no computation of the step reads, and frozen ones, which may be stored in 16 bits, keep the module's values, and are left
        out where it has none (`weights=`); BatchNorm's num_batches_tracked counts on.
        """
        return {name: self._value(name, held) for name, held in self._own_names()}

    def _value(self, name: str, held: "Optional[str]") -> Any:
        """Of the entry `name` of state_dict(), which the state `held` holds, if any."""
        original = self._source.module_state.get(name) if self._source else None
        if held is None:
            return original + self._batches_done() if name in self._source.counters else original.clone()
        if original is None:
            return self.model.read(held)
        if (info := self.model.state[self.model.position(held)]).kind == "frozen":
            return original.clone()
        return self._tensor(self.model.read(held), info.dtype).to(original.dtype)

    def _batches_done(self) -> int:
        return self.model.step_count * self.plan.json.get("batches_per_step", 1)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over parameters and statistics by the names of `state_dict()`. Every one must be there."""
        names = self._own_names()
        missing = [name for name, held in names if held is not None and name not in state]
        known = {name for name, _ in names}
        unknown = [name for name in state if name not in known]
        if missing or unknown:
            text = [f"missing are {', '.join(missing)}"] if missing else []
            text += [f"unknown are {', '.join(unknown)}"] if unknown else []
            raise StowageError(f"the names differ from those of state_dict(): {'; '.join(text)}")
        for name, held in names:
            is_frozen = held is not None and self.model.state[self.model.position(held)].kind == "frozen"
            if held is not None:
                self.model.write(held, state[name])
            if (held is None or is_frozen) and self._source is not None and name in state:
                self._source.module_state[name] = state[name].detach().clone()

    @property
    def learning_rate(self) -> float:
        """Of the steps to come; set it before each step to follow a schedule."""
        return self.model.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.model.learning_rate = rate

    @property
    def step_count(self) -> int:
        """Steps done."""
        return self.model.step_count

    def save(self, path: Any) -> None:
        """Everything that the next step depends on, as safetensors; the executable of the model reads it, too."""
        self.model.save(path)

    def load(self, path: Any, parameters_only: bool = False) -> None:
        """What `save` or an executable's --save wrote; with parameters_only also weights of other tools."""
        self.model.load(path, parameters_only)

    def _adapter_files(self) -> Any:
        if self._source is None or self._source.adapters is None:
            raise StowageError("the step's module has no adapters of PEFT's; expected one of peft.get_peft_model, or a configuration with "
                               "method=\"lora\"; state_dict() has what others train")  # fmt: skip
        return self._source.adapters

    def save_adapter(self, folder: Any) -> None:
        """What is trained of a module of PEFT's, as PEFT saves it: adapter_model.safetensors and adapter_config.json in `folder`, which
        PeftModel.from_pretrained and `stowage.merge` read."""
        files, held = self._adapter_files(), dict(self._own_names())

        def read(name: str) -> np.ndarray:
            if held.get(name, name) is not None:
                return self.model.read(held.get(name, name))
            return self._value(name, None).numpy()

        files.save(folder, read, self._statistics(held))

    def _statistics(self, held: "Mapping[str, Optional[str]]") -> "list[str]":
        """Of the module's names what training writes beside parameters."""
        kinds = {tensor.name: tensor.kind for tensor in self.model.state}
        return [name for name, its in held.items() if its is not None and kinds[its] == "statistic"]

    def load_adapter(self, folder: Any) -> None:
        """What `save_adapter` or PEFT wrote of an adapter of the same settings. The optimizer's state stays as it is."""
        files, held = self._adapter_files(), dict(self._own_names())
        shapes = {tensor.name: tuple(tensor.shape) for tensor in self.model.state}
        shapes = {**{name: tuple(value.shape) for name, value in self._source.module_state.items()}, **shapes}

        def write(name: str, value: np.ndarray) -> None:
            if held.get(name, name) is not None:
                self.model.write(held.get(name, name), value)
                return
            import torch

            counted = self._batches_done() if name in self._source.counters else 0
            self._source.module_state[name] = torch.from_numpy(np.asarray(value - counted)).to(self._source.module_state[name].dtype)

        files.load(folder, shapes, write, self._statistics(held))

    def close(self) -> None:
        """Gives the arena back now."""
        self.model.close()

    def _about(self) -> _Source:
        if self._source is None:
            raise StowageError("a library that was loaded from a file has no model file to plan again; use the path of the "
                               "model with stowage.compile")  # fmt: skip
        return self._source

    def frontier(self) -> "list[dict[str, Any]]":
        """Time against memory: a record per budget with budget_bytes, arena_bytes, live_peak_bytes, time_ns, bound_ns,
        extra_time_percent and method. Plans only; this step stays as it is."""
        return _frontier(self._about())

    def max_batch(self, memory_budget: Any = None) -> int:
        """The largest batch whose step fits the budget in bytes (default: that of this step, or else its arena)."""
        source = self._about()
        budget = memory_budget if memory_budget is not None else self._memory_budget
        if budget is None or str(budget).endswith("%"):
            budget = self.plan.arena_bytes
        return _max_batch(source, budget)
