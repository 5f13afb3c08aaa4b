#!/usr/bin/python3
"""What attention's kernels take for a tile of 64 queries and 64 keys, from their machine code, and the most they could reach by it.

  attention.py EXECUTABLE [--chip=a100 ...] [--nvdisasm=FILE]

Counts are of one warp, 16 of the 64 owned rows, and one tile, as roofline.py counts them, with what a block does once spread over its tiles.
Clocks are of a multiprocessor and the four warps of a block: what a unit needs for the tile if nothing else holds it. The most is the
operations of the algorithm, two products of 64 x 64 x D forward and five backward, over the busiest unit's clocks, on all
multiprocessors; --chip chooses among an executable's chips.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from accesses import program
from roofline import SCHEDULERS, Chip, Kernels, Work
from sass import NoDisassembler, find_nvdisasm

TILE, WARPS = 64, 4
# Products of a tile that the kernels compute, by how many they are, and those that the algorithm has.
PRODUCTS = {"attention": {1: [2]}, "attention_gradient": {2: [3, 4], 3: [3, 2, 3]}}
NEEDED = {"attention": 2, "attention_gradient": 5}


def clocks_of(work: Work, tiles: float, chip: Chip) -> dict[str, float]:
    """By unit, for one tile."""
    peak = chip.peaks["bf16"] / chip.multiprocessors / chip.clock  # operations in a clock
    clocks = {unit: total / tiles for unit, total in work.units.items()}
    return clocks | {"issue": work.issued / tiles / SCHEDULERS, "tensor": work.tensor_flops / tiles / peak}


def rows_of(content: dict[str, Any], kernels: Kernels, kind: str) -> list[str]:
    graph = next(graph for graph in content["graphs"] if graph["name"] == "train")
    command = next((command for command in graph["commands"] if command["kind"] == kind), None)
    if command is None:
        raise SystemExit(f"error: the program has no command {kind}")
    width = command["operands"][0]["shape"][-1]
    rows, most, chip = [], 0.0, kernels.chip
    parts = command["parts"] if command["op"] == "sequence" else [command]
    for part, products in zip(parts, PRODUCTS[kind][len(parts)]):
        name = content["kernels"][part["kernel"]]
        work = kernels.work(name, part["tasks"], [(1 << 40) + operand["offset"] for operand in part["operands"]])
        tiles = work.tensor_flops / (products * 2 * TILE * TILE * width)
        clocks = clocks_of(work, tiles, chip)
        busiest = max(clocks, key=lambda unit: clocks[unit])
        most += clocks[busiest]

        def count(kind: str, work: Work = work, tiles: float = tiles) -> str:
            return f"{work.classes[kind] / tiles / WARPS:.0f}"

        rows.append(f"| {chip.name} | {name.split('_', 1)[1]}{'' if len(parts) == 1 else f', {products} products'} | {work.issued / tiles / WARPS:.0f} | {count('mma')} | "
                    f"{count('load matrix')} | {count('fp32')} | {count('transcendental')} | {work.asked_bytes / tiles / 1024:.1f} | "
                    f"{clocks['issue']:.0f} | {clocks['tensor']:.0f} | {clocks['load-store']:.0f} | {clocks['xu']:.0f} | {busiest} | |")  # fmt: skip
    reached = NEEDED[kind] * 2 * TILE * TILE * width / most * chip.clock * chip.multiprocessors / 1e12
    rows[-1] = rows[-1][:-1] + f"{reached:.0f} |"
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executable", type=Path, metavar="EXECUTABLE")
    parser.add_argument("--chip", action="append", help="else all of the program's")
    parser.add_argument("--nvdisasm", type=Path, metavar="FILE")
    args = parser.parse_args()
    data = args.executable.read_bytes()
    content = program(data)
    print("| chip | kernel | issue slots | mma | ldmatrix | fp32 | ex2 | KiB asked | clocks: issue | tensor | load-store | xu | bound | at most TFLOP/s |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|")
    try:
        for name in args.chip or content["target"].removeprefix("cuda:").split(","):
            kernels = Kernels(data, Chip.load(name), find_nvdisasm(args.nvdisasm))
            for kind in PRODUCTS:
                print("\n".join(rows_of(content, kernels, kind)))
    except NoDisassembler as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
