#!/usr/bin/python3
"""What can go wrong on a GPU, and what --check=canaries says, on the simulated one (tests/gpu).

  device_faults.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

Every failure that a driver can have before training is an error that names it before the first step; a device that is lost in the
middle leaves the last save and says so. With --check=canaries losses are the same bytes, on the host and on the GPU; a command that
fails, and one whose place is wrong in the program, are named with node and offsets.
"""

import argparse
import csv
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import numpy as np

from commands import build_model, check, write_changed

# What the driver does; what is said.
BEFORE_TRAINING = {
    "STANDIN_DEVICES=0": ["finds no GPU", "--target=host"],
    "STANDIN_DRIVER_VERSION=11080": ["too old", "CUDA 11.8", "needs one for CUDA 12.0"],
    "STANDIN_MEMORY=1048576": ["the arena takes", r"\(\d+ bytes\), and NVIDIA H100", r"has 1.00 MiB \(1048576 bytes\) free of 1.00 MiB", "--memory-budget"],
    "STANDIN_MEMORY=7864320 STANDIN_MODULE_BYTES=4194304 STANDIN_GRAPH_BYTES=1048576": ["the arena takes", r"free of 7.50 MiB \(7864320 bytes\) beside code, libraries and graphs of 5\."],
    "STANDIN_MEMORY=6291456 STANDIN_MODULE_BYTES=4194304": ["the arena takes", "beside code, libraries and graphs of 4.00 MiB"],
    "STANDIN_FAIL=cuMemCreate:2:2": ["the arena takes", "has no such piece of the"],
    "STANDIN_FAIL=cuMemMap:2:1": ["taking the arena failed: CUDA_ERROR_INVALID_VALUE"],
    "STANDIN_CHIP=a100": [r"compute capability 8\.0"],
    "STANDIN_FAIL=cuDevicePrimaryCtxRetain:1:2": ["opening the GPU failed: CUDA_ERROR_OUT_OF_MEMORY"],
    "STANDIN_FAIL=cuInit:1:803": ["starting the CUDA driver failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"],
    "STANDIN_FAIL=cuMemHostAlloc:2:2": ["taking pinned memory of"],
    "STANDIN_FAIL=cuStreamBeginCapture:1:900": [r"capturing the \d+ commands of graph 'train' failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"],
    "STANDIN_FAIL=cuStreamEndCapture:1:901": [r"capturing the \d+ commands of graph 'train' failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"],
    "STANDIN_FAIL=cuGraphInstantiate:1:2": [r"making a CUDA graph of the \d+ commands of graph 'train' failed: CUDA_ERROR_OUT_OF_MEMORY"],
    "STANDIN_FAIL=cuLaunchKernel:2:701": ["launching the kernel of node '.+' failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"],
}  # fmt: skip
# Attention of heads whose rows take more shared memory than a block has without asking.
WIDE_HEADS = """module attributes {stow.form = "model"} {
  func.func @model(%x: tensor<2x40x256xf32> {stow.kind = #stow.kind<input>, stow.name = "x"},
                   %w: tensor<2x40x256xf32> {stow.kind = #stow.kind<parameter>, stow.name = "w", stow.init = #stow.init<"normal", 0.0, 0.1>})
      -> (tensor<2x40x256xf32> {stow.name = "y"}) attributes {stow.role = #stow.role<model>} {
    %s = stow.matmul %x, %w {transpose_a = false, transpose_b = true} : (tensor<2x40x256xf32>, tensor<2x40x256xf32>) -> tensor<2x40x40xf32>
    %p = stow.softmax %s {axis = 2 : i64} : (tensor<2x40x40xf32>) -> tensor<2x40x40xf32>
    %y = stow.matmul %p, %w {transpose_a = false, transpose_b = false} : (tensor<2x40x40xf32>, tensor<2x40x256xf32>) -> tensor<2x40x256xf32>
    return %y : tensor<2x40x256xf32>
  }
}
"""
KERNEL_HINT = "--check=canaries runs them one by one and names it"


@dataclass
class Mutation:
    kind: str  # what the number is
    at: int  # of the executable's bytes
    wrong: bytes  # what is put there


def commands_of(text: str) -> "Iterator[tuple[int, str]]":
    """Of the training graph: where each command that runs is in the program's text, and the command. What a product would run in its place
    does not."""
    first = text.index('"commands":', text.index('"name":"train"'))
    places = [place.start() for place in re.finditer(r'{"op":"', text[first : text.index('"name":"eval"')])]
    instead = 0  # the end of a product's command, with the parts that it has
    for begin, end in zip(places, [*places[1:], text.index('"name":"eval"') - first]):
        command = text[first + begin : first + end]
        if begin < instead:
            continue
        if command.startswith('{"op":"cuda.matmul') and command.endswith('"parts":['):
            instead = json.JSONDecoder().raw_decode(text, first + begin)[1] - first
        yield first + begin, command


def numbers_of(command: str) -> "Iterator[tuple[str, re.Match[str]]]":
    """Places of a command's operands and scratch, and its number of tasks, each with its kind."""
    op = command.split('"')[3]
    operands = command.index('"operands":')
    for number, found in enumerate(re.finditer(r'"offset":(\d+)', command[: command.index('"ints":')])):
        assert found.start() > operands
        yield f"{op} operand {min(number, 2)}", found  # the third and those behind it are one kind
    if scratch := re.search(r'"workspace_offset":(\d+),"workspace_bytes":[1-9]', command):
        yield f"{op} workspace", scratch
    if tasks := re.search(r'"tasks":([2-9]|[1-9]\d+)\b', command):
        yield "tasks", tasks


def kernel_mutations(content: bytes, symbols: "set[str]") -> "Iterator[Mutation]":
    """Of kernels whose threads work together: one thread of the block alone, since small shapes leave most of it idle; half of what a
    variable has in shared memory."""
    blocks = set()
    for shared in re.finditer(rb"\.shared [^;]*?(\w+)\[(\d+)\];", content):
        if symbol := next((symbol for symbol in symbols if f"__wg_{symbol}_".encode() in shared[0]), None):
            yield Mutation("shared", shared.start(2), b"%*d" % (len(shared[2]), int(shared[2]) // 2))
            block = re.compile(rb"\.(?:max|req)ntid (\d+)").search(content, content.index(f".entry {symbol}(".encode()))
            if block.start(1) not in blocks:
                yield Mutation("block", block.start(1), b"%*d" % (len(block[1]), 1))
            blocks.add(block.start(1))


def read_by(content: bytes, symbol: str) -> "set[int]":
    """Operands of a kernel, of those of its command, that its PTX names: a number that several maps of a launch share is read once, as
    the first map's."""
    entry = content.index(f".entry {symbol}(".encode())
    body = content[content.index(b"{", entry) : content.index(b"\n}", entry)]
    return {int(number) - 2 for number in re.findall(rf"\[{symbol}_param_(\d+)".encode(), body)}  # behind the first and the last task


def mutations_of(content: bytes, every: int) -> list[Mutation]:
    begin = content.index(b'{"version":')
    program, length = json.JSONDecoder().raw_decode(content[begin:].decode("utf-8", "ignore"))
    text = content[begin : begin + length].decode()
    commands = list(commands_of(text))
    offsets = sorted({int(found[1]) for _, command in commands for kind, found in numbers_of(command) if "operand" in kind})
    found: dict[str, list[Mutation]] = {}
    numbers = []
    for place, command in commands:
        kernel = re.search(r'"kernel":(\d+)', command)
        read = read_by(content, program["kernels"][int(kernel[1])]) if kernel else None
        operands = 0
        for kind, match in numbers_of(command):
            operands += "operand" in kind
            if "operand" not in kind or read is None or operands - 1 in read:
                numbers.append((place, command, kind, match))
    for number, (place, command, kind, match) in enumerate(numbers):
        # Scratch elsewhere may well be free: it is moved onto what its own command reads or writes.
        own = {int(found[1]) for kind, found in numbers_of(command) if "operand" in kind}
        others = [other for other in offsets if len(str(other)) == len(match[1]) and str(other) != match[1]]
        if "workspace" in kind:
            others = [other for other in others if other in own]
        if kind == "tasks":
            wrong = f"{int(match[1]) // 2:>{len(match[1])}d}"
        elif others:
            wrong = str(others[number % len(others)])
        else:
            continue
        found.setdefault(kind, []).append(Mutation(kind, begin + place + match.start(1), wrong.encode()))
    ran = {int(command) for _, text in commands for command in re.findall(r'"kernel":(\d+)', text)}
    for mutation in kernel_mutations(content, {program["kernels"][number] for number in ran}):
        found.setdefault(mutation.kind, []).append(mutation)
    return [mutation for places in found.values() for mutation in places[::every]]


class Faults:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    def run(self, command: list[object], expected: int = 0, setting: str = "") -> str:
        """`setting`: words NAME=VALUE of the stand-in."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.args.simulated)}
        if setting:
            environment |= dict(word.split("=", 1) for word in setting.split())
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
        output = done.stdout + done.stderr
        check(done.returncode == expected, f"{setting} {command}: exit code {done.returncode}, expected {expected}\n{output}")
        return output

    def compile(self, name: str, model: str, batch: int, *flags: str) -> Path:
        onnx, executable = self.args.work / f"{name}.onnx", self.args.work / name
        build_model(model, onnx, "--batch", batch)
        self.run([self.args.stowage, "compile", onnx, "-o", executable, *flags])
        return executable

    def train(self, executable: Path, data: Path, *flags: object, expected: int = 0, setting: str = "", steps: int = 3) -> str:
        command = [executable, "train", f"--data={data}", f"--steps={steps}", "--no-shuffle", *flags]
        return self.run(command, expected, setting)

    def check_before_training(self, executable: Path, data: Path) -> None:
        for setting, sentences in BEFORE_TRAINING.items():
            log = self.args.work / "none.csv"
            log.unlink(missing_ok=True)
            found = self.train(executable, data, f"--log={log}", expected=1, setting=setting)
            for sentence in sentences:
                check(re.search(sentence, found) is not None, f"{setting}: expected '{sentence}' in: {found}")
            check("error: " in found and not log.exists(), f"{setting}: training had begun: {found}")

    def check_gpu(self, executable: Path, data: Path) -> None:
        """--gpu reaches the driver, which has two; a third is refused, and so is any by a program for the host."""
        for flags, device in (((), 0), (("--gpu=1",), 1)):
            log = self.args.work / "gpus.calls"
            log.unlink(missing_ok=True)
            with_log = {"STANDIN_DEVICES": "2", "STANDIN_LOG": str(log)}
            self.train(executable, data, *flags, setting=" ".join(f"{name}={value}" for name, value in with_log.items()), steps=1)
            calls = log.read_text()
            check(f"cuDevicePrimaryCtxRetain device={device}\n" in calls, f"{flags}: no context on GPU {device} in:\n{calls[:2000]}")
        found = self.train(executable, data, "--gpu=2", expected=1, setting="STANDIN_DEVICES=2")
        check("GPU 2 is asked for, and the CUDA driver has those from 0 to 1" in found, found)

    def check_wide_heads(self) -> None:
        """Kernels that ask for shared memory: losses as on the host, and a GPU that gives a block less is refused before training."""
        model, data, logs = self.args.work / "wide.mlir", self.args.work / "wide.npz", []
        model.write_text(WIDE_HEADS)
        rng = np.random.Generator(np.random.Philox(7))
        np.savez(data, x=rng.random((2, 40, 256), dtype=np.float32), y=rng.random((2, 40, 256), dtype=np.float32))
        for target in ("host", "cuda:sm_90"):
            executable, log = self.args.work / f"wide-{target[:4]}", self.args.work / f"wide-{target[:4]}.csv"
            self.run([self.args.stowage, "compile", model, "-o", executable, f"--target={target}", "--loss=mse", "--optimizer=sgd:lr=0.1"])
            log.unlink(missing_ok=True)
            self.train(executable, data, f"--log={log}")
            with log.open() as lines:
                logs.append([float(row["loss"]) for row in csv.DictReader(lines)])
        check(len(logs[0]) == 3 and logs[0][2] < logs[0][0], f"the host's losses do not fall: {logs[0]}")
        check(np.allclose(logs[0], logs[1], rtol=1e-5), f"heads of 256 columns: losses {logs[1]}, on the host {logs[0]}")
        kernel = r"kernel 'k\d+_attention' of node '[^']*' takes (\d+) bytes of shared memory a block, and NVIDIA H100[^,]* gives 65536; "
        found = re.search(kernel, self.train(executable, data, expected=1, setting="STANDIN_SHARED=65536"))
        check(found is not None and 65536 < int(found[1]) <= 99 << 10, f"no line about shared memory: {found}")
        self.train(executable, data, setting=f"STANDIN_SHARED={99 << 10}")

    def check_in_the_middle(self, executable: Path, data: Path) -> None:
        """Of a kernel that fails, and of a GPU that is lost: the save before it is whole, and resumed."""
        whole, part = self.args.work / "whole.safetensors", self.args.work / "part.safetensors"
        self.train(executable, data, f"--save={whole}", steps=6)
        launches = 4  # of the graph; the fifth fails
        for result, said in ((719, KERNEL_HINT), (46, "the GPU is lost to this process"), (999, "the GPU is lost")):
            part.unlink(missing_ok=True)
            setting = f"STANDIN_FAIL=cuGraphLaunch:{launches + 1}:{result}"
            found = self.train(executable, data, f"--save={part}", "--save-every=2", expected=1, setting=setting, steps=6)
            check("in step 5: launching a step failed" in found and said in found, found)
            check("the save after step 4 is intact: go on with --resume" in found, found)
            self.train(executable, data, f"--save={part}", "--resume", steps=6)
            check(part.read_bytes() == whole.read_bytes(), "the resumed run ends in another state")
        found = self.train(executable, data, expected=1, setting="STANDIN_FAIL=kernel:30:700")
        check(KERNEL_HINT in found and "nothing was saved" in found and "ILLEGAL_ADDRESS" in found, found)

    def check_canaries(self, executable: Path, data: Path) -> None:
        logs = [self.args.work / f"{executable.name}-{number}.csv" for number in range(2)]
        for log in logs:
            log.unlink(missing_ok=True)
        self.train(executable, data, f"--log={logs[0]}", steps=2)
        self.train(executable, data, f"--log={logs[1]}", "--check=canaries", steps=2)
        check(logs[0].read_bytes() == logs[1].read_bytes(), f"{executable.name}: other losses with --check=canaries")
        found = self.train(executable, data, "--check=canary", expected=1)
        check('unknown check "canary" for --check; known are canaries' in found, found)

    def check_named_commands(self, executable: Path, data: Path) -> None:
        # The second kernel that runs fails: it is named, with what it was given.
        found = self.train(executable, data, "--check=canaries", expected=1, setting="STANDIN_FAIL=kernel:2:700")
        named = r"command \d+ of graph 'train', 'kernel' of node '[^']+' \(operands at \[\d+, \d+\).*\): running it failed: CUDA_ERROR_ILLEGAL"
        check(re.search(named, found) is not None, found)

    def check_mutations(self, executable: Path, data: Path, every: int, kinds: "tuple[str, ...]" = ()) -> None:
        """The program with a number changed in place, of every kind the first and every `every`-th; kinds: those that begin so. Most are errors of
        --check=canaries, which knows the plan's buffers, or of the driver; the others, inside buffers of the command, change the state."""
        content = executable.read_bytes()
        right = self.mutated(executable, data, content)
        caught: dict[str, int] = {}
        named = 0
        for mutation in mutations_of(content, every):
            if kinds and not mutation.kind.startswith(kinds):
                continue
            found = self.mutated(executable, data, content[: mutation.at] + mutation.wrong + content[mutation.at + len(mutation.wrong) :])
            was = content[mutation.at : mutation.at + len(mutation.wrong)]
            check(found != right, f"{mutation.kind}: {was!r} at {mutation.at} is {mutation.wrong!r}, and nothing is different")
            named += isinstance(found, str)
            caught[mutation.kind] = caught.get(mutation.kind, 0) + 1
        wanted = kinds or ("kernel operand", "cuda.matmul operand", "cuda.matmul workspace", "tasks")
        missing = [kind for kind in wanted if not any(found.startswith(kind) for found in caught)]
        check(not missing and 2 * named >= sum(caught.values()), f"no mutation of {missing}, or too few errors: {caught}, {named}")
        print(f"{executable.name}: {sum(caught.values())} mutations caught, {named} of them by an error: {caught}", flush=True)

    def mutated(self, executable: Path, data: Path, content: bytes) -> "bytes | str":
        """The state after two steps (the first finds zeros in the optimizer), or what was wrong."""
        changed, state = executable.with_name(executable.name + "-mutated"), self.args.work / "mutated.safetensors"
        write_changed(changed, content)
        command = [str(changed), "train", f"--data={data}", "--steps=2", "--no-shuffle", "--check=canaries", f"--save={state}"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(self.args.simulated)})
        check(done.returncode in (0, 1, 3), f"exit code {done.returncode}: {done.stderr}")
        return done.stderr if done.returncode else state.read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--every", type=int, default=15, help="of the numbers of a kind in the program, which ones are changed")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    faults = Faults(args)
    rng = np.random.Generator(np.random.Philox(3))
    data, digits = args.work / "vectors.npz", args.work / "digits.npz"
    np.savez(data, x=rng.random((8, 128), dtype=np.float32), y=rng.integers(0, 10, 8))
    np.savez(digits, x=rng.random((8, 1, 8, 8), dtype=np.float32), y=rng.integers(0, 10, 8))
    gpu = faults.compile("gpu", "mlp_small", 4, "--target=cuda:sm_90", "--optimizer=adam:lr=1e-3")
    host = faults.compile("host", "digits_cnn", 4, "--threads=2", "--optimizer=sgd:lr=0.1,momentum=0.9")
    convolutions = faults.compile("conv", "digits_cnn", 4, "--target=cuda:h100", f"--cudnn={args.simulated}", "--optimizer=adamw:lr=1e-3")
    faults.check_before_training(gpu, data)
    faults.check_gpu(gpu, data)
    faults.check_wide_heads()
    faults.check_in_the_middle(gpu, data)
    faults.check_canaries(gpu, data)
    faults.check_canaries(convolutions, digits)
    faults.check_canaries(host, digits)
    faults.check_named_commands(gpu, data)
    faults.check_mutations(gpu, data, args.every)
    faults.check_mutations(convolutions, digits, args.every, ("cuda.convolution", "block", "shared"))
    print(f"{len(BEFORE_TRAINING)} failures before training, 4 in the middle, canaries on two devices", flush=True)


if __name__ == "__main__":
    main()
