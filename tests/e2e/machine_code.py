#!/usr/bin/python3
"""The cubins in an executable do what their PTX says, and benchmarks/kernels/roofline.py counts what they do.

  machine_code.py --stowage=build/release/bin/stowage --work=DIR [--whole] [--print]

A lane of a kernel is followed twice, through the machine code as nvdisasm prints it (benchmarks/kernels/sasswalk.py) and through the PTX
(tests/zoo/ptx_walk.py): loads and stores by space and width, copies to shared memory, matrices, products of tensor cores, barriers,
shuffles and atomics have to be as many on both sides; no kernel has instructions on doubles that the other side has not. Where
branches depend on data the ways may part, and counts are not compared. Of loads ptxas leaves out what nobody reads, so that they may
be narrower than the PTX says, and moves them behind the condition of their only reader, so that a lane may have fewer, but the first
of a block. Mutations show that it fires: PTX with an instruction less makes a cubin that is caught.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from commands import ROOT, build_model, check, run
from kernel_budgets import WINDOWS

sys.path[:0] = [str(ROOT / "benchmarks/kernels"), str(ROOT / "tests/zoo")]
import ptx_walk  # noqa: E402
import roofline  # noqa: E402
import sass  # noqa: E402
import sasswalk  # noqa: E402
from cubins import PTX, images  # noqa: E402

TOKENS = ["--loss=cross-entropy:class-axis=-1", "--precision=bf16"]
MODELS = {
    "gpt2": (["--length=128", "--layers=1", "--vocabulary=256"], TOKENS + ["--optimizer=adamw:lr=1e-3"]),
    "lstm": ([], ["--loss=cross-entropy", "--optimizer=sgd:lr=0.1,momentum=0.9"]),
    "windows": ([], ["--loss=cross-entropy", "--precision=bf16"]),
}
CHIPS = {"a100": 80, "rtx4090": 89, "h100": 90}
MATRICES = {"16816": "m16n8k16", "1688": "m16n8k8", "1684": "m16n8k4"}
LOADS = ("load global", "load shared")
# What ptxas alone decides: registers that do not suffice are kept in local memory.
SPILLS = ("load local", "store local")


def events(walker: sasswalk.Walker, walk: sasswalk.Walk) -> Counter[str]:
    """What a lane does, in the words of ptx_walk."""
    counts: Counter[str] = Counter()
    for begin, times in walk.passes.items():
        for number in range(begin, walker.ends[begin]):
            instruction = walker.code[number]
            kind = sass.class_of(instruction)
            if kind in sass.SHARED and "matrix" in kind:
                kind += " " + instruction.opcode.rsplit(".", 1)[1]
            elif kind in sass.GLOBAL or kind in sass.SHARED:
                kind += f" {sass.width_of(instruction)}"
            elif kind == "mma":
                kind += " " + next(MATRICES[word] for word in instruction.modifiers if word in MATRICES)
            elif kind not in ("barrier", "shuffle") and not kind.startswith("atomic"):
                continue
            counts[kind] += times - walk.off[number]
    return +counts


def difference(walker: sasswalk.Walker, kernel: ptx_walk.Kernel, launch: sasswalk.Launch) -> str | None:
    """What a lane does otherwise in one than in the other; "" for nothing, None where that depends on data."""
    walk = walker.walk(launch)
    lane = ptx_walk.Lane(kernel, launch.parameters, launch.block, launch.blocks, launch.thread)
    said = lane.run()
    if walk.unknown or lane.unknown:
        return None
    done = events(walker, walk)
    parts = [f"{kind}: {done[kind]} instead of {said[kind]}" for kind in sorted(done | said)
             if not kind.startswith(SPILLS + LOADS) and done[kind] != said[kind]]  # fmt: skip
    for kind in LOADS:
        (count, size), (said_count, said_size) = (totals(side, kind) for side in (done, said))
        if size > said_size or (count > said_count if launch.thread else count != said_count):
            parts.append(f"{kind}: {count} of {size} bytes instead of {said_count} of {said_size}")
    return ", ".join(parts)


def totals(counts: Counter[str], kind: str) -> tuple[int, int]:
    """How many of a kind, of whatever width, and their bytes."""
    found = [(times, int(name.rsplit(" ", 1)[1])) for name, times in counts.items() if name.startswith(kind)]
    return sum(times for times, _ in found), sum(times * size for times, size in found)


class Executable:
    def __init__(self, path: Path, chip: str) -> None:
        data = path.read_bytes()
        self.content, self.chip = roofline.program(data), roofline.Chip.load(chip)
        self.code = roofline.Kernels(data, self.chip, sass.find_nvdisasm())
        self.text = next(image for kind, arch, image in images(data) if kind == PTX and arch == self.chip.architecture).rstrip(b"\0").decode()
        self.launches: dict[str, tuple[int, list[int]]] = {}  # tasks and addresses of each kernel's first
        commands = [command for graph in self.content["graphs"] for command in graph["commands"]]
        for command in [part for command in commands for part in (command, *command.get("parts", ()))]:
            if command["kernel"] >= 0:
                addresses = [(1 << 40) + operand["offset"] for operand in command["operands"]]
                self.launches.setdefault(self.content["kernels"][command["kernel"]], (command["tasks"], addresses))

    def differences(self, functions: dict[str, sass.Function], only: str = "") -> tuple[dict[str, str], int]:
        """By kernel, and how many kernels could be compared in every lane that was tried."""
        kernels = ptx_walk.kernels_of(self.text)
        check(bool(only) or sorted(kernels) == sorted(functions), f"cubin and PTX have other kernels: {sorted(set(kernels) ^ set(functions))}")
        found, compared = {}, 0
        for name, (tasks, addresses) in self.launches.items():
            if only and name != only:
                continue
            walker = sasswalk.Walker(functions[name], self.chip.architecture)
            blocks, threads = self.code.blocks(tasks), kernels[name].threads
            lanes = [(block, thread) for block in sorted({0, blocks - 1}) for thread in (0, threads - 1)]
            results = [difference(walker, kernels[name], sasswalk.Launch(self.chip.architecture, [0, tasks, *addresses], block, blocks, thread, threads))
                       for block, thread in lanes]  # fmt: skip
            compared += None not in results
            if parts := [part for part in results if part]:
                found[name] = parts[0]
            doubles = any(sass.class_of(instruction) == "fp64" for instruction in functions[name].instructions)
            check(doubles == any(re.search(r"\.f64\b", opcode) is not None for _, opcode, _ in kernels[name].lines),
                  f"{name} has instructions on doubles in one of cubin and PTX alone")  # fmt: skip
        return found, compared


def without(text: str, kernel: str, pattern: str) -> str:
    """The PTX of a kernel alone with one instruction less, the last that matches."""
    head = text[: text.index(".address_size 64") + len(".address_size 64")]
    start = text.index(f".visible .entry {kernel}(")
    body = text[start : text.index("\n}", start) + 2]
    found = list(re.finditer(pattern, body, re.M))
    check(bool(found), f"{kernel} has no {pattern}")
    return f"{head}\n{body[: found[-1].start()]}{body[found[-1].end() :]}\n"


def check_mutations(executable: Executable, ptxas: Path, work: Path) -> None:
    attention = next(name for name in executable.launches if name.endswith("_attention"))
    copy = next(name for name in executable.launches if name.endswith("_map"))
    mutations = [
        (copy, r"^\s*st\.global[^;]*;", "store global"),
        (attention, r"^\s*bar\.sync[^;]*;", "barrier"),
        (attention, r"^\s*mma\.sync[^;]*;", "mma"),
        (attention, r"^\s*ldmatrix[^;]*;", "load matrix"),
        (attention, r"^\s*cp\.async\.cg[^;]*;", "copy to shared"),
        (attention, r"^\s*shfl\.sync[^;]*;", "shuffle"),
    ]
    source, cubin = work / "mutated.ptx", work / "mutated.cubin"
    for kernel, pattern, kind in mutations:
        source.write_text(without(executable.text, kernel, pattern))
        subprocess.run([ptxas, f"-arch=sm_{executable.chip.architecture}", source, "-o", cubin], check=True, capture_output=True)
        functions = sass.disassemble(sass.find_nvdisasm(), cubin.read_bytes())
        found, _ = executable.differences(functions, only=kernel)
        check(kind in found.get(kernel, ""), f"{kernel} without a {pattern} passes: {found}")


LOOP = """
	.section	.text.k0_loop,"ax",@progbits
k0_loop:
.text.k0_loop:
        /*0000*/                   S2R R0, SR_CTAID.X ;
        /*0010*/                   IADD3 R2, P0, R0, c[0x0][0x210], RZ ;
        /*0020*/                   IADD3.X R3, RZ, c[0x0][0x214], RZ, P0, !PT ;
.L_x_0:
        /*0030*/                   LDG.E.128 R8, desc[UR4][R4.64] ;
        /*0040*/              @!P3 STG.E desc[UR4][R4.64], R8 ;
        /*0050*/                   IADD3 R2, P0, R2, c[0x0][0xc], RZ ;
        /*0060*/                   IMAD.X R3, RZ, RZ, R3, P0 ;
        /*0070*/                   ISETP.GE.U32.AND P1, PT, R2, c[0x0][0x218], PT ;
        /*0080*/                   ISETP.GE.AND.EX P1, PT, R3, c[0x0][0x21c], PT, P1 ;
        /*0090*/              @!P1 BRA `(.L_x_0) ;
        /*00a0*/                   ISETP.NE.U32.AND P2, PT, R8, RZ, PT ;
        /*00b0*/               @P2 BRA `(.L_x_0) ;
        /*00c0*/                   EXIT ;
"""


def check_loop() -> None:
    """A loop over tasks, and a branch on what was loaded, without any tool of CUDA's."""
    function = sass.parse(LOOP)["k0_loop"]
    check([i.opcode for i in function.instructions][2:4] == ["IADD3.X", "LDG.E.128"], "instructions are not parsed in order")
    check(function.instructions[4].guard == "!P3" and sass.width_of(function.instructions[3]) == 16, "guards or widths are not parsed")
    walk = sasswalk.Walker(function, 90).walk(sasswalk.Launch(90, [0, 7], 0, 2, 0, 32))
    check(walk.passes[3] == 4, f"a block of two passes {walk.passes[3]} of 7 tasks, expected 4")
    check(walk.unknown == 1, f"{walk.unknown} branches on data, expected 1")
    try:
        sasswalk.Walker(function, 90).walk(sasswalk.Launch(90, [0, 1 << 33], 0, 2, 0, 32))
    except sasswalk.NotFollowed:
        return
    check(False, "a loop of four billion trips was followed to its end")


def check_counts(executable: Executable) -> None:
    """Of GPT-2 with 2 tiles of 64 queries: 3 pairs of tiles a head that the diagonal leaves, two products each."""
    commands = next(graph for graph in executable.content["graphs"] if graph["name"] == "train")["commands"]
    few = [command for command in commands if command["kind"] == "attention"] + [command for command in commands if command["kind"] == "map"][:4]
    rows = [row for command in few for row in roofline.rows_of_command(0, command, executable.content["kernels"], executable.code)]
    found = [row for row in rows if row.kind == "attention"]
    expected = 8 * 12 * 3 * 2 * 2 * 64**3
    check(len(found) == 1 and found[0].tensor_flops == expected, f"attention has {[row.tensor_flops for row in found]} operations on tensor cores, expected {expected}")
    for row in rows:
        check(set(row.seconds) >= ({"memory", "math", "launch"} | ({"issue"} if row.kernel else set())), f"{row.name} has no seconds of {set(row.seconds)}")
        # A map that asks for less than half of what the plan says it moves was not followed to its end.
        check(row.kind != "map" or not row.kernel or row.bytes < 4096 or 2 * row.asked_bytes >= row.bytes, f"{row.kernel} asks for {row.asked_bytes} of {row.bytes} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--print", action="store_true", help="a line for every kernel")
    parser.add_argument("--whole", action="store_true", help="all models for all chips")
    args = parser.parse_args()
    check_loop()
    ptxas = Path("/usr/local/cuda/bin/ptxas")
    try:
        sass.find_nvdisasm()
    except sass.NoDisassembler as error:
        print(f"skipped: {error}")
        return 77
    if not ptxas.is_file():
        print("skipped: there is no ptxas in /usr/local/cuda/bin")
        return 77
    args.work.mkdir(parents=True, exist_ok=True)
    for model, (build, flags) in MODELS.items():
        if model == "lstm" and not args.whole:
            continue
        path = args.work / model
        source = args.work / (f"{model}.mlir" if model == "windows" else f"{model}.onnx")
        if model == "windows":
            source.write_text(WINDOWS)
        else:
            build_model(model, source, "--batch", 8, *build)
        chips = CHIPS if args.whole or model == "windows" else {"h100": 90}
        run(args.stowage, "compile", source, "-o", path, f"--target=cuda:{','.join(chips)}", "--recompute=none", *flags)
        for chip in chips:
            executable = Executable(path, chip)
            found, compared = executable.differences(executable.code.functions)
            check(not found, f"{model} for {chip}: the cubin does otherwise than its PTX: {found}")
            count = len(executable.launches)
            check(10 * compared >= 8 * count, f"{model} for {chip}: {compared} of {count} kernels could be compared")
            print(f"{model} for {chip}: {compared} of {count} kernels do what their PTX says, the others as data has it")
            if args.print:
                print("  " + ", ".join(sorted(executable.launches)))
            if model == "gpt2" and chip == "h100":
                check_counts(executable)
                check_mutations(executable, ptxas, args.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
