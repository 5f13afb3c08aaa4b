"""A memory plan: what docs/plan-format.md describes, as attributes, as a table, as text and as a notebook's cell."""

import html
import json
from dataclasses import dataclass
from typing import Any

KINDS = ["parameters", "frozen", "statistics", "optimizer", "accumulators", "fetched_weight", "fetched_optimizer", "data_set", "gradients",
         "activations", "workspace", "inputs", "outputs", "layout_padding", "padding"]  # fmt: skip


def format_bytes(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} bytes"


@dataclass(frozen=True)
class Verdict:
    """Whether a step fits its card. `spare_bytes` is negative where it does not; `remedies` are then what would help."""

    text: str  #: the first line of the report
    fits: bool
    arena_bytes: int
    spare_bytes: int
    card: str
    card_bytes: int
    system_bytes: int  #: what others take of the card
    process_bytes: int  #: what the process takes beside the arena
    usable_bytes: int  #: what is left for the arena
    remedies: "list[dict[str, Any]]"  #: text, gain_bytes and changes_results of each
    pytorch_eager_bytes: "int | None" = None  #: what PyTorch eager takes for the same step
    pytorch_eager_types: str = ""  #: which, where that figure is of other types than the step: "float32", or "16 bits, optimizer state included"
    pytorch_eager_note: str = ""  #: what it leaves out
    remedies_of: str = ""  #: the plan that they are about, where it is another one
    remedies_missing: str = ""  #: why another was not looked for

    def __str__(self) -> str:
        return self.text


class Plan:
    """The plan of one compiled step. Sizes are bytes; buffers live in half-open intervals of program order."""

    def __init__(self, text: str) -> None:
        self.json: "dict[str, Any]" = json.loads(text)  #: every key of the plan file

    @property
    def arena_bytes(self) -> int:
        """What a step allocates: everything, once."""
        return self.json["arena_bytes"]

    @property
    def lower_bound_bytes(self) -> int:
        """No placement of these values is smaller."""
        return self.json["lower_bound_bytes"]

    @property
    def live_peak_bytes(self) -> int:
        return self.json["live_peak_bytes"]

    @property
    def without_recompute_bytes(self) -> int:
        """The arena of the same step with every value kept."""
        return self.json["without_recompute_bytes"]

    @property
    def status(self) -> str:
        """Of the packing: "optimal", "within 1.2 % of optimal" or "heuristic"."""
        return self.json["status"]

    @property
    def extra_time(self) -> float:
        """Time of recomputation and of waits for copies, as a fraction of a step without either."""
        return self.json["extra_time_fraction"]

    @property
    def verdict(self) -> "Verdict | None":
        """Whether it fits the card: of a plan for a GPU, or with card="24GiB"; None where no card is known."""
        return Verdict(**self.json["verdict"]) if "verdict" in self.json else None

    @property
    def breakdown(self) -> "dict[str, int]":
        """Bytes at the fullest moment by kind; they add up to the arena."""
        return {kind: self.json["breakdown"].get(kind, 0) for kind in KINDS}

    @property
    def shapes(self) -> "list[dict[str, Any]]":
        """A record per shape of the step, the largest first: name, extents, arena_bytes, step_seconds, extra_time_fraction. Empty for one shape."""
        return self.json.get("shapes", [])

    @property
    def buffers(self) -> "list[dict[str, Any]]":
        """A record per buffer of the training step: name, kind, offset, size, begin, end, dtype, shape, ..."""
        return self.json["buffers"]

    def live(self, step: "int | None" = None) -> "list[dict[str, Any]]":
        """The buffers that are live at `step` (default: at the peak), largest first."""
        if step is None:
            step = self.json["graphs"][0]["peak_step"]
        alive = [buffer for buffer in self.buffers if buffer["begin"] <= step < buffer["end"]]
        return sorted(alive, key=lambda buffer: (-buffer["size"], buffer["name"]))

    def to_pandas(self) -> Any:
        """The buffers as a pandas.DataFrame."""
        import pandas

        return pandas.DataFrame.from_records(self.buffers)

    def _lines(self) -> "list[tuple[str, int]]":
        return [(kind, size) for kind, size in self.breakdown.items() if size > 0] + [("arena", self.arena_bytes)]

    def _summary(self) -> str:
        text = (f"arena {format_bytes(self.arena_bytes)} ({self.arena_bytes} bytes), lower bound "
                f"{format_bytes(self.lower_bound_bytes)} ({self.status})")  # fmt: skip
        ways = "recomputation and copies" if any("copies" in graph for graph in self.json["graphs"]) else "recomputation"
        return text + f", {100 * self.extra_time:.1f} % more time for {ways}"

    def __repr__(self) -> str:
        verdict = f"; {self.verdict}" if self.verdict else ""
        return f"<stowage.Plan of {self.json['model']}: {self._summary()}{verdict}>"

    def __str__(self) -> str:
        lines = [str(self.verdict)] if self.verdict else []
        if self.verdict and self.verdict.remedies:
            lines.append(f"remedies {self.verdict.remedies_of}".rstrip() + ":")
            lines += [f"  {remedy['text']}: gains {format_bytes(remedy['gain_bytes'])}" for remedy in self.verdict.remedies]
        lines.append(f"{self.json['model']}: {self._summary()}")
        lines += [f"  {shape['name']}: arena {format_bytes(shape['arena_bytes'])}, {1e3 * shape['step_seconds']:.3f} ms per step"
                  for shape in self.shapes]  # fmt: skip
        lines += [f"  {kind:<12} {size:>16,} {100 * size / self.arena_bytes:6.1f} %" for kind, size in self._lines()]
        lines.append("largest at the peak:")
        lines += [f"  {b['kind']:<12} {b['size']:>16,}  {b['name']}" for b in self.live()[:10]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def table(head: "list[str]", rows: "list[list[str]]") -> str:
            cells = ["<tr>" + "".join(f"<th>{html.escape(word)}</th>" for word in head) + "</tr>"]
            cells += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
            return f"<table>{''.join(cells)}</table>"

        parts = [[kind, f"{size:,}", f"{100 * size / self.arena_bytes:.1f} %"] for kind, size in self._lines()]
        alive = [[b["name"], b["kind"], b["dtype"], "x".join(map(str, b["shape"])), f"{b['size']:,}"]
                 for b in self.live()[:20]]  # fmt: skip
        verdict = f"<p>{html.escape(str(self.verdict))}</p>" if self.verdict else ""
        return (verdict + f"<p><b>{html.escape(self.json['model'])}</b>: {html.escape(self._summary())}</p>"
                + table(["at the peak", "bytes", "share"], parts)
                + "<details><summary>largest buffers at the peak</summary>"
                + table(["name", "kind", "type", "shape", "bytes"], alive) + "</details>")  # fmt: skip
