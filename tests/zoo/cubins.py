"""What ptxas made of the kernels of an executable for GPUs, read out of the cubins that it holds."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

# Kinds of images: DeviceImage::Kind.
CUBIN, PTX = 1, 2
# Attributes of the section .nv.info in the form "value of a symbol", by their names in cuobjdump: EIFMT_SVAL, EIATTR_*.
SYMBOL_VALUE, FRAME_SIZE, REGISTERS = 0x04, 0x11, 0x2F


def images(data: bytes) -> list[tuple[int, int, bytes]]:
    """Kind, architecture and bytes of each image in an executable, as runtime/format/DeviceCode.h packs them; none where it has no code
    for GPUs."""
    for magic in re.finditer(b"STOWGPU1", data):
        start = magic.start()
        (count,) = struct.unpack_from("<Q", data, start + 8)
        if 0 < count < 16:  # else the word in the program's own code
            entries = [struct.unpack_from("<IIQQ", data, start + 16 + 24 * i) for i in range(count)]
            return [(kind, arch, data[start + offset : start + offset + size]) for kind, arch, offset, size in entries]
    return []


def resources(cubin: bytes) -> tuple[dict[str, int], dict[str, int]]:
    """Of each kernel: registers of a thread, and bytes of its stack, in local memory, which is where registers are spilled."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    count, names = struct.unpack_from("<HH", cubin, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + 64 * i) for i in range(count)]

    def text(strings: int, offset: int) -> str:
        begin = sections[strings][4] + offset
        return cubin[begin : cubin.index(b"\0", begin)].decode()

    by_name = {text(names, section[0]): section for section in sections}
    symbols, info = by_name[".symtab"], by_name[".nv.info"]
    registers: dict[str, int] = {}
    stack: dict[str, int] = {}
    at, end = info[4], info[4] + info[5]
    while at < end:
        form, attribute, size = struct.unpack_from("<BBH", cubin, at)
        if form == SYMBOL_VALUE and attribute in (FRAME_SIZE, REGISTERS):
            symbol, value = struct.unpack_from("<II", cubin, at + 4)
            name = text(symbols[6], struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)[0])
            if not name.startswith("$"):  # functions of ptxas's own, such as divisions
                (registers if attribute == REGISTERS else stack)[name] = value
        at += 4 + (size if form == SYMBOL_VALUE else 0)
    return registers, stack


def resources_of(executable: Path) -> dict[str, Any]:
    """Number of an executable's kernels, and the most registers and bytes of stack that a thread of one takes on any chip."""
    found = [resources(data) for kind, _, data in images(executable.read_bytes()) if kind == CUBIN]
    if not found:
        raise RuntimeError(f"{executable} holds no cubin; ptxas was not found in /usr/local/cuda/bin or on PATH")
    return {
        "kernels": len(found[0][0]),
        "registers": max(value for registers, _ in found for value in registers.values()),
        "stack": max(size for _, stack in found for size in stack.values()),
    }
