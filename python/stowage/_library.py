"""A compiled library (`stowage compile --emit=shared`) through its C interface, runtime/include/stowage.h."""

import atexit
import contextlib
import ctypes
import math
import os
import struct
import sys
from dataclasses import dataclass
from typing import Any, Iterator, Optional, Sequence

import numpy as np

ABI_VERSION = 3


class StowageError(Exception):
    """A call failed; the text names the place, what was expected and what was found."""


# stowage_dtype by name, and what holds it in NumPy. bfloat16 has no NumPy type: its bits are uint16.
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "int16", "int8", "uint64",
          "uint32", "uint16"]  # fmt: skip
STATE, STEP_INPUTS, EVAL_INPUTS, EVAL_OUTPUTS, STEP_OUTPUTS, EVALUATED = range(6)


class _Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64))]  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("dtype", ctypes.c_int),
                ("rank", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_int64),
                ("saved", ctypes.c_int32)]  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("model", ctypes.c_char_p), ("loss", ctypes.c_char_p), ("optimizer", ctypes.c_char_p),
                ("batch", ctypes.c_int64), ("threads", ctypes.c_int64), ("arena_bytes", ctypes.c_int64),
                ("learning_rate", ctypes.c_double)]  # fmt: skip


class _Metrics(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("targets", ctypes.c_int64), ("correct", ctypes.c_int64), ("loss_sum", ctypes.c_double),
                ("weight_sum", ctypes.c_double)]  # fmt: skip


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("seed", ctypes.c_uint64), ("threads", ctypes.c_int64),
                ("poison", ctypes.c_int32), ("weights", ctypes.c_char_p), ("aliases", ctypes.c_char_p), ("offload", ctypes.c_char_p),
                ("gpu", ctypes.c_int64), ("timeout", ctypes.c_int64)]  # fmt: skip


_MODEL = ctypes.c_void_p
_SIGNATURES = {
    "stowage_describe_program": (ctypes.c_int, [ctypes.POINTER(_Program)]),
    "stowage_plan_json": (ctypes.c_char_p, []),
    "stowage_create": (ctypes.c_int, [ctypes.POINTER(_Options), ctypes.POINTER(_MODEL)]),
    "stowage_destroy": (None, [_MODEL]),
    "stowage_count": (ctypes.c_int64, [_MODEL, ctypes.c_int]),
    "stowage_describe": (ctypes.c_int, [_MODEL, ctypes.c_int, ctypes.c_int64, ctypes.POINTER(_Tensor)]),
    "stowage_step": (ctypes.c_int, [_MODEL, ctypes.POINTER(_Array), ctypes.c_int64, ctypes.POINTER(ctypes.c_double)]),
    "stowage_eval": (ctypes.c_int, [_MODEL, ctypes.POINTER(_Array), ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p),
                                    ctypes.c_int64]),
    "stowage_measure": (ctypes.c_int, [_MODEL, ctypes.POINTER(_Array), ctypes.c_int64, ctypes.POINTER(_Metrics)]),
    "stowage_read_step_output": (ctypes.c_int, [_MODEL, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]),
    "stowage_read_state": (ctypes.c_int, [_MODEL, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]),
    "stowage_write_state": (ctypes.c_int, [_MODEL, ctypes.c_int64, ctypes.POINTER(_Array)]),
    "stowage_learning_rate": (ctypes.c_double, [_MODEL]),
    "stowage_set_learning_rate": (ctypes.c_int, [_MODEL, ctypes.c_double]),
    "stowage_step_count": (ctypes.c_int64, [_MODEL]),
    "stowage_set_step_count": (ctypes.c_int, [_MODEL, ctypes.c_int64]),
    "stowage_reset": (ctypes.c_int, [_MODEL, ctypes.c_uint64]),
    "stowage_save": (ctypes.c_int, [_MODEL, ctypes.c_char_p]),
    "stowage_load": (ctypes.c_int, [_MODEL, ctypes.c_char_p, ctypes.c_int32]),
}  # fmt: skip
_OF_SHAPES = {
    "stowage_shape_count": (ctypes.c_int64, []),
    "stowage_step_shape": (ctypes.c_int64, [_MODEL]),
    "stowage_fills_batches": (ctypes.c_int32, []),
}
_OF_DEVICES = {
    "stowage_device_count": (ctypes.c_int64, []),
    "stowage_rank": (ctypes.c_int64, [_MODEL]),
    "stowage_gather": (ctypes.c_int, [_MODEL, ctypes.POINTER(ctypes.c_double), ctypes.c_int64, ctypes.POINTER(ctypes.c_double)]),
    "stowage_share_statistics": (ctypes.c_int, [_MODEL]),
    "stowage_leave": (ctypes.c_int, []),
}


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a model: its name in the model file, kind, element type and logical shape."""

    name: str
    kind: str
    dtype: str
    shape: "tuple[int, ...]"
    saved: bool

    def empty(self) -> np.ndarray:
        """An array that holds the tensor; bfloat16 as its bits in uint16."""
        return np.empty(self.shape, np.uint16 if self.dtype == "bfloat16" else self.dtype)


@dataclass(frozen=True)
class Metrics:
    """Sums over samples: of the loss, of what its mean divides by, of predictions and the right ones among them (-1: the loss knows none)."""

    rows: int = 0
    targets: int = 0
    correct: int = 0
    loss_sum: float = 0.0
    weight_sum: float = 0.0

    def __add__(self, other: "Metrics") -> "Metrics":
        correct = -1 if self.correct < 0 or other.correct < 0 else self.correct + other.correct
        return Metrics(self.rows + other.rows, self.targets + other.targets, correct, self.loss_sum + other.loss_sum,
                       self.weight_sum + other.weight_sum)  # fmt: skip


def as_array(value: Any, what: str) -> "tuple[_Array, Any]":
    """The C description of a NumPy array, torch CPU tensor or nested list, and what keeps its memory alive.

    Nothing is copied when the elements are already dense and row-major.
    """
    if hasattr(value, "data_ptr") and hasattr(value, "detach"):  # a torch tensor, without importing torch
        tensor = value.detach()
        if tensor.device.type != "cpu":
            raise StowageError(f"{what} lies on {tensor.device}; pass tensor.cpu()")
        tensor = tensor.contiguous()
        name, shape, address, kept = str(tensor.dtype)[len("torch.") :], tuple(tensor.shape), tensor.data_ptr(), tensor
    else:
        array = np.asarray(value)
        if array.dtype.byteorder == ">" or not array.flags.c_contiguous:
            array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
        name, shape, address, kept = array.dtype.name, array.shape, array.ctypes.data, array
    if name not in DTYPES:
        raise StowageError(f"{what} holds {name}; known are {', '.join(DTYPES)}")
    dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    return _Array(address, DTYPES.index(name), len(shape), dims), (kept, dims)


def as_arrays(values: Sequence[Any], names: Sequence[str]) -> "tuple[Any, list]":
    arrays, kept = (_Array * max(len(values), 1))(), []
    for i, value in enumerate(values):
        arrays[i], owner = as_array(value, f"input '{names[i]}'" if i < len(names) else f"input {i}")
        kept.append(owner)
    return arrays, kept


@contextlib.contextmanager
def _brief_spinning() -> Iterator[None]:
    """OpenMP's threads spin for milliseconds before they sleep, which on a busy machine takes the processor from those they
    wait for. libgomp reads how long when it is loaded; whoever has chosen a policy keeps it."""
    ours = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
    if ours:
        os.environ["GOMP_SPINCOUNT"] = "10000"  # a few hundred microseconds
    try:
        yield
    finally:
        if ours:
            del os.environ["GOMP_SPINCOUNT"]


def _require_whole(path: str) -> None:
    """Throws for a file that is cut short, which would end the process when it is loaded: the linker writes the table of sections last."""
    with open(path, "rb") as file:
        header, size = file.read(64), file.seek(0, os.SEEK_END)
    if header[:5] != b"\x7fELF\x02":
        return  # the loader says what it is not
    offset, = struct.unpack_from("<Q", header.ljust(64, b"\0"), 40)
    entry, count = struct.unpack_from("<HH", header.ljust(64, b"\0"), 58)
    if size < 64 or size < offset + entry * count:
        raise StowageError(f"'{path}' is cut short: {size} of at least {max(64, offset + entry * count)} bytes are there; copy or compile it again")


class Library:
    """A compiled library. Loading it allocates no arena; `Model` does."""

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._leaves = False
        try:
            _require_whole(self.path)
            with _brief_spinning():
                self.c = ctypes.CDLL(self.path)
            version = self.c.stowage_abi_version()
        except (OSError, AttributeError) as error:
            raise StowageError(f"cannot load '{self.path}': {error}; expected what stowage compile --emit=shared "
                               "writes") from None  # fmt: skip
        if version != ABI_VERSION:
            raise StowageError(f"'{self.path}' has version {version} of the C interface, this package version "
                               f"{ABI_VERSION}; compile it again")  # fmt: skip
        self.c.stowage_last_error.restype = ctypes.c_char_p
        has_shapes = hasattr(self.c, "stowage_shape_count")  # what an older stowage has compiled has one shape
        has_devices = hasattr(self.c, "stowage_device_count")
        known = (*_SIGNATURES.items(), *(_OF_SHAPES.items() if has_shapes else ()), *(_OF_DEVICES.items() if has_devices else ()))
        for name, (result, arguments) in known:
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments
        program = _Program()
        self.require(self.c.stowage_describe_program(ctypes.byref(program)))
        self.model: str = program.model.decode()
        self.loss: str = program.loss.decode()
        self.optimizer: str = program.optimizer.decode()
        self.batch: int = program.batch
        self.threads: int = program.threads
        self.arena_bytes: int = program.arena_bytes
        self.shape_count: int = self.c.stowage_shape_count() if has_shapes else 1
        self.device_count: int = self.c.stowage_device_count() if has_devices else 1
        self.fills_batches = has_shapes and bool(self.c.stowage_fills_batches())

    def require(self, status: int) -> None:
        if status != 0:
            raise StowageError(self.c.stowage_last_error().decode())

    def leave_at_exit(self) -> None:
        """Leaves the ranks when the process ends, unless by an error: its launcher takes a process that has not left for one that failed, and
        ends the others, which wait for it."""
        if self.device_count > 1 and not self._leaves:
            atexit.register(lambda: None if getattr(sys, "last_value", None) is not None else self.c.stowage_leave())
            self._leaves = True

    def plan_json(self) -> str:
        text = self.c.stowage_plan_json()
        if text is None:
            raise StowageError(self.c.stowage_last_error().decode())
        return text.decode()


class Model:
    """One arena: the state of a training run and the two graphs that work on it. Used by one thread at a time."""

    def __init__(self, library: Library, seed: int = 0, threads: int = 0, poison: bool = False, weights: Optional[str] = None,
                 aliases: "Sequence[tuple[str, str]]" = (), offload: Any = None, gpu: int = 0, timeout: int = 0) -> None:  # fmt: skip
        """Parameters start at those of the file or folder `weights`, where it is given; `aliases` are further names of state. What
        travels to slow memory is kept in the folder `offload`, or in that of the compilation. A model for GPUs runs on number `gpu` of its driver's order. One of several
        devices waits `timeout` seconds for another (0: 600; negative: without end)."""
        self.library = library
        self._handle = _MODEL()
        lines = "".join(f"{name}\t{other}\n" for name, other in aliases)
        self._options = _Options(ctypes.sizeof(_Options), seed, threads, int(poison), os.fsencode(weights) if weights else None, lines.encode(),
                                 os.fsencode(offload) if offload else None, gpu, timeout)
        self.open()
        self.state = self._list(STATE)
        self.step_inputs = self._list(STEP_INPUTS)
        self.eval_inputs = self._list(EVAL_INPUTS)
        self.eval_outputs = self._list(EVAL_OUTPUTS)
        self.step_outputs = self._list(STEP_OUTPUTS)
        self._given: "dict[str, tuple[int, ...]]" = {}  # sizes of the last batch, by its gradient's name
        self._position = {tensor.name: i for i, tensor in enumerate(self.state)}
        self._step_names = [tensor.name for tensor in self.step_inputs]
        self._eval_names = [tensor.name for tensor in self.eval_inputs]

    def open(self) -> None:
        """Allocates the arena, with the state's first values; nothing where it is there."""
        if not self._handle:
            self.library.require(self.library.c.stowage_create(ctypes.byref(self._options), ctypes.byref(self._handle)))
            self.library.leave_at_exit()

    def close(self) -> None:
        """Gives the arena back. Calls after that fail."""
        if self._handle:
            self.library.c.stowage_destroy(self._handle)
            self._handle = _MODEL()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def _call(self, name: str, *arguments: Any) -> None:
        if not self._handle:
            raise StowageError("this step is closed, its arena given back; compile or load it again")
        self.library.require(getattr(self.library.c, name)(self._handle, *arguments))

    def _list(self, which: int) -> "list[TensorInfo]":
        found = []
        for i in range(self.library.c.stowage_count(self._handle, which)):
            tensor = _Tensor()
            self._call("stowage_describe", which, i, ctypes.byref(tensor))
            found.append(TensorInfo(tensor.name.decode(), tensor.kind.decode(), DTYPES[tensor.dtype],
                                    tuple(tensor.shape[: tensor.rank]), bool(tensor.saved)))  # fmt: skip
        return found

    def step(self, values: Sequence[Any]) -> float:
        """Trains on one batch, given in the order of `step_inputs`; returns its loss."""
        arrays, kept = as_arrays(values, self._step_names)
        loss = ctypes.c_double()
        self._call("stowage_step", arrays, len(values), ctypes.byref(loss))
        if len(self.step_outputs) > 1 and self.library.shape_count > 1:  # they are those of the batch's shape
            self.step_outputs = self._list(STEP_OUTPUTS)
            self._given = {f"{name}.grad": tuple(array.shape[: array.rank]) for name, array in zip(self._step_names, arrays)}
        del kept
        return loss.value

    @property
    def step_shape(self) -> int:
        """The shape in which the last step ran, by its position in the plan's shapes."""
        return self.library.c.stowage_step_shape(self._handle) if self.library.shape_count > 1 else 0

    def step_output(self, name: str) -> "np.ndarray":
        """What the last step left under this name: "loss", or "x.grad" for an input x of --input-gradients. Only until
        the next evaluation, which uses the same memory. Of several shapes a gradient is as large as the batch was, not as the shape it ran in."""
        names = [tensor.name for tensor in self.step_outputs]
        if name not in names:
            raise StowageError(f"the step gives no '{name}'; it gives {', '.join(names)}")
        out = self.step_outputs[names.index(name)].empty()
        self._call("stowage_read_step_output", names.index(name), out.ctypes.data, out.nbytes)
        return out[tuple(map(slice, self._given[name]))] if name in self._given else out

    def eval(self, values: Sequence[Any]) -> "list[np.ndarray]":
        """The outputs of one batch, given in the order of `eval_inputs`; of several shapes as large as the batch, not as the shape it ran in."""
        arrays, kept = as_arrays(values, self._eval_names)
        outputs = [tensor.empty() for tensor in self.eval_outputs]
        places = (ctypes.c_void_p * max(len(outputs), 1))(*(output.ctypes.data for output in outputs))
        self._call("stowage_eval", arrays, len(values), places, len(outputs))
        del kept
        evaluated = self._list(EVALUATED) if self.library.shape_count > 1 else []  # none in what an older stowage has compiled
        if evaluated:  # in dimensions that follow the inputs' they are as large as the batch
            outputs = [output.reshape(-1)[: math.prod(tensor.shape)].reshape(tensor.shape) for output, tensor in zip(outputs, evaluated)]
        return outputs

    def measure(self, values: Sequence[Any]) -> Metrics:
        """Loss and accuracy of an evaluation of any number of rows, given in the order of `step_inputs`. Where the model computes its
        loss, rows that fill no batch are left out."""
        arrays, kept = as_arrays(values, self._step_names)
        found = _Metrics()
        self._call("stowage_measure", arrays, len(values), ctypes.byref(found))
        del kept
        return Metrics(found.rows, found.targets, found.correct, found.loss_sum, found.weight_sum)

    @property
    def rank(self) -> int:
        """Of the devices that train together, the one that this process is."""
        return self.library.c.stowage_rank(self._handle) if self.library.device_count > 1 else 0

    def gather(self, numbers: "Sequence[float]") -> np.ndarray:
        """Of several devices: the numbers of every rank, one row each. All ranks call it, in the same order as their other calls."""
        devices, count = self.library.device_count, len(numbers)
        if devices == 1:
            return np.asarray([numbers], np.float64)
        own, all_numbers = (ctypes.c_double * count)(*numbers), (ctypes.c_double * (devices * count))()
        self._call("stowage_gather", own, count, all_numbers)
        return np.array(all_numbers, np.float64).reshape(devices, count)

    def share_statistics(self) -> None:
        """Of several devices: running statistics become those of rank 0, on all ranks, which all call it."""
        if self.library.device_count > 1:
            self._call("stowage_share_statistics")

    def position(self, name: str) -> int:
        if name not in self._position:
            raise StowageError(f"the model has no state '{name}'; known are {', '.join(self._position)}")
        return self._position[name]

    def read(self, name: str, out: Optional[np.ndarray] = None) -> np.ndarray:
        """A tensor of the state, row-major; bfloat16 as its bits in uint16."""
        index = self.position(name)
        if out is None:
            out = self.state[index].empty()
        self._call("stowage_read_state", index, out.ctypes.data, out.nbytes)
        return out

    def write(self, name: str, value: Any) -> None:
        """Replaces a tensor of the state; other types are converted. uint16 is what read() gives for bfloat16."""
        index = self.position(name)
        array, kept = as_array(value, f"'{name}'")
        if self.state[index].dtype == "bfloat16" and array.dtype == DTYPES.index("uint16"):
            array.dtype = DTYPES.index("bfloat16")
        self._call("stowage_write_state", index, ctypes.byref(array))
        del kept

    @property
    def learning_rate(self) -> float:
        return self.library.c.stowage_learning_rate(self._handle)

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._call("stowage_set_learning_rate", rate)

    @property
    def step_count(self) -> int:
        return self.library.c.stowage_step_count(self._handle)

    @step_count.setter
    def step_count(self, steps: int) -> None:
        self._call("stowage_set_step_count", steps)

    def reset(self, seed: int = 0) -> None:
        self._call("stowage_reset", seed)

    def save(self, path: "str | os.PathLike[str]") -> None:
        self._call("stowage_save", os.fsencode(path))

    def load(self, path: "str | os.PathLike[str]", parameters_only: bool = False) -> None:
        self._call("stowage_load", os.fsencode(path), int(parameters_only))
