"""Machine code of GPUs as nvdisasm prints it: instructions, their classes, and the units that execute them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MISSING = ("there is no nvdisasm in /usr/local/cuda/bin, on PATH or in build/python; a CUDA toolkit, or pip install nvidia-cuda-nvdisasm, "
           "has one, which --nvdisasm=FILE names")  # fmt: skip
LANES = 32


class NoDisassembler(RuntimeError):
    """nvdisasm is not on this machine."""


@dataclass(frozen=True)
class Instruction:
    address: int
    guard: str  # "P0", "!UP1"; "" where there is none
    opcode: str  # "IADD3.X"
    operands: tuple[str, ...]

    @property
    def base(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def modifiers(self) -> list[str]:
        return self.opcode.split(".")[1:]


@dataclass
class Function:
    """A kernel, behind it the functions of ptxas that it calls."""

    name: str
    instructions: list[Instruction]
    labels: dict[str, int]  # by name the number of the instruction that follows


def find_nvdisasm(given: Path | None = None) -> Path:
    """Throws NoDisassembler, which says where one comes from."""
    if given:
        if not given.is_file():
            raise NoDisassembler(f"--nvdisasm={given} is no file")
        return given
    found = shutil.which("nvdisasm", path="/usr/local/cuda/bin") or shutil.which("nvdisasm")
    # PyTorch of scripts/install.sh python brings one along.
    brought = sorted(ROOT.glob("build/python/lib/python3*/site-packages/**/bin/nvdisasm"))
    if not found and not brought:
        raise NoDisassembler(MISSING)
    return Path(found) if found else brought[0]


def disassemble(nvdisasm: Path, cubin: bytes) -> dict[str, Function]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return parse(subprocess.run([nvdisasm, "-c", file.name], check=True, capture_output=True, text=True).stdout)


def parse(text: str) -> dict[str, Function]:
    functions: dict[str, Function] = {}
    here: Function | None = None
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line):
            here = functions[section[1]] = Function(section[1], [], {})
        elif re.match(r"\s*\.section\s", line):
            here = None
        elif here is None:
            continue
        elif label := re.match(r"([.$\w]+):", line):
            here.labels[label[1]] = len(here.instructions)
        elif found := re.match(r"\s*/\*([0-9a-f]+)\*/\s+(?:@(!?U?P[T\d]) )?\s*([A-Z][\w.]*)\s*(.*?)\s*;", line):
            operands = tuple(operand.strip().replace(".reuse", "") for operand in found[4].split(",")) if found[4] else ()
            here.instructions.append(Instruction(int(found[1], 16), found[2] or "", found[3], operands))
    if not functions:
        raise RuntimeError("nvdisasm printed no function: " + text[:200])
    return functions


# By the beginning of an opcode, the first that matches, what an instruction does.
CLASSES = [
    ("LDGSTS", "copy to shared"), ("LDGDEPBAR", "control"), ("LDG", "load global"), ("STG", "store global"),
    ("LDSM", "load matrix"), ("STSM", "store matrix"), ("LDS", "load shared"), ("STS", "store shared"),
    ("LDL", "load local"), ("STL", "store local"), ("LDCU", "constant"), ("LDC", "constant"), ("ULDC", "constant"),
    ("LD", "load generic"), ("ST", "store generic"),
    ("ATOMS", "atomic shared"), ("ATOMG", "atomic global"), ("ATOM", "atomic global"), ("RED", "atomic global"),
    ("HMMA", "mma"), ("IMMA", "mma"), ("DMMA", "mma"), ("HGMMA", "mma"),
    ("BAR", "barrier"), ("SHFL", "shuffle"), ("REDUX", "reduction"), ("VOTE", "vote"), ("MATCH", "vote"),
    ("MUFU", "transcendental"), ("DFMA", "fp64"), ("DADD", "fp64"), ("DMUL", "fp64"), ("DSETP", "fp64"), ("DMNMX", "fp64"),
    ("F2FP", "packing"), ("I2FP", "packing"), ("F2F", "conversion"), ("F2I", "conversion"), ("I2F", "conversion"), ("FRND", "conversion"),
    ("FFMA", "fp32"), ("FADD", "fp32"), ("FMUL", "fp32"), ("FSETP", "fp32 compare"), ("FSEL", "fp32 compare"), ("FSET", "fp32 compare"),
    ("FMNMX", "fp32 compare"), ("FCHK", "fp32 compare"), ("HFMA2", "fp16"), ("HADD2", "fp16"), ("HMUL2", "fp16"), ("HMNMX2", "fp16"), ("HSET", "fp16"),
    ("IMAD.MOV", "move"), ("IMAD.WIDE", "wide product"), ("IMAD", "product"), ("IADD", "integer"), ("VIADD", "integer"),
    ("LEA", "integer"), ("PRMT", "integer"), ("VIMNMX", "integer"), ("IMNMX", "integer"), ("MOV", "move"), ("CS2R", "move"), ("POPC", "conversion"), ("FLO", "conversion"), ("LOP3", "integer"), ("SHF", "integer"), ("ISETP", "integer"), ("SEL", "integer"),
    ("BRA", "control"), ("BSSY", "control"), ("BSYNC", "control"), ("BREAK", "control"), ("EXIT", "control"), ("CALL", "control"), ("RET", "control"),
    ("NOP", "control"), ("WARPSYNC", "control"), ("DEPBAR", "control"), ("YIELD", "control"),
]


def class_of(instruction: Instruction) -> str:
    for prefix, name in CLASSES:
        if instruction.opcode.startswith(prefix):
            return name
    return "uniform" if instruction.base.startswith("U") or instruction.base == "R2UR" else "other"


def width_of(instruction: Instruction) -> int:
    """Bytes that each lane of a load, store or copy moves, 4 where the opcode says nothing."""
    for modifier in instruction.modifiers:
        if found := re.fullmatch(r"[USMT]*(8|16|64|128)", modifier):
            return int(found[1]) // 8
    return 4


# Warps of an instruction that the units of a multiprocessor take in a clock, by compute capability: "Throughput of Native Arithmetic
# Instructions" of the CUDA C++ Programming Guide, by 32. Which unit executes what: "Pipelines" of the Nsight Compute documentation.
# 8.0 has half the f32 units of the others, 8.9 next to no f64; products of integers take half of the f32 units.
UNITS = {
    80: {"fma": 2, "imad": 2, "alu": 2, "xu": 0.5, "fp64": 1, "load-store": 1},
    89: {"fma": 4, "imad": 2, "alu": 2, "xu": 0.5, "fp64": 1 / 16, "load-store": 1},
    90: {"fma": 4, "imad": 2, "alu": 2, "xu": 0.5, "fp64": 2, "load-store": 1},
    100: {"fma": 4, "imad": 2, "alu": 2, "xu": 0.5, "fp64": 2, "load-store": 1},
}
UNITS_OF_CLASS = {
    "fp32": ("fma",), "fp16": ("fma",), "product": ("fma", "imad"), "wide product": ("fma", "imad"), "fp32 compare": ("alu",), "integer": ("alu",),
    "packing": ("alu",), "transcendental": ("xu",), "conversion": ("xu",), "fp64": ("fp64",),
}  # fmt: skip
SHARED = ("load shared", "store shared", "load matrix", "store matrix")
GLOBAL = ("load global", "store global", "copy to shared", "load local", "store local")


def unit_clocks(instruction: Instruction, architecture: int) -> dict[str, float]:
    """The units behind the schedulers that an instruction of a warp holds, and for how many clocks of a multiprocessor.
    Shared memory and the first cache move 128 bytes in a clock, so that an access of 16 bytes a lane takes four; conflicts are not seen."""
    kind = class_of(instruction)
    units = UNITS[architecture]
    if kind in ("load matrix", "store matrix"):
        return {"load-store": float(instruction.opcode.rsplit(".", 1)[1]) / units["load-store"]}  # matrices of 8 rows of 16 bytes
    if kind in SHARED or kind in GLOBAL:
        return {"load-store": max(1.0, width_of(instruction) / 4) / units["load-store"]}
    if kind in ("atomic shared", "atomic global", "shuffle"):
        return {"load-store": 1 / units["load-store"]}
    return {unit: 1 / units[unit] for unit in UNITS_OF_CLASS.get(kind, ())}


def is_upper_half(instruction: Instruction) -> bool:
    """Whether it computes the upper half of an integer of 64 bits, or both: what indices of 32 bits would not need. Addresses do."""
    words = instruction.modifiers
    return instruction.base.removeprefix("U") in ("IADD3", "IMAD", "ISETP", "LEA", "SHF") and any(word in ("X", "EX", "U64", "S64", "WIDE") for word in words)


def mma_flops(instruction: Instruction) -> float:
    """Of one tensor-core instruction of a warp: "HMMA.16816" multiplies 16x16 by 16x8."""
    for modifier in instruction.modifiers:
        if found := re.fullmatch(r"(16|8)(8|16)(4|8|16|32)", modifier):
            return 2.0 * int(found[1]) * int(found[2]) * int(found[3])
    raise RuntimeError(f"the shape of {instruction.opcode} is not known")
