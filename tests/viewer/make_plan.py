#!/usr/bin/env python3
"""Writes plans that no model gave, in the form of docs/plan-format.md: usage make_plan.py KIND FILE.

  long      a step of 20,160 commands and 23,942 buffers
  layered   a language model of sixteen layers, its nodes named and numbered as by PyTorch's exporter
  hostile   names that are markup, control characters, right-to-left or a million characters long

The offsets are a stack's: what the forward keeps lies in the order in which the backward lets go of it, and
what lives for a moment lies on top of it.
"""

import json
import sys
from pathlib import Path

MIB = 1 << 20
BLOCKS, OPS, AGAIN = 630, 12, 2

MILLION = "x" * 1_000_000
HOSTILE = [
    "<script>stowage.errors.push('run')</script>",
    "</script><img src=x onerror=\"stowage.errors.push('image')\">",
    "a\u0000b\u001b[31mred\u0007\r\n\tend",
    "abc\u202edef\u202c",
    "\u05e9\u05dc\u05d5\u05dd \u0639\u0631\u0628\u064a",
    MILLION,
    "${7*7} {{7*7}} <!--DATA--> ]]> &lt;b&gt;",
    "",
]


class Steps:
    """The commands and buffers of one graph."""

    def __init__(self) -> None:
        self.steps, self.buffers = [], []

    def buffer(self, name: str, kind: str, size: int, offset: int, module: str, **more) -> int:
        self.buffers.append({
            "name": name, "kind": kind, "offset": offset, "size": size, "logical_size": size, "begin": -1, "end": -1,
            "dtype": "f32", "shape": [size // 4], "graph": "train", "source": f"model.onnx:{len(self.buffers)} ({name})",
            "aliases": [], "recomputed": False, "module": module, "reason": "kept for the backward pass", **more})
        return len(self.buffers) - 1

    def step(self, op: str, module: str, phase: str, reads: list[int], writes: list[int], recomputes: int | None = None) -> int:
        now = len(self.steps)
        for b in {*reads, *writes}:
            if self.buffers[b]["begin"] < 0:
                self.buffers[b]["begin"] = now
            self.buffers[b]["end"] = now + 1
        step = {"name": f"{op} of {module}", "op": op, "source": f"model.onnx:{now} ({module})", "module": module, "phase": phase,
                "seconds": 1e-5 * (1 + now % 7), "reads": sorted({*reads}), "writes": sorted({*writes})}
        if recomputes is not None:
            step["recomputes"] = recomputes
        self.steps.append(step)
        return now


def long_step() -> Steps:
    graph = Steps()
    weights, moments = [], []
    offset = 0
    for block in range(BLOCKS):
        for op in range(OPS // 2):
            weights.append(graph.buffer(f"block{block}.{op}.weight", "parameter", 4096, offset, f"block{block}.op{op}"))
            moments.append(graph.buffer(f"block{block}.{op}.momentum", "optimizer", 4096, offset + 4096, f"block{block}.op{op}"))
            offset += 8192
    graph.persistent = top = offset
    data = graph.buffer("input", "input", 65536, top, "")
    top += 65536
    kept, before = {}, data
    for block in range(BLOCKS):
        for op in range(OPS):
            # Every sixth value is not kept: it is made again, twice a block.
            is_kept = op % 6 != 5
            size = (16384, 65536, 8192)[op % 3]
            name = f"/block{block}/op{op}/Op"
            value = graph.buffer(name, "activation", size, top + (0 if is_kept else 65536), f"block{block}.op{op}",
                                 recompute_seconds=1e-5 * (1 + (block + op) % 50))
            run = graph.step("op", name, "forward", [before, weights[block * OPS // 2 + op // 2]], [value])
            kept[block, op] = (value, run)
            top += size if is_kept else 0
            before = value
    loss = graph.buffer("loss", "output", 4, top, "")
    graph.step("loss", "loss", "forward", [before], [loss])
    peak = graph.steps and len(graph.steps) - 1
    graph.peak_top = top + 4 + 2 * 65536 + 2 * 65536
    gradient = loss
    for block in reversed(range(BLOCKS)):
        for op in reversed(range(OPS)):
            value, run = kept[block, op]
            name = f"/block{block}/op{op}/Op"
            if op % 6 == 5:
                value = graph.buffer(name, "activation", graph.buffers[value]["size"], top + 131072, f"block{block}.op{op}",
                                     recomputed=True, reason="recomputed for the backward pass", recompute_seconds=2e-5)
                graph.step("op", name, "backward", [weights[block * OPS // 2 + op // 2]], [value], recomputes=run)
            made = graph.buffer(f"gradient of {name}", "gradient", 4096, top + (65536 if op % 2 else 0), f"block{block}.op{op}",
                                reason="read by the next gradient")
            graph.step("op_grad", name, "backward", [value, gradient], [made])
            gradient = made
            if op % 2 == 0:
                at = block * OPS // 2 + op // 2
                graph.step("sgd", name, "update", [gradient, weights[at], moments[at]], [weights[at], moments[at]])
    graph.peak = peak
    for b in weights + moments:
        graph.buffers[b].update(begin=0, end=len(graph.steps))
    return graph


def hostile_step() -> Steps:
    graph = Steps()
    graph.persistent = 4096
    state = graph.buffer("weight", "parameter", 4096, 0, "<b>module</b>")
    before, top = state, 4096
    for i, name in enumerate(HOSTILE):
        value = graph.buffer(name, "activation", MIB, top, f"<i>{name[:40]}</i>", source=f"m<o>del.onnx:{i} ({name})",
                             aliases=[name, "<svg onload=stowage.errors.push('svg')>"], reason="<u>why</u> " + name[:100])
        graph.step("op", name, "forward", [before], [value])
        before = value
        top += MIB
    graph.step("end", "<a href=x>end</a>", "forward", list(range(len(graph.buffers))), [before])
    graph.peak_top = top
    graph.buffers[state].update(begin=0, end=len(graph.steps))
    return graph


def layered_step() -> Steps:
    """Embedding, layers, head: everything is kept, the head's result is read at once."""
    graph, top, node = Steps(), 0, 0
    modules = [("embed", 64)] + [(f"model.layers.{i}.mlp.{part}", 48) for i in range(16) for part in ("up_proj", "gate_proj", "down_proj")]
    modules.append(("lm_head", 64))
    weights = []
    for module, size in modules:
        names = [(f"{module}.weight", "parameter"), (f"{module}.weight.exp_avg", "optimizer"), (f"{module}.weight.exp_avg_sq", "optimizer")]
        weights.append([graph.buffer(name, kind, size * MIB, top + i * size * MIB, module, reason="state") for i, (name, kind) in enumerate(names)])
        top += 3 * size * MIB
    graph.persistent = top
    before, kept = graph.buffer("input", "input", 65536, top, "", reason="read by the step"), []
    top += 65536
    for (module, _), state in zip(modules, weights):
        node = 112 if module == "lm_head" else node
        kept.append(graph.buffer(f"node_linear_{node}", "activation", 211 * MIB, top, module, recompute_seconds=1e-3 * (1 + node % 5)))
        graph.step("matmul", f"node_linear_{node}", "forward", [before, state[0]], [kept[-1]])
        graph.steps[-1]["module"] = module
        before, top, node = kept[-1], top + 211 * MIB, node + 1
    gradients = [top, top + 211 * MIB]
    for i, ((module, _), state, value) in reversed([*enumerate(zip(modules, weights, kept))]):
        name = graph.buffers[value]["name"]
        made = graph.buffer(f"linear_grad of {name}", "gradient", 211 * MIB, gradients[i % 2], module, reason="read by the next gradient")
        graph.step("linear_grad", name, "backward", [value, before, *state], [made])
        graph.steps[-1]["module"] = module
        before = made
    for b in [b for state in weights for b in state]:
        graph.buffers[b].update(begin=0, end=len(graph.steps))
    return graph


def plan_of(graph: Steps, model: str) -> dict:
    count = len(graph.steps)
    change = [0] * (count + 1)
    for buffer in graph.buffers:
        change[buffer["begin"]] += buffer["size"]
        change[buffer["end"]] -= buffer["size"]
    live, most, peak = 0, 0, 0
    for t in range(count):
        live += change[t]
        if live > most:
            most, peak = live, t
    arena = max(b["offset"] + b["size"] for b in graph.buffers)
    counts = {"tensors": 0, "elements": 0}
    strings: dict[str, int] = {}
    for record in graph.buffers + graph.steps:
        for key in ("module", "reason") if "size" in record else ("op", "source", "module"):
            record[key] = strings.setdefault(record[key], len(strings))
    names = [step.pop("name") for step in graph.steps]
    parts = {"parameters": "parameter", "statistics": "statistic", "optimizer": "optimizer", "gradients": "gradient",
             "activations": "activation", "workspace": "workspace", "inputs": "input", "outputs": "output", "layout_padding": None}
    breakdown = {part: sum(b["size"] for b in graph.buffers if b["kind"] == kind and b["begin"] <= peak < b["end"])
                 for part, kind in parts.items()}
    return {
        "format": 2, "model": model, "arena_bytes": arena, "live_peak_bytes": most, "lower_bound_bytes": most,
        "logical_bound_bytes": most, "status": "heuristic", "extra_time_fraction": 0.04, "extra_time_bound_fraction": 0.03,
        "step_seconds": sum(s["seconds"] for s in graph.steps), "cost_source": "roofline of nothing",
        "persistent_bytes": graph.persistent, "without_recompute_bytes": arena + 10 * MIB, "outside_arena_bytes": 0,
        "alignment": 4, "tensors": {"trained": counts, "frozen": counts, "statistics": counts, "constant": counts, "source": ""},
        "notes": [], "breakdown": {**breakdown, "padding": arena - most}, "buffers": graph.buffers,
        "graphs": [{"name": "train", "step_count": count, "live_peak_bytes": most, "peak_step": peak, "lower_bound_bytes": most,
                    "step_names": names, "reference_steps": [], "steps": graph.steps}],
        "strings": list(strings)}


def hostile_plan() -> dict:
    note = HOSTILE[0] + " lies outside"
    return {**plan_of(hostile_step(), HOSTILE[1] + MILLION), "outside_arena_bytes": 3 * MIB, "outside_note": note,
            "notes": [HOSTILE[1], HOSTILE[5]]}


def layered_plan() -> dict:
    """It is 1 GiB too large for what its card has for the arena."""
    plan = plan_of(layered_step(), "layered.onnx")
    usable = plan["arena_bytes"] - 1024 * MIB
    return {**plan, "verdict": {"text": "does not fit", "fits": False, "arena_bytes": plan["arena_bytes"], "spare_bytes": -1024 * MIB, "card": "rtx<b>4080",
                                "card_bytes": usable + 1024 * MIB, "system_bytes": 512 * MIB, "process_bytes": 512 * MIB, "usable_bytes": usable,
                                "remedies": []}}


KINDS = {"long": lambda: plan_of(long_step(), "long.onnx"), "layered": layered_plan, "hostile": hostile_plan}


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        raise SystemExit(__doc__)
    Path(sys.argv[2]).write_text(json.dumps(KINDS[sys.argv[1]]()), encoding="utf-8")


if __name__ == "__main__":
    main()
