#!/usr/bin/env python3
"""Convolutions of training steps as our programs call the library for them, beside PyTorch's, in turns.

  build/python/bin/python benchmarks/kernels/convolutions.py [--threads=N] [--type=f32|bf16] [--only=NAME] [--seconds=S]

Of each convolution of a model: y, the gradient of its input dx and of its weights dw. PyTorch runs on channels-last tensors, as we do, and on plain ones; a row
has the faster of the two. Depthwise convolutions are kernels of ours, not calls: benchmarks/kernels/KernelBench.cpp has those. A row says GFLOP/s of both
and our time by PyTorch's: medians of at least seven turns, on one thread by processor time, which other load disturbs less than the clock, on several
by the clock. Needs build/release/bin/CallBench.
"""

import argparse
import re
import statistics
import time

import torch

from products import Ours

# name: images, inputs, outputs, window, stride, size, groups
LAYERS = {
    "resnet stem": (4, 3, 64, 7, 2, 64, 1), "resnet 64": (4, 64, 64, 3, 1, 16, 1), "resnet 128 /2": (4, 64, 128, 3, 2, 16, 1),
    "resnet 256": (4, 256, 256, 3, 1, 4, 1), "resnet 512 at 7": (8, 512, 512, 3, 1, 7, 1), "resnet 64 at 56": (8, 64, 64, 3, 1, 56, 1),
    "shortcut /2": (8, 256, 512, 1, 2, 28, 1), "bottleneck in": (8, 256, 64, 1, 1, 56, 1), "bottleneck out": (8, 64, 256, 1, 1, 56, 1),
    "bottleneck deep": (8, 2048, 512, 1, 1, 7, 1), "mobilenet expand": (8, 24, 144, 1, 1, 28, 1), "mobilenet project": (8, 144, 24, 1, 1, 28, 1),
    "mobilenet stem": (8, 3, 32, 3, 2, 112, 1), "unet 32": (4, 32, 32, 3, 1, 64, 1), "unet 64 -> 32": (4, 64, 32, 3, 1, 64, 1),
    "patches 16": (4, 3, 768, 16, 16, 224, 1), "resnext 32 groups": (8, 128, 128, 3, 1, 28, 32), "digits": (32, 1, 16, 5, 1, 28, 1),
}  # fmt: skip


class Peer:
    def __init__(self, dtype, result, images, inputs, outputs, window, stride, size, groups, layout):
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
        weights = torch.zeros(outputs, inputs // groups, window, window, dtype=kind).to(memory_format=layout)
        x = torch.zeros(images, inputs, size, size, dtype=kind).to(memory_format=layout)
        forward = (stride, stride), (window // 2, window // 2), (1, 1)
        y = torch.conv2d(x, weights, None, *forward, groups)
        dy = torch.zeros_like(y)
        self.flops = 2.0 * y.numel() * weights.numel() / outputs

        def gradient(which):
            mask = [which == "dx", which == "dw", False]
            torch.ops.aten.convolution_backward(dy, x, weights, None, *forward, False, (0, 0), groups, mask)

        self.call = (lambda: torch.conv2d(x, weights, None, *forward, groups)) if result == "y" else lambda: gradient(result)
        self.call()

    def run(self, times):
        begin = time.monotonic(), time.process_time()
        for _ in range(times):
            self.call()
        return time.monotonic() - begin[0], time.process_time() - begin[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--type", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--only", default="", help="convolutions whose name matches this expression")
    parser.add_argument("--seconds", type=float, default=1, help="of each convolution, at least")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    ours, ratios = Ours(args.threads), []
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {args.threads} thread(s), {args.type}")
    print(f"{'convolution':22} {'images, channels, window, stride, size, groups':>46} {'PyTorch':>8} {'ours':>8} GFLOP/s   time  runs as")
    for layer, shape in LAYERS.items():
        for result in ("y", "dx", "dw"):
            name = f"{layer} {result}"
            if not re.search(args.only, name):
                continue
            *implementation, scratch = ours.ask(" ".join(map(str, ["convolution", args.type, result, *shape])))
            peers = [Peer(args.type, result, *shape, layout) for layout in (torch.channels_last, torch.contiguous_format)]
            times = max(1, round(2e9 / peers[0].flops))
            turns, end = [], time.monotonic() + args.seconds
            while len(turns) < 7 or time.monotonic() < end:
                turns.append([side.run(times)[args.threads == 1] for side in (ours, *peers)])
            medians = [statistics.median(turn[i] for turn in turns) for i in range(3)]
            best = 1 if medians[1] < medians[2] else 2
            ratios.append(statistics.median(turn[0] / turn[best] for turn in turns))
            images, inputs, outputs, window, stride, size, groups = shape
            sizes = f"{images}, {inputs} -> {outputs}, {window}, {stride}, {size}, {groups}"
            rates = [peers[0].flops * times / seconds / 1e9 for seconds in (medians[best], medians[0])]
            print(f"{name:22} {sizes:>46} {rates[0]:8.1f} {rates[1]:8.1f} {'':9}{ratios[-1]:5.2f}  {' '.join(implementation)} {scratch}", flush=True)
    if ratios:
        print(f"{len(ratios)} convolutions, median {statistics.median(ratios):.2f}, at most {max(ratios):.2f}")


if __name__ == "__main__":
    main()
