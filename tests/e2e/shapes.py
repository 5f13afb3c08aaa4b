#!/usr/bin/python3
"""A step of several shapes: --shapes=sequence:... beside programs of one shape each, and what plans and runs say of it.

  shapes.py --stowage=build/release/bin/stowage --work=DIR [--simulated=build/release/lib/simulated]

The model mixes positions from left to right (a running sum of what a mask keeps), as an attention with a triangle does, so that padding
behind a row changes nothing in it.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors_io import load as read_safetensors
    from stowage._library import Library, Model
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy and python3-onnx")
    sys.exit(77)

BATCH, LONGEST, VOCABULARY, WIDTH, IGNORED = 4, 32, 23, 12, -100
SHAPES = (32, 16, 8)
FLAGS = ["--loss=cross-entropy:class-axis=-1", "--optimizer=adamw:lr=0.01", "--threads=1", "--target-cpu=x86-64-v3"]


def run(*words: object, code: int = 0) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(f"{words}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def require(holds: bool, what: object) -> None:
    if not holds:
        raise SystemExit(f"failed: {what}")


def build(path: Path, embedded: bool = False, words: int = VOCABULARY) -> None:
    """`embedded`: tokens are the vectors that a table would give."""
    draw = np.random.default_rng(0)
    weights = {"table": draw.standard_normal((words, WIDTH)), "w1": draw.standard_normal((WIDTH, 16)) / 4, "b1": np.zeros(16),
               "w2": draw.standard_normal((16, words)) / 4, "b2": np.zeros(words)}  # fmt: skip
    constants = [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()]
    constants += [numpy_helper.from_array(np.array(1), "axis"), numpy_helper.from_array(np.array([2]), "last")]
    nodes = [
        helper.make_node(*(("Identity", ["tokens"]) if embedded else ("Gather", ["table", "tokens"])), ["embedded"], "/embed"),
        helper.make_node("Cast", ["attention_mask"], ["real"], "/real", to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["real", "last"], ["kept"], "/kept"),
        helper.make_node("Mul", ["embedded", "kept"], ["masked"], "/mask"),
        helper.make_node("CumSum", ["masked", "axis"], ["mixed"], "/mix"),
        helper.make_node("MatMul", ["mixed", "w1"], ["h"], "/fc1/MatMul"),
        helper.make_node("Add", ["h", "b1"], ["hb"], "/fc1/Add"),
        helper.make_node("Tanh", ["hb"], ["a"], "/act"),
        helper.make_node("MatMul", ["a", "w2"], ["o"], "/fc2/MatMul"),
        helper.make_node("Add", ["o", "b2"], ["logits"], "/fc2/Add"),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("tokens", "attention_mask")]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", words])]
    if embedded:
        constants = [constant for constant in constants if constant.name != "table"]
        inputs[0] = helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "sequence", WIDTH])
    model = helper.make_model(helper.make_graph(nodes, "mixer", inputs, outputs, constants), opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 7
    onnx.save(model, path)


def data(path: Path, lengths: "list[int]", width: int, seed: int = 1) -> None:
    """Rows of these lengths in arrays of one width; the same rows whatever the width is."""
    arrays = {name: np.full((len(lengths), width), fill, np.int64) for name, fill in (("tokens", 0), ("attention_mask", 0), ("y", IGNORED))}
    for row, length in enumerate(lengths):
        draw = np.random.default_rng((seed, row))
        arrays["tokens"][row, :length] = draw.integers(0, VOCABULARY, length)
        arrays["attention_mask"][row, :length] = 1
        arrays["y"][row, :length] = draw.integers(0, VOCABULARY, length)
    np.savez(path, **arrays)


def losses(executable: Path, samples: Path, *flags: str) -> "list[str]":
    log = executable.with_suffix(".csv")
    run(executable, "train", f"--data={samples}", "--no-shuffle", f"--log={log}", *flags)
    with open(log) as file:
        return [row["loss"] for row in csv.DictReader(file)]


def same_bits(work: Path, stowage: Path, model: Path, name: str = "together", batch: int = BATCH, flags: "tuple[str, ...]" = (),
              shapes: "tuple[int, ...]" = SHAPES, most: float = 0) -> Path:  # fmt: skip
    """Each shape's losses are those of a program of that shape alone, relatively to within `most`; a batch runs in the smallest that holds it."""
    together = work / name
    compiling = [stowage, "compile", model, *FLAGS, *flags, f"--batch={batch}"]
    said = run(*compiling, "-o", together, f"--shapes=sequence:{','.join(map(str, shapes))}")
    for shape in shapes:
        require(f"sequence={shape}: " in said, f"compile tells of sequence={shape}: {said}")
    for shape, shorter in zip(shapes, (*shapes[1:], 0)):
        lengths = [shorter + 1 + row % (shape - shorter) for row in range(3 * batch)]
        wide, narrow, alone = work / "wide.npz", work / "narrow.npz", work / f"alone{shape}"
        data(wide, lengths, LONGEST)
        data(narrow, lengths, shape)
        run(*compiling, "-o", alone, f"--shapes=sequence:{shape}")
        found, expected = losses(together, wide, "--epochs=2"), losses(alone, narrow, "--epochs=2")
        same = np.allclose(np.array(found, float), np.array(expected, float), rtol=most, atol=0)
        require(len(expected) == 6 and same, f"{name}, sequence={shape}: {found} are not {expected}")
        require(found == losses(together, narrow, "--epochs=2"), f"{name}: arrays of {shape} give what arrays of {LONGEST} do")
        said = run(together, "train", f"--data={wide}", "--epochs=2")
        require(f"{6 * batch // BATCH} in sequence={shape}" in said, f"{name}: all batches run in sequence={shape}: {said}")
    return together


def precisions(work: Path, stowage: Path, model: Path) -> None:
    """Weights lie as the largest shape has chosen, and so other sums may be rounded."""
    for precision in ("bf16", "fp16"):
        same_bits(work, stowage, model, precision, flags=(f"--precision={precision}", "--recompute=none"), shapes=(32, 8), most=1e-3)


def accumulation(work: Path, stowage: Path, model: Path) -> None:
    """Batches of one step run in shapes of their own; the step's loss is the mean over the labels of both."""
    together = same_bits(work, stowage, model, "accumulated", 2 * BATCH, ("--accumulate=2",), (32, 8))
    samples, whole = work / "mixed.npz", work / "whole"
    data(samples, [3, 8, 5, 2, 30, 9, 4, 6] + [31, 5, 6, 7, 1, 2, 3, 4], LONGEST)
    run(stowage, "compile", model, "-o", whole, *FLAGS, f"--batch={2 * BATCH}", f"--shapes=sequence:{LONGEST}")
    found, expected = (list(map(float, losses(program, samples, "--epochs=3"))) for program in (together, whole))
    require(np.allclose(found, expected, rtol=2e-6, atol=0) and len(found) == 6, f"{found} are not {expected}")
    profile = work / "accumulated.json"
    said = run(together, "train", f"--data={samples}", "--no-shuffle", "--epochs=8", f"--profile={profile}")
    require("batches: 16 in sequence=32, 16 in sequence=8" in said, said)
    graphs = [graph["graph"] for graph in json.loads(profile.read_text())["graphs"]]
    require(graphs == ["accumulate@sequence=8", "commit@sequence=8", "accumulate", "commit"], graphs)


def profiles(work: Path, stowage: Path, model: Path, together: Path) -> None:
    """Compilations weigh the kernels of all shapes by their times; runs time each shape apart."""
    costs, samples, profile, page = (work / name for name in ("costs.json", "profiled.npz", "profile.json", "profile.html"))

    def planned(*flags: str) -> dict:
        path = work / "profiled.json"
        run(stowage, "plan", model, *FLAGS, f"--batch={BATCH}", f"--shapes=sequence:{','.join(map(str, SHAPES))}", "--format=json", "-o", path, *flags)
        return json.loads(path.read_text())

    measured = planned("--memory-budget=90%", "--profile=run", f"--save-profile={costs}")
    require(measured["cost_source"].startswith("measured on "), measured["cost_source"])
    times = json.loads(costs.read_text())
    keys = {kernel["key"] for kernel in times["kernels"]}
    alone = work / "costs_alone.json"
    run(stowage, "plan", model, *FLAGS, f"--batch={BATCH}", f"--shapes=sequence:{SHAPES[0]}", "--profile=run", f"--save-profile={alone}")
    require(len(keys) > len(json.loads(alone.read_text())["kernels"]), "the kernels of smaller shapes are measured as well")
    # From the file comes the same plan, of all shapes; where all takes ten times as long, so does each of them.
    again = planned("--memory-budget=90%", f"--profile={costs}")
    require(again["shapes"] == measured["shapes"], f"{again['shapes']} are not {measured['shapes']}")
    for kernel in times["kernels"]:
        kernel["nanoseconds"] *= 10
    costs.write_text(json.dumps(times))
    slower = planned("--memory-budget=90%", f"--profile={costs}")["shapes"]
    for one, other in zip(slower, measured["shapes"], strict=True):
        require(abs(one["step_seconds"] / other["step_seconds"] - 10) < 0.1, f"{one} after {other}")
    said = run(stowage, "plan", model, *FLAGS, f"--batch={BATCH}", "--shapes=sequence:32,9", f"--profile={costs}", code=1)
    require("the measured costs have none for" in said, said)
    # Two batches of four in the largest, two in the smallest, none between.
    data(samples, [32, 5, 3, 2, 1, 2, 3, 4, 30, 2, 3, 4, 8, 8, 8, 8], LONGEST)
    plain = losses(together, samples, "--epochs=8")
    said = run(together, "train", f"--data={samples}", "--epochs=8", "--no-shuffle", f"--profile={profile}", f"--log={work / 'profiled.csv'}")
    with open(work / "profiled.csv") as file:
        require([row["loss"] for row in csv.DictReader(file)] == plain, "a profile changes no loss")
    graphs = json.loads(profile.read_text())["graphs"]
    require([graph["graph"] for graph in graphs] == ["train@sequence=8", "train"], [graph["graph"] for graph in graphs])
    require([graph["steps"] for graph in graphs] == [13, 13], "16 batches of each shape, 3 of them to warm up")
    require("profile of 'train@sequence=8'" in said and "sequence=16'" not in said, said)
    expected = {shape["name"]: shape["step_seconds"] for shape in planned()["shapes"]}
    for shape in (32, 8):
        require(f"  planned: {1e3 * expected[f'sequence={shape}']:.4f} ms per step" in said, f"{expected}\n{said}")
    run(stowage, "inspect", together, f"--times={profile}", "--format=html", "-o", page)
    # Where the largest did not run, the page is of what did; a plan without that shape refuses it.
    data(samples, [8] * 8, LONGEST)
    run(together, "train", f"--data={samples}", "--epochs=3", f"--profile={profile}")
    run(stowage, "inspect", together, f"--times={profile}", "--format=html", "-o", page)
    said = run(stowage, "inspect", work / "whole", f"--times={profile}", "--format=html", "-o", page, code=1)
    require('it is of graph "train@sequence=8", the plan has train, eval' in said, said)


def input_gradients(work: Path, stowage: Path) -> None:
    """Of a batch in a shape they are those of a program of that shape alone, as large as the batch."""
    model, flags = work / "embedded.onnx", [*FLAGS, "--emit=shared", f"--batch={BATCH}", "--input-gradients=tokens"]
    build(model, embedded=True)
    run(stowage, "compile", model, "-o", work / "together.so", *flags, "--shapes=sequence:32,8")
    for shape in (32, 8):
        run(stowage, "compile", model, "-o", work / f"alone{shape}.so", *flags, f"--shapes=sequence:{shape}")
    together = Model(Library(work / "together.so"))
    draw = np.random.default_rng(2)
    for length, rows in ((7, BATCH), (30, BATCH), (8, BATCH), (8, BATCH - 1)):
        shape = 8 if length <= 8 else 32
        values = {"tokens": draw.standard_normal((BATCH, shape, WIDTH)).astype(np.float32), "attention_mask": np.ones((BATCH, shape), np.int64),
                  "target": draw.integers(0, VOCABULARY, (BATCH, shape))}  # fmt: skip
        values["attention_mask"][:, length:] = values["tokens"][:, length:] = 0
        values["target"][:, length:] = values["target"][rows:] = IGNORED
        alone = Model(Library(work / f"alone{shape}.so"))
        for tensor in alone.state:
            alone.write(tensor.name, together.read(tensor.name))
        names = [tensor.name for tensor in alone.step_inputs]
        names[names.index("y") if "y" in names else names.index("target")] = "target"
        expected = alone.step([values[name] for name in names])
        found = together.step([values[name][:rows, :length] for name in names])
        gradient = together.step_output("tokens.grad")
        require(abs(found - expected) < 1e-6 * expected, f"{found} is not {expected}")
        require(gradient.shape == (rows, length, WIDTH), f"{gradient.shape} for {rows} rows of {length}")
        require(np.abs(gradient).max() > 0 and np.array_equal(gradient, alone.step_output("tokens.grad")[:rows, :length]),
                f"another gradient of {rows} rows of {length}")  # fmt: skip
        require(together.step_output("loss") == np.float32(found), "the loss is that of the shape, too")


def plans(work: Path, stowage: Path, model: Path) -> None:
    shapes = [f"--batch={BATCH}", f"--shapes=sequence:{','.join(map(str, SHAPES))}"]
    samples = work / "worst.npz"
    data(samples, [5, 30, 6, 12, 32, 7], LONGEST)
    plan = json.loads(run(stowage, "plan", model, *FLAGS, *shapes, f"--worst={samples}", "--format=json"))
    alone = json.loads(run(stowage, "plan", model, *FLAGS, f"--batch={BATCH}", f"--shapes=sequence:{SHAPES[0]}", "--format=json"))
    require([shape["name"] for shape in plan["shapes"]] == [f"sequence={shape}" for shape in SHAPES], plan["shapes"])
    require(plan["arena_bytes"] == max(shape["arena_bytes"] for shape in plan["shapes"]) == alone["arena_bytes"],
            f"the arena is the largest shape's: {plan['arena_bytes']}, {alone['arena_bytes']}")  # fmt: skip
    require(plan["step_seconds"] == alone["step_seconds"] == plan["shapes"][0]["step_seconds"], "the time is that of the largest")
    names = [(graph["name"], graph.get("shape")) for graph in plan["graphs"]]
    require(names == [(name, shape) for shape in (None, "sequence=16", "sequence=8") for name in ("train", "eval")], names)

    def state(graph: dict) -> dict:
        kept = ("parameter", "optimizer")
        return {buffer["name"]: (buffer["offset"], buffer["size"]) for buffer in graph["buffers"] if buffer["kind"] in kept}

    for graph in plan["graphs"][2:]:
        kept = state(plan)
        if graph["name"] == "eval":
            kept = {name: place for name, place in kept.items() if name in state(graph)}
        require(state(graph) == kept != {}, f"state lies elsewhere in {graph['name']} of {graph['shape']}")
        end = max(buffer["offset"] + buffer["size"] for buffer in graph["buffers"])
        require(end <= plan["arena_bytes"], f"{graph['shape']} leaves the arena: {end}")
    worst = [note for note in plan["notes"] if note.startswith("worst.npz")]
    require(worst[0].startswith("worst.npz: 2 of 6 rows need sequence=32, the longest first: rows 4 (32), 1 (30); without them sequence=16"), worst)
    require(worst[1:] == ["worst.npz: 1 of 6 rows needs sequence=16, the longest first: row 3 (12)",
                          "worst.npz: 3 of 6 rows need sequence=8, the longest first: rows 5 (7), 2 (6), 0 (5)"], worst)  # fmt: skip
    text = run(stowage, "plan", model, *FLAGS, *shapes)
    require("ms per step" in text and "  sequence=16 " in text, text)
    for shape in ("", "@sequence=16", "@sequence=8"):
        require(f"  eval{shape}: " in text, f"the plan states eval{shape}: {text}")
    # A budget holds for all.
    budget = alone["lower_bound_bytes"] * 9 // 10
    tight = json.loads(run(stowage, "plan", model, *FLAGS, *shapes, f"--memory-budget={budget}", "--format=json"))
    require(max(shape["arena_bytes"] for shape in tight["shapes"]) == tight["arena_bytes"] <= budget, tight["shapes"])
    # Samples are an axis as well; combinations come by falling size.
    both = json.loads(run(stowage, "plan", model, *FLAGS, "--shapes=batch:4,2", "--shapes=sequence:32,8", "--format=json"))
    require([shape["name"] for shape in both["shapes"]] == ["batch=4,sequence=32", "batch=2,sequence=32", "batch=4,sequence=8",
                                                            "batch=2,sequence=8"], both["shapes"])  # fmt: skip
    require(both["shapes"][2]["extents"] == {"batch": 4, "sequence": 8}, both["shapes"])


def short_batches(work: Path, stowage: Path, model: Path, together: Path) -> None:
    """The last batch of an epoch has fewer rows: the mean is over their labels, and nothing else is trained."""
    samples, rows, epochs = work / "short.npz", [9, 4, 13, 6, 3, 7], 3
    data(samples, rows, LONGEST)
    whole = losses(together, samples, f"--epochs={epochs}", f"--save={work / 'short.safetensors'}")
    require(len(whole) == 2 * epochs, f"two steps an epoch: {whole}")
    # Alone: 2 rows in a program of 2, after a step in a program of 4.
    four, two, weights = work / "alone4", work / "alone2", work / "moved.safetensors"
    first, last = work / "first.npz", work / "last.npz"
    arrays = np.load(samples)
    np.savez(first, **{name: arrays[name][:4, :16] for name in arrays.files})
    np.savez(last, **{name: arrays[name][4:, :8] for name in arrays.files})
    sgd = [FLAGS[0], "--optimizer=sgd:lr=0.5", *FLAGS[2:]]
    run(stowage, "compile", model, "-o", four, *sgd, "--batch=4", "--shapes=sequence:16")
    run(stowage, "compile", model, "-o", two, *sgd, "--batch=2", "--shapes=sequence:8")
    both = work / "together_sgd"
    run(stowage, "compile", model, "-o", both, *sgd, "--batch=4", f"--shapes=sequence:{','.join(map(str, SHAPES))}")
    found = losses(both, samples, "--epochs=1", f"--save={work / 'both.safetensors'}")
    expected = losses(four, first, "--epochs=1", f"--save={weights}")
    expected += losses(two, last, "--epochs=1", f"--init-from={weights}", f"--save={work / 'apart.safetensors'}")
    require(found[0] == expected[0] and abs(float(found[1]) - float(expected[1])) < 1e-6, f"{found} are not {expected}")
    ours, theirs = (read_safetensors(work / name) for name in ("both.safetensors", "apart.safetensors"))
    for name, value in theirs.items():
        require(np.abs(ours[name] - value).max() < 1e-6, f"{name} is another one after a short batch")
    # Stopped in the middle and gone on, bit for bit.
    part = work / "part.safetensors"
    run(together, "train", f"--data={samples}", "--no-shuffle", "--steps=3", f"--save={part}")
    log = work / "rest.csv"
    run(together, "train", f"--data={samples}", f"--resume={part}", f"--epochs={epochs}", f"--log={log}", f"--save={part}")
    with open(log) as file:
        require([row["loss"] for row in csv.DictReader(file)] == whole[3:], "a resumed run has other losses")
    require(part.read_bytes() == (work / "short.safetensors").read_bytes(), "a resumed run ends elsewhere")


def evaluations(work: Path, stowage: Path, model: Path, together: Path) -> None:
    """Each batch is evaluated in the smallest shape that holds it, to what the largest gives, whatever the arrays' width is."""
    wide, narrow, mixed, weights = (work / name for name in ("wide.npz", "narrow.npz", "mixed.npz", "short.safetensors"))
    lengths = [3, 8, 5, 2, 30, 1, 2, 3, 9, 16, 4, 4, 7]
    data(wide, lengths[:4] + lengths[-1:], LONGEST)
    data(narrow, lengths[:4] + lengths[-1:], 8)
    data(mixed, lengths, LONGEST)
    alone = work / "alone_largest"
    run(stowage, "compile", model, "-o", alone, *FLAGS, f"--batch={BATCH}", f"--shapes=sequence:{LONGEST}")
    for samples, count, counts in ((wide, 5, (0, 0, 2)), (narrow, 5, (0, 0, 2)), (mixed, 13, (1, 1, 2))):
        evaluating = ["eval", f"--data={samples}", f"--weights={weights}"]
        found, expected = run(together, *evaluating).splitlines(), run(alone, *evaluating if samples != narrow else
                                                                       ["eval", f"--data={wide}", f"--weights={weights}"]).splitlines()
        require(found[0] == expected[0] and f"{count} rows" in found[0], f"{found[0]} is not {expected[0]}")
        said = ", ".join(f"{batches} in sequence={shape}" for batches, shape in zip(counts, SHAPES))
        require(found[1] == f"batches: {said}", found)
        require(not any(line.startswith("batches:") for line in expected), expected)
        profile = work / "evaluated.json"
        require(run(together, *evaluating, f"--profile={profile}").startswith(found[0]), "a profile changes nothing")
        graphs = [(graph["graph"], graph["steps"]) for graph in profiled(profile)]
        ran = [("eval" if shape == LONGEST else f"eval@sequence={shape}") for batches, shape in zip(counts, SHAPES) if batches]
        require([name for name, _ in graphs] == ran[::-1], graphs)


def profiled(path: Path) -> "list[dict]":
    """The graphs of a profile, of which one alone is the whole."""
    profile = json.loads(path.read_text())
    return profile.get("graphs", [profile])


def evaluation_in_parts(work: Path, stowage: Path) -> None:
    """Under a budget that has no room for the evaluation of a whole batch, each shape has parts of its own, and gives the same."""
    samples, model, weights, batch = work / "mixed.npz", work / "words.onnx", work / "words.safetensors", 16
    build(model, words=512)
    data(work / "many.npz", [3, 8, 5, 2] * 4, LONGEST)
    compiling = [stowage, "compile", model, *FLAGS, "--loss-chunks=16", f"--batch={batch}", f"--shapes=sequence:{LONGEST},16,8"]
    whole, parts = work / "evaluated_whole", work / "evaluated_in_parts"
    run(*compiling, "-o", whole)
    run(*compiling, "-o", parts, "--memory-budget=30%")
    run(whole, "train", f"--data={work / 'many.npz'}", "--epochs=1", f"--save={weights}")
    plan = json.loads(run(stowage, "inspect", parts, "--format=json"))
    notes = [note.split(" samples")[0] for note in plan["notes"] if "evaluation runs on" in note]
    require(notes == ["evaluation runs on 2 of 16", "in sequence=16: evaluation runs on 4 of 16", "in sequence=8: evaluation runs on 8 of 16"],
            plan["notes"])  # fmt: skip
    found, expected = (run(program, "eval", f"--data={samples}", f"--weights={weights}").splitlines() for program in (parts, whole))
    require(found[0].split(",")[1:] == expected[0].split(",")[1:], f"{found[0]} is not {expected[0]}")
    loss = [float(lines[0].split(",")[0].split()[-1]) for lines in (found, expected)]
    require(abs(loss[0] - loss[1]) < 1e-6 * loss[1] and found[1] == expected[1], f"{found} is not {expected}")


def on_gpu(work: Path, stowage: Path, model: Path, simulated: Path) -> None:
    """Each batch in its shape on a GPU as well: the host's losses, and the same bytes under a budget and with --poison."""
    samples = work / "gpu.npz"
    data(samples, [3, 8, 5, 2, 30, 9, 4, 6] + [31, 5, 6, 7, 1, 2, 3, 4], LONGEST)
    for name, flags, batch in (("f32", [], BATCH), ("bf16", ["--precision=bf16"], BATCH), ("accumulate", ["--accumulate=2"], 2 * BATCH)):
        compiling = [stowage, "compile", model, *FLAGS[:2], *flags, f"--batch={batch}", "--shapes=sequence:32,8"]
        host, gpu, tight = (work / f"{name}-{where}" for where in ("host", "gpu", "tight"))
        run(*compiling, "-o", host, *FLAGS[2:], "--recompute=none")
        target = ["--target=cuda:h100", f"--cudnn={simulated}"]
        run(*compiling, "-o", gpu, *target, "--recompute=none")
        expected = np.array(losses(host, samples, "--epochs=2"), float)
        os.environ["LD_LIBRARY_PATH"] = str(simulated)
        found = losses(gpu, samples, "--epochs=2")
        require(np.allclose(np.array(found, float), expected, rtol=3e-3 if name == "bf16" else 1e-5, atol=0), f"{name}: {found} are not {expected}")
        require("4 in sequence=32, 4 in sequence=8" in run(gpu, "train", f"--data={samples}", "--no-shuffle", "--epochs=2"), f"{name}: each in its shape")
        require(losses(gpu, samples, "--epochs=2", "--poison") == found, f"{name}: other losses with --poison")
        weights = work / f"{name}.safetensors"
        run(gpu, "train", f"--data={samples}", "--epochs=1", f"--save={weights}")
        evaluated = [run(program, "eval", f"--data={samples}", f"--weights={weights}").splitlines()[:2] for program in (gpu, host)]
        require(all(lines[1] == evaluated[0][1] and "in sequence=8" in lines[1] for lines in evaluated), f"{name}: {evaluated}")
        ours, theirs = (float(lines[0].split(",")[0].split()[-1]) for lines in evaluated)
        require(abs(ours - theirs) < (3e-3 if name == "bf16" else 1e-5) * theirs, f"{name}: evaluated otherwise: {evaluated}")
        if name == "f32":
            run(*compiling, "-o", tight, *target, "--memory-budget=90%")
            require(losses(tight, samples, "--epochs=2", "--poison") == found, f"{name}: other losses under a budget")
        del os.environ["LD_LIBRARY_PATH"]


def refusals(work: Path, stowage: Path, model: Path, together: Path) -> None:
    samples = work / "long.npz"
    data(samples, [5, 40, 6, 12], 48)
    said = run(together, "train", f"--data={samples}", code=1)
    require("row 1 needs 40 in dimension 1 of" in said and "the largest shape is sequence=32" in said, said)
    said = run(together, "eval", f"--data={samples}", f"--weights={work / 'short.safetensors'}", code=1)
    require("row 1 needs 40 in dimension 1 of" in said, said)
    plan = [stowage, "plan", model, *FLAGS, f"--batch={BATCH}"]
    said = run(*plan, "--shapes=length:8,16", code=1)
    require("--shapes=length:...: no input of the model has an open dimension of this name; open are sequence" in said, said)
    said = run(*plan, code=1)
    require("no static extent in dimension 1 (sequence); say --shapes=sequence:N" in said, said)
    said = run(*plan, "--shapes=sequence:8,8", code=1)
    require("names a size twice" in said, said)
    said = run(*plan, "--shapes=batch:2,4", "--shapes=sequence:8", code=1)
    require("--shapes=batch:... and --batch both say" in said, said)
    said = run(stowage, "plan", model, *FLAGS, "--shapes=batch:8,6", "--shapes=sequence:8", "--accumulate=4", code=1)
    require("--accumulate=4 does not divide the 6 samples of the shape batch=6,sequence=8" in said, said)
    said = run(stowage, "plan", model, *FLAGS, "--shapes=batch:8,6", "--shapes=sequence:8", "--accumulate=auto", code=1)
    require("say how many: --accumulate=K" in said, said)
    said = run(*plan, "--shapes=sequence:8", f"--worst={samples}", code=1)
    require("--worst says which rows need which of several shapes" in said, said)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, help="the folder of the simulated GPU: only what runs there")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = args.work / "mixer.onnx"
    build(model)
    if args.simulated:
        on_gpu(args.work, args.stowage, model, args.simulated)
        return print("shapes on a simulated GPU have the host's losses")
    plans(args.work, args.stowage, model)
    together = same_bits(args.work, args.stowage, model)
    short_batches(args.work, args.stowage, model, together)
    evaluations(args.work, args.stowage, model, together)
    evaluation_in_parts(args.work, args.stowage)
    precisions(args.work, args.stowage, model)
    accumulation(args.work, args.stowage, model)
    profiles(args.work, args.stowage, model, together)
    input_gradients(args.work, args.stowage)
    refusals(args.work, args.stowage, model, together)
    print(f"{len(SHAPES)} shapes in one arena train as each alone, bit for bit")


if __name__ == "__main__":
    main()
