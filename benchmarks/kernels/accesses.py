#!/usr/bin/python3
"""How many bytes of a training step the generated kernels of a GPU's program move by less than 16 a thread.

  accesses.py EXECUTABLE... [--top=N]

An executable is what `stowage compile --target=cuda:h100` wrote. Nothing is run: of every kernel the PTX says how wide its
accesses to each operand are at most, and the program how large the operand is and how often the kernel is launched.
What is read and written by 16 bytes at least, or by four bytes where its elements are one each, counts as wide. Operands of
less than a sixteenth of the launch's largest are left out: numbers a channel, indices, scalars. A library's calls are none of it.
"""

import argparse
import collections
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/zoo"))
from cubins import PTX, images  # noqa: E402

SIZES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2}  # others: 1
WIDE = 16


def program(data: bytes) -> dict:
    """The program as runtime/format/ProgramJson.cpp writes it."""
    for found in re.finditer(rb'\{"version":1,"target":"cuda:', data):
        end = data.index(b"\0", found.start())
        return json.JSONDecoder().raw_decode(data[found.start() : end].decode(errors="replace"))[0]  # other data may follow at once
    raise SystemExit("error: the executable holds no program for a GPU; compile it with --target=cuda:h100")


def ptx(data: bytes) -> str:
    """The PTX of the latest architecture."""
    found = [image for kind, _, image in images(data) if kind == PTX]
    if not found:
        raise SystemExit("error: the executable holds no PTX")
    return found[-1].rstrip(b"\0").decode()


def widths(body: str) -> dict[int, int]:
    """By operand the bytes of the widest access, loads or stores. Parameters 0 and 1 are the range of tasks; an address is
    made of one pointer and numbers, so the operand of a register is found by following moves and sums."""
    operand_of: dict[str, int] = {}
    widest: dict[int, int] = {}
    for _ in range(2):  # twice, for registers that loops carry
        for line in body.splitlines():
            line = line.strip()
            if found := re.match(r"ld\.param\.\w+\s+(%rd\d+), \[\w+_param_(\d+)\]", line):
                if int(found[2]) >= 2:
                    operand_of[found[1]] = int(found[2]) - 2
            elif found := re.match(r"(?:@\S+ )?(?:ld|st)\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)\s+(.*);", line):
                address = re.search(r"\[(%rd\d+)", found[3])
                if address and address[1] in operand_of:
                    operand = operand_of[address[1]]
                    widest[operand] = max(widest.get(operand, 0), int(found[1] or 1) * int(found[2]) // 8)
            elif found := re.match(r"(?:@\S+ )?(?:add|sub|mad|cvta|mov|selp)\S*\s+(%rd\d+), (.*);", line):
                for register in re.findall(r"%rd\d+", found[2]):
                    if register in operand_of:
                        operand_of.setdefault(found[1], operand_of[register])
    return widest


def size_of(operand: dict) -> tuple[int, int]:
    """Bytes, and those of an element."""
    count = 1
    for extent in operand["shape"]:
        count *= extent
    element = SIZES.get(operand["dtype"], 1)
    return count * element, element


def report(path: Path, top: int) -> None:
    data = path.read_bytes()
    content, text = program(data), ptx(data)
    by_kernel = {m[1]: widths(m[2]) for m in re.finditer(r"\.entry (\w+)\((.*?)\n\}", text, re.S)}
    launches = total = narrow = 0
    by_kind: collections.Counter[tuple[str, int]] = collections.Counter()
    graph = next(g for g in content["graphs"] if g["name"] == "train")
    for command in graph["commands"]:
        if command["kernel"] < 0:
            continue
        launches += 1
        found = by_kernel[content["kernels"][command["kernel"]]]
        sizes = [size_of(operand) for operand in command["operands"]]
        largest = max(size for size, _ in sizes)
        for number, (size, element) in enumerate(sizes):
            if number not in found:
                continue  # an operand of which this kernel of several needs nothing
            total += size
            if 16 * size >= largest and found[number] < min(WIDE, 4 if element == 1 else WIDE):
                narrow += size
                by_kind[command["kind"], found[number]] += size
    print(f"{path.name}: {launches} launches, {total / 1e6:.1f} MB, of which {narrow / 1e6:.1f} MB ({100 * narrow / total:.1f} %) by less than {WIDE} bytes a thread")
    for (kind, width), size in by_kind.most_common(top):
        print(f"  {kind} by {width}: {size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executables", type=Path, nargs="+", metavar="EXECUTABLE")
    parser.add_argument("--top", type=int, default=8, help="kinds of kernels listed")
    args = parser.parse_args()
    for path in args.executables:
        report(path, args.top)


if __name__ == "__main__":
    main()
