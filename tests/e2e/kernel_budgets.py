#!/usr/bin/python3
"""What ptxas says of the kernels of some models: registers within the budget, no spills, 16 bytes at a time.

  kernel_budgets.py --stowage=build/release/bin/stowage --work=DIR [--print]

The executables are compiled for sm_80 and sm_90; their PTX is taken out of them and assembled again with -v. Kernels of at
most 32 registers run with 2,048 threads on a multiprocessor, those of 80 with 768, which suffices where each asks
for 32 to 64 bytes at once. Folds that keep a row in registers may take more, and attention, whose sums lie there: its blocks of
128 threads run three at a time with 168.
"""

import argparse
import re
import shutil
import struct
import subprocess
from pathlib import Path

from commands import build_model, check

ELEMENTWISE_REGISTERS, FOLD_REGISTERS, ATTENTION_REGISTERS = 80, 128, 168
# Kernels that only read and write in order: each element lies at 16 bytes there, so no access is smaller.
MODELS = {
    "mlp": ([], ["--optimizer=sgd:lr=0.1,momentum=0.9"]),
    "char_gpt": ([], ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1", "--precision=bf16"]),
    "gpt2": (["--length=128", "--layers=1", "--vocabulary=256"], ["--loss=cross-entropy:class-axis=-1", "--precision=bf16"]),
}


def images(executable: Path) -> list[tuple[int, int, bytes]]:
    """Kind (1: cubin, 2: PTX), architecture and bytes of what runtime/format/DeviceCode.h packs."""
    data = executable.read_bytes()
    start = next(at for at in (m.start() for m in re.finditer(b"STOWGPU1", data))
                 if 0 < struct.unpack_from("<Q", data, at + 8)[0] < 16)  # fmt: skip
    count = struct.unpack_from("<Q", data, start + 8)[0]
    entries = [struct.unpack_from("<IIQQ", data, start + 16 + 24 * i) for i in range(count)]
    return [(kind, arch, data[start + offset : start + offset + size]) for kind, arch, offset, size in entries]


def functions(ptx: str) -> dict[str, str]:
    return {m.group(1): m.group(2) for m in re.finditer(r"\.entry (\w+)\((.*?)\n\}", ptx, re.S)}


def widths(body: str) -> list[int]:
    """Bytes of each access to global memory."""
    found = re.findall(r"(?:ld|st)\.global(?:\.v(\d))?\.[a-z](\d+)", body)
    return [int(count or 1) * int(bits) // 8 for count, bits in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--print", action="store_true", help="a line for every kernel")
    args = parser.parse_args()
    ptxas = shutil.which("ptxas", path="/usr/local/cuda/bin") or shutil.which("ptxas")
    if not ptxas:
        print("skipped: there is no ptxas in /usr/local/cuda/bin or on PATH")
        return
    args.work.mkdir(parents=True, exist_ok=True)
    for model, (build, flags) in MODELS.items():
        onnx, executable = args.work / f"{model}.onnx", args.work / model
        build_model(model, onnx, "--batch", 8, *build)
        subprocess.run([args.stowage, "compile", onnx, "-o", executable, "--target=cuda:a100,h100", *flags], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        found = images(executable)
        check([(kind, arch) for kind, arch, _ in found] == [(1, 80), (1, 90), (2, 80), (2, 90)],
              f"{model}: the executable holds other images than a cubin and PTX for each chip")  # fmt: skip
        check(all(data[:4] == b"\x7fELF" for kind, _, data in found if kind == 1), f"{model}: a cubin is no ELF file")
        for kind, arch, data in found:
            if kind != 2:
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


if __name__ == "__main__":
    main()
