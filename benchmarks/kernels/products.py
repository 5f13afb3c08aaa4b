#!/usr/bin/env python3
"""Matrix products of training steps as our programs run them, beside torch.mm and torch.bmm, in turns.

  build/python/bin/python benchmarks/kernels/products.py [--threads=N] [--type=f32|bf16] [--only=NAME] [--seconds=S]

Of each product of a model: y = x w (weights as PyTorch stores them), dx = dy w and dw = dyT x, at the sizes of GPT-2, Llama, BERT, ViT, an LSTM
and large perceptrons; of attention the batched products. A row says GFLOP/s of both and our time by PyTorch's: medians of at least seven turns, on one thread by processor
time, which other load disturbs less than the clock, on several by the clock, since their threads wait in loops. Needs build/release/bin/CallBench.
"""

import argparse
import re
import statistics
import subprocess
import time
from pathlib import Path

import torch

BENCH = Path(__file__).resolve().parents[2] / "build/release/bin/CallBench"

# name: rows, inputs, outputs of a linear layer
LAYERS = {
    "gpt2 qkv 2x128": (256, 768, 2304), "gpt2 up 2x128": (256, 768, 3072), "gpt2 down 2x128": (256, 3072, 768),
    "gpt2 qkv 2x512": (1024, 768, 2304), "gpt2 up 2x512": (1024, 768, 3072), "gpt2 head 1x64": (64, 768, 50257),
    "bert out 8x64": (512, 768, 768), "bert up 8x64": (512, 768, 3072), "vit up 68": (68, 768, 3072),
    "vit qkv 4x197": (788, 768, 2304), "llama qkv 128": (128, 2048, 2048), "llama up 128": (128, 2048, 5632),
    "mlp up 512": (512, 768, 3072), "mlp down 512": (512, 3072, 768), "lstm b64": (64, 512, 2048),
    "translation b8": (8, 1000, 3000), "translation b32": (32, 1000, 3000), "classes b64": (64, 2048, 1000),
    "mlp b1": (1, 784, 512), "mlp b4": (4, 784, 512),
}  # fmt: skip
# name: matrices, rows, contracted elements, columns
ATTENTION = {"scores 24x128": (24, 128, 64, 128), "scores 96x64": (96, 64, 64, 64)}


def products():
    """name, count, rows, depth, columns, whether left and right are stored transposed"""
    for name, (rows, inputs, outputs) in LAYERS.items():
        yield name + " y", 1, rows, inputs, outputs, False, True
        yield name + " dx", 1, rows, outputs, inputs, False, False
        yield name + " dw", 1, outputs, rows, inputs, True, False
    for name, (count, rows, depth, columns) in ATTENTION.items():
        yield name + " y", count, rows, depth, columns, False, True
        yield name + " dx", count, rows, columns, depth, False, False
        yield name + " dw", count, columns, rows, depth, True, False


class Ours:
    def __init__(self, threads):
        self.process = subprocess.Popen([BENCH, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def prepare(self, dtype, count, rows, depth, columns, left, right):
        sides = ["t" if side else "n" for side in (left, right)]
        *name, scratch = self.ask(" ".join(map(str, ["product", dtype, count, rows, depth, columns, *sides])))
        return " ".join(name), scratch

    def run(self, times):
        return [float(seconds) for seconds in self.ask(f"run {times}")]


class Peer:
    def prepare(self, dtype, count, rows, depth, columns, left, right):
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]

        def matrix(height, width, transposed):
            shape = (width, height) if transposed else (height, width)
            made = torch.zeros(shape if count == 1 else (count, *shape), dtype=kind)
            return made.transpose(-1, -2) if transposed else made

        self.left, self.right = matrix(rows, depth, left), matrix(depth, columns, right)
        self.out = matrix(rows, columns, False)
        self.multiply = torch.mm if count == 1 else torch.bmm
        self.multiply(self.left, self.right, out=self.out)

    def run(self, times):
        begin = time.monotonic(), time.process_time()
        for _ in range(times):
            self.multiply(self.left, self.right, out=self.out)
        return time.monotonic() - begin[0], time.process_time() - begin[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--type", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--only", default="", help="products whose name matches this expression")
    parser.add_argument("--seconds", type=float, default=1, help="of each product, at least")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ours, peer, ratios = Ours(args.threads), Peer(), []
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {args.threads} thread(s), {args.type}")
    print(f"{'product':24} {'matrices x rows x contracted x columns':>40} {'PyTorch':>8} {'ours':>8} GFLOP/s   time  runs as")
    for name, *shape in products():
        if not re.search(args.only, name):
            continue
        count, rows, depth, columns, left, right = shape
        implementation, scratch = ours.prepare(args.type, *shape)
        peer.prepare(args.type, *shape)
        flops = 2.0 * count * rows * depth * columns
        times = max(1, round(2e9 / flops))
        turns, end = [], time.monotonic() + args.seconds
        while len(turns) < 7 or time.monotonic() < end:
            turns.append([side.run(times)[args.threads == 1] for side in (ours, peer)])
        a, b = (statistics.median(turn[i] for turn in turns) / times for i in (0, 1))
        ratio = statistics.median(x / y for x, y in turns)
        ratios.append(ratio)
        sides = "".join("t" if side else "n" for side in (left, right))
        print(f"{name:24} {f'{count} x {rows} x {depth} x {columns} {sides}':>40} {flops / b / 1e9:8.1f} {flops / a / 1e9:8.1f}"
              f" {'':9}{ratio:5.2f}  {implementation} {scratch}", flush=True)  # fmt: skip
    if ratios:
        above = sum(ratio > 1 / 0.95 for ratio in ratios)
        print(f"{len(ratios)} products, median {statistics.median(ratios):.2f}, {above} take more than 1/0.95 of PyTorch's time")


if __name__ == "__main__":
    main()
