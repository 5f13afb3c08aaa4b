"""What one lane of a kernel does by its PTX: memory instructions, products of tensor cores, barriers and the like, each as often as it runs.

Integers and predicates are computed, as the PTX ISA says; what comes from memory or of floating-point instructions is unknown, and a branch or
guard on it counts as not taken and as holding. Shares nothing with benchmarks/kernels/sasswalk.py, which is held to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

MOST_INSTRUCTIONS = 2_000_000
Number = int | None


@dataclass
class Kernel:
    name: str
    threads: int
    lines: list[tuple[str, str, list[str]]]  # guard, opcode, operands
    labels: dict[str, int]


def kernels_of(text: str) -> dict[str, Kernel]:
    """Every entry of a module."""
    found = {}
    for entry in re.finditer(r"\.entry (\w+)\(([^)]*)\)\s*\.maxntid (\d+)[^{]*\{(.*?)\n\}", text, re.S):
        kernel = found[entry[1]] = Kernel(entry[1], int(entry[3]), [], {})
        line = ""
        for written in entry[4].splitlines():
            line = (line + " " + written.split("//")[0].strip()).strip()
            if line and not line.endswith((";", ":", "{", "}")):
                continue  # mma stands on several lines
            if label := re.fullmatch(r"(\$\w+):", line):
                kernel.labels[label[1]] = len(kernel.lines)
            elif parts := re.fullmatch(r"(?:@(!?%p\d+)\s+)?([a-z][\w.:]*)\s*(.*?);", line):
                kernel.lines.append((parts[1] or "", parts[2], split(parts[3])))
            elif line and not line.startswith(".") and line not in ("{", "}"):
                raise ValueError(f"{entry[1]}: no instruction: {line}")
            line = ""
    return found


def split(text: str) -> list[str]:
    """Operands at commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text + ","):
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            if piece := text[start:at].strip():
                parts.append(piece)
            start = at + 1
    return parts


def class_of(opcode: str, operands: list[str]) -> str:
    """The same words as benchmarks/kernels/sass.py, with bytes where there are; "" for what is not compared."""
    words = opcode.split(".")
    if words[:2] == ["cp", "async"] and "global" in words:
        return f"copy to shared {operands[2]}"
    if words[0] in ("ld", "st") and words[1] in ("global", "shared", "local"):
        count = next((int(word[1]) for word in words if re.fullmatch(r"v\d", word)), 1)
        return f"{'load' if words[0] == 'ld' else 'store'} {words[1]} {count * int(words[-1][1:]) // 8}"
    if words[0] in ("ldmatrix", "stmatrix"):
        return f"{'load' if words[0] == 'ldmatrix' else 'store'} matrix {next(word[1] for word in words if re.fullmatch(r'x[124]', word))}"
    if words[0] == "mma":
        return "mma " + next(word for word in words if re.fullmatch(r"m\d+n\d+k\d+", word))
    if words[0] in ("bar", "barrier"):
        return "barrier"
    if words[0] == "shfl":
        return "shuffle"
    if words[0] in ("atom", "red"):
        return f"atomic {words[1]}"
    return ""


class Lane:
    """One thread of a launch."""

    def __init__(self, kernel: Kernel, parameters: list[int], block: int, blocks: int, thread: int) -> None:
        self.kernel = kernel
        self.values: dict[str, Number] = {"%tid.x": thread, "%ctaid.x": block, "%nctaid.x": blocks, "%ntid.x": kernel.threads, "%laneid": thread % 32}
        self.values |= {f"{axis}.{name}": 0 for axis in ("%tid", "%ctaid") for name in "yz"}
        self.values |= {f"{axis}.{name}": 1 for axis in ("%ntid", "%nctaid") for name in "yz"}
        self.parameters = parameters
        self.unknown = 0  # branches on data

    def read(self, text: str, bits: int = 64) -> Number:
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", text):
            value: Number = int(text, 0)
        else:
            value = self.values.get(text)
        return None if value is None else value & (1 << bits) - 1

    def run(self) -> Counter[str]:
        """How often it passes what is compared, by class."""
        counts: Counter[str] = Counter()
        at = 0
        for _ in range(MOST_INSTRUCTIONS):
            guard, opcode, operands = self.kernel.lines[at]
            holds = self.guard(guard)
            at += 1
            if opcode.startswith("bra"):
                self.unknown += holds is None
                if holds:
                    at = self.kernel.labels[operands[0]]
            elif holds == 0:
                pass
            elif opcode in ("ret", "exit"):
                return counts
            else:
                if kind := class_of(opcode, operands):
                    counts[kind] += 1
                self.compute(opcode, operands, holds)
        raise ValueError(f"{self.kernel.name} runs more than {MOST_INSTRUCTIONS} instructions in one lane")

    def guard(self, text: str) -> Number:
        if not text:
            return 1
        value = self.values.get(text.lstrip("!"))
        return None if value is None else 1 - value if text[0] == "!" else value

    def compute(self, opcode: str, operands: list[str], holds: Number) -> None:
        words = opcode.split(".")
        if opcode.startswith("ld.param"):
            self.values[operands[0]] = self.parameters[int(operands[1].rstrip("]").rsplit("_", 1)[1])]
            return
        result = None
        if holds and not re.search(r"\.(b?f16|b?f16x2|f32|f64|pred)\b", opcode) and (method := METHODS.get(words[0])):
            result = method(self, words, operands[1:])
        elif holds and words[0] in ("and", "or", "xor", "not", "mov") and words[-1] == "pred":
            result = predicate(self, words[0], operands[1:])
        for name in re.findall(r"%\w+", operands[0]) if operands and words[0] not in ("st", "bar", "red", "cp") else []:
            self.values[name] = result


def bits_of(words: list[str]) -> tuple[int, bool]:
    """Of the last type named: its bits and whether it has a sign."""
    word = words[-1]
    return int(word[1:]), word[0] == "s"


def with_sign(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def arithmetic(compute: Callable[..., int], shifts: bool = False) -> Callable[[Lane, list[str], list[str]], Number]:
    """A method of numbers in their type, signed where it is; of a shift the count has 32 bits."""

    def method(lane: Lane, words: list[str], operands: list[str]) -> Number:
        bits, is_signed = bits_of(words)
        values = [lane.read(operand, 32 if shifts and number else bits) for number, operand in enumerate(operands)]
        if None in values:
            return None
        known = [with_sign(value, bits) if is_signed and not (shifts and number) else value for number, value in enumerate(values)]
        return compute(*known) & (1 << bits) - 1

    return method


def multiply(lane: Lane, words: list[str], operands: list[str]) -> Number:
    bits, is_signed = bits_of(words)
    wide = "wide" in words
    values = [lane.read(operand, 2 * bits if wide and number == 2 else bits) for number, operand in enumerate(operands)]
    if None in values:
        return None
    known = [with_sign(value, bits) if is_signed and number < 2 else value for number, value in enumerate(values)]
    product = known[0] * known[1]
    if "hi" in words:
        product >>= bits
    return product + sum(known[2:]) & (1 << (2 * bits if wide else bits)) - 1


def compare(lane: Lane, words: list[str], operands: list[str]) -> Number:
    bits, is_signed = bits_of(words)
    a, b = (lane.read(operand, bits) for operand in operands[:2])
    if a is None or b is None:
        return None
    if is_signed:
        a, b = with_sign(a, bits), with_sign(b, bits)
    return int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[words[1]])


def select(lane: Lane, words: list[str], operands: list[str]) -> Number:
    choice = lane.values.get(operands[2])
    return None if choice is None else lane.read(operands[0 if choice else 1], bits_of(words)[0])


def convert(lane: Lane, words: list[str], operands: list[str]) -> Number:
    bits, is_signed = bits_of(words)
    value = lane.read(operands[0], bits)
    return None if value is None else (with_sign(value, bits) if is_signed else value) & (1 << int(words[-2][1:])) - 1


def extract(lane: Lane, words: list[str], operands: list[str]) -> Number:
    a, first, length = (lane.read(operand) for operand in operands)
    return None if a is None or first is None or length is None or words[-1][0] == "s" else a >> first & (1 << length) - 1


def predicate(lane: Lane, word: str, operands: list[str]) -> Number:
    values = [int(operand != "0") if re.fullmatch(r"-?\d+", operand) else lane.values.get(operand) for operand in operands]
    if word in ("and", "or") and (0 if word == "and" else 1) in values:
        return 0 if word == "and" else 1
    if None in values:
        return None
    return {"and": min, "or": max, "xor": lambda v: v[0] ^ v[1], "not": lambda v: 1 - v[0], "mov": lambda v: v[0]}[word](values)


METHODS: dict[str, Callable[[Lane, list[str], list[str]], Number]] = {
    "mov": lambda lane, words, operands: lane.read(operands[0], bits_of(words)[0]),
    "cvta": lambda lane, words, operands: lane.read(operands[0]),
    "add": arithmetic(lambda a, b: a + b), "sub": arithmetic(lambda a, b: a - b), "neg": arithmetic(lambda a: -a), "abs": arithmetic(abs),
    "min": arithmetic(min), "max": arithmetic(max), "and": arithmetic(lambda a, b: a & b), "or": arithmetic(lambda a, b: a | b),
    "xor": arithmetic(lambda a, b: a ^ b), "not": arithmetic(lambda a: ~a), "shl": arithmetic(lambda a, n: a << min(n, 64), True),
    "shr": arithmetic(lambda a, n: a >> min(n, 64), True), "mul": multiply, "mad": multiply, "setp": compare, "selp": select, "cvt": convert, "bfe": extract,
    "div": arithmetic(lambda a, b: 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "rem": arithmetic(lambda a, b: 0 if b == 0 else abs(a) % abs(b) * (1 if a >= 0 else -1)),
}  # fmt: skip
