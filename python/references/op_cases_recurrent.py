"""References of recurrent layers: PyTorch's own cells, sample by sample over each one's own length."""

from typing import Any, Iterator

import numpy as np
import torch
from onnx import helper
from op_case import Case, draw, onnx_model
from torch import Tensor

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# Where ONNX's gates (GRU z r h, LSTM i o f c) stand among PyTorch's (r z n, i f g o).
ORDER = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}


def gates(kind: str, rows: Tensor) -> Tensor:
    """Rows of ONNX's gates in PyTorch's order."""
    parts = rows.chunk(GATES[kind])
    return torch.cat([parts[i] for i in ORDER[kind]])


def early_reset(x: Tensor, h: Tensor, w: Tensor, r: Tensor, wb: Tensor, rb: Tensor) -> Tensor:
    """The GRU whose reset gate scales the state before its product, which PyTorch has no cell for."""
    (wz, wr, wh), (rz, rr, rh) = w.chunk(3), r.chunk(3)
    bz, br, bh = (wb + rb).chunk(3)
    z = torch.sigmoid(x @ wz.T + h @ rz.T + bz)
    reset = torch.sigmoid(x @ wr.T + h @ rr.T + br)
    candidate = torch.tanh(x @ wh.T + (reset * h) @ rh.T + bh)
    return (1 - z) * candidate + z * h


def cell(kind: str, attributes: dict, x: Tensor, h: Tensor, c: Tensor, w: Tensor, r: Tensor, wb: Tensor,
         rb: Tensor) -> tuple[Tensor, Tensor]:  # fmt: skip
    if kind == "GRU" and not attributes.get("linear_before_reset"):
        return early_reset(x, h, w, r, wb, rb), c
    w, r, wb, rb = (gates(kind, t) for t in (w, r, wb, rb))
    if kind == "GRU":
        return torch.gru_cell(x, h, w, r, wb, rb), c
    if kind == "LSTM":
        return torch.lstm_cell(x, (h, c), w, r, wb, rb)
    relu = attributes.get("activations", ["Tanh"])[0] == "Relu"
    return (torch.rnn_relu_cell if relu else torch.rnn_tanh_cell)(x, h, w, r, wb, rb), c


def run(kind: str, attributes: dict, x: Tensor, w: Tensor, r: Tensor, b: Tensor, lengths: list[int], h0: Tensor,
        c0: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """x [T, N, I] to Y [T, D, N, H], Y_h and Y_c [D, N, H]."""
    steps, batch = x.shape[:2]
    direction = attributes.get("direction", "forward")
    hidden, ys, hs, cs = r.shape[2], [], [], []
    for d in range(w.shape[0]):
        wb, rb = b[d].chunk(2)
        columns = []
        for n in range(batch):
            h, c = h0[d, n : n + 1], c0[d, n : n + 1]
            rows = [torch.zeros(1, hidden, dtype=x.dtype)] * steps
            order = range(lengths[n])
            for t in reversed(order) if d == 1 or direction == "reverse" else order:
                h, c = cell(kind, attributes, x[t, n : n + 1], h, c, w[d], r[d], wb, rb)
                rows[t] = h
            columns.append(torch.cat(rows))
            hs.append(h)
            cs.append(c)
        ys.append(torch.stack(columns, 1))
    shape = (w.shape[0], batch, hidden)
    return torch.stack(ys, 1), torch.cat(hs).reshape(shape), torch.cat(cs).reshape(shape)


def recurrent_case(name: str, kind: str, lengths: list[int] | None = None, states: bool = False, batch_first: bool = False,
                   results: str = "yh", **attributes: Any) -> Case:  # fmt: skip
    """`results` are those that are read, "y", "h" and "c"; they stand behind one another in the case's output."""
    steps, batch, features, hidden = 4, 3, 2, 3
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    op, rows = kind.lower(), GATES[kind] * hidden
    key = f"{op}:{name}"
    inputs = [draw(f"{key}:x", steps, batch, features), draw(f"{key}:w", directions, rows, features),
              draw(f"{key}:r", directions, rows, hidden), draw(f"{key}:b", directions, 2 * rows)]  # fmt: skip
    if states:
        inputs += [draw(f"{key}:{which}", directions, batch, hidden) for which in ("h" if kind != "LSTM" else "hc")]
    if batch_first:
        inputs = [np.ascontiguousarray(a.swapaxes(0, 1)) if i in (0, 4, 5) else a for i, a in enumerate(inputs)]
    names = ["in0", "in1", "in2", "in3", "c0" if lengths else "", *[f"in{i}" for i in range(4, len(inputs))]]
    produced = ["y", "h", "c"][: 3 if kind == "LSTM" else 2]
    outputs = [which if which in results else "" for which in produced]
    nodes = [helper.make_node(kind, names, outputs, f"/{op}", hidden_size=hidden, layout=int(batch_first), **attributes)]
    constants = [np.array(lengths, np.int32)] if lengths else []
    flat = f"c{len(constants)}"
    constants.append(np.array([-1], np.int64))
    for which in results:
        nodes.append(helper.make_node("Reshape", [which, flat], [f"flat_{which}"], f"/flat_{which}"))
    nodes.append(helper.make_node("Concat", [f"flat_{which}" for which in results], ["out0"], "/all", axis=0))
    opset = 14

    def function(x: Tensor, w: Tensor, r: Tensor, b: Tensor, h0: Tensor | None = None, c0: Tensor | None = None) -> Tensor:
        if batch_first:
            x, h0, c0 = (t if t is None else t.transpose(0, 1) for t in (x, h0, c0))
        zeros = torch.zeros(directions, batch, hidden, dtype=x.dtype)
        found = run(kind, attributes, x, w, r, b, lengths or [steps] * batch, zeros if h0 is None else h0,
                    zeros if c0 is None else c0)  # fmt: skip
        if batch_first:
            found = found[0].permute(2, 0, 1, 3), found[1].transpose(0, 1), found[2].transpose(0, 1)
        return torch.cat([found["yhc".index(which)].reshape(-1) for which in results])

    model = onnx_model(inputs, nodes, constants, opset)
    attrs = {"op": kind, "lengths": lengths, "batch_first": batch_first, **attributes}
    return Case(op, name, inputs, function, attrs, model, list(range(len(inputs))))


def recurrent_cases() -> Iterator[Case]:
    yield recurrent_case("plain", "GRU", linear_before_reset=1)
    yield recurrent_case("early_reset", "GRU", [4, 1, 3], states=True)
    yield recurrent_case("packed", "GRU", [2, 4, 0], direction="bidirectional", linear_before_reset=1)
    yield recurrent_case("packed_states", "GRU", [2, 4, 1], states=True, direction="bidirectional", linear_before_reset=1)
    yield recurrent_case("batch_first", "GRU", [1, 4, 2], states=True, batch_first=True, direction="reverse",
                         linear_before_reset=1)  # fmt: skip
    yield recurrent_case("plain", "LSTM", results="y")
    yield recurrent_case("packed", "LSTM", [3, 1, 4], direction="bidirectional", results="yhc")
    yield recurrent_case("packed_states", "LSTM", [3, 0, 4], states=True, direction="bidirectional", results="hc")
    yield recurrent_case("batch_first", "LSTM", states=True, batch_first=True, direction="bidirectional", results="yhc")
    yield recurrent_case("plain", "RNN", states=True)
    yield recurrent_case("packed_relu", "RNN", [4, 2, 3], direction="bidirectional", activations=["Relu", "Relu"])
