#!/usr/bin/python3
"""The small translation model of models/seq2seq_models.py in PyTorch: nn.GRU over packed sequences, nn.GRUCell, attention.

  seq2seq.py    writes tests/data/curves/seq2seq.csv, the losses of 20 steps, and seq2seq_final.csv: what became of every
                parameter (final_rows.py)

The task is to write a sequence of digits backwards. Weights and data come from seeds (models/onnx_init.py).
"""

import csv
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python")]

import final_rows  # noqa: E402
import seq2seq_models  # noqa: E402
from onnx_init import initial_weights, stream  # noqa: E402
from seq2seq_models import BEGIN, PAD, SIZES, Seq2SeqSize  # noqa: E402

SIZE, BATCH, STEPS, RATE = SIZES["digit_seq2seq"], 16, 20, 3e-3
CURVES = ROOT / "tests/data/curves"
FIRST_DIGIT = BEGIN + 1


def make_data(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Sequences of 1 to `length` digits, and the same backwards; the rest is padding."""
    rng, size = stream(seed, "reversed digits"), SIZE
    lengths = rng.integers(1, size.length + 1, rows)
    digits = rng.integers(FIRST_DIGIT, size.vocabulary, (rows, size.length))
    source, target = (np.full((rows, size.length), PAD, np.int64) for _ in range(2))
    for row, length in enumerate(lengths):
        source[row, :length] = digits[row, :length]
        target[row, :length] = digits[row, :length][::-1]
    return {"source": source, "translation": target}


def make_weights() -> dict[str, np.ndarray]:
    """By the names of the model's parameters, which both forms share."""
    return initial_weights(seq2seq_models.build(SIZE, BATCH), seed=0)


def torch_model(weights: dict[str, np.ndarray], size: Seq2SeqSize = SIZE):  # noqa: ANN201
    """The module, and its parameters by the names and in the shapes of `weights`."""
    import torch
    from torch import nn

    hidden, width, vocabulary, length = size.hidden, size.width, size.vocabulary, size.length

    class Seq2Seq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source_table, self.target_table = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
            self.encoder = nn.GRU(width, hidden, bidirectional=True, batch_first=True)
            self.map_key, self.dec_init = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, hidden)
            self.cell_1, self.cell_2 = nn.GRUCell(width, hidden), nn.GRUCell(2 * hidden, hidden)
            self.map_query, self.score = nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
            self.readout, self.logit = nn.Linear(width + 3 * hidden, width), nn.Linear(width, vocabulary)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            mask = source != PAD
            packed = nn.utils.rnn.pack_padded_sequence(self.source_table(source), mask.sum(1), batch_first=True,
                                                       enforce_sorted=False)  # fmt: skip
            states, last = self.encoder(packed)
            values, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=length)
            keys, state = torch.tanh(self.map_key(values)), torch.tanh(self.dec_init(last[1]))
            embedded = self.target_table(nn.functional.pad(target[:, :-1], (1, 0), value=BEGIN))
            outputs, contexts = [], []
            for t in range(length):
                state = self.cell_1(embedded[:, t], state)
                scores = self.score(torch.tanh(keys + self.map_query(state).unsqueeze(1))).squeeze(-1)
                attention = scores.masked_fill(~mask, float("-inf")).softmax(-1)
                contexts.append((attention.unsqueeze(1) @ values).squeeze(1))
                state = self.cell_2(contexts[-1], state)
                outputs.append(state)
            joined = torch.cat([embedded, torch.stack(outputs, 1), torch.stack(contexts, 1)], -1)
            logits = self.logit(torch.tanh(self.readout(joined)))
            return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD,
                                               reduction="sum") / len(source)  # fmt: skip

    model = Seq2Seq()
    own = {"encoder.embedding.weight": "source_table.weight", "decoder.embedding.weight": "target_table.weight"}
    for name in weights:
        if name.startswith("encoder.rnn."):
            kind, _, _ = name.removeprefix("encoder.rnn.").partition("_reverse")
            own[name] = f"encoder.{kind}_l0" + ("_reverse" if name.endswith("_reverse") else "")
        own.setdefault(name, name.removeprefix("decoder."))
    parameters = dict(model.named_parameters())
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert set(own.values()) == set(parameters)
    with torch.no_grad():
        for name, array in weights.items():
            tensor = torch.from_numpy(array)
            parameters[own[name]].copy_(tensor.T if own[name] in linear else tensor)
    found = {name: parameters[inside] for name, inside in own.items()}
    return model, {name: (t.T if own[name] in linear else t) for name, t in found.items()}


def main() -> None:
    import torch

    torch.set_num_threads(1)
    weights = make_weights()
    model, tensors = torch_model(weights)
    data = {name: torch.from_numpy(array) for name, array in make_data(BATCH * STEPS).items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    losses = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = model(data["source"][rows], data["translation"][rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with open(CURVES / "seq2seq.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "loss"])
        writer.writerows([i, f"{loss:.9g}"] for i, loss in enumerate(losses))
    final_rows.write(CURVES / "seq2seq_final.csv", weights, {name: tensor.detach().numpy() for name, tensor in tensors.items()})
    print(f"loss {losses[0]:.5f} -> {losses[-1]:.5f} in {STEPS} steps")


if __name__ == "__main__":
    main()
