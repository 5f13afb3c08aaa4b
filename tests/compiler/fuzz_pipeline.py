#!/usr/bin/env python3
"""Plans random small models and checks every plan without the compiler's help.

Each case is a model of the form "model" made from a seed: convolutions (grouped, depthwise, with
shared weights), pools, normalizations, elementwise ops, concatenations, slices, reshapes, dropouts,
residuals and values with several readers, under a random loss, optimizer and batch. For each one

  - planning succeeds, with and without checkpointing (the verify passes run inside),
  - two runs give the same bytes,
  - no two buffers of the plan that are live together overlap, none leaves the arena, offsets are
    aligned, state lies at the same place in all graphs,
  - lower bound <= arena, live bytes <= arena, the breakdown adds up,
  - checkpointing never makes the arena larger,
  - the arena stays within a memory budget, what needs no recomputation is never refused, and a
    refusal (exit code 2) names a smallest budget that is then accepted.

usage: fuzz_pipeline.py STOWAGE [--first=SEED] [--cases=N] [--keep=FOLDER] [--stop-at-first]
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

UNARY = ["relu", "relu", "relu", "sigmoid", "tanh", "neg", "abs", "hard_swish", "exp", "softplus",
         "sign", "erf"]
BINARY = ["add", "add", "mul", "sub", "maximum", "minimum"]


def text_of(shape, element="f32"):
    return "tensor<" + "".join(f"{extent}x" for extent in shape) + element + ">"


def array(numbers):
    return "array<i64: " + ", ".join(str(number) for number in numbers) + ">"


class Model:
    """Writes a model op by op; `values` are (name, shape) in order of definition."""

    def __init__(self, rng):
        self.rng = rng
        self.arguments = []
        self.lines = []
        self.values = []
        self.weights = []  # convolution weights, for sharing
        self.next = 0

    def fresh(self):
        self.next += 1
        return f"%v{self.next}"

    def argument(self, shape, kind, name=None):
        value = f"%a{len(self.arguments)}"
        name = name or f"{kind}{len(self.arguments)}"
        init = ""
        if kind == "parameter":
            init = ', stow.init = #stow.init<"normal", 0.0, 0.1>'
        if kind == "statistic":
            init = ', stow.init = #stow.init<"constant", 1.0, 0.0>'
        self.arguments.append(
            f'{value}: {text_of(shape)} {{stow.name = "{name}", stow.kind = #stow.kind<{kind}>{init}}}')
        return value, tuple(shape)

    def op(self, name, operands, attributes, shape, keep=True):
        result = self.fresh()
        attrs = " {" + ", ".join(attributes) + "}" if attributes else ""
        self.lines.append(
            f"    {result} = stow.{name} " + ", ".join(value for value, _ in operands) + attrs +
            " : (" + ", ".join(text_of(shape) for _, shape in operands) + ") -> " + text_of(shape))
        value = (result, tuple(shape))
        if keep:
            self.values.append(value)
        return value

    def constant(self, shape, number):
        result = self.fresh()
        self.lines.append(f"    {result} = stow.constant dense<{number}> : {text_of(shape)}")
        return result, tuple(shape)

    # -- one random op each; all return the new value ------------------------------------------

    def conv(self, x):
        rng = self.rng
        n, c, h, w = x[1]
        kernel = rng.choice([k for k in (1, 1, 3, 3, 5) if k <= min(h, w) + 2])
        pad = rng.choice([0, kernel // 2]) if kernel <= min(h, w) else kernel // 2
        stride = rng.choice([1, 1, 2])
        out = rng.choice([c, 4, 8, 16, 6])
        groups = rng.choice([1, 1, 1, c, 2])
        if c % groups or out % groups:
            groups = 1
        if groups == c:
            out = c * rng.choice([1, 1, 2])
        shape = (out, c // groups, kernel, kernel)
        shared = [weight for weight in self.weights if weight[1] == shape]
        weight = rng.choice(shared) if shared and rng.random() < 0.5 else None
        if not weight:
            weight = self.argument(shape, "parameter")
            self.weights.append(weight)
        operands = [x, weight]
        if rng.random() < 0.3:
            operands.append(self.argument((out,), "parameter"))
        oh, ow = [(extent + 2 * pad - kernel) // stride + 1 for extent in (h, w)]
        return self.op("conv2d", operands,
                       [f"strides = {array([stride] * 2)}", f"pads = {array([pad] * 4)}",
                        f"dilations = {array([1, 1])}", f"groups = {groups} : i64"],
                       (n, out, oh, ow))

    def batch_norm(self, x):
        c = x[1][1]
        operands = [x] + [self.argument((c,), kind)
                          for kind in ("parameter", "parameter", "statistic", "statistic")]
        return self.op("batch_norm", operands, ["epsilon = 1.0e-5 : f64", "momentum = 0.1 : f64"],
                       x[1])

    def pool(self, x):
        n, c, h, w = x[1]
        if min(h, w) < 2:
            return self.unary(x)
        kernel = self.rng.choice([2, 3]) if min(h, w) >= 3 else 2
        pad = self.rng.choice([0, kernel // 2])
        oh, ow = [(extent + 2 * pad - kernel) // 2 + 1 for extent in (h, w)]
        attributes = [f"kernel = {array([kernel] * 2)}", f"strides = {array([2, 2])}",
                      f"pads = {array([pad] * 4)}", f"dilations = {array([1, 1])}"]
        kind = self.rng.choice(["max_pool", "avg_pool"])
        if kind == "avg_pool":
            attributes.append("count_include_pad = " + self.rng.choice(["true", "false"]))
        if kind == "max_pool" and self.rng.random() < 0.5:
            x = self.op("relu", [x], [], x[1])
        return self.op(kind, [x], attributes, (n, c, oh, ow))

    def unary(self, x):
        name = self.rng.choice(UNARY + ["leaky_relu", "clip", "elu", "dropout"])
        attributes = {"leaky_relu": ["alpha = 0.1 : f64"], "elu": ["alpha = 1.0 : f64"],
                      "clip": ["low = -1.0 : f64", "high = 1.0 : f64"],
                      "dropout": ["ratio = 0.3 : f64"]}.get(name, [])
        return self.op(name, [x], attributes, x[1])

    def binary(self, x):
        rng = self.rng
        same = [value for value in self.values if value[1] == x[1]]
        choice = rng.random()
        if choice < 0.5:
            other = rng.choice(same)
        elif choice < 0.65:
            other = self.constant(rng.choice([(), x[1]]), rng.choice(["0.5", "2.0", "1.0"]))
        elif choice < 0.8:
            other = self.argument(x[1][1:], rng.choice(["parameter", "statistic"]))
        elif choice < 0.9:
            other = self.argument(x[1], "parameter")
        else:
            tail = (1,) * (len(x[1]) - 2)
            other = self.argument((x[1][1],) + tail, "parameter")
        operands = [x, other]
        if rng.random() < 0.3:
            operands.reverse()
        return self.op(rng.choice(BINARY), operands, [], x[1])

    def concat(self, x):
        rng = self.rng
        matching = [value for value in self.values
                    if len(value[1]) == len(x[1]) and value[1][0] == x[1][0] and
                    value[1][2:] == x[1][2:]]
        parts = [x] + [rng.choice(matching) for _ in range(rng.choice([1, 1, 2]))]
        channels = sum(part[1][1] for part in parts)
        if channels > 64:
            return self.unary(x)
        return self.op("concat", parts, ["axis = 1 : i64"], (x[1][0], channels) + x[1][2:])

    def slice(self, x):
        c = x[1][1]
        if c < 2:
            return self.unary(x)
        size = self.rng.randint(1, c - 1)
        start = self.rng.randint(0, c - size)
        sizes = (x[1][0], size) + x[1][2:]
        return self.op("slice", [x], [f"starts = {array([0, start] + [0] * (len(x[1]) - 2))}",
                                      f"sizes = {array(sizes)}"], sizes)

    def pad(self, x):
        before = [0, 0] + [self.rng.choice([0, 1]) for _ in x[1][2:]]
        after = [0, 0] + [self.rng.choice([0, 1]) for _ in x[1][2:]]
        shape = [extent + b + a for extent, b, a in zip(x[1], before, after)]
        return self.op("pad", [x], [f"before = {array(before)}", f"after = {array(after)}",
                                    "value = 0.0 : f64"], shape)

    def transpose(self, x):
        order = [0, 1, 3, 2] if len(x[1]) == 4 else [0, 1]
        return self.op("transpose", [x], [f"permutation = {array(order)}"],
                       [x[1][dim] for dim in order])

    def squeeze_excite(self, x):
        n, c, h, w = x[1]
        mean = self.op("reduce_mean", [x], [f"axes = {array([2, 3])}", "keepdims = true"],
                       (n, c, 1, 1))
        gate = self.op("sigmoid", [self.conv_of(mean, c)], [], (n, c, 1, 1))
        return self.op("mul", [x, gate], [], x[1])

    def conv_of(self, x, out):
        weight = self.argument((out, x[1][1], 1, 1), "parameter")
        return self.op("conv2d", [x, weight],
                       [f"strides = {array([1, 1])}", f"pads = {array([0] * 4)}",
                        f"dilations = {array([1, 1])}", "groups = 1 : i64"],
                       (x[1][0], out) + x[1][2:])

    def residual(self, x):
        y = self.conv_of(x, x[1][1])
        y = self.batch_norm(y)
        y = self.op("relu", [y], [], y[1])
        y = self.conv_of(y, x[1][1])
        y = self.op("add", [y, x], [], y[1])
        return self.op("relu", [y], [], y[1])

    def shuffle(self, x):
        n, c, h, w = x[1]
        if c % 2:
            return self.unary(x)
        y = self.op("reshape", [x], [], (n, 2, c // 2, h, w), keep=False)
        y = self.op("transpose", [y], [f"permutation = {array([0, 2, 1, 3, 4])}"],
                    (n, c // 2, 2, h, w), keep=False)
        return self.op("reshape", [y], [], x[1])

    def matmul(self, x, out):
        rng = self.rng
        transposed = rng.random() < 0.5
        inner = x[1][-1]
        operands = [x, self.argument((out, inner) if transposed else (inner, out), "parameter")]
        if rng.random() < 0.5:
            operands.append(self.argument((out,), "parameter"))
        return self.op("matmul", operands,
                       ["transpose_a = false", f"transpose_b = {str(transposed).lower()}"],
                       x[1][:-1] + (out,))

    def flatten(self, x):
        n, c, h, w = x[1]
        choice = self.rng.random()
        if choice < 0.4:
            return self.op("reduce_mean", [x], [f"axes = {array([2, 3])}", "keepdims = false"],
                           (n, c))
        if choice < 0.6 and h * w > 1:
            y = self.op("reshape", [x], [], (n, c, h * w))
            return self.op("reduce_sum", [y], [f"axes = {array([2])}", "keepdims = false"], (n, c))
        return self.op("reshape", [x], [], (n, c * h * w))

    # -- whole models ---------------------------------------------------------------------------

    def image_part(self):
        rng = self.rng
        n = rng.choice([1, 2, 4])
        x = self.argument((n, rng.choice([1, 2, 3, 4]), *[rng.choice([4, 7, 8])] * 2), "input", "x")
        self.values.append(x)
        ops = [self.conv] * 5 + [self.batch_norm] * 3 + [self.unary] * 5 + [self.binary] * 4 + \
            [self.pool] * 2 + [self.residual] * 2 + \
            [self.concat, self.slice, self.pad, self.transpose, self.squeeze_excite, self.shuffle]
        for _ in range(rng.randint(1, 14)):
            recent = [value for value in self.values[-6:] if len(value[1]) == 4]
            candidates = [value for value in self.values if len(value[1]) == 4]
            x = rng.choice(recent if recent and rng.random() < 0.85 else candidates)
            rng.choice(ops)(x)
        return [value for value in self.values if len(value[1]) == 4][-1]

    def vector_part(self, x):
        rng = self.rng
        self.values = [x]
        ops = [self.unary] * 3 + [self.binary] * 2 + [self.batch_norm, self.concat, self.slice]
        for _ in range(rng.randint(0, 6)):
            x = rng.choice(self.values[-3:])
            if rng.random() < 0.4:
                self.matmul(x, rng.choice([4, 8, x[1][1]]))
            else:
                rng.choice(ops)(x)
        return self.values[-1]

    def build(self):
        rng = self.rng
        if rng.random() < 0.75:
            x = self.flatten(self.image_part())
        else:
            x = self.argument((rng.choice([2, 4, 8]), rng.choice([3, 8])), "input", "x")
        y = self.matmul(self.vector_part(x), rng.choice([2, 5, 10]))
        results, outputs = [y], ['{stow.name = "y"}']
        if rng.random() < 0.2 and len(self.values) > 1:
            results.append(rng.choice(self.values[:-1]))
            outputs.append('{stow.name = "side"}')
        return ("module attributes {stow.form = \"model\"} {\n  func.func @model(" +
                ",\n      ".join(self.arguments) + ")\n      -> (" +
                ", ".join(f"{text_of(value[1])} {attrs}"
                          for value, attrs in zip(results, outputs)) +
                ") attributes {stow.role = #stow.role<model>} {\n" +
                "\n".join(self.lines) + "\n    return " +
                ", ".join(value for value, _ in results) + " : " +
                ", ".join(text_of(shape) for _, shape in results) + "\n  }\n}\n")


def random_flags(rng):
    flags = ["--loss-output=y",
             "--loss=" + rng.choice(["cross-entropy", "mse", "mse:reduction=sum",
                                     "cross-entropy:reduction=sum,ignore-index=0"]),
             "--optimizer=" + rng.choice(["sgd", "sgd:momentum=0.9", "sgd:momentum=0.9,nesterov",
                                          "adam", "adamw:weight-decay=0.1"]),
             f"--threads={rng.choice([1, 1, 2, 4])}"]
    if rng.random() < 0.15:
        flags.append("--freeze-batch-norm")
    return flags


# -- checks of one plan, by its JSON alone --------------------------------------------------------


def overlaps(buffers):
    """Pairs of buffers that share bytes while both are live."""
    for i, a in enumerate(buffers):
        for b in buffers[:i]:
            if (a["begin"] < b["end"] and b["begin"] < a["end"] and
                    a["offset"] < b["offset"] + b["size"] and
                    b["offset"] < a["offset"] + a["size"]):
                yield f"{a['name']} and {b['name']} overlap"


def check_plan(plan):
    arena, bound = plan["arena_bytes"], plan["lower_bound_bytes"]
    if bound > arena:
        yield f"lower bound {bound} above the arena {arena}"
    if plan["live_peak_bytes"] > arena:
        yield f"{plan['live_peak_bytes']} live bytes in an arena of {arena}"
    if sum(plan["breakdown"].values()) != arena:
        yield f"the breakdown adds up to {sum(plan['breakdown'].values())}, not to {arena}"
    state = {}
    for graph in sorted({buffer["graph"] for buffer in plan["buffers"]}):
        buffers = [buffer for buffer in plan["buffers"] if buffer["graph"] == graph]
        yield from (f"{graph}: {text}" for text in overlaps(buffers))
        for buffer in buffers:
            if buffer["offset"] < 0 or buffer["offset"] + buffer["size"] > arena:
                yield f"{graph}: {buffer['name']} leaves the arena"
            if buffer["offset"] % plan["alignment"]:
                yield f"{graph}: {buffer['name']} is not aligned"
            if buffer["begin"] >= buffer["end"]:
                yield f"{graph}: {buffer['name']} is never live"
            if buffer["kind"] in ("parameter", "statistic", "optimizer"):
                known = state.setdefault(buffer["name"], (buffer["offset"], buffer["size"]))
                if known != (buffer["offset"], buffer["size"]):
                    yield f"{buffer['name']} moves between graphs"
                if buffer["offset"] + buffer["size"] > plan["persistent_bytes"]:
                    yield f"{buffer['name']} lies above the persistent region"


def run_plan(stowage, path, flags):
    """The report's bytes, or the reason why there are none."""
    done = subprocess.run([stowage, "plan", path, "--format=json", *flags], capture_output=True,
                          text=True, timeout=120)
    if done.returncode:
        return None, f"exit code {done.returncode}: {done.stderr.strip()[:1500]}"
    return done.stdout, None


def check_budget(stowage, path, flags, budget, must_fit):
    """Problems of the plan under a budget in bytes."""
    where = f"--memory-budget={budget}"
    report, refusal = run_plan(stowage, path, flags + [where])
    if not refusal:
        plan = json.loads(report)
        yield from (f"{where}: {text}" for text in check_plan(plan))
        if plan["arena_bytes"] > budget:
            yield f"{where}: the arena takes {plan['arena_bytes']}"
        return
    smallest = re.search(r"smallest achievable .*\((\d+) bytes\)", refusal)
    if must_fit or not refusal.startswith("exit code 2: error: STOW1001") or not smallest:
        yield f"{where}: {refusal}"
        return
    if int(smallest[1]) <= budget:
        yield f"{where}: refused, though {smallest[1]} bytes are said to do"
    yield from check_budget(stowage, path, flags, int(smallest[1]), must_fit=True)


def check_case(stowage, path, flags, seed):
    reports = {}
    for mode in ("none", "sqrt"):
        report, problem = run_plan(stowage, path, flags + [f"--checkpoint={mode}"])
        if problem:
            return [f"--checkpoint={mode}: {problem}"]
        reports[mode] = report
    plans = {mode: json.loads(report) for mode, report in reports.items()}
    problems = [f"--checkpoint={mode}: {text}" for mode, plan in plans.items()
                for text in check_plan(plan)]
    none, sqrt = plans["none"]["arena_bytes"], plans["sqrt"]["arena_bytes"]
    if sqrt > none:
        problems.append(f"sqrt needs {sqrt} bytes, none {none}")
    if plans["sqrt"]["without_recompute_bytes"] != none:
        problems.append(f"sqrt says {plans['sqrt']['without_recompute_bytes']} bytes without "
                        f"recomputation, none needs {none}")
    mode = ("none", "sqrt")[seed % 2]
    if run_plan(stowage, path, flags + [f"--checkpoint={mode}"])[0] != reports[mode]:
        problems.append(f"--checkpoint={mode}: two runs differ")
    if seed % 3 == 0:
        problems += check_budget(stowage, path, flags, none, must_fit=True)
    else:
        budget = none * random.Random(seed).randint(30, 99) // 100
        problems += check_budget(stowage, path, flags, budget, must_fit=False)
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stowage")
    parser.add_argument("--first", type=int, default=1, help="first seed")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--keep", help="folder for the models that fail")
    parser.add_argument("--stop-at-first", action="store_true")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.cases):
            rng = random.Random(seed)
            text = Model(rng).build()
            flags = random_flags(rng)
            path = os.path.join(folder, f"fuzz_{seed}.mlir")
            with open(path, "w") as out:
                out.write(text)
            problems = check_case(options.stowage, path, flags, seed)
            if problems:
                failures += 1
                print(f"seed {seed}: stowage plan fuzz_{seed}.mlir " + " ".join(flags))
                for problem in problems[:5]:
                    print("  " + "\n  ".join(problem.splitlines()[:6]))
                sys.stdout.flush()
                if options.keep:
                    os.makedirs(options.keep, exist_ok=True)
                    os.replace(path, os.path.join(options.keep, f"fuzz_{seed}.mlir"))
                if options.stop_at_first:
                    break
    print(f"{options.cases} cases from seed {options.first}: {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
