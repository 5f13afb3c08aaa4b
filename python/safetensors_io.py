"""Reads and writes safetensors files: an 8-byte little-endian header length, a JSON header, the raw tensors.

Header: {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..., "__metadata__": {str: str}}.
Offsets count from the end of the header, half-open; tensors lie in header order without gaps.
"""

import json
from pathlib import Path

import numpy as np

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U8": "<u1", "BOOL": "?",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
MAX_HEADER_BYTES = 100 << 20


def save(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Writes the tensors in the dictionary's order; the header is padded so that data begin 8-byte aligned."""
    header: dict = {"__metadata__": metadata} if metadata else {}
    arrays = {}
    end = 0
    for name, array in tensors.items():
        code = NAMES.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise ValueError(f"tensor '{name}': safetensors has no dtype for {array.dtype}")
        arrays[name] = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        begin, end = end, end + arrays[name].nbytes
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())


def load(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a file by name; raises ValueError where header and file disagree."""
    data = Path(path).read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    if len(data) < 8 or header_bytes > min(len(data) - 8, MAX_HEADER_BYTES):
        raise ValueError(f"{path}: header of {header_bytes} bytes does not fit a file of {len(data)} bytes")
    body = memoryview(data)[8 + header_bytes :]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + header_bytes]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"{path}: tensor '{name}' has unsupported dtype {entry['dtype']}")
        dtype = np.dtype(DTYPES[entry["dtype"]])
        begin, end = entry["data_offsets"]
        expected = dtype.itemsize * int(np.prod(entry["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= len(body) or end - begin != expected:
            raise ValueError(f"{path}: tensor '{name}': bytes [{begin}, {end}) do not hold {expected} bytes")
        tensors[name] = np.frombuffer(body[begin:end], dtype).reshape(entry["shape"]).copy()
    return tensors
