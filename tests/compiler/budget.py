#!/usr/bin/python3
"""What --memory-budget promises, on the digits network with dropout and Adam.

  budget.py --stowage=build/release/bin/stowage --work=DIR

  - the arena is never above the budget; a smaller budget never gives a larger arena nor less time;
  - recomputation changes no bit of losses and weights;
  - a budget only limits: where the plan of no budget is within it, it is that plan;
  - without a budget the share of the step's time that recomputation takes is at most the stated one;
  - an impossible budget is STOW1001 with exit code 2, and the smallest arena it names can be compiled;
  - so it is where the model does not import at another batch, and a refusal takes no longer than a plan within the smallest budget;
  - frontier, max-batch and remarks agree with the plans they speak of.
"""

import argparse
import csv
import io
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy
import yaml
import onnx
import onnx.numpy_helper

ROOT = Path(__file__).resolve().parents[2]
MODEL, DATA = ROOT / "models/digits_cnn.onnx", ROOT / "models/data/digits.npz"
FLAGS = ["--optimizer=adam:lr=1e-3", "--threads=1"]


class Budget:
    def __init__(self, args: argparse.Namespace) -> None:
        self.stowage, self.folder, self.whole = args.stowage, args.work, args.whole
        self.passed = self.failed = 0

    def check(self, condition: bool, message: str) -> None:
        self.passed += bool(condition)
        self.failed += not condition
        print(f"{'ok' if condition else 'FAILED'}: {message}", flush=True)

    def run(self, *words: object, code: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if done.returncode != code:
            raise SystemExit(f"{' '.join(map(str, words))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def plan(self, *flags: str) -> dict:
        return json.loads(self.run(self.stowage, "plan", MODEL, *FLAGS, "--format=json", *flags).stdout)

    def ladder(self) -> None:
        self.full = self.plan("--recompute=none")
        before = None
        self.problem_file = self.folder / "problem.json"
        for percent in (100, 80, 70):
            plan = self.plan(f"--memory-budget={percent}%")
            arena, extra = plan["arena_bytes"], plan["extra_time_fraction"]
            self.check(arena * 100 <= percent * self.full["arena_bytes"] + 99,
                       f"{percent} %: arena {arena} of {self.full['arena_bytes']}, extra time {100 * extra:.2f} %")  # fmt: skip
            self.check(plan["without_recompute_bytes"] == self.full["arena_bytes"], "the plan names the arena without recomputation")
            if before:
                self.check(arena <= before["arena_bytes"] and extra >= before["extra_time_fraction"], "monotone")
            self.check(0 <= plan["extra_time_bound_fraction"] <= extra, f"no schedule adds less than {100 * plan['extra_time_bound_fraction']:.2f} %")
            before = plan
        self.check(before["extra_time_bound_fraction"] > 0, "recomputation is proven to be needed")
        self.check(before["extra_time_fraction"] > 0 and any(b["recomputed"] for b in before["buffers"]), "something is recomputed")

    def spare_time(self) -> None:
        """Without a budget: what a share of the step's time buys."""
        before = self.full
        for share in (0.5, 1.5, 4, 8, 12) if self.whole else (1.5, 8):
            plan = self.plan(f"--recompute={share}%")
            extra = 100 * plan["extra_time_fraction"]
            self.check(plan["extra_time_bound_fraction"] * 100 <= extra <= share, f"{share} % of the time: {plan['arena_bytes']} bytes for {extra:.2f} %")
            self.check(plan["arena_bytes"] <= before["arena_bytes"] and plan["without_recompute_bytes"] == self.full["arena_bytes"], "and no more than for less time")
            before = plan
        self.check(before["arena_bytes"] < 0.8 * self.full["arena_bytes"], "a lot for a lot")
        usual = self.plan()
        saved, paid = 1 - usual["arena_bytes"] / self.full["arena_bytes"], usual["extra_time_fraction"]
        self.check(0 < paid <= 0.015 and saved >= 5 * paid, f"unasked {100 * saved:.1f} % of the arena for {100 * paid:.2f} % of the time")
        self.check(usual == self.plan("--recompute=auto"), "which is --recompute=auto")

    def only_a_limit(self) -> None:
        """A budget that the plan of no budget keeps to gives that plan; --recompute=none leaves the time unspent."""
        residual = ROOT / "tests/compiler/import/networks/residual_train_14.onnx"
        for name, words in (("digits", (MODEL, *FLAGS)), ("digits, half the batch", (MODEL, *FLAGS, "--batch=64")), ("residual", (residual, "--loss=mse", "--batch=16"))):
            def plan(*flags: str, words: tuple = words) -> dict:
                return json.loads(self.run(self.stowage, "plan", *words, "--threads=1", "--format=json", *flags).stdout)
            usual, kept = plan(), plan("--recompute=none")
            self.check(usual["arena_bytes"] < kept["arena_bytes"] or words[0] == residual, f"{name}: without a budget {usual['arena_bytes']} of {kept['arena_bytes']} bytes")
            budgets = [f"{usual['arena_bytes']}", f"{(usual['arena_bytes'] + kept['arena_bytes']) // 2}", "100%", "2GiB"]
            other = [budget for budget in budgets if plan(f"--memory-budget={budget}") != usual]
            self.check(not other, f"{name}: the same within {', '.join(budgets)}, another within: {other}")
            self.check(plan("--memory-budget=100%", "--recompute=none") == kept, f"{name}: with --recompute=none everything is kept")
            less = usual["arena_bytes"] - 64
            self.check(plan(f"--memory-budget={less}")["arena_bytes"] <= less, f"{name}: a smaller budget is kept")

    def infeasible(self) -> None:
        error = self.run(self.stowage, "plan", MODEL, *FLAGS, "--memory-budget=45%", code=2).stderr
        self.check(error.startswith("error: STOW1001: "), "an impossible budget is STOW1001")
        bytes_of = {name: int(found) for name, found in re.findall(r"^  (\w[\w ]*?) +\S+ \S+ \((\d+) bytes\)$", error, re.M)}
        budget = bytes_of["budget"]
        self.check(0 <= 100 * budget - 45 * self.full["arena_bytes"] < 100, "the budget is echoed in bytes")
        self.check(bytes_of["without recompute"] == self.full["arena_bytes"], "the arena without recomputation is named")
        self.smallest = bytes_of["smallest achievable"]
        self.check(budget < bytes_of["proven lower bound"] <= self.smallest, "the bound proves it")
        self.check("128x32x8x8 f32" in error and "(/conv2/Conv)" in error, "the live set has shapes and source nodes")
        gains = [int(gain) for gain in re.findall(r"gains .*\((\d+) bytes\); changes results\? (?:yes|no|in the last bits)$", error, re.M)]
        self.check(len(gains) >= 3 and gains == sorted(gains, reverse=True), f"remedies by gain: {gains}")
        share = re.search(r"^a remedy that changes the step needs the budget in bytes: (--memory-budget=(\d+))$", error, re.M)
        batch = re.search(r"a smaller batch, which fits: --batch=(\d+) instead of 128", error).group(1)
        plan = self.plan(share.group(1), f"--batch={batch}")
        self.check(plan["arena_bytes"] <= int(share.group(2)) == budget, f"the batch it names, {batch}, fits in the bytes named with it")

    def processor_seconds(self, *words: object, code: int = 0) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run(*words, code=code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def refusal_time(self) -> None:
        seconds: dict[int, list[float]] = {0: [], 2: []}
        for _ in range(2):  # the machine may be shared, and even then processor time of equal work differs by half
            for less, code in ((0, 0), (1, 2)):
                budget = f"--memory-budget={self.smallest - less}"
                seconds[code].append(self.processor_seconds(self.stowage, "plan", MODEL, *FLAGS, budget, code=code))
            kept, refused = min(seconds[0]), min(seconds[2])
            if refused < 2 * kept:
                break
        self.check(refused < 2 * kept, f"a refusal takes {refused:.2f} s, the smallest budget that is kept {kept:.2f} s")

    def mlir_batch(self) -> None:
        """A model of fixed shapes: no other batch can be tried, and the answer is about the budget all the same."""
        path = self.folder / "fixed.mlir"
        path.write_text(self.run(self.stowage, "plan", self.folder / "baked.onnx", "--stop-after=model").stdout)
        error = self.run(self.stowage, "plan", path, "--loss=mse", "--memory-budget=1000", code=2).stderr
        smallest = int(re.search(r"smallest achievable .*\((\d+) bytes\)", error).group(1))
        error = self.run(self.stowage, "plan", path, "--loss=mse", f"--memory-budget={smallest - 1}", code=2).stderr
        self.check(error.startswith("error: STOW1001: "), "a model with shapes of its own is refused for its budget")
        self.check("a smaller batch was not tried: the shapes of an .mlir model are its own" in error, "and the remedy that cannot be tried is left out with a reason")
        self.fixed_batch(path, smallest, "the shapes of an .mlir model are its own; take the .onnx file")

    def chain(self, name: str, rows: "int | str", baked: bool) -> Path:
        """Two products and their activations; where the batch is baked in, there is a constant with a row per sample."""
        helper, draw = onnx.helper, numpy.random.RandomState(0)
        shapes = {"a": (16, 64), "b": (64, 64), **({"c": (rows, 64)} if baked else {})}
        tensors = [onnx.numpy_helper.from_array(draw.randn(*shape).astype(numpy.float32), name) for name, shape in shapes.items()]
        nodes = [helper.make_node("MatMul", ["x", "a"], ["p"]), helper.make_node("Tanh", ["p"], ["q"]), helper.make_node("MatMul", ["q", "b"], ["r"]),
                 helper.make_node("Tanh", ["r"], ["s"]), *([helper.make_node("Mul", ["s", "c"], ["t"], name="scale")] if baked else []),
                 helper.make_node("Sigmoid", ["t" if baked else "s"], ["y"])]  # fmt: skip
        value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(nodes, name, [value("x", (rows, 16))], [value("y", (rows, 64))], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        path = self.folder / f"{name}.onnx"
        onnx.save(model, path)
        return path

    def baked_batch(self) -> None:
        """A constant with a row per sample: the step cannot be imported at another batch."""
        path = self.chain("baked", 32, baked=True)
        self.run(self.stowage, "plan", path, "--loss=mse", "--batch=16", code=1)
        error = self.run(self.stowage, "plan", path, "--loss=mse", "--memory-budget=1000", code=2).stderr
        smallest = int(re.search(r"smallest achievable .*\((\d+) bytes\)", error).group(1))
        error = self.run(self.stowage, "plan", path, "--loss=mse", f"--memory-budget={smallest - 1}", code=2).stderr
        self.check(error.startswith("error: STOW1001: ") and "import" not in error.splitlines()[0], "a batch that is baked in does not hide that the budget is too small")
        self.check("a smaller batch was not tried: the model does not import at another batch than its own 32" in error, "and is named in place of a remedy")
        self.check(error.count("error") == 1, "nothing else is on the screen")
        self.run(self.stowage, "plan", path, "--loss=mse", f"--memory-budget={smallest}")
        self.fixed_batch(path, smallest, "at a batch of 33 the file does not import:", "node 'scale' (Mul", 'export with dynamic_axes={"x": {0: "batch"}}')

    def fixed_batch(self, path: Path, smallest: int, *words: str) -> None:
        """max-batch of a file with one batch says so, why, and whether that batch fits."""
        for budget, verdict in ((smallest, "that batch fits"), (smallest - 1, "that batch does not fit")):
            error = self.run(self.stowage, "max-batch", path, "--loss=mse", f"--memory-budget={budget}", code=1).stderr
            self.check(error.startswith(f'error: no largest batch: that of "{path}" is fixed at 32\n') and error.count("error:") == 1, f"{path.name} has one batch: {error.splitlines()[0]}")
            self.check(all(word in error for word in words), "it says why, where, and what to do")
            self.check(verdict in error and f"({smallest} bytes)" in error, f"and whether that batch fits: {error.splitlines()[-1].strip()}")
        narrow = ("max-batch", path, "--loss=mse", "--precision=bf16")
        error = self.run(self.stowage, *narrow, "--memory-budget=1000", code=1).stderr
        smallest = int(re.search(r"the smallest arena found for it is .*\((\d+) bytes\)", error).group(1))
        error = self.run(self.stowage, *narrow, f"--memory-budget={smallest}", code=1).stderr
        self.check("that batch fits" in error, f"and so it does in 16 bits: {error.splitlines()[-1].strip()}")

    def chunks(self) -> None:
        """Where a chain that can run in chunks of rows is at the peak, a refusal names its flag and a gain that a plan keeps to."""
        rows, wide = 1024, 1024
        helper, draw = onnx.helper, numpy.random.RandomState(0)
        value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for flag, loss, shapes in (("--row-chunks", "mse", {"a": (16, wide), "b": (wide, 16)}), ("--loss-chunks", "cross-entropy", {"a": (16, 16), "b": (16, wide)})):
            tensors = [onnx.numpy_helper.from_array(draw.randn(*shape).astype(numpy.float32), name) for name, shape in shapes.items()]
            nodes = [helper.make_node("MatMul", ["x", "a"], ["p"]), helper.make_node("Tanh", ["p"], ["q"]), helper.make_node("MatMul", ["q", "b"], ["y"])]
            graph = helper.make_graph(nodes, "chunks", [value("x", (rows, 16))], [value("y", (rows, shapes["b"][1]))], tensors)
            path = self.folder / "chunks.onnx"
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
            words = (path, f"--loss={loss}", "--threads=1")
            error = self.run(self.stowage, "plan", *words, "--memory-budget=1000", code=2).stderr
            smallest = int(re.search(r"smallest achievable .*\((\d+) bytes\)", error).group(1))
            gain = int(re.search(rf"in chunks of rows: {flag}=8\n     gains .*\((\d+) bytes\); changes results\? in the last bits", error).group(1))
            self.check(error.count("chunks of rows") == 1 and 2 * gain > smallest, f"{flag} gains {gain} of {smallest} bytes")
            budget = f"--memory-budget={smallest - gain}"
            self.check(f"in chunks of rows, which fits: {flag}=8 ({flag}=auto" in self.run(self.stowage, "plan", *words, budget, code=2).stderr, "and what fits says so")
            for chunks in (8, "auto"):
                plan = json.loads(self.run(self.stowage, "plan", *words, budget, f"{flag}={chunks}", "--format=json").stdout)
                self.check(plan["arena_bytes"] <= smallest - gain, f"{flag}={chunks} keeps to it: {plan['arena_bytes']}")

    def bits(self) -> None:
        results = {}
        for name, flags in {"all": ["--recompute=none"], "spare": [], "tight": [f"--memory-budget={self.smallest}"]}.items():
            executable = self.folder / name
            self.run(self.stowage, "compile", MODEL, "-o", executable, *FLAGS, *flags)
            log, weights = self.folder / f"{name}.csv", self.folder / f"{name}.safetensors"
            self.run(executable, "train", f"--data={DATA}", "--steps=3", "--no-shuffle", f"--log={log}", f"--save={weights}")
            results[name] = log.read_bytes(), weights.read_bytes()
            plan = json.loads(self.run(executable, "plan", "--format=json").stdout)
            results[name + " arena"] = plan["arena_bytes"]
        self.check(results["tight arena"] <= self.smallest < results["spare arena"] < results["all arena"], "the executables carry the smaller arenas")
        self.check(results["all"] == results["spare"] == results["tight"], "losses and weights are equal bit for bit, dropout included")

    def frontier(self) -> None:
        text = self.run(self.stowage, "frontier", MODEL, *FLAGS, f"--step={5 if self.whole else 25}", "--format=csv").stdout
        rows = [{k: int(v) for k, v in row.items() if v.isdigit()} for row in csv.DictReader(io.StringIO(text))]
        self.check(len(rows) >= 3 and rows[0]["arena_bytes"] == self.full["arena_bytes"], "the frontier begins with everything kept")
        self.check(all(a["arena_bytes"] > b["arena_bytes"] and a["time_ns"] <= b["time_ns"] for a, b in zip(rows, rows[1:])),
                   "its arenas fall, its times rise")  # fmt: skip
        self.check(all(row["arena_bytes"] <= row["budget_bytes"] and row["bound_ns"] <= row["time_ns"] for row in rows),
                   "every row keeps its budget and its bound")  # fmt: skip
        moved = self.run(self.stowage, "frontier", self.folder / "baked.onnx", "--loss=mse", "--format=svg", code=1)
        self.check("--format=html" in moved.stderr, "the SVG of former days says where its curve is")

    def batch(self) -> None:
        path = self.chain("open", "rows", baked=False)
        words = (path, "--loss=mse", "--optimizer=adam:lr=1e-3", "--threads=1", "--memory-budget=0.25MB")
        text = self.run(self.stowage, "max-batch", *words, "--extra-time=1000%").stdout
        batch = int(re.search(r"largest batch: (\d+)", text).group(1))
        proven = int(re.search(r"batch (\d+) is proven not to fit", text).group(1))
        plan = json.loads(self.run(self.stowage, "plan", *words, f"--batch={batch}", "--format=json").stdout)
        self.check(plan["arena_bytes"] <= 250_000, f"batch {batch} fits")
        self.check(plan["extra_time_fraction"] > 0, f"for {100 * plan['extra_time_fraction']:.2f} % more time")
        self.run(self.stowage, "plan", *words, f"--batch={batch + 1}", code=2)
        self.check(True, f"batch {batch + 1} does not")
        self.check(proven > batch, f"batch {proven} is proven not to fit")
        self.run(self.stowage, "max-batch", *words[:-1], "--memory-budget=1000", code=2)
        for limit, share in (("--extra-time=50%", 50), ("--recompute=5%", 5), ("--recompute=none", 0)):
            text = self.run(self.stowage, "max-batch", *words, limit).stdout
            rows = [[float(word) for word in line.replace("%", "").split()] for line in re.findall(r"^ +\d+ +\d+ +[\d.]+ +[\d.]+ +[\d.]+ %$", text, re.M)]
            largest, extra = int(text.split("largest batch: ")[1].split()[0]), rows[-1][4]
            self.check(largest == rows[-1][0] <= batch and extra <= share, f"{limit}: {largest} samples of {batch}, {extra} % more time")
            self.check(rows == sorted(rows) and all(row[1] <= 250_000 and row[4] <= share for row in rows), f"{limit}: its curve has {len(rows)} batches")
            self.check(all(abs(row[2] * 1000 / row[0] - row[3]) <= 0.51 / row[0] + 1e-3 for row in rows), f"{limit}: a sample's time is the step's over the batch")
        plan = json.loads(self.run(self.stowage, "plan", *words[:-1], f"--batch={largest}", "--recompute=none", "--format=json").stdout)
        self.check(plan["arena_bytes"] <= 250_000, "with nothing computed again that is everything kept")
        more = largest + largest // 16 + 1
        plan = json.loads(self.run(self.stowage, "plan", *words[:-1], f"--batch={more}", "--recompute=none", "--format=json").stdout)
        self.check(plan["arena_bytes"] > 250_000, f"and {more} samples do not fit")

    def remarks(self) -> None:
        file = self.folder / "remarks.yaml"
        self.plan("--memory-budget=60%", f"--remarks={file}")
        fields = yaml.safe_load(file.read_text())["decisions"]
        self.check({"kept", "recomputed", "in place", "view"} <= {entry["decision"] for entry in fields}, "every kind of decision occurs")
        again = [entry for entry in fields if entry["decision"] == "recomputed"]
        self.check(all(entry["runs"] > 1 and entry["time_paid_us"] > 0 for entry in again), "recomputed values have their price")
        self.check(any(entry["saved_at_peak"] > 0 for entry in again), "and some of them what they save at the peak")
        self.check(all(entry["time_paid_us"] == 0 for entry in fields if entry["decision"] != "recomputed"), "nothing else is paid for")

    def profile(self) -> None:
        costs = self.folder / "costs.json"
        measured = self.plan("--memory-budget=75%", "--profile=run", f"--save-profile={costs}")
        kernels = json.loads(costs.read_text())["kernels"]
        self.check({"conv2d", "conv2d_grad_weight", "matmul", "map"} <= {kernel["op"] for kernel in kernels}, "every kind of kernel is measured")
        self.check(len({kernel["nanoseconds"] for kernel in kernels}) > len(kernels) // 2, "kernels have times of their own")
        self.check(measured["cost_source"].startswith("measured on "), "the plan says that its times are measured")
        self.check(self.full["cost_source"].startswith("roofline of cpu"), "or that they are not")
        self.check(json.loads(costs.read_text())["in_step"], "they are of the step as it runs")
        was_run = lambda plan: any("run beside the step with everything kept" in note for note in plan["notes"])
        self.check(measured["extra_time_fraction"] > 0 and was_run(measured), "the step as planned was run, too")
        self.check(not was_run(self.full), "which takes a profile")
        # Ten times as slow is the same plan at ten times the time; the times of other kernels fit nothing.
        slow = json.loads(costs.read_text())
        for kernel in slow["kernels"]:
            kernel["nanoseconds"] *= 10
        costs.write_text(json.dumps(slow))
        slower = self.plan("--memory-budget=75%", f"--profile={costs}")
        buffers = lambda plan: [{key: value for key, value in buffer.items() if key != "recompute_seconds"} for buffer in plan["buffers"]]
        self.check(buffers(slower) == buffers(measured) and abs(slower["step_seconds"] / measured["step_seconds"] - 10) < 0.1,
                   "a plan from saved times is that of the times that were measured, and depends on their ratios")  # fmt: skip
        self.check(slower["cost_source"].startswith("measured on "), "and says so")
        self.check(not was_run(slower), "and not what nobody ran")
        slow["in_step"] = False
        costs.write_text(json.dumps(slow))
        alone = self.plan("--memory-budget=75%", f"--profile={costs}")
        self.check(alone["cost_source"].startswith("measured kernel by kernel on "), "kernels that ran alone are said to have")
        error = self.run(self.stowage, "plan", MODEL, *FLAGS, "--batch=64", f"--profile={costs}", code=1).stderr
        self.check("of another model, batch, number of devices or compiler" in error, f"times of another batch are refused: {error.strip()}")
        error = self.run(self.stowage, "plan", MODEL, "--threads=2", f"--profile={costs}", code=1).stderr
        self.check("give --threads=1" in error, f"times of other threads are refused: {error.strip()}")
        rows = self.run(self.stowage, "frontier", self.folder / "baked.onnx", "--loss=mse", "--threads=1", "--step=50", "--profile=run").stdout
        self.check("costs: measured on " in rows, "a frontier names its costs")
        self.check("no plan takes less than" in rows, "the table names the bound")
        slow["kernels"][0]["nanoseconds"] = 0
        costs.write_text(json.dumps(slow))
        self.run(self.stowage, "plan", MODEL, *FLAGS, f"--profile={costs}", code=1)

    def problem(self) -> None:
        # By one data sheet, whatever this processor has: on others' times the planner finds more than the solver by itself.
        at_80 = self.plan("--memory-budget=80%", "--roofline=cpu-avx2", f"--save-problem={self.problem_file}")
        text = self.run(self.stowage, "remat", self.problem_file, f"--memory-budget={at_80['arena_bytes']}").stdout
        extra = float(re.search(r"extra ([0-9.]+) %", text).group(1))
        self.check(abs(extra - 100 * at_80["extra_time_fraction"]) < 1, f"the problem by itself has much the same answer: {extra} %")
        saved = json.loads(self.problem_file.read_text())
        self.check("lanes" not in saved, "a saved step knows one memory")
        fast = json.loads(self.run(self.stowage, "remat", self.problem_file, "--memory-budget=60%", "--bandwidth=1e12", "--format=json").stdout)
        self.check(fast["time"] <= fast["recompute_time"] and fast["bytes_in"] > 0 and fast["exposed"] == 0,
                   f"slow memory behind a fast link takes what does not fit: {fast}")  # fmt: skip
        self.check(fast["peak_bytes"] <= fast["budget_bytes"] and fast["time_bound"] <= fast["time"], f"within the budget, above the bound: {fast}")
        slow = json.loads(self.run(self.stowage, "remat", self.problem_file, "--memory-budget=60%", "--bandwidth=1e3", "--format=json").stdout)
        self.check(slow["time"] == slow["recompute_time"] and slow["bytes_in"] == 0, f"and behind a slow one nothing: {slow}")

    def malformed(self) -> None:
        for text in ("", "12qq", "-1", "70%%", "1e400GiB", "nan"):
            error = self.run(self.stowage, "plan", MODEL, f"--memory-budget={text}", code=1).stderr
            self.check(error.startswith("error: "), f"budget '{text}' is refused: {error.strip()}")
        for words in (["plan", "--memory-budget=1GiB", "--checkpoint=sqrt"], ["plan", "--memory-budget=1GiB", "--roofline=abacus"],
                      ["frontier", "--format=png"], ["frontier", "--step=0"], ["frontier", "--memory-budget=1GiB"],
                      ["plan", "--profile=none.json"], ["plan", "--profile=run", "--roofline=h100"], ["plan", "--save-profile=costs.json"],
                      ["max-batch", "--memory-budget=1GiB", "--profile=run"], ["max-batch"], ["max-batch", "--memory-budget=70%"], ["max-batch", "--memory-budget=1GiB", "--batch=3"]):  # fmt: skip
            error = self.run(self.stowage, words[0], MODEL, *words[1:], code=1).stderr
            self.check(error.startswith("error: "), f"{' '.join(words)}: {error.strip()}")
        profile = self.folder / "profile.json"
        profile.write_text('{"device": "mine", "flops_per_second": {"f32": 0}, "bytes_per_second": 1, "launch_seconds": 1}')
        self.run(self.stowage, "plan", MODEL, "--memory-budget=1GiB", f"--roofline={profile}", code=1)
        profile.write_text('{"device": "mine", "flops_per_second": {"f32": 1e12}, "bytes_per_second": 1e11, "launch_seconds": 1e-6}')
        source = self.plan(f"--roofline={profile}")["cost_source"]
        self.check(source == "roofline of mine", f"a profile of one's own is read: {source}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="more shares of the time, and the frontier in small steps")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    budget = Budget(args)
    for part in (budget.ladder, budget.spare_time, budget.only_a_limit, budget.infeasible, budget.refusal_time, budget.baked_batch, budget.mlir_batch, budget.chunks, budget.bits, budget.frontier, budget.batch, budget.remarks, budget.profile, budget.problem, budget.malformed):
        part()
    print(f"{budget.passed} passed, {budget.failed} failed")
    sys.exit(1 if budget.failed else 0)


if __name__ == "__main__":
    main()
