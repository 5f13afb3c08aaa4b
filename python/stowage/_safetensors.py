"""Weights in safetensors files, also in the shards of a folder, without holding them: NumPy alone, pieces at a time.

  u64 n | n bytes of JSON: {"__metadata__": {...}, "name": {"dtype", "shape", "data_offsets"}} | data
"""

import contextlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

import numpy as np

from ._library import StowageError

#: Bits of bfloat16 are held in uint16.
TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
         "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_}  # fmt: skip
FLOATS = ("F64", "F32", "F16", "BF16")


def widened(array: np.ndarray, dtype: str) -> np.ndarray:
    """Elements of a float type in float32 (float64 where they are)."""
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array if dtype in ("F32", "F64") else array.astype(np.float32)


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers in a float type, to nearest even."""
    if dtype != "BF16":
        return array.astype(TYPES[dtype])
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), (bits >> 16) | 0x40, nearest).astype(np.uint16)


class File:
    """The header of a file; elements are read when they are asked for."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        size = os.path.getsize(self.path)
        with open(self.path, "rb") as file:
            count = struct.unpack("<Q", file.read(8))[0] if size >= 8 else size
            if count > size - 8:
                raise StowageError(f"{path}: this is not a safetensors file: its header ends beyond the file")
            self.header = file.read(count)
        try:
            entries = json.loads(self.header)
            self.metadata: "dict[str, str]" = entries.pop("__metadata__", {})
            self.tensors: "dict[str, tuple[str, tuple[int, ...], int, int]]" = {
                name: (entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"]) for name, entry in entries.items()}  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StowageError(f"{path}: the header is not that of a safetensors file: {error}") from None
        self.start = 8 + count
        for name, (dtype, shape, begin, end) in self.tensors.items():
            width = np.dtype(TYPES[dtype]).itemsize if dtype in TYPES else None
            if not all(isinstance(number, int) and number >= 0 for number in (*shape, begin, end)):
                raise StowageError(f"{path}: '{name}': expected sizes and offsets of at least 0, found {list(shape)} at [{begin}, {end})")
            if not begin <= end <= size - self.start or (width is not None and end - begin != width * math.prod(shape)):
                raise StowageError(f"{path}: '{name}': {dtype} {list(shape)} does not lie at [{begin}, {end}) of {size - self.start} bytes of data")

    def read(self, name: str, first: int = 0, rows: Optional[int] = None) -> np.ndarray:
        """The tensor, or `rows` rows of it from `first` on."""
        dtype, shape, begin, _ = self.tensors[name]
        if dtype not in TYPES:
            raise StowageError(f"{self.path}: '{name}' is in {dtype}; expected one of {', '.join(TYPES)}")
        if rows is not None:
            begin += first * int(np.prod(shape[1:], dtype=np.int64)) * np.dtype(TYPES[dtype]).itemsize
            shape = (rows, *shape[1:])
        with open(self.path, "rb") as file:
            file.seek(self.start + begin)
            return np.fromfile(file, TYPES[dtype], int(np.prod(shape, dtype=np.int64))).reshape(shape)


def files_of(path: Any) -> "list[File]":
    """A file, or the files of an index of shards or of a folder with either."""
    path = Path(path)
    if path.is_dir():
        index = path / "model.safetensors.index.json"
        found = [index] if index.exists() else sorted(path.glob("*.safetensors"))
        if len(found) > 1 and path / "model.safetensors" in found:
            found = [path / "model.safetensors"]
        if len(found) != 1:
            raise StowageError(f"{path}: expected model.safetensors or model.safetensors.index.json, found {len(found)} files *.safetensors")
        path = found[0]
    if path.suffix != ".json":
        return [File(path)]
    try:
        shard_of = json.loads(path.read_text())["weight_map"]
        shards = sorted(set(shard_of.values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise StowageError(f"{path}: expected {{\"weight_map\": {{TENSOR: FILE}}}}: {error!r}") from None
    for shard in shards:
        if not isinstance(shard, str) or not shard or "/" in shard:
            raise StowageError(f"{path}: expected the names of files beside the index, found {shard!r}")
        if not (path.parent / shard).exists():
            raise StowageError(f"{path}: the shard '{shard}' is missing; fetch it again")
    return [File(path.parent / shard) for shard in shards]


@contextlib.contextmanager
def replaced(path: Any) -> "Iterator[Any]":
    """A file that takes the place of `path` as a whole, where the body does not raise."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write(path: Any, tensors: "Mapping[str, np.ndarray]", metadata: "Mapping[str, str]") -> None:
    """Tensors of float32, whole numbers or, as uint16, of nothing else than their bits."""
    names = {np.dtype(kind): name for name, kind in TYPES.items() if name != "BF16"}
    header, at = {"__metadata__": dict(metadata)}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replaced(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())
