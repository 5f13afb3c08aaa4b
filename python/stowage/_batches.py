"""Batches of fewer samples than a step was compiled for, as the last one of an epoch: the same step, planned for that size."""

import contextlib
import sys
from typing import Any, Iterator, Optional, Sequence

from . import _tool
from ._library import Library, Model, StowageError, TensorInfo


def rows_of(inputs: "Sequence[TensorInfo]", batch: int, values: "Sequence[Any]") -> Optional[int]:
    """The samples that the arrays hold, where all with one row for each sample have the same number."""
    counts = {len(value) for info, value in zip(inputs, values) if info.shape[:1] == (batch,) and getattr(value, "shape", [1])}
    return counts.pop() if len(counts) == 1 else None


class OtherSizes:
    """Libraries of a step for other batches, compiled when they are first asked for, within the arena of the step itself.

    One arena exists at a time: the state leaves the step's for a file, and comes back with what has become of it.
    """

    def __init__(self, model: Model, batch: int, parts: int, source: Any) -> None:
        self._model, self._batch, self._parts, self._source = model, batch, parts, source
        self._libraries: "dict[int, Library]" = {}

    def _parts_of(self, rows: int) -> int:
        """In how many batches a step of `rows` samples adds up gradients, none larger than those of the step itself."""
        most = self._batch // self._parts
        return next(count for count in range(-(-rows // most), rows + 1) if rows % count == 0)

    def _library(self, rows: int) -> Library:
        if rows not in self._libraries:
            if self._source is None:
                raise StowageError(f"expected {self._batch} samples, found {rows}; a library that was loaded from a file has no model file to "
                                   "compile again for another batch: leave out the last batch of an epoch (drop_last=True)")  # fmt: skip
            if self._source.batch is None and "batch" not in self._source.axes:
                raise StowageError(f"expected {self._batch} rows, found {rows}; dynamic_batch=False fixes all sizes")
            print(f"stowage: compiling the step for a batch of {rows} samples, too (drop_last=True leaves it out)", file=sys.stderr)
            path = str(self._source.folder / f"libmodel-{rows}.so")
            # What is computed again is decided by the arena, whatever decided it for the step itself.
            flags = [flag for flag in self._source.flags if flag.partition("=")[0] not in ("--recompute", "--checkpoint")
                     and not flag.startswith("--shapes=batch:")]  # fmt: skip
            _tool.run(["compile", self._source.path, *flags, f"--batch={rows}", f"--accumulate={self._parts_of(rows)}",
                       f"--memory-budget={self._model.library.arena_bytes}", "--emit=shared", "-o", path], self._source.binary)  # fmt: skip
            self._libraries[rows] = Library(path)
        return self._libraries[rows]

    @contextlib.contextmanager
    def model(self, rows: int) -> "Iterator[Model]":
        """The step for `rows` samples, with the state of the one it belongs to; what it does to that is the step's own afterwards, or
        undone where the body raises."""
        library = self._library(rows)
        state = str(self._source.folder / "state.safetensors")
        self._model.save(state)
        self._model.close()
        try:
            other = Model(library)
            try:
                other.load(state)
                yield other
                other.save(state)
            finally:
                other.close()
        finally:
            self._model.open()
            self._model.load(state)
