"""How often each instruction of a kernel is issued, by following one lane of a warp through the machine code.

Numbers are followed where branches depend on them: the block's and thread's number, the range of tasks, addresses, and what
integer instructions make of these. What comes from memory or of floating-point instructions is unknown. A branch on an unknown
that closes a loop is not taken, another every second time, so that loops end that it leaves; `Walk.unknown` counts them. Slow
paths of divisions, square roots and the like, functions of ptxas's own for numbers near the ends of the range, are taken to be never
needed.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sass import LANES, Function, Instruction

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
MOST_INSTRUCTIONS = 2_000_000  # that one lane may pass
# Bytes of the constant bank in front of a kernel's parameters.
PARAMETERS = {80: 0x160, 89: 0x160, 90: 0x210, 100: 0x380}
State = dict[str, "int | None"]
Value = Callable[[State], "int | None"]
Action = Callable[[State], None]


class NotFollowed(RuntimeError):
    """An instruction that branches depend on is not known here."""


@dataclass
class Launch:
    """One lane of one warp."""

    architecture: int
    parameters: list[int]  # 64 bits each
    block: int
    blocks: int
    thread: int
    threads: int

    def registers(self) -> State:
        """What a lane can read before it computes: constants by their operands, special registers by their names."""
        state: State = {}
        first = PARAMETERS[self.architecture]
        for number, value in enumerate(self.parameters):
            state[constant(first + 8 * number)] = value & M32
            state[constant(first + 8 * number + 4)] = value >> 32 & M32
        # Extents of block and grid lie in front of all, since 10.0 in front of the parameters.
        extents = 0x360 if self.architecture >= 100 else 0
        for number, value in enumerate((self.threads, 1, 1, self.blocks, 1, 1)):
            state[constant(extents + 4 * number)] = value
        lane = self.thread % LANES
        state.update({"SRZ": 0, "SR_TID.X": self.thread, "SR_CTAID.X": self.block, "SR_LANEID": lane, "SR_LTMASK": (1 << lane) - 1})
        state.update({name: 0 for name in ("SR_TID.Y", "SR_TID.Z", "SR_CTAID.Y", "SR_CTAID.Z", "SR_CgaCtaId")})
        return state


def constant(offset: int) -> str:
    return f"c[0x0][{offset:#x}]"


@dataclass
class Walk:
    passes: Counter[int] = field(default_factory=Counter)  # by the number of a basic block's first instruction
    off: Counter[int] = field(default_factory=Counter)  # by number of an instruction: how often its guard was known to be false
    unknown: int = 0  # branches on data, but for those around slow paths
    guessed: Counter[int] = field(default_factory=Counter)  # the same by number of the instruction


def pair(name: str) -> str:
    """The register behind this one."""
    found = re.fullmatch(r"(U?R)(\d+)", name)
    return f"{found[1]}{int(found[2]) + 1}" if found else name


def is_predicate(text: str) -> bool:
    return re.fullmatch(r"!?U?P[T\d]", text) is not None


def register_of(text: str) -> str:
    return text.lstrip("-~!|").rstrip("|").split(".")[0]


class Reader:
    """Operands of an instruction as functions of the registers."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def predicate(self, text: str) -> Value:
        name, negated = text.lstrip("!"), text.startswith("!")
        if name in ("PT", "UPT"):
            return lambda _, value=int(not negated): value
        self.names.add(name)
        if negated:
            return lambda s: None if (v := s.get(name)) is None else 1 - v
        return lambda s: s.get(name)

    def plain(self, text: str) -> Value:
        if text in ("RZ", "URZ", "SRZ"):
            return lambda _: 0
        if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", text):
            return lambda _, value=int(text, 0) & M32: value
        if text.startswith("c[0x0]["):
            return lambda s: s.get(text)
        if re.fullmatch(r"U?R\d+", text):
            self.names.add(text)
            return lambda s: s.get(text)
        return lambda _: None

    def word(self, text: str) -> Value:
        """A register, constant or number, perhaps negated or inverted, as 32 bits."""
        sign = text[0] if text[0] in "-~" and not re.match(r"-\d", text) else ""
        value = self.plain(text[len(sign) :])
        if sign == "-":
            return lambda s: None if (v := value(s)) is None else -v & M32
        if sign == "~":
            return lambda s: None if (v := value(s)) is None else ~v & M32
        return value

    def addend(self, text: str) -> tuple[Value, int]:
        """Of a sum: what is added, and what beside it so that carries are those of a difference."""
        if text[0] == "-" and not re.match(r"-\d", text):
            return self.word("~" + text[1:]), 1
        return self.word(text), 0

    def wide(self, text: str) -> Value:
        """64 bits: a register with the one behind it, or a number with its sign."""
        if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", text):
            return lambda _, value=int(text, 0) & M64: value
        low = self.word(text)
        if text in ("RZ", "URZ"):
            return low
        if found := re.fullmatch(r"c\[0x0\]\[0x([0-9a-f]+)\]", text):
            high = self.plain(constant(int(found[1], 16) + 4))
        else:
            high = self.word(pair(text))
        return lambda s: None if (a := low(s)) is None or (b := high(s)) is None else b << 32 | a


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b, "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b,
}  # fmt: skip
JOINS: dict[str, Callable[[int, int], int]] = {"AND": lambda a, b: a & b, "OR": lambda a, b: a | b, "XOR": lambda a, b: a ^ b}


class Translator:
    """One instruction as an action on the registers. What an opcode does is not published; these meanings hold for the
    instructions that ptxas makes of our kernels, and a walk is held to the same kernel's PTX by tests/e2e/machine_code.py."""

    def translate(self, instruction: Instruction) -> tuple[list[str], set[str], Action]:
        """The registers that it writes, those that it reads, and the action. One that is not known here makes unknowns."""
        reader = Reader()
        method = getattr(self, "do_" + instruction.base.removeprefix("U").lower(), None)
        if instruction.base in ("P2R", "R2P", "LDCU"):
            method = getattr(self, "do_" + instruction.base.lower())
        if method:
            writes, action = method(reader, instruction.operands, instruction.modifiers)
        else:
            writes = self.unknown_writes(instruction)
            action = self.forget(writes)
        if instruction.guard:
            guard, forget, inner = reader.predicate(instruction.guard), self.forget(writes), action

            def guarded(s: State) -> None:
                holds = guard(s)
                if holds is None:
                    forget(s)
                elif holds:
                    inner(s)

            action = guarded
        return writes, reader.names, action

    @staticmethod
    def forget(names: list[str]) -> Action:
        def action(s: State) -> None:
            for name in names:
                s[name] = None

        return action

    @staticmethod
    def unknown_writes(instruction: Instruction) -> list[str]:
        """Leading registers and predicates. Stores and branches write none; wide results are taken to have four registers."""
        if instruction.base in ("STG", "STS", "STL", "ST", "RED", "BAR", "BRA", "EXIT", "LDGSTS", "BSSY", "BSYNC", "CALL", "RET", "STSM"):
            return []
        writes = []
        for operand in instruction.operands[:3]:
            if re.fullmatch(r"U?P\d", operand):
                writes.append(operand)
            elif re.fullmatch(r"U?R\d+", operand):
                count = 4 if ".128" in instruction.opcode or instruction.base in ("HMMA", "LDSM") else 2 if re.search(r"\.(64|WIDE)|^D", instruction.opcode) else 1
                for _ in range(count):
                    writes.append(operand)
                    operand = pair(operand)
                break
            elif operand not in ("PT", "UPT"):
                break
        return writes

    # Instructions that write one word, computed by `compute` of words.
    @staticmethod
    def store(name: str, inputs: list[Value], compute: Callable[..., int], wide: bool = False) -> tuple[list[str], Action]:
        if name in ("RZ", "URZ"):
            return [], lambda s: None
        high = pair(name)

        def action(s: State) -> None:
            values = [value(s) for value in inputs]
            result = None if None in values else compute(*values)
            s[name] = None if result is None else result & M32
            if wide:
                s[high] = None if result is None else result >> 32 & M32

        return ([name, high] if wide else [name]), action

    @staticmethod
    def split(operands: tuple[str, ...]) -> tuple[str, list[str], list[str], list[str]]:
        """Result, predicates behind it, sources, predicates at the end."""
        rest = list(operands[1:])
        after = []
        while rest and is_predicate(rest[0]):
            after.append(rest.pop(0))
        last: list[str] = []
        while rest and is_predicate(rest[-1]):
            last.insert(0, rest.pop())
        return operands[0], after, rest, last

    def add(self, r: Reader, name: str, carries: list[str], parts: list[tuple[Value, int]], carry_in: list[str]) -> tuple[list[str], Action]:
        extra = [r.predicate(p) for p in carry_in]
        plus = sum(one for _, one in parts) if not extra else 0  # with a carry, "~" alone is written
        values = [value for value, _ in parts]
        outs = [c for c in carries if c not in ("PT", "UPT")]
        writes = ([] if name in ("RZ", "URZ") else [name]) + outs

        def action(s: State) -> None:
            known = [v(s) for v in values] + [e(s) for e in extra]
            total = None if None in known else sum(known) + plus
            if name not in ("RZ", "URZ"):
                s[name] = None if total is None else total & M32
            for number, carry in enumerate(outs):
                s[carry] = None if total is None else int(total >> 32 > number)

        return writes, action

    def do_iadd3(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, carries, sources, last = self.split(o)
        if "64" in m:
            a = [r.wide(x) for x in sources]
            return self.store(name, a, lambda *v: sum(v) & M64, wide=True)
        return self.add(r, name, carries, [r.addend(x) for x in sources], last if "X" in m else [])

    def do_viadd(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, _, sources, _ = self.split(o)
        return self.store(name, [r.word(x) for x in sources], lambda *v: sum(v))

    do_iadd = do_viadd

    def do_imad(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, carries, sources, last = self.split(o)
        is_signed = "U32" not in m
        extra = [r.predicate(p) for p in last] if "X" in m else []
        if "WIDE" in m:
            a, b, c = r.word(sources[0]), r.word(sources[1]), r.wide(sources[2])
            outs = [x for x in carries if x not in ("PT", "UPT")]
            writes = ([] if name in ("RZ", "URZ") else [name, pair(name)]) + outs

            def action(s: State) -> None:
                known = [a(s), b(s), c(s)] + [e(s) for e in extra]
                total = None
                if None not in known:
                    x, y = (signed(known[0]), signed(known[1])) if is_signed else (known[0], known[1])
                    total = (x * y & M64) + sum(known[2:])
                if name not in ("RZ", "URZ"):
                    s[name] = None if total is None else total & M32
                    s[pair(name)] = None if total is None else total >> 32 & M32
                for carry in outs:
                    s[carry] = None if total is None else total >> 64 & 1

            return writes, action
        if "HI" in m:
            inputs = [r.word(sources[0]), r.word(sources[1]), r.wide(sources[2])]
            if is_signed:
                return self.store(name, inputs, lambda x, y, z: signed(x) * signed(y) + z >> 32)
            return self.store(name, inputs, lambda x, y, z: x * y + z >> 32)
        inputs = [r.word(x) for x in sources] + extra
        return self.store(name, inputs, lambda x, y, *z: x * y + sum(z))

    def do_lea(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, carries, sources, last = self.split(o)
        shift = int(sources[-1], 0)
        if "HI" in m:
            low, added, high = r.word(sources[0]), r.addend(sources[1]), r.word(sources[2]) if len(sources) == 4 else (lambda _: 0)
            shifted: Value = lambda s: None if (a := low(s)) is None or (b := high(s)) is None else ((b << 32 | a) << shift) >> 32 & M32  # noqa: E731
        else:
            low, added = r.word(sources[0]), r.addend(sources[1])
            shifted = lambda s: None if (a := low(s)) is None else a << shift & M32  # noqa: E731
        return self.add(r, name, carries, [(shifted, 0), added], last if "X" in m else [])

    def do_mov(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        return self.store(o[0], [r.word(o[1])], lambda v: v, wide="64" in m)

    def do_r2ur(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, _, sources, _ = self.split(o)
        return self.store(name, [r.word(sources[0])], lambda v: v)

    def do_hfma2(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        """Where nothing is multiplied, two halves: a number that ptxas writes this way."""
        if [x.lstrip("-") for x in o[1:3]] == ["RZ", "RZ"] and len(o) == 5:
            try:
                value = struct.unpack("<I", struct.pack("<ee", float(o[4]), float(o[3])))[0]
            except ValueError:  # a register, or NaN by its bits
                return [o[0]], self.forget([o[0]])
            return self.store(o[0], [lambda _: value], lambda v: v)
        return [o[0]], self.forget([o[0]])

    def do_cs2r(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        return self.store(o[0], [lambda s: s.get(o[1])], lambda v: v, wide="32" not in m)

    def do_s2r(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        return self.store(o[0], [lambda s: s.get(o[1])], lambda v: v)

    do_s2ur = do_s2r

    def do_ldc(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        count = 2 if "64" in m else 4 if "128" in m else 1
        found = re.fullmatch(r"c\[0x0\]\[0x([0-9a-f]+)\]", o[1])
        names = [o[0]]
        for _ in range(count - 1):
            names.append(pair(names[-1]))
        sources = [constant(int(found[1], 16) + 4 * i) if found else "" for i in range(count)]

        def action(s: State) -> None:
            for name, source in zip(names, sources):
                s[name] = s.get(source)

        return names, action

    do_ldcu = do_ldc

    def do_isetp(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        low_equal = "EX" in m
        compare = COMPARISONS[m[0]]
        join = JOINS[next(x for x in m if x in JOINS)]
        is_signed = "U32" not in m
        a, b, other = r.word(o[2]), r.word(o[3]), r.predicate(o[4])
        low = r.predicate(o[5]) if low_equal else (lambda _: 0)
        strict = COMPARISONS[{"GE": "GT", "LE": "LT"}.get(m[0], m[0])]
        outs = [(name, number) for number, name in enumerate(o[:2]) if name not in ("PT", "UPT")]

        def action(s: State) -> None:
            x, y, z, e = a(s), b(s), other(s), low(s)
            result: int | None = None
            if x is not None and y is not None:
                if is_signed:
                    x, y = signed(x), signed(y)
                if not low_equal:
                    result = int(compare(x, y))
                elif x != y:
                    result = int(strict(x, y))
                elif e is not None:
                    result = e
            for name, number in outs:
                s[name] = None if result is None or z is None else join(1 - result if number else result, z)

        return [name for name, _ in outs], action

    def do_lop3(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        operands = list(o)
        zero_test = operands.pop(0) if is_predicate(operands[0]) else None
        other = r.predicate(operands[5]) if zero_test and len(operands) > 5 else (lambda _: 0)
        name, a, b, c, table = operands[0], r.word(operands[1]), r.word(operands[2]), r.word(operands[3]), int(operands[4], 0)
        terms = [i for i in range(8) if table >> i & 1]

        def compute(x: int, y: int, z: int) -> int:
            result = 0
            for i in terms:
                result |= (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
            return result & M32

        writes = ([] if name in ("RZ", "URZ") else [name]) + ([zero_test] if zero_test and zero_test not in ("PT", "UPT") else [])

        def action(s: State) -> None:
            x, y, z, known = a(s), b(s), c(s), other(s)
            result = None if x is None or y is None or z is None else compute(x, y, z)
            for out in writes:
                if out != zero_test:
                    s[out] = result
                elif known == 1 or result:
                    s[out] = 1
                else:
                    s[out] = None if result is None or known is None else 0

        return writes, action

    def do_plop3(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        a, b, c = (r.predicate(x) for x in o[2:5])
        tables = [int(x, 0) for x in o[5:7]]
        outs = [(name, tables[number]) for number, name in enumerate(o[:2]) if name not in ("PT", "UPT")]

        def action(s: State) -> None:
            x, y, z = a(s), b(s), c(s)
            for name, table in outs:
                # Known where no unknown input changes the result.
                found = {table >> (i << 2 | j << 1 | k) & 1 for i in ((x,) if x is not None else (0, 1))
                         for j in ((y,) if y is not None else (0, 1)) for k in ((z,) if z is not None else (0, 1))}  # fmt: skip
                s[name] = found.pop() if len(found) == 1 else None

        return [name for name, _ in outs], action

    def do_shf(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, low, by, high = o[0], r.word(o[1]), r.word(o[2]), r.word(o[3])
        is_left, wants_high, is_signed, is_wide = m[0] == "L", "HI" in m, "S32" in m or "S64" in m, "U64" in m or "S64" in m
        limit = 63 if is_wide or wants_high else 32

        def compute(a: int, n: int, c: int) -> int:
            n = n & 31 if "W" in m else min(n, limit)
            both = c << 32 | a
            if is_left:
                return (both << n) >> 32 & M32 if wants_high else a << n & M32
            if is_signed:
                both = signed(both, 64)
            return both >> (n + 32 if wants_high else n) & M32

        return self.store(name, [low, by, high], compute)

    def do_sel(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        a, b, which = r.word(o[1]), r.word(o[2]), r.predicate(o[3])

        def action(s: State) -> None:
            choice = which(s)
            x, y = a(s), b(s)
            s[o[0]] = x if choice == 1 else y if choice == 0 else x if x == y else None

        return [o[0]], action

    def do_vimnmx(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, _, sources, last = self.split(o)
        a, b, least = r.word(sources[0]), r.word(sources[1]), r.predicate(last[-1])
        is_signed = "U32" not in m

        def compute(x: int, y: int, p: int) -> int:
            if is_signed:
                x, y = signed(x), signed(y)
            return min(x, y) if p else max(x, y)

        return self.store(name, [a, b, least], compute)

    do_imnmx = do_vimnmx

    def do_viaddmnmx(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        name, _, sources, last = self.split(o)
        a, b, c, least = r.word(sources[0]), r.word(sources[1]), r.word(sources[2]), r.predicate(last[-1])
        is_signed = "U32" not in m

        def compute(x: int, y: int, z: int, p: int) -> int:
            total = x + y & M32
            if is_signed:
                total, z = signed(total), signed(z)
            return min(total, z) if p else max(total, z)

        return self.store(name, [a, b, c, least], compute)

    def do_prmt(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        def compute(a: int, selector: int, b: int) -> int:
            both, result = b << 32 | a, 0
            for i in range(4):
                digit = selector >> 4 * i & 15
                byte = both >> 8 * (digit & 7) & 255
                result |= (255 * (byte >> 7) if digit & 8 else byte) << 8 * i
            return result

        if m:
            return [o[0]], self.forget([o[0]])
        return self.store(o[0], [r.word(x) for x in o[1:4]], compute)

    def do_sgxt(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        def compute(a: int, bits: int) -> int:
            low = a & (1 << bits) - 1
            return low if "U32" in m or bits == 0 else signed(low, bits)

        return self.store(o[0], [r.word(o[1]), r.word(o[2])], compute)

    def do_p2r(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        mask = int(o[3], 0)
        bits = [r.predicate(f"P{i}") if mask >> i & 1 else (lambda _: 0) for i in range(7)]
        return self.store(o[0], bits, lambda *v: sum(bit << i for i, bit in enumerate(v)))

    def do_r2p(self, r: Reader, o: tuple[str, ...], m: list[str]) -> tuple[list[str], Action]:
        value, mask = r.word(o[1]), int(o[2], 0)
        names = [f"P{i}" for i in range(7) if mask >> i & 1]

        def action(s: State) -> None:
            bits = value(s)
            for name in names:
                s[name] = None if bits is None else bits >> int(name[1]) & 1

        return names, action


def off_name(number: int) -> str:
    return f"off {number}"


class Walker:
    """A kernel on one architecture; walks of it by launch."""

    def __init__(self, function: Function, architecture: int):
        self.function, self.architecture = function, architecture
        self.code = function.instructions
        self.leaders = self.find_leaders()
        self.ends = dict(zip(self.leaders, self.leaders[1:] + [len(self.code)]))  # of basic blocks, by their first instruction
        self.translator = Translator()
        self.actions: dict[int, list[Action]] = {}  # by basic block
        self.guarded: list[int] = []  # instructions whose guards are counted
        self.needed = self.find_needed()

    def target_of(self, instruction: Instruction) -> int | None:
        for operand in instruction.operands:
            if found := re.fullmatch(r"`\(([^)]+)\)", operand):
                return self.function.labels.get(found[1])
        return None

    def find_leaders(self) -> list[int]:
        starts = {0, *self.function.labels.values()}
        for number, instruction in enumerate(self.code):
            if instruction.base in ("BRA", "EXIT", "CALL", "RET"):
                starts.add(number + 1)
            if instruction.base in ("BRX", "JMX", "JMP", "BRXU"):
                raise NotFollowed(f"{self.function.name} has {instruction.opcode}, a branch to a computed address, which is not followed")
        return sorted(start for start in starts if start < len(self.code))

    def find_needed(self) -> set[str]:
        """Registers from which a branch or the guard of an access may depend, wherever they are written."""
        rows = []
        needed: set[str] = set()
        for instruction in self.code:
            reader = Reader()
            if instruction.guard:
                reader.predicate(instruction.guard)
            if instruction.base == "BRA":
                for operand in instruction.operands:
                    if is_predicate(operand):
                        reader.predicate(operand)
            needed |= reader.names
            writes, reads, _ = self.translator.translate(instruction)
            rows.append((writes, reads))
        grown = True
        while grown:
            before = len(needed)
            for writes, reads in rows:
                if not needed.isdisjoint(writes):
                    needed |= reads
            grown = len(needed) > before
        return needed

    def walk(self, launch: Launch) -> Walk:
        result, state, stack, at, budget = Walk(), launch.registers(), [], 0, MOST_INSTRUCTIONS
        while True:
            if at not in self.actions:
                self.actions[at] = self.actions_of(at)
            result.passes[at] += 1
            for action in self.actions[at]:
                action(state)
            budget -= self.ends[at] - at
            if budget < 0:
                raise NotFollowed(f"{self.function.name} runs more than {MOST_INSTRUCTIONS} instructions in one lane")
            following = self.next_of(self.ends[at] - 1, state, stack, result)
            if following is None:
                for number in self.guarded:
                    if times := state.get(off_name(number)):
                        result.off[number] = times
                return result
            at = following

    def actions_of(self, begin: int) -> list[Action]:
        found = []
        for number in range(begin, self.ends[begin]):
            instruction = self.code[number]
            writes, _, action = self.translator.translate(instruction)
            if instruction.guard and instruction.base != "BRA":
                self.guarded.append(number)
                found.append(self.count_off(number, instruction.guard))
            if not self.needed.isdisjoint(writes):
                found.append(action)
        return found

    @staticmethod
    def count_off(number: int, guard: str) -> Action:
        predicate, name = Reader().predicate(guard), off_name(number)

        def action(s: State) -> None:
            if predicate(s) == 0:
                s[name] = (s.get(name) or 0) + 1

        return action

    def next_of(self, number: int, state: State, stack: list[int], result: Walk) -> int | None:
        """Where the lane goes on behind instruction `number`; None where it ends."""
        instruction = self.code[number]
        if instruction.base not in ("BRA", "EXIT", "CALL", "RET"):
            return number + 1 if number + 1 < len(self.code) else None
        reader = Reader()
        conditions = [reader.predicate(instruction.guard)] if instruction.guard else []
        if instruction.base == "BRA":
            if "DIV" in instruction.modifiers:
                return number + 1  # lanes that part: taken by none, since all do as this one
            conditions += [reader.predicate(operand) for operand in instruction.operands if is_predicate(operand)]
        values = [condition(state) for condition in conditions]
        if 0 in values:
            return number + 1
        if None in values:
            slow = self.past_slow_path(number)
            if slow is not None:
                return slow
            result.unknown += 1
            result.guessed[number] += 1
            target = self.target_of(instruction)
            return target if target is not None and target > number and result.guessed[number] % 2 == 0 else number + 1
        if instruction.base == "EXIT":
            return None
        if instruction.base == "RET":
            return stack.pop()
        target = self.target_of(instruction)
        if target is None:
            raise NotFollowed(f"{self.function.name}: {instruction.opcode} at {instruction.address:#x} goes to no label of the function")
        if instruction.base == "CALL":
            stack.append(number + 1)
        return target

    def past_slow_path(self, number: int) -> int | None:
        """Where a branch goes on whose other way is a slow path, a block that calls."""
        instruction = self.code[number]
        target = self.target_of(instruction)
        if instruction.base == "BRA" and target is not None and any(self.code[i].base == "CALL" for i in range(number + 1, min(target, number + 8))):
            return target
        return None
