#!/usr/bin/python3
"""What each command of a GPU's program has to do at least, and what its machine code does: a roofline without a GPU.

  roofline.py EXECUTABLE... [--chip=h200] [--rows=10] [--all] [--json=FILE] [--nvdisasm=FILE]

An executable is what `stowage compile --target=cuda:h100` wrote where ptxas was found. Nothing is run. Of every command:

  memory    its operands once, or what the code asks for where that is less, over the bandwidth of the chip's data sheet
  math      its floating-point operations, over the data sheet's peak for the type of its operands
  tensor    its tensor-core instructions, over the same
  issue     instructions of all warps, over what the schedulers of the multiprocessors that have a block start in a clock
  units     the same for the busiest unit behind the schedulers: fma, imad (products of integers), alu (integers, comparisons),
            xu (transcendental functions, conversions), fp64, load-store (global and shared memory, shuffles)
  launch    of the data sheet

The bound of a command is the largest. What it needs is the largest of memory, math and launch, whatever the code; a kernel
below half of its bound has code that takes twice what it needs. Library calls have no code here. Instructions are counted by
following lanes 0 and 31 of up to four warps of up to sixteen blocks (sasswalk.py): exact where branches depend on extents alone,
an estimate where they depend on data (marked ~), where blocks differ, and where lanes between these two go other ways. Slow paths
of divisions and roots are taken to be never needed. MB asked is what the instructions ask for, also what a cache answers. Bank
conflicts, misses of caches, latencies and what several blocks on a multiprocessor hide of each other are not seen: times are bounds.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/zoo"))
from accesses import program  # noqa: E402
from cubins import CUBIN, PTX, images  # noqa: E402
from sass import GLOBAL, LANES, NoDisassembler, class_of, disassemble, find_nvdisasm, is_upper_half, mma_flops, unit_clocks, width_of  # noqa: E402
from sasswalk import Launch, NotFollowed, Walker  # noqa: E402

BLOCKS_PER_MULTIPROCESSOR = 16  # runtime/cuda/CudaDevice.cpp
SCHEDULERS = 4
SAMPLED_BLOCKS, SAMPLED_WARPS, SAMPLED_LANES = 16, 4, (0, LANES - 1)
ATTENTION = ("attention", "attention_gradient")


@dataclass
class Chip:
    name: str
    architecture: int
    multiprocessors: int
    clock: float  # Hz
    peaks: dict[str, float]
    bandwidth: float
    launch: float

    @staticmethod
    def load(name: str) -> Chip:
        chip = json.loads((ROOT / f"codegen/cuda/chips/{name}.json").read_text())
        sheet = json.loads((ROOT / f"compiler/sheets/{chip['data_sheet']}.json").read_text())
        device = chip["cudnn_device"]
        return Chip(name, int(chip["architecture"].removeprefix("sm_")), device["multiProcessorCount"], 1e3 * device["smClockRateKHz"],
                    sheet["flops_per_second"], sheet["bytes_per_second"], sheet["launch_seconds"])  # fmt: skip


@dataclass
class Work:
    """Of one launch, summed over its warps."""

    issued: float = 0
    longest: float = 0  # instructions of the warp that has most
    tensor_flops: float = 0
    asked_bytes: float = 0  # of global memory, by the instructions
    units: Counter[str] = field(default_factory=Counter)  # clocks of a multiprocessor
    classes: Counter[str] = field(default_factory=Counter)
    upper: float = 0  # issued for upper halves of integers of 64 bits
    unknown: int = 0  # branches on data


@dataclass
class Row:
    """One launch or call."""

    command: int
    name: str
    kind: str
    kernel: str  # "" for a library's call
    phase: str
    bytes: float
    flops: float
    seconds: dict[str, float]
    issued: float = 0
    upper: float = 0
    asked_bytes: float = 0
    tensor_flops: float = 0
    is_estimate: bool = False

    @property
    def bound(self) -> str:
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def total(self) -> float:
        return self.seconds[self.bound]

    @property
    def needed(self) -> float:
        return max(self.seconds[name] for name in ("memory", "math", "launch"))


def spread(count: int, most: int) -> list[tuple[int, float]]:
    """Up to `most` of `count` things in order, each with how many it stands for."""
    if count <= most:
        return [(i, 1.0) for i in range(count)]
    return [(int((i + 0.5) * count / most), count / most) for i in range(most)]


class Kernels:
    """The machine code of an executable for one chip."""

    def __init__(self, data: bytes, chip: Chip, nvdisasm: Path):
        found = [image for kind, arch, image in images(data) if kind == CUBIN and arch == chip.architecture]
        if not found:
            raise SystemExit(f"error: the executable has no cubin for sm_{chip.architecture}; compile it with --target=cuda:{chip.name} where ptxas is installed")
        text = next(image for kind, arch, image in images(data) if kind == PTX and arch == chip.architecture).decode()
        self.threads = {m[1]: int(m[2]) for m in re.finditer(r"\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)", text)}
        self.functions = disassemble(nvdisasm, found[0])
        self.chip = chip
        self.walkers: dict[str, Walker] = {}
        self.known: dict[tuple[str, int], Work] = {}

    def blocks(self, tasks: int) -> int:
        return max(1, min(tasks, BLOCKS_PER_MULTIPROCESSOR * self.chip.multiprocessors))

    def work(self, kernel: str, tasks: int, addresses: list[int]) -> Work:
        key = (kernel, tasks)
        if key not in self.known:
            self.known[key] = self.count(kernel, tasks, addresses)
        return self.known[key]

    def count(self, kernel: str, tasks: int, addresses: list[int]) -> Work:
        walker = self.walkers.setdefault(kernel, Walker(self.functions[kernel], self.chip.architecture))
        work, blocks, threads = Work(), self.blocks(tasks), self.threads[kernel]
        for block, block_weight in spread(blocks, SAMPLED_BLOCKS):
            for warp, warp_weight in spread(-(-threads // LANES), SAMPLED_WARPS):
                walks = [walker.walk(Launch(self.chip.architecture, [0, tasks, *addresses], block, blocks, LANES * warp + lane, threads)) for lane in SAMPLED_LANES]
                self.add(work, walker, walks, block_weight * warp_weight)
        return work

    def add(self, work: Work, walker: Walker, walks: list[Any], weight: float) -> None:
        """One warp, which stands for `weight`: an instruction is issued where a lane passes it."""
        issued = 0
        work.unknown += max(walk.unknown for walk in walks)
        for begin in {begin for walk in walks for begin in walk.passes}:
            times = max(walk.passes[begin] for walk in walks)
            end = walker.ends[begin]
            issued += times * (end - begin)
            for number in range(begin, end):
                instruction = walker.code[number]
                kind = class_of(instruction)
                work.upper += weight * times * is_upper_half(instruction)
                # A warp whose lanes are all off still issues, but holds no unit.
                active = times - min(walk.off[number] for walk in walks)
                work.classes[kind] += weight * active
                for unit, clocks in unit_clocks(instruction, self.chip.architecture).items():
                    work.units[unit] += weight * active * clocks
                if kind == "mma":
                    work.tensor_flops += weight * active * mma_flops(instruction)
                if kind in GLOBAL:
                    lanes = sum(walk.passes[begin] - walk.off[number] for walk in walks) / len(walks)
                    work.asked_bytes += weight * lanes * LANES * width_of(instruction)
        work.issued += weight * issued
        work.longest = max(work.longest, issued)


def peak_of(command: dict[str, Any], chip: Chip) -> float:
    """By the type of what is multiplied."""
    multiplies = command["op"] not in ("kernel", "sequence") or command["kind"] in ATTENTION
    dtype = command["operands"][0]["dtype"] if multiplies and command["operands"] else "f32"
    return chip.peaks.get(dtype, chip.peaks["f32"])


def rows_of(content: dict[str, Any], kernels: Kernels, graph_name: str) -> list[Row]:
    graph = next((g for g in content["graphs"] if g["name"] == graph_name), None)
    if graph is None:
        raise SystemExit(f"error: the program has no graph {graph_name}; it has " + ", ".join(g["name"] for g in content["graphs"]))
    return [row for number, command in enumerate(graph["commands"]) for row in rows_of_command(number, command, content["kernels"], kernels)]


def rows_of_command(number: int, command: dict[str, Any], names: list[str], kernels: Kernels) -> list[Row]:
    """One, or of a sequence one for each part."""
    parts = command["parts"] if command["op"] == "sequence" else [command]
    # Addresses as an arena at a multiple of 256 has them; only their last bits matter.
    works = [kernels.work(names[part["kernel"]], part["tasks"], [(1 << 40) + operand["offset"] for operand in part["operands"]]) if part["kernel"] >= 0 else None
             for part in parts]  # fmt: skip
    asked = sum(work.asked_bytes for work in works if work)
    rows = []
    for part, work in zip(parts, works):
        # What the plan states is of the whole command; its parts share it as they ask for bytes.
        share = 1.0 if len(parts) == 1 else work.asked_bytes / asked if work and asked else 1 / len(parts)
        moved = command["bytes"] * share
        if work:
            moved = min(moved, work.asked_bytes)  # of a slice, say, the plan counts the whole operand
        flops = command["flops"] * share
        peak = peak_of(command if command["kind"] in ATTENTION else part, kernels.chip)
        seconds = {"memory": moved / kernels.chip.bandwidth, "math": flops / peak, "launch": kernels.chip.launch}
        name = names[part["kernel"]] if work else ""
        row = Row(number, part["name"] or command["name"], command["kind"], name, command["phase"], moved, flops, seconds)
        if work:
            fill(row, work, part["tasks"], kernels)
        rows.append(row)
    return rows


def fill(row: Row, work: Work, tasks: int, kernels: Kernels) -> None:
    """What the machine code takes."""
    chip, blocks = kernels.chip, kernels.blocks(tasks)
    busy = min(blocks, chip.multiprocessors)
    schedulers = min(SCHEDULERS * busy, blocks * -(-kernels.threads[row.kernel] // LANES))
    row.seconds["issue"] = max(work.issued / schedulers, work.longest) / chip.clock
    if work.tensor_flops:
        row.seconds["tensor"] = work.tensor_flops / chip.peaks["bf16"] * chip.multiprocessors / busy
    if work.units:
        unit, clocks = work.units.most_common(1)[0]
        row.seconds[unit] = clocks / busy / chip.clock
    row.upper = work.upper
    row.issued, row.asked_bytes, row.tensor_flops, row.is_estimate = work.issued, work.asked_bytes, work.tensor_flops, work.unknown > 0


@dataclass
class Group:
    """Launches of one kernel over equally many tasks, or calls that are alike."""

    title: str
    rows: list[Row]

    @property
    def lost(self) -> float:
        """Seconds a step over what is needed."""
        return sum(row.total - row.needed for row in self.rows)

    @property
    def share(self) -> float:
        return sum(row.needed for row in self.rows) / sum(row.total for row in self.rows)


def groups_of(rows: list[Row]) -> list[Group]:
    groups: dict[tuple[Any, ...], Group] = {}
    for row in rows:
        key = (row.kernel or row.kind, round(row.bytes), round(row.flops))
        groups.setdefault(key, Group(row.kernel or row.kind + " (library)", [])).rows.append(row)
    return sorted(groups.values(), key=lambda group: (-group.lost, -sum(row.total for row in group.rows)))


def table(groups: list[Group]) -> str:
    lines = ["| kernel | launches | MB | MB asked | GFLOP | issue slots, 1000 | memory | math | tensor | issue | busiest unit | bound | needed of it |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|---:|"]  # fmt: skip
    for group in groups:
        row = group.rows[0]

        def us(name: str, row: Row = row) -> str:
            return f"{1e6 * row.seconds[name]:.1f}" if name in row.seconds else ""

        unit = next((name for name in row.seconds if name not in ("memory", "math", "launch", "issue", "tensor")), "")
        lines.append(f"| {'~' if row.is_estimate else ''}{group.title} | {len(group.rows)} | {row.bytes / 1e6:.1f} | {f'{row.asked_bytes / 1e6:.1f}' if row.kernel else ''} | "
                     f"{row.flops / 1e9:.2f} | {f'{row.issued / 1e3:.0f}' if row.kernel else ''} | {us('memory')} | {us('math')} | {us('tensor')} | {us('issue')} | "
                     f"{unit} {us(unit)} | {row.bound} | {100 * group.share:.0f} % |")  # fmt: skip
    return "\n".join(lines)


def report(path: Path, args: argparse.Namespace, nvdisasm: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    content = program(data)
    chip = Chip.load(args.chip or content["target"].removeprefix("cuda:").split(",")[0])
    rows = rows_of(content, Kernels(data, chip, nvdisasm), args.graph)
    total, needed, launches = sum(row.total for row in rows), sum(row.needed for row in rows), len(rows)
    bounds: Counter[str] = Counter()
    for row in rows:
        bounds[row.bound] += row.total
    print(f"{path.name} on {chip.name}: {launches} launches, {1e3 * total:.2f} ms by these counts, {1e3 * needed:.2f} ms needed; "
          + ", ".join(f"{name} {1e3 * seconds:.2f}" for name, seconds in bounds.most_common()))  # fmt: skip
    groups = groups_of(rows)
    below = [group for group in groups if group.share < 0.5]
    print(f"below half of their bound: {sum(len(group.rows) for group in below)} launches, {1e3 * sum(group.lost for group in below):.2f} ms over what they need")
    issued = sum(row.issued for row in rows)
    bound_by_code = sum(row.total for row in rows if row.bound not in ("memory", "math", "launch"))
    print(f"of {issued / 1e6:.0f} million warp instructions {100 * sum(row.upper for row in rows) / issued:.1f} % are of integers of 64 bits; bound by code: {1e3 * bound_by_code:.2f} ms"
          if issued else "no generated kernel")  # fmt: skip
    print("microseconds a launch\n")
    print(table(groups if args.all else groups[: args.rows]) + "\n")
    return [asdict(row) | {"bound": row.bound, "executable": path.name} for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executables", type=Path, nargs="+", metavar="EXECUTABLE")
    parser.add_argument("--chip", help="a file of codegen/cuda/chips; else the first of the program's")
    parser.add_argument("--graph", default="train")
    parser.add_argument("--rows", type=int, default=10, help="kernels listed, those first that lose most")
    parser.add_argument("--all", action="store_true", help="every kernel")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every command, too")
    parser.add_argument("--nvdisasm", type=Path, metavar="FILE")
    args = parser.parse_args()
    try:
        nvdisasm = find_nvdisasm(args.nvdisasm)
        found = [row for path in args.executables for row in report(path, args, nvdisasm)]
    except (NoDisassembler, NotFollowed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
