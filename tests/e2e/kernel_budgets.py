#!/usr/bin/python3
"""What ptxas says of the kernels of some models: registers within the budget, no spills, 16 bytes at a time.

  kernel_budgets.py --stowage=build/release/bin/stowage --work=DIR [--print] [--whole]

The executables are compiled for sm_80 and sm_90, the long ones without --whole for sm_90 alone; their PTX is taken out of them and assembled again with -v. Kernels of at
most 32 registers run with 2,048 threads on a multiprocessor, those of 80 with 768, which suffices where each asks
for 32 to 64 bytes at once. Folds that keep a row in registers may take more, and attention, whose sums lie there, and rows that it
owns: two of its blocks of 128 threads have all registers of a multiprocessor.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from commands import ROOT, build_model, check

sys.path.insert(0, str(ROOT / "tests/zoo"))
from cubins import CUBIN, PTX, images  # noqa: E402

ELEMENTWISE_REGISTERS, FOLD_REGISTERS, ATTENTION_REGISTERS = 80, 128, 255
# Kernels that only read and write in order: each element lies at 16 bytes there, so no access is smaller.
MODELS = {
    "mlp": ([], ["--optimizer=sgd:lr=0.1,momentum=0.9"]),
    "char_gpt": ([], ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1", "--precision=bf16"]),
    "gpt2": (["--length=128", "--layers=1", "--vocabulary=256"], ["--loss=cross-entropy:class-axis=-1", "--precision=bf16"]),
    "windows": ([], ["--loss=cross-entropy", "--precision=bf16"]),
}
# Poolings, their gradients and a transposition, which layouts make a reorder, without a convolution, which would need cuDNN.
WINDOWS = """module attributes {stow.form = "model", stow.seed = 0 : i64} {
  func.func @model(%x: tensor<8x64x16x16xf32> {stow.kind = #stow.kind<input>, stow.name = "input"},
      %s: tensor<64x1x1xf32> {stow.kind = #stow.kind<parameter>, stow.name = "s", stow.init = dense<0.5> : tensor<64x1x1xf32>},
      %w: tensor<10x1024xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w", stow.init = dense<0.01> : tensor<10x1024xf32>},
      %v: tensor<10x16384xf32> {stow.kind = #stow.kind<parameter>, stow.name = "v", stow.init = dense<0.01> : tensor<10x16384xf32>})
      -> (tensor<8x10xf32> {stow.name = "output"}) attributes {stow.role = #stow.role<model>} {
    %0 = stow.mul %x, %s : (tensor<8x64x16x16xf32>, tensor<64x1x1xf32>) -> tensor<8x64x16x16xf32>
    %1 = stow.max_pool %0 {dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pads = array<i64: 1, 1, 1, 1>,
        strides = array<i64: 2, 2>} : (tensor<8x64x16x16xf32>) -> tensor<8x64x8x8xf32>
    %2 = stow.avg_pool %1 {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
        strides = array<i64: 2, 2>, count_include_pad = true} : (tensor<8x64x8x8xf32>) -> tensor<8x64x4x4xf32>
    %3 = stow.reshape %2 : (tensor<8x64x4x4xf32>) -> tensor<8x1024xf32>
    %4 = stow.matmul %3, %w {transpose_a = false, transpose_b = true} : (tensor<8x1024xf32>, tensor<10x1024xf32>) -> tensor<8x10xf32>
    %5 = stow.reshape %x : (tensor<8x64x16x16xf32>) -> tensor<8x64x256xf32>
    %6 = stow.transpose %5 {permutation = array<i64: 0, 2, 1>} : (tensor<8x64x256xf32>) -> tensor<8x256x64xf32>
    %7 = stow.reshape %6 : (tensor<8x256x64xf32>) -> tensor<8x16384xf32>
    %8 = stow.matmul %7, %v {transpose_a = false, transpose_b = true} : (tensor<8x16384xf32>, tensor<10x16384xf32>) -> tensor<8x10xf32>
    %9 = stow.add %4, %8 : (tensor<8x10xf32>, tensor<8x10xf32>) -> tensor<8x10xf32>
    return %9 : tensor<8x10xf32>
  }
}
"""
CHIPS = {"a100": 80, "h100": 90}
LONG = ("char_gpt", "gpt2")
# Kernels of it that read 16 bytes at once, and of nothing an element: the smallest are four taps, a byte each.
WIDE = ["max_pool_training", "max_pool_grad", "avg_pool", "avg_pool_grad", "reorder"]


def functions(ptx: str) -> dict[str, str]:
    return {m.group(1): m.group(2) for m in re.finditer(r"\.entry (\w+)\((.*?)\n\}", ptx, re.S)}


def widths(body: str, access: str = "ld|st") -> list[int]:
    """Bytes of each access to global memory."""
    found = re.findall(rf"(?:{access})\.global(?:\.v(\d))?\.[a-z](\d+)", body)
    return [int(count or 1) * int(bits) // 8 for count, bits in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--print", action="store_true", help="a line for every kernel")
    parser.add_argument("--whole", action="store_true", help="all models for both chips")
    args = parser.parse_args()
    ptxas = shutil.which("ptxas", path="/usr/local/cuda/bin") or shutil.which("ptxas")
    if not ptxas:
        print("skipped: there is no ptxas in /usr/local/cuda/bin or on PATH")
        return
    args.work.mkdir(parents=True, exist_ok=True)
    for model, (build, flags) in MODELS.items():
        executable = args.work / model
        source = args.work / (f"{model}.mlir" if model == "windows" else f"{model}.onnx")
        if model == "windows":
            source.write_text(WINDOWS)
        else:
            build_model(model, source, "--batch", 8, *build)
        chips = CHIPS if args.whole or model not in LONG else {"h100": 90}
        subprocess.run([args.stowage, "compile", source, "-o", executable, f"--target=cuda:{','.join(chips)}", *flags], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        found = images(executable.read_bytes())
        check([(kind, arch) for kind, arch, _ in found] == [(kind, arch) for kind in (CUBIN, PTX) for arch in chips.values()],
              f"{model}: the executable holds other images than a cubin and PTX for each chip")  # fmt: skip
        check(all(data[:4] == b"\x7fELF" for kind, _, data in found if kind == CUBIN), f"{model}: a cubin is no ELF file")
        for kind, arch, data in found:
            if kind != PTX:
                continue
            text = data.rstrip(b"\0").decode()
            source = args.work / f"{model}-{arch}.ptx"
            source.write_text(text)
            verbose = subprocess.run([ptxas, f"-arch=sm_{arch}", "-v", source, "-o", args.work / "cubin"], check=True,
                                     capture_output=True, text=True).stderr  # fmt: skip
            bodies = functions(text)
            seen = re.findall(r"entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
                              verbose, re.S)  # fmt: skip
            check(sorted(name for name, *_ in seen) == sorted(bodies), f"{model}: ptxas is silent about kernels")
            most = 0
            for name, stores, loads, registers in seen:
                body = bodies[name]
                folds = FOLD_REGISTERS if "shfl.sync" in body or "bar.sync" in body else ELEMENTWISE_REGISTERS
                budget = ATTENTION_REGISTERS if "_attention" in name else folds
                most = max(most, int(registers))
                if args.print:
                    print(f"sm_{arch} {model} {name}: {registers} registers, accesses {sorted(widths(body))}")
                check(int(stores) + int(loads) == 0, f"{model}: {name} spills registers on sm_{arch}")
                check(int(registers) <= budget, f"{model}: {name} takes {registers} registers on sm_{arch}, more than {budget}")
            maps = [widths(body) for name, body in bodies.items() if name.endswith("_map")]
            wide = sum(16 in found for found in maps)
            print(f"{model} sm_{arch}: {len(seen)} kernels, at most {most} registers, no spills; {wide} of {len(maps)} maps move 16 bytes at once")
            check(2 * wide > len(maps), f"{model}: few maps of sm_{arch} move 16 bytes at once")
            for kind in WIDE if model == "windows" else []:
                kernels = {name: body for name, body in bodies.items() if re.fullmatch(rf"k\d+_{kind}", name)}
                check(kernels, f"{model}: no kernel of sm_{arch} is {kind}")
                for name, body in kernels.items():
                    found = widths(body)
                    check(16 in widths(body, "ld") and min(found) >= 4, f"{model}: {name} of sm_{arch} has accesses of {sorted(set(found))} bytes")


if __name__ == "__main__":
    main()
