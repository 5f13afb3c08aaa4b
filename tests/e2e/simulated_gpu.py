#!/usr/bin/python3
"""Programs for GPUs, on the simulated one (tests/gpu): losses as on the host.

  simulated_gpu.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

The executable's own PTX runs, every access inside an allocation, its products by the stand-in of cuBLASLt, and its convolutions
by that of cuDNN, which also plans them. For each model: the losses of some steps follow those of the host's executable;
under a budget and with --poison they are the same bytes; what is saved is resumed bit for bit. Without a driver or without
cuBLASLt the error says what is missing, and a convolution that does not run as planned is refused.
"""

import argparse
import csv
import json
import os
import re
from pathlib import Path

import numpy as np

import commands
from commands import check, write_changed

STEPS = 3
BUDGETS = {"char_gpt": "70%", "lenet": "15%", "my_model_small_bf16": "80%", "digits_cnn": "26%", "digits_cnn_bf16": "19%"}
BUDGETS |= {"resnet18": "82%", "resnet18_bf16": "82%"}
# Room for everything in 16 bits where f32, which takes less at so small a size, would be planned instead.
WHOLE = {"resnet18_bf16": "126MiB"}
# name: model, batch, precision, flags, most that losses may differ from the host's, relatively. In f32 the order of
# sums differs, in 16 bits also what is rounded where: the host keeps f32 weights, cuBLASLt takes them in 16 bits.
CASES = {
    "mlp": ("mlp", 8, "f32", ["--optimizer=sgd:lr=0.1,momentum=0.9"], 1e-5),
    "mlp_bf16": ("mlp", 8, "bf16", ["--optimizer=sgd:lr=0.1,momentum=0.9"], 3e-3),
    "char_gpt": ("char_gpt", 2, "f32", ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1"], 1e-5),
    "digits_cnn": ("digits_cnn", 4, "f32", ["--optimizer=adamw:lr=1e-3"], 1e-5),
    "lenet": ("lenet", 4, "f32", ["--optimizer=sgd:lr=0.05,momentum=0.9"], 1e-5),
    "lenet_bf16": ("lenet", 4, "bf16", ["--optimizer=sgd:lr=0.05,momentum=0.9"], 3e-3),
    # Whose weights have no gradients that a product could sum the biases' beside.
    "mlp_parts": ("mlp_small", 512, "f32", ["--optimizer=sgd:lr=0.1,momentum=0.9", "--freeze=*.weight"], 1e-5),
}
SUMMED = ("mlp", "mlp_bf16", "char_gpt", "char_gpt_accumulate")
# What makes models small. GPT-2's head has rows of no whole vectors, and is large enough to get classes (stow-pad-logits).
SMALL_IMAGES = ["--image", "64"]
BUILD = {"resnet18": SMALL_IMAGES, "inception": SMALL_IMAGES, "gpt2": ["--length=32", "--layers=1", "--vocabulary=1021"]}
TOKENS = {"char_gpt": (65, 32), "gpt2": (1021, 32)}  # how many there are, and in a row
# By name only: minutes. Normalizing over two images amplifies what is rounded from step to step: MobileNetV2
# is not here, since the host's own losses move by 3e-3 in a step when every pixel moves by its last bit.
NIGHTLY = {
    "char_gpt_accumulate": ("char_gpt", 4, "f32", ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1", "--accumulate=2"], 1e-5),
    "my_model_small_bf16": ("my_model_small", 4, "bf16", ["--optimizer=sgd:lr=0.05,momentum=0.9"], 3e-3),
    "lstm_fp16": ("lstm", 4, "fp16", ["--optimizer=adam:lr=1e-3"], 1e-3),
    "char_gpt_bf16": ("char_gpt", 2, "bf16", ["--optimizer=adamw:lr=1e-3", "--loss=cross-entropy:class-axis=-1"], 1e-3),
    "digits_cnn_bf16": ("digits_cnn", 4, "bf16", ["--optimizer=sgd:lr=0.05,momentum=0.9"], 1e-2),
    "resnet18": ("resnet18", 2, "f32", ["--optimizer=sgd:lr=0.001,momentum=0.9"], 1e-4),
    "resnet18_bf16": ("resnet18", 2, "bf16", ["--optimizer=sgd:lr=0.001,momentum=0.9"], 5e-2),
    "gpt2_bf16": ("gpt2", 20, "bf16", ["--optimizer=adamw:lr=1e-4", "--loss=cross-entropy:class-axis=-1"], 3e-3),
    "inception": ("inception", 1, "f32", ["--optimizer=sgd:lr=0.001"], 1e-4),
}


def run(command: list[object], simulated: Path | None = None, fails: bool = False) -> str:
    environment = {"LD_LIBRARY_PATH": str(simulated or "")}
    return commands.run(*command, code=None if fails else 0, environment=environment)


def losses(log: Path) -> list[float]:
    with open(log) as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def make_data(path: Path, model: str, batch: int) -> Path:
    rng = np.random.Generator(np.random.Philox(3))
    if model in TOKENS:
        tokens, length = TOKENS[model]
        x, y = rng.integers(0, tokens, (2 * batch, length)), rng.integers(0, tokens, (2 * batch, length))
    else:
        import onnx

        shape = [d.dim_value for d in onnx.load(path.with_suffix(".onnx")).graph.input[0].type.tensor_type.shape.dim][1:]
        x, y = rng.random((2 * batch, *shape), dtype=np.float32), rng.integers(0, 10, 2 * batch)
    np.savez(path, x=x, y=y)
    return path


def check_case(name: str, args: argparse.Namespace) -> None:
    model, batch, precision, flags, tolerance = (CASES | NIGHTLY)[name]
    onnx, folder = args.work / f"{name}.onnx", args.work
    commands.build_model(model, onnx, "--batch", batch, *BUILD.get(model, []))
    data = make_data(folder / f"{name}.npz", model, batch)

    def train(variant: str, compile_flags: list[str], *train_flags: object) -> bytes:
        executable, log = folder / f"{name}-{variant}", folder / f"{name}-{variant}.csv"
        if variant == "poison":  # the program is the same
            executable = folder / f"{name}-gpu"
        else:
            run([args.stowage, "compile", onnx, "-o", executable, f"--precision={precision}", *flags, *compile_flags])
        log.unlink(missing_ok=True)
        run([executable, "train", f"--data={data}", f"--steps={STEPS}", "--no-shuffle", f"--log={log}", *train_flags],
            args.simulated)  # fmt: skip
        return log.read_bytes()

    target = ["--target=cuda:h100", f"--cudnn={args.simulated}"]
    train("host", ["--threads=1", "--recompute=none"])
    room = [f"--memory-budget={WHOLE[name]}"] if name in WHOLE else ["--recompute=none"]  # nothing is searched for
    whole = train("gpu", [*target, *room], f"--save={folder / f'{name}.safetensors'}")
    check("stored and computed in f32" not in run([folder / f"{name}-gpu", "plan"]), f"{name}: planned in f32")
    program = (folder / f"{name}-gpu").read_bytes()
    check(b'"op":"sequence"' in program or not name.endswith("_parts"), f"{name}: no bias gradient is summed in parts")
    check(b'"summed":[' in program or name not in SUMMED, f"{name}: no product sums a bias gradient")
    host, gpu = losses(folder / f"{name}-host.csv"), losses(folder / f"{name}-gpu.csv")
    worst = max(abs(a - b) / abs(b) for a, b in zip(gpu, host, strict=True))
    print(f"{name}: {gpu[0]:.5f} -> {gpu[-1]:.5f}, relative difference to the host's {worst:.1e}", flush=True)
    check(worst <= tolerance, f"{name}: the losses {gpu} differ from the host's {host}")
    check(train("poison", [], "--poison") == whole, f"{name}: other losses with --poison")
    if budget := BUDGETS.get(name):
        check(train("budget", [*target, f"--memory-budget={budget}"], "--poison") == whole, f"{name}: other losses under a budget")
    # Two steps, saved, and one more.
    executable, half, resumed = folder / f"{name}-gpu", folder / f"{name}-half.safetensors", folder / f"{name}-resumed.safetensors"
    common = [executable, "train", f"--data={data}", "--no-shuffle"]
    run([*common, "--steps=2", f"--save={half}"], args.simulated)
    run([*common, f"--steps={STEPS}", f"--resume={half}", f"--save={resumed}"], args.simulated)
    check(resumed.read_bytes() == (folder / f"{name}.safetensors").read_bytes(), f"{name}: resumed to another state")


# Of cublasLtEpilogue_t: all that may stand behind a product.
EPILOGUES = {"relu": 2, "bias": 4, "bias, relu": 6, "gelu": 32, "bias, gelu": 36, "gelu gradient": 192, "sums of rows": (256, 512)}


def check_split(name: str, args: argparse.Namespace) -> None:
    """A library without a kernel for what stands behind a product: the program runs both one after the other, in the same arena, says so once
    for each kind, and trains to the same losses; with poison to the same bytes."""
    executable, log = args.work / f"{name}-gpu", args.work / f"{name}-split.csv"
    command = [executable, "train", f"--data={args.work / name}.npz", f"--steps={STEPS}", "--no-shuffle", f"--log={log}"]

    def train(without: str, *flags: str) -> tuple[str, bytes]:
        log.unlink(missing_ok=True)
        os.environ["STANDIN_CUBLASLT_WITHOUT"] = without
        try:
            return run([*command, *flags], args.simulated), log.read_bytes()
        finally:
            del os.environ["STANDIN_CUBLASLT_WITHOUT"]

    every = ",".join(str(number) for numbers in EPILOGUES.values() for number in (numbers if isinstance(numbers, tuple) else (numbers,)))
    output, apart = train(every)
    program = executable.read_text(errors="ignore")
    used = sorted(set(re.findall(r'"op":"cuda.matmul_epilogue"[^\n]*?"function":\[(\d)\]', program)))
    notes = re.findall(r"note: cuBLASLt has nothing for (\d+) of the products with ([^(]+) \(first '([^']+)' of node", output)
    check(len(notes) == len({words for _, words, _ in notes}) >= len(used), f"{name}: products of the functions {used}: {notes}\n{output}")
    together = losses(args.work / f"{name}-gpu.csv")
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses(log), together, strict=True))
    check(worst <= CASES[name][4], f"{name}: split products lead to {losses(log)} instead of {together}")
    check(train(every, "--poison")[1] == apart, f"{name}: other losses of split products with --poison")
    # One kind alone.
    count, words, _ = notes[-1]
    alone = EPILOGUES[words]
    output, _ = train(",".join(map(str, alone)) if isinstance(alone, tuple) else str(alone))
    check(output.count("note: cuBLASLt has nothing for") == 1 and f"for {count} of the products with {words} (" in output, output)
    print(f"{name}: {', '.join(f'{words} of {count}' for count, words, _ in notes)} apart, relative difference {worst:.1e}", flush=True)


def check_chips(args: argparse.Namespace) -> None:
    """One program for two chips: the same losses on both and on a later one, an error on an earlier one."""
    executable, log = args.work / "mlp-chips", args.work / "mlp-chips.csv"
    compile_mlp = [args.stowage, "compile", args.work / "mlp.onnx", "-o", executable, *CASES["mlp"][3]]
    command = [executable, "train", f"--data={args.work / 'mlp.npz'}", f"--steps={STEPS}", "--no-shuffle", f"--log={log}"]
    run([*compile_mlp, "--target=cuda:a100,h100"])
    try:
        for chip in ("a100", "h100", "b200"):
            os.environ["STANDIN_CHIP"] = chip
            log.unlink(missing_ok=True)
            run(command, args.simulated)
            check(losses(log) == losses(args.work / "mlp-gpu.csv"), f"mlp for two chips: other losses on {chip}")
        # Instructions that only later chips have.
        os.environ["STANDIN_CHIP"] = "b200"
        for name in ("mlp", "lenet", "lenet_bf16"):
            own = args.work / f"{name}-b200"
            compile_it = [args.stowage, "compile", args.work / f"{name}.onnx", "-o", own, f"--precision={CASES[name][2]}", *CASES[name][3]]
            run([*compile_it, "--target=cuda:b200", f"--cudnn={args.simulated}", "--recompute=none"])
            log.unlink(missing_ok=True)
            run([own, "train", f"--data={args.work / name}.npz", *command[3:]], args.simulated)
            check(losses(log) == losses(args.work / f"{name}-gpu.csv"), f"{name}: other losses on b200 by its own kernels")
        os.environ["STANDIN_CHIP"] = "a100"
        run([*compile_mlp, "--target=cuda:h100"])
        found = run(command, args.simulated, fails=True)
        check("has no kernels for" in found and "--target=cuda:sm_80" in found, found)
    finally:
        del os.environ["STANDIN_CHIP"]


def check_engines_of_chips(args: argparse.Namespace) -> None:
    """Convolutions for two chips: each runs its own engines in the one arena, a third chip is refused."""
    name = "digits_cnn"
    executable, other, log, calls = (args.work / f"{name}-chips{end}" for end in ("", "-other", ".csv", ".calls"))
    flags = [args.work / f"{name}.onnx", *CASES[name][3], f"--cudnn={args.simulated}", f"--memory-budget={BUDGETS[name]}"]
    run([args.stowage, "compile", *flags, "-o", executable, "--target=cuda:a100,h100"])
    plan = json.loads(run([executable, "plan", "--format=json"]))
    budget = int(BUDGETS[name].rstrip("%")) * plan["without_recompute_bytes"] // 100
    check(plan["arena_bytes"] <= budget, f"{name} for two chips: an arena of {plan['arena_bytes']} bytes within {budget}")
    program = executable.read_bytes()
    engines = re.findall(rb'"engine":\[(\d+),(\d+)\]', program)
    check(b'"architectures":[80,90]' in program and any(a != b for a, b in engines), f"engines for both chips: {engines}")

    def train(chip: str, file: Path, fails: bool = False) -> str:
        os.environ |= {"STANDIN_CHIP": chip, "STANDIN_LOG": str(calls)}
        for made in (log, calls):
            made.unlink(missing_ok=True)
        data = args.work / f"{name}.npz"
        return run([file, "train", f"--data={data}", f"--steps={STEPS}", "--no-shuffle", f"--log={log}"], args.simulated, fails)

    try:
        for chip in ("a100", "h100"):
            train(chip, executable)
            check(losses(log) == losses(args.work / f"{name}-gpu.csv"), f"{name} for two chips: other losses on {chip}")
            taken = re.findall(r"^cuMemCreate .*bytes=(\d+)", calls.read_text(), re.M)[1:]  # the first is to load with
            check(taken == [str(plan["arena_bytes"])], f"{name} for two chips: {taken} bytes taken on {chip}")
        found = train("b200", executable, fails=True)
        check("planned for a100 (8.0), h100 (9.0), and the GPU is NVIDIA B200 of compute capability 10.0" in found, found)
        # An engine that there is not, for one of the chips: the other does not ask for it.
        mixed = next(b'"engine":[%s,%s]' % pair for pair in engines if pair[0] != pair[1])
        without_spares = program.replace(b'"spares"', b'"sparse"')
        write_changed(other, without_spares.replace(mixed, mixed.replace(b"[14,", b"[99,")))
        check("no engine 99" in train("a100", other, fails=True), "the A100 does not run its own engines")
        train("h100", other)
    finally:
        for variable in ("STANDIN_CHIP", "STANDIN_LOG"):
            os.environ.pop(variable, None)


def check_errors(args: argparse.Namespace) -> None:
    executable = args.work / "mlp-gpu"
    command = [executable, "train", f"--data={args.work / 'mlp.npz'}", "--steps=1"]
    if not any(Path(folder, "libcuda.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64")):
        check("there is no CUDA driver" in run(command, fails=True), "without a driver the error does not say so")
    alone = args.work / "driver-alone"
    alone.mkdir(exist_ok=True)
    (alone / "libcuda.so.1").unlink(missing_ok=True)
    (alone / "libcuda.so.1").symlink_to(args.simulated / "libcuda.so.1")
    found = run(command, alone, fails=True)  # a real cuBLASLt, where the system has one, does not start either
    check("multiplies matrices with cuBLASLt, and there is none" in found or "starting failed in cuBLASLt" in found, found)
    os.environ["STANDIN_MEMORY"] = str(1 << 20)
    found = run(command, args.simulated, fails=True)
    del os.environ["STANDIN_MEMORY"]
    check("the arena takes" in found and "free of" in found, found)


def check_convolutions(args: argparse.Namespace) -> None:
    """Programs whose convolutions do not run here as they were planned."""
    whole, log, other = args.work / "digits_cnn-gpu", args.work / "other.csv", args.work / "digits_cnn-other"
    executable = args.work / "digits_cnn-no-spares"  # a key that nobody reads instead of theirs
    write_changed(executable, whole.read_bytes().replace(b'"spares"', b'"sparse"'))
    command = [executable, "train", f"--data={args.work / 'digits_cnn.npz'}", f"--steps={STEPS}", "--no-shuffle", f"--log={log}"]

    def refused(**variables: str) -> str:
        os.environ.update(variables)
        found = run(command, args.simulated, fails=True)
        for name in variables:
            del os.environ[name]
        return found

    bare = args.work / "without-cudnn"
    bare.mkdir(exist_ok=True)
    for name in ("libcuda.so.1", "libcublasLt.so.13"):
        (bare / name).unlink(missing_ok=True)
        (bare / name).symlink_to(args.simulated / name)
    found = run(command, bare, fails=True)  # a real cuDNN, where the system has one, does not start either
    check("cuDNN 9 is not installed" in found and "in LD_LIBRARY_PATH" in found or "does not start on this GPU" in found, found)
    found = refused(STANDIN_CUDNN_MORE_SCRATCH="256")
    check("of node '/conv1/Conv'" in found and "of scratch here and was planned with" in found, found)
    found = refused(STANDIN_CUDNN_WITHOUT="11", STANDIN_CUDNN_VERSION="99901")
    check("planned with cuDNN 9.99.0 and engine 11" in found and "found cuDNN 9.99.1" in found, found)
    # Another version that has the engine, as exact and with no more scratch, runs it.
    os.environ["STANDIN_CUDNN_VERSION"] = "99901"
    log.unlink(missing_ok=True)
    run(command, args.simulated)
    del os.environ["STANDIN_CUDNN_VERSION"]
    check(log.read_bytes() == (args.work / "digits_cnn-gpu.csv").read_bytes(), "other losses with another version of cuDNN")
    # A spare engine that fits the same scratch runs instead, says so, and computes the same here.
    os.environ["STANDIN_CUDNN_WITHOUT"] = "11"
    log.unlink(missing_ok=True)
    found = run([whole, *command[1:]], args.simulated)
    del os.environ["STANDIN_CUDNN_WITHOUT"]
    check("note: command 'cuda.convolution' of node '/conv1/Conv': engine 11 (knobs 12=2) is refused here" in found, found)
    check(log.read_bytes() == (args.work / "digits_cnn-gpu.csv").read_bytes(), "other losses with spare engines")
    # What the program says of the engine, changed in place.
    program = executable.read_bytes()
    for old, new, message in [
        (b'"engine":[11]', b'"engine":[10]', "the engine has results that differ from run to run here"),
        (b'"engine":[11]', b'"engine":[99]', "no engine 99"),
        (b'"knobs":[12,2]', b'"knobs":[12,7]', "of scratch here and was planned with"),
        (b'"knobs":[12,2]', b'"knobs":[13,2]', "has no knob 13"),
    ]:
        check(old in program, f"the program does not say {old!r}")
        write_changed(other, program.replace(old, new))
        found = run([other, *command[1:]], args.simulated, fails=True)
        check(message in found, f"{new!r}: {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--cases", nargs="+", choices=[*CASES, *NIGHTLY], help="only these models; otherwise the small ones, and the errors")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in args.cases or CASES:
        check_case(name, args)
        if name in SUMMED and name in CASES:
            check_split(name, args)
    if args.cases:
        return
    check_chips(args)
    check_engines_of_chips(args)
    check_errors(args)
    check_convolutions(args)


if __name__ == "__main__":
    main()
