"""Training over epochs: a loader's batches, a schedule, an evaluation after each epoch, files to go on from."""

import contextlib
import math
import os
import sys
import time
from typing import Any, Iterator, Mapping, Optional, Sequence

from ._batches import rows_of
from ._launch import dealt
from ._library import Metrics, StowageError


def _measure(step: Any, values: "list[Any]") -> Metrics:
    """Of one batch of any size. A loss of the model's own is a mean over samples here, as every other."""
    inputs = step.model.step_inputs
    rows = rows_of(inputs, step.batch, values)
    found = step.model.measure(values)
    if not step.library.loss.startswith("output:"):
        return found
    parts = [(found.rows, found)]
    if rows is not None and found.rows < rows and step.devices == 1:  # ranks leave out what fills no batch
        last = [value[found.rows :] if info.shape[:1] == (step.batch,) and value.shape else value for info, value in zip(inputs, values)]
        with step._sizes.model(rows - found.rows) as model:
            parts.append((rows - found.rows, model.measure(last)))
    total = Metrics()
    for count, part in parts:
        if count:
            total += Metrics(count, part.targets, -1, part.loss_sum / part.weight_sum * count, count)
    return total


class _Measures:
    """The caller's own measures: functions of outputs and targets, whose means over the rows are told, or objects with update() and compute()."""

    def __init__(self, given: "Optional[Mapping[str, Any]]") -> None:
        self._given = dict(given or {})
        self._sums = dict.fromkeys(self._given, 0.0)
        self._rows = 0
        for measure in self._given.values():
            if hasattr(measure, "reset"):
                measure.reset()

    def __bool__(self) -> bool:
        return bool(self._given)

    def require_functions(self) -> None:
        """Objects see the batches of one rank alone."""
        for name, measure in self._given.items():
            if hasattr(measure, "update"):
                raise StowageError(f"metrics: {name!r} is an object with update(), which sees the batches of one of several devices; expected a function "
                                   "of outputs and targets, whose means are those of all")  # fmt: skip

    def share(self, gather: Any) -> None:
        """Makes the sums those of all ranks."""
        total = gather([self._rows, *self._sums.values()]).sum(axis=0)
        self._rows, self._sums = int(total[0]), dict(zip(self._sums, map(float, total[1:])))

    def add(self, step: Any, values: "list[Any]", rows: int) -> None:
        infos = step.model.step_inputs
        by_name = dict(zip((info.name for info in infos), values))
        outputs = step.eval({info.name: by_name[info.name] for info in step.model.eval_inputs})
        targets = [by_name[info.name] for info in infos if info.kind == "target"]
        for name, measure in self._given.items():
            arguments = (outputs, targets[0] if targets else by_name)
            if hasattr(measure, "update"):
                measure.update(*arguments)
            else:
                self._sums[name] += rows * float(measure(*arguments))
        self._rows += rows

    def results(self) -> "dict[str, float]":
        return {name: float(measure.compute()) if hasattr(measure, "compute") else self._sums[name] / max(self._rows, 1)
                for name, measure in self._given.items()}  # fmt: skip


def evaluate(step: Any, loader: Any, metrics: "Optional[Mapping[str, Any]]" = None) -> "dict[str, float]":
    """What `Step.evaluate` describes."""
    total, measures, batches = Metrics(), _Measures(metrics), 0
    if step.devices > 1:
        measures.require_functions()
        step.model.share_statistics()
    for batch in dealt(loader, step.rank, step.devices, step._rows_of, whole=False):
        values = step._batch((batch,), {})
        total += _measure(step, values)
        if measures:
            measures.add(step, values, rows_of(step.model.step_inputs, step.batch, values) or step.batch)
        batches += 1
    if step.devices > 1:
        known = step.model.gather([batches, total.rows, total.targets, total.correct, total.loss_sum, total.weight_sum])
        batches = int(known[:, 0].sum())
        rows, targets, correct = (int(known[known[:, 0] > 0, column].sum()) for column in (1, 2, 3))
        knows = bool((known[known[:, 0] > 0, 3] >= 0).all())
        total = Metrics(rows, targets, correct if knows else -1, float(known[:, 4].sum()), float(known[:, 5].sum()))
        measures.share(step.model.gather)
    if batches == 0:
        raise StowageError("expected at least one batch to evaluate, found none; a loader that can be walked once only is empty the second time")
    result = {"loss": total.loss_sum / total.weight_sum if total.weight_sum else 0.0}
    if total.correct >= 0 and total.targets > 0:
        result["accuracy"] = total.correct / total.targets
    return {**result, **measures.results()}


class _Schedule:
    """The learning rate by step: a function of the steps done, or a scheduler of PyTorch that is advanced after each step or epoch."""

    def __init__(self, step: Any, given: Any, interval: str) -> None:
        self._step, self._given, self._interval = step, given, interval
        self._is_scheduler = hasattr(given, "get_last_lr")
        if interval not in ("step", "epoch"):
            raise ValueError(f'schedule_interval: expected "step" or "epoch", found {interval!r}')
        if type(given).__name__ == "ReduceLROnPlateau":
            raise ValueError("schedule: ReduceLROnPlateau follows losses; expected a function of the steps done or another scheduler, or a "
                             "callback that sets step.learning_rate")  # fmt: skip
        if given is not None and not self._is_scheduler and not callable(given):
            raise ValueError(f"schedule: expected a function of the steps done or a scheduler of PyTorch, found {given!r}")

    def start(self, steps: int, epochs: int) -> None:
        """At the beginning of a run, or after so many steps and whole epochs of it."""
        if self._is_scheduler:
            for _ in range(self._count(steps, epochs)):
                self._advance()
        self._apply(steps, epochs)

    def _count(self, steps: int, epochs: int) -> int:
        return steps if self._interval == "step" else epochs

    def _advance(self) -> None:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its optimizer has made no step: it is this one that does
            self._given.step()

    def _apply(self, steps: int, epochs: int) -> None:
        if self._is_scheduler:
            self._step.learning_rate = float(self._given.get_last_lr()[0])
        elif self._given is not None:
            self._step.learning_rate = float(self._given(self._count(steps, epochs)))

    def passed(self, kind: str, steps: int, epochs: int) -> None:
        if kind == self._interval:
            if self._is_scheduler:
                self._advance()
            self._apply(steps, epochs)


@contextlib.contextmanager
def _order(loader: Any, seed: Optional[int], epoch: int) -> "Iterator[None]":
    """What a loader of PyTorch draws in this epoch follows from seed and epoch; other random numbers go on afterwards as before."""
    for sampler in (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
    torch = sys.modules.get("torch")
    if torch is None or seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + epoch)
        for owner in (loader, getattr(loader, "sampler", None)):
            if getattr(owner, "generator", None) is not None:
                owner.generator.manual_seed(seed + epoch)
        yield


class _Board:
    """An event file of TensorBoard, with the names that stowage.convert gives a log's, and those of evaluations."""

    def __init__(self, folder: Any, first_step: int) -> None:
        self._writer = None
        if folder is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise StowageError(f"tensorboard={os.fspath(folder)!r} needs the package tensorboard ({error}); pip install tensorboard") from None
        self._writer = SummaryWriter(os.fspath(folder), purge_step=first_step + 1 if first_step else None)

    def add(self, step: int, values: "dict[str, float]") -> None:
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class Fit:
    """One run of `Step.fit`."""

    def __init__(self, step: Any, loader: Any, epochs: int, schedule: _Schedule, validation: Any, metrics: Any, callbacks: "Sequence[Any]",
                 checkpoint: Any, save_every: Optional[int], seed: Optional[int], quiet: bool) -> None:  # fmt: skip
        self.step, self.loader, self.epochs, self.schedule = step, loader, epochs, schedule
        self.validation, self.metrics, self.callbacks = validation, metrics, callbacks
        self.checkpoint, self.save_every, self.seed, self.quiet = checkpoint, save_every, seed, quiet or step.rank > 0
        if step.devices > 1 and seed is None:
            raise StowageError("seed=None: loaders of several devices are to give the same batches on all of them; expected a number")
        self.own = dealt(loader, step.rank, step.devices, step._rows_of, whole=True)  # batches of this rank
        self.done = 0  #: steps of the run
        self.stop = False

    def place(self, resume: bool) -> "tuple[int, int]":
        """Whole epochs done and batches of the next one; loads the checkpoint where the run goes on from it."""
        found = resume and self.checkpoint is not None and os.path.exists(self.checkpoint)
        if self.checkpoint is not None and self.step.step_count and not found:
            raise StowageError(f"the step has done {self.step.step_count} steps, and a run with a checkpoint begins at 0, since the file's count of "
                               "steps is its place in the run; expected resume=True and that file, or a fresh step")  # fmt: skip
        if resume and self.checkpoint is None:
            raise ValueError("resume=True: expected checkpoint=PATH, the file to go on from")
        if not found:
            return 0, 0
        if not hasattr(self.own, "__len__") or len(self.own) == 0:
            raise StowageError("resume=True: expected a loader with a length, which says where in an epoch a step lies")
        self.step.load(self.checkpoint)
        self.done = self.step.step_count
        return divmod(self.done, len(self.own))

    def save(self) -> None:
        if self.checkpoint is not None:
            self.step.save(self.checkpoint)

    def _tell(self, name: str, record: "dict[str, Any]") -> None:
        for callback in self.callbacks:
            told = getattr(callback, name, None)
            if told is None and name == "on_epoch" and callable(callback) and not hasattr(callback, "on_step"):
                told = callback
            if told is not None and told(self.step, record) is True:
                self.stop = True
        if self.callbacks:  # all end behind one step
            self.stop = bool(self.step.model.gather([float(self.stop)]).any())

    def run_epoch(self, epoch: int, skip: int, board: _Board) -> "dict[str, Any]":
        began, losses, samples, rate = time.monotonic(), 0.0, 0, self.step.learning_rate
        with _order(self.loader, self.seed, epoch):
            for position, batch in enumerate(self.own):
                if position < skip:
                    continue
                values = self.step._batch((batch,), {})
                rows = rows_of(self.step.model.step_inputs, self.step.batch, values) or self.step.batch
                rate, started = self.step.learning_rate, time.monotonic()
                loss = self.step._train(values)
                self.done += 1
                if not math.isfinite(loss):
                    raise StowageError(f"the loss of step {self.done} (epoch {epoch + 1}, batch {position + 1}) is {loss}; a smaller learning rate "
                                       "or clip_norm=1.0 may help")  # fmt: skip
                losses, samples = losses + rows * loss, samples + rows
                self.schedule.passed("step", self.done, epoch)
                record = {"step": self.done, "epoch": epoch + 1, "loss": loss, "learning_rate": rate}
                board.add(self.done, {"train/loss": loss, "train/learning_rate": rate,
                                      "train/samples_per_second": rows / max(time.monotonic() - started, 1e-9)})  # fmt: skip
                if self.save_every and self.done % self.save_every == 0:
                    self.save()
                self._tell("on_step", record)
                if self.stop:
                    break
        if samples == 0 and skip == 0:
            raise StowageError("the loader gave no batch" + ("" if self.step.devices == 1 else f" for each of {self.step.devices} devices") + "; one that can be walked once only is empty in the second epoch")
        seconds = time.monotonic() - began
        return {"epoch": epoch + 1, "step": self.done, "loss": losses / max(samples, 1), "learning_rate": rate, "seconds": seconds,
                "samples_per_second": samples / max(seconds, 1e-9)}  # fmt: skip

    def run(self, resume: bool, tensorboard: Any) -> "list[dict[str, Any]]":
        epoch, skip = self.place(resume)
        self.schedule.start(self.done, epoch)
        board, records = _Board(tensorboard if self.step.rank == 0 else None, self.done), []
        try:
            while epoch < self.epochs and not self.stop:
                record = self.run_epoch(epoch, skip, board)
                epoch, skip = epoch + 1, 0
                self.schedule.passed("epoch", self.done, epoch)
                if self.validation is not None:
                    found = evaluate(self.step, self.validation, self.metrics)
                    record.update((f"validation_{name}", value) for name, value in found.items())
                    board.add(self.done, {f"validation/{name}": value for name, value in found.items()})
                records.append(record)
                self.save()
                if not self.quiet:
                    print(_line(record, self.epochs), file=sys.stderr)
                self._tell("on_epoch", record)
        except KeyboardInterrupt:
            if self.checkpoint is not None and self.step.devices == 1:  # of several, each may be at another step
                self.save()
                print(f"stowage: stopped after step {self.done}; resume=True goes on from {os.fspath(self.checkpoint)}", file=sys.stderr)
            raise
        finally:
            board.close()
        return records


def _line(record: "dict[str, Any]", epochs: int) -> str:
    shown = [f"epoch {record['epoch']} of {epochs}: loss {record['loss']:.6g}"]
    shown += [f"{name.replace('_', ' ')} {value:.6g}" for name, value in record.items() if name.startswith("validation_")]
    return ", ".join([*shown, f"{record['samples_per_second']:.0f} samples/s"])
