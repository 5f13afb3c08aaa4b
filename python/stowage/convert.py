"""What stowage writes, as files of other tools: python -m stowage.convert TOOL FILE OUT

    python -m stowage.convert memory-viz plan.json plan.pickle     # of stowage plan --format=json; pytorch.org/memory_viz opens it
    python -m stowage.convert tensorboard run.csv runs             # of train --log=run.csv; needs the package tensorboard
    python -m stowage.convert merge base adapter merged            # folders of Hugging Face's and PEFT's: the base with the adapter in its weights
"""

import csv
import os
import pickle
import sys
from typing import Any

from ._adapters import merge
from ._library import StowageError
from ._plan import Plan

Frame = "dict[str, Any]"


def _frame(name: str, filename: str, line: int = 0) -> Frame:
    return {"name": name, "filename": filename, "line": line}


def _node_frame(source: str) -> Frame:
    """"model.onnx:12 (/layer1/conv1/Conv)" as file, line and name; other texts are names."""
    place, _, name = source.partition(" (")
    file, colon, line = place.rpartition(":")
    return _frame(name[:-1], file, int(line)) if colon and line.isdecimal() and name.endswith(")") else _frame(source, "")


class _Snapshot:
    """Keys are those that torch/csrc/cuda/memory_snapshot.cpp writes and torch/cuda/_memory_viz.py reads."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan.json
        self.graphs = self.plan["graphs"]

    def frames(self, buffer: "dict[str, Any]") -> "list[Frame]":
        """The buffer, its node, and the modules around it from the inside out."""
        found = [_frame(f"{buffer['kind']}: {buffer['name']}", self.plan["model"])]
        if buffer["source"]:
            found.append(_node_frame(buffer["source"]))
        module = self.plan["strings"][buffer["module"]] if "module" in buffer else ""
        while module:
            found.append(_frame(module, "module"))
            module = module.rpartition(".")[0]
        return found

    def buffers(self, number: int) -> "list[dict[str, Any]]":
        return self.graphs[number]["buffers"] if number else self.plan["buffers"]

    def stays(self, number: int, buffer: "dict[str, Any]") -> bool:
        """True for what still lies in the arena after the graph's last command."""
        return buffer["end"] == self.graphs[number]["step_count"] and buffer["kind"] != "workspace"

    def segment(self, number: int) -> "dict[str, Any]":
        """The arena as it is after the graph's last command: state and what the host reads."""
        left = sorted((b for b in self.buffers(number) if b["size"] and self.stays(number, b)), key=lambda b: b["offset"])
        blocks, top, arena = [], 0, self.plan["arena_bytes"]

        def add(end: int, state: str, frames: "list[Frame]") -> None:
            nonlocal top
            if top < end:
                blocks.append({"address": top, "size": end - top, "requested_size": end - top, "state": state, "frames": frames})
                top = end

        for buffer in left:
            add(buffer["offset"], "inactive", [])
            add(buffer["offset"] + buffer["size"], "active_allocated", self.frames(buffer))
        add(arena, "inactive", [])
        allocated = sum(buffer["size"] for buffer in left)
        return {"device": number, "address": 0, "total_size": arena, "allocated_size": allocated, "active_size": allocated,
                "requested_size": allocated, "stream": 0, "segment_type": "large", "is_expandable": False,
                "frames": [_frame("arena", self.plan["model"])], "blocks": blocks}  # fmt: skip

    def trace(self, number: int) -> "list[dict[str, Any]]":
        """At each step first what has died is freed, then what is born is allocated. Steps of unknown time take a microsecond."""
        steps = self.graphs[number]["steps"]
        born: "list[list[dict[str, Any]]]" = [[] for _ in range(len(steps) + 1)]
        dead: "list[list[dict[str, Any]]]" = [[] for _ in range(len(steps) + 1)]
        for buffer in self.buffers(number):
            if buffer["size"] and buffer["begin"] < buffer["end"]:
                born[buffer["begin"]].append(buffer)
                if not self.stays(number, buffer):
                    dead[buffer["end"]].append(buffer)
        events, seconds = [], 0.0

        def add(action: str, address: int, size: int, frames: "list[Frame]") -> None:
            events.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": int(seconds * 1e6), "frames": frames})

        add("segment_alloc", 0, self.plan["arena_bytes"], [_frame("arena", self.plan["model"])])
        for step in range(len(steps) + 1):
            for buffer in dead[step]:
                for action in ("free_requested", "free_completed"):
                    add(action, buffer["offset"], buffer["size"], [])
            for buffer in born[step]:
                add("alloc", buffer["offset"], buffer["size"], self.frames(buffer))
            if step < len(steps):
                seconds += steps[step].get("seconds") or 1e-6
        return events

    def whole(self) -> "dict[str, Any]":
        numbers = range(len(self.graphs))
        return {"segments": [self.segment(n) for n in numbers], "device_traces": [self.trace(n) for n in numbers], "allocator_settings": {},
                "external_annotations": []}  # fmt: skip


def memory_viz(plan: Plan) -> "dict[str, Any]":
    """PyTorch's memory snapshot of a plan, as torch.cuda.memory._snapshot() gives it: a device per graph, the arena its one segment."""
    return _Snapshot(plan).whole()


def tensorboard(log: "str | os.PathLike[str]", folder: "str | os.PathLike[str]") -> int:
    """The CSV log of a run as an event file in `folder`, with the names that Step.fit writes. Gives the number of steps."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise StowageError(f"{os.fspath(folder)!r} needs the packages torch and tensorboard ({error}); pip install torch tensorboard") from None
    with open(log, newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"step", "lr", "loss"} <= set(rows[0]):
        raise StowageError(f"{os.fspath(log)!r}: expected rows of step,epoch,lr,loss, as --log=FILE of an executable's train writes them")
    names = {"loss": "train/loss", "lr": "train/learning_rate", "loss_scale": "train/loss_scale"}
    with SummaryWriter(os.fspath(folder)) as writer:
        for row in rows:
            for key, name in names.items():
                if row.get(key):
                    writer.add_scalar(name, float(row[key]), int(row["step"]))
    return len(rows)


def main(arguments: "list[str]") -> int:
    if len(arguments) != {"memory-viz": 3, "tensorboard": 3, "merge": 4}.get(arguments[0] if arguments else ""):
        print(__doc__, file=sys.stderr)
        return 2
    tool, source, target = arguments[0], arguments[1], arguments[-1]
    try:
        if tool == "merge":
            merge(source, arguments[2], target)
            print(f"{target}: {source} with {arguments[2]}")
            return 0
        if tool == "tensorboard":
            print(f"{target}: {tensorboard(source, target)} steps")
        else:
            with open(source) as text:
                snapshot = memory_viz(Plan(text.read()))
            with open(target, "wb") as file:
                pickle.dump(snapshot, file, protocol=4)  # the page's reader knows 2 to 4
    except (OSError, StowageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (ValueError, KeyError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        print(f"error: '{source}': expected a plan of stowage plan --format=json; {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
