#!/usr/bin/python3
"""Every instruction that the compiler emits for GPUs is known to the simulated one (tests/gpu), for every chip that is described.

  device_instructions.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR [--whole] [--print] [MODEL...]

LLVM chooses instructions by the chip: pairs of bf16 are compared from sm_90 on, pairs of f32 added from sm_100 on. Each model is compiled
in f32, bf16 and fp16 for one chip of each architecture, and the stand-in for libcuda loads the PTX of each, which decodes all of its
kernels. By day two models, whose kernels have nearly all of the instructions; --whole has those of mixed_memory.py, and the chips whose
PTX is that of another. Doubles, of which many chips compute one where they compute 64 floats, are for the numbers that PyTorch has in them, learning rates and
bias corrections, which kernels of one number compute: no other kernel has an instruction of theirs.
"""

import argparse
import ctypes
import json
import os
import re
import sys
from collections import Counter
from math import prod
from pathlib import Path

from commands import ROOT, build_model, check, run
from mixed_memory import SUITE

sys.path.insert(0, str(ROOT / "tests/zoo"))
from cubins import PTX, images  # noqa: E402

CHIPS = {"a100": 80, "rtx4090": 89, "h100": 90, "b200": 100}
DAY, DAY_CHIPS = ("lenet", "char_gpt"), {name: CHIPS[name] for name in ("a100", "h100", "b200")}
PRECISIONS = ("f32", "bf16", "fp16")
# The architectures of instructions that exist from a chip on: were they gone, this test would show less than it says.
NEWER = {"setp.gt.bf16x2": 90, "fma.rn.f32x2": 100}


class Driver:
    """The stand-in, as its newest chip: it loads the PTX of older ones, too."""

    def __init__(self, folder: Path) -> None:
        os.environ["STANDIN_CHIP"] = "b200"
        self.library = ctypes.CDLL(str(folder / "libcuda.so.1"))
        self.library.standinLastError.restype = ctypes.c_char_p
        context = ctypes.c_void_p()
        for done in (self.library.cuInit(0), self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), self.library.cuCtxSetCurrent(context)):
            check(done == 0, f"the stand-in for libcuda does not start: {done}")

    def refusal(self, ptx: bytes) -> str:
        """Why a module cannot be loaded; empty where it can."""
        module = ctypes.c_void_p()
        if self.library.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(ptx)) != 0:
            return self.library.standinLastError().decode()
        check(self.library.cuModuleUnload(module) == 0, "a module cannot be unloaded")
        return ""


def kernels_of_tensors(content: bytes) -> set[str]:
    """The names of kernels that read or write more than one number, in products' other forms, too."""
    program, _ = json.JSONDecoder().raw_decode(content[content.index(b'{"version":') :].decode("utf-8", "ignore"))
    commands = [command for graph in program["graphs"] for command in graph["commands"]]
    runs = [part for command in commands for part in (command, *command.get("parts", ()))]
    kernels = [run for run in runs if run["op"] == "kernel" and any(prod(operand["shape"]) > 1 for operand in run["operands"])]
    return {program["kernels"][run["kernel"]] for run in kernels}


def kernels_in_doubles(text: str) -> set[str]:
    """Those whose PTX has an instruction on doubles."""
    entries = re.split(r"\.entry (\w+)\(", text)
    return {name for name, body in zip(entries[1::2], entries[2::2], strict=True) if re.search(r"^\s+[^/\n.]*[a-z][\w.]*\.f64\b", body, re.M)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="all models and architectures")
    parser.add_argument("--print", action="store_true", help="how often each instruction occurs for each architecture")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    driver = Driver(args.simulated)
    chips = CHIPS if args.whole else DAY_CHIPS
    found = {architecture: Counter() for architecture in chips.values()}
    kernels, kernels_of_doubles, refused = 0, 0, []
    for name in args.models or (SUITE if args.whole else DAY):
        build, flags = SUITE[name]
        model, program = args.work / f"{name}.onnx", args.work / name
        build_model(name, model, "--weights", "none", *build.split())
        for precision in PRECISIONS:
            run(args.stowage, "compile", model, "-o", program, f"--target=cuda:{','.join(chips)}", f"--cudnn={args.simulated}",
                f"--precision={precision}", "--recompute=none", *flags.split())  # fmt: skip
            texts = {architecture: data for kind, architecture, data in images(program.read_bytes()) if kind == PTX}
            check(sorted(texts) == sorted(chips.values()), f"{name} {precision}: PTX for {sorted(texts)}")
            tensors = kernels_of_tensors(program.read_bytes())
            for architecture, ptx in texts.items():
                text = ptx.rstrip(b"\0").decode()
                kernels += text.count(".entry ")
                in_doubles = kernels_in_doubles(text)
                kernels_of_doubles += len(in_doubles)
                check(not in_doubles & tensors, f"{name} {precision} sm_{architecture}: doubles in {sorted(in_doubles & tensors)}")
                found[architecture].update(re.findall(r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.:]+)\s[^;\n]*;", text, re.M))
                if why := driver.refusal(ptx):
                    refused.append(f"{name} {precision} sm_{architecture}: {why}")
                    print(refused[-1], flush=True)
        program.unlink()
    if args.print:
        for instruction in sorted(set().union(*found.values())):
            print(f"{instruction:32}" + "".join(f"{found[architecture][instruction]:9}" for architecture in found))
    check(kernels_of_doubles > 0 or args.models, "no kernel computes in doubles, so that nothing would be found")
    print(f"{kernels} kernels, {kernels_of_doubles} of them, of one number each, in doubles, instructions for " + ", ".join(f"sm_{architecture}: {len(known)}" for architecture, known in found.items()))
    check(not refused, f"{len(refused)} modules are refused, the first: {refused[0] if refused else ''}")
    for instruction, first in NEWER.items() if not args.models else ():
        having = [architecture for architecture, known in found.items() if known[instruction]]
        check(having == [architecture for architecture in found if architecture >= first], f"{instruction} occurs for {having}")


if __name__ == "__main__":
    main()
