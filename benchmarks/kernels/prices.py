#!/usr/bin/env python3
"""Measures what the library's implementations of convolutions are worth here, and writes the table that the host chooses by.

  build/python/bin/python benchmarks/kernels/prices.py [--only=EXPRESSION] [--turns=N]

One thread, f32 and bf16: the least processor time of some turns, in which all implementations of a call take part one after the other. Writes
runtime/host/prices/avx512_core_bf16.inc, of whose use runtime/host/Prices.h tells, on a processor with AVX512-BF16; choices follow once the host
is built again. With --only it prints and writes nothing: also for other processors, of which the implementations by these names are tried.
Needs build/release/bin/CallBench.
"""

import argparse
import os
import re
from pathlib import Path

from products import Ours

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"f32": ["brgconv_1x1:avx512_core", "brgconv:avx512_core", "jit_1x1:avx512_core", "jit:avx512_core", "jit_1x1:avx2", "jit:avx2"],
         "bf16": ["brgconv_1x1:avx512_core_bf16", "brgconv:avx512_core_bf16", "jit_bf16_1x1:avx512_core_bf16", "jit_bf16:avx512_core_bf16"]}  # fmt: skip
KINDS = {"y": "Forward", "dx": "GradInput", "dw": "GradWeight"}

# (window, stride): pairs of channels, sizes of images; those of ResNets, MobileNets, EfficientNets, ConvNeXts, ViTs and U-Nets
LAYERS = {
    (1, 1): ([(16, 96), (24, 144), (144, 24), (32, 192), (192, 32), (40, 240), (240, 40), (160, 960), (960, 160), (64, 64), (64, 256), (256, 64),
              (128, 512), (512, 128), (256, 1024), (1024, 256), (512, 2048), (2048, 512)], (2, 7, 28, 56)),
    (1, 2): ([(64, 128), (64, 256), (256, 512), (512, 1024), (1024, 2048)], (4, 14, 28)),
    (2, 2): ([(64, 128), (96, 192), (192, 384), (384, 768)], (8, 28)),
    (3, 1): ([(1, 16), (3, 16), (3, 64), (16, 16), (24, 24), (32, 32), (64, 32), (64, 64), (128, 64), (128, 128), (256, 256), (512, 512)], (2, 4, 7, 14, 28, 64)),
    (3, 2): ([(3, 16), (3, 32), (3, 64), (32, 64), (64, 128), (128, 256), (256, 512)], (4, 16, 28, 64, 112)),
    (4, 4): ([(3, 96), (3, 128)], (64, 224)),
    (5, 1): ([(1, 16), (3, 32), (16, 32), (32, 64)], (14, 28)),
    (7, 2): ([(1, 64), (3, 64)], (32, 64, 224)),
    (16, 16): ([(3, 192), (3, 768)], (64, 224)),
}  # fmt: skip
GROUPED = {(3, 1): ([(128, 128, 32), (256, 256, 32), (64, 64, 4)], (7, 28)), (3, 2): ([(256, 256, 32), (512, 512, 32)], (14, 28))}
IMAGES, LEAST, MOST = 8, 2e6, 6e9  # operations of a call


def calls():
    """images, inputs, outputs, window, stride, size, groups"""
    plain = {shape: ([(*pair, 1) for pair in pairs], sizes) for shape, (pairs, sizes) in LAYERS.items()}
    for layers in (plain, GROUPED):
        for (window, stride), (pairs, sizes) in layers.items():
            for inputs, outputs, groups in pairs:
                for size in sizes:
                    call = IMAGES, inputs, outputs, window, stride, size, groups
                    if LEAST <= operations(call) <= MOST:
                        yield call


def places(window, stride, size):
    return (size + window // 2 * 2 - window) // stride + 1


def operations(call):
    images, inputs, outputs, window, stride, size, groups = call
    return 2 * images * outputs * places(window, stride, size) ** 2 * inputs / groups * window**2


def rates(benches, dtype, result, call, turns):
    """The implementations that take the call, with no more scratch than an eighth of images and results, by falling GFLOP/s. Each has a process of its
    own, so that they take turns. Those that take memory from the heap are none of them."""
    line, found, taking = " ".join(map(str, ["convolution", dtype, result, *call])), {}, []
    images, inputs, outputs, window, stride, size, _ = call
    room = (2 if dtype == "bf16" else 4) * images * (inputs * size**2 + outputs * places(window, stride, size) ** 2) / 8
    for name, bench in benches.items():
        answer, scratch = bench.ask(f"{line} {name}")
        if answer == name and int(scratch) <= room:
            taking.append(name)
    times = max(1, round(3e8 / operations(call)))
    for _ in range(turns):
        for name in taking:
            found[name] = min(found.get(name, float("inf")), benches[name].run(times)[1])
    return sorted(((name, round(operations(call) * times / seconds / 1e9)) for name, seconds in found.items()), key=lambda pair: (-pair[1], pair[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="calls whose line in the table matches this expression; prints them and writes nothing")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    if not args.only and ("avx512_bf16" not in Path("/proc/cpuinfo").read_text() or "ONEDNN_MAX_CPU_ISA" in os.environ):
        raise SystemExit("prices.py: the table is of AVX512-BF16, which this process has not; --only=EXPRESSION prints what it does")
    lines = []
    for dtype, names in NAMES.items():
        benches = {name: Ours(1) for name in names}
        for call in calls():
            for result, kind in KINDS.items():
                key = f"{{{kind}, {'Bf16' if dtype == 'bf16' else 'F32'}, {', '.join(map(str, call))}}}"
                if not re.search(args.only, key):
                    continue
                found = rates(benches, dtype, result, call, args.turns)
                if len(found) < 2:
                    continue
                named = ", ".join(f"{{{''.join(part.capitalize() for part in re.split('[_:]', name))}, {rate}}}" for name, rate in found)
                lines.append(f"{{{key}, {{{named}}}}},")
                print(lines[-1], flush=True)
    if not args.only:
        (ROOT / "runtime/host/prices/avx512_core_bf16.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
