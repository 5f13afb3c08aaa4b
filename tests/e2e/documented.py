#!/usr/bin/python3
"""Runs every command of README.md, docs/running.md and docs/memory-budget.md and compares what they print: documented.py --stowage=PATH --work=DIR.

The commands of the shell blocks run in their order in a scratch folder that holds what they name: model.onnx (a small network for
the digits), train.npz and test.npz, a packing instance, a schedule problem, models/, a folder disk/. Optional parts, `[--flag=a|b]`, are left out in one run and
given with their first choice in a second. Training takes two epochs, however many the page says. scripts/*.sh only has to be there:
they run this very test. Blocks of `console` need a GPU and are left out (gpu_profile.py has theirs). What stands below a `$ command` has to be what it prints, line by line, `...` in place of any lines; of an executable, which measures
times and was trained for less, up to the numbers. The Python blocks are tests/python/test_documented.py's.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper

import shapes

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/running.md", "docs/memory-budget.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
COMMAND = re.compile(r"^(?:\$ )?((?:scripts/\w+\.sh|stowage|\./model|\./text|build/demo/digits)(?: .*)?)$", re.M)
OPTION = re.compile(r"\s*\[([^\]]*)\]")
EPOCHS = re.compile(r"--epochs=\d+")


def commands_of(text: str) -> "list[tuple[str, list[str]]]":
    """The commands of the shell blocks of a page, each with the lines that are shown of its output."""
    found: "list[tuple[str, list[str]]]" = []
    for language, block in BLOCK.findall(text):
        if language not in ("", "sh", "bash"):
            continue
        shows = False
        for line in block.splitlines():
            if match := COMMAND.match(line):
                found.append((match[1].split(" #")[0].strip(), []))
                shows = line.startswith("$ ")
            elif shows:
                found[-1][1].append(line)
    return found


def first_unprinted(shown: "list[str]", printed: "list[str]", is_exact: bool) -> "str | None":
    """The first line of `shown` that does not follow in `printed` where it should; `...` stands for any lines."""
    alike = lambda line: line.rstrip() if is_exact else re.sub(r"\d+(\.\d+)?", "0", " ".join(line.split()))
    left, free = [alike(line) for line in printed], False
    for line in shown:
        if line == "...":
            free = True
            continue
        place = next((i for i, other in enumerate(left if free else left[:1]) if other == alike(line)), None)
        if place is None:
            return line
        left, free = left[place + 1 :], False
    return left[0] if left and not free and shown else None


def variants(command: str) -> list[str]:
    """Without the optional parts, and with the first choice of each: [--format=text|csv] -> --format=text."""
    bare = OPTION.sub("", command)
    names = {"FILE": "out.txt", "N": "64"}
    full = OPTION.sub(lambda m: " " + re.sub(r"\b(FILE|N)\b", lambda n: names[n[1]], m[1].split("|")[0]), command)
    return [bare] if full == bare else [bare, full]


def write_model(path: Path) -> None:
    """Four convolutions and their activations, of which a plan with less memory recomputes some: planned in a fraction of a second."""
    helper, draw = onnx.helper, np.random.RandomState(0)
    shapes = {"a": (16, 1, 3, 3), **{name: (16, 16, 3, 3) for name in "bcd"}, "head": (16, 10), "bias": (10,)}
    tensors = [onnx.numpy_helper.from_array((draw.randn(*shape) / 4).astype(np.float32), name) for name, shape in shapes.items()]
    nodes, last = [], "x"
    for name in "abcd":
        nodes += [helper.make_node("Conv", [last, name], [f"{name}_sum"], pads=[1, 1, 1, 1]), helper.make_node("Tanh", [f"{name}_sum"], [f"{name}_out"])]
        last = f"{name}_out"
    nodes += [helper.make_node("GlobalAveragePool", [last], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"]),
              helper.make_node("Gemm", ["flat", "head", "bias"], ["logits"])]  # fmt: skip
    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "small", [value("x", (128, 1, 8, 8))], [value("logits", (128, 10))], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def prepare(stowage: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build/demo").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "disk").mkdir()
    (folder / "bin/stowage").symlink_to(Path(stowage).resolve())
    (folder / "models").symlink_to(ROOT / "models")
    write_model(folder / "model.onnx")
    digits = np.load(ROOT / "models/data/digits.npz")
    np.savez(folder / "train.npz", x=digits["x"][:512], y=digits["y"][:512])
    np.savez(folder / "test.npz", x=digits["x_test"], y=digits["y_test"])
    shapes.build(folder / "text.onnx")  # rows of text, of any length
    shapes.data(folder / "text.npz", [90, 200, 300, 1000] * 4, 1000)
    (folder / "buffers.csv").write_text("id,lower,upper,size\na,0,4,64\nb,1,3,32\nc,3,6,96\n")
    plan = [stowage, "plan", "model.onnx", "--memory-budget=100%", "--save-problem=graph.json"]
    subprocess.run(plan, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def run(command: str, folder: Path, shown: "list[str]" = []) -> bool:
    if command.startswith("scripts/"):
        good, problem = (ROOT / command.split()[0]).is_file(), "there is no such script"
    else:
        environment = dict(os.environ, PATH=f"{folder / 'bin'}:{os.environ['PATH']}")
        short = EPOCHS.sub("--epochs=2", command)
        done = subprocess.run(short, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        good, problem = done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"
        missing = first_unprinted(shown, done.stdout.splitlines(), command.startswith("stowage ")) if good and shown else None
        if missing is not None:
            good, problem = False, f"the page shows, or leaves out without ..., the line\n{missing}\nof what was printed:\n{done.stdout}"
    print(f"{'ok' if good else 'FAILED'}: {command}" + ("" if good else f": {problem}"), flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    results = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        folder = (args.work / Path(page).stem).resolve()
        prepare(str(Path(args.stowage).resolve()), folder)
        commands = commands_of(text)
        if not any(command.split()[:3] == ["stowage", "compile", "model.onnx"] for command, _ in commands):
            results += [run("stowage compile model.onnx -o model", folder)]  # the page starts with the executable
        print(f"{'ok' if commands else 'FAILED'}: {page} has {len(commands)} commands")
        results += [bool(commands)]
        results += [run(variant, folder, shown) for command, shown in commands for variant in variants(command)]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
