"""Losses whose rows are apart, each computed by its module: a small model with many words, and what is minimized over its logits.

`build(name)` gives the module and its example, of `sequences` x `tokens`; an output `loss` is the number that is minimized.
"""

import copy
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ("log-probabilities", "dpo", "grpo", "distillation", "z-loss")


class Model(nn.Module):
    """Words, one layer, and a head over all words."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.norm, self.layer = nn.LayerNorm(width), nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        return self.head(x + torch.tanh(self.layer(self.norm(x))))


def frozen_twin(model: Model) -> Model:
    """Beside `model`, as a reference or a teacher: of the same kind, with weights of its own that are not trained."""
    twin = copy.deepcopy(model).requires_grad_(False)
    for parameter in twin.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return twin


def chosen(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Logarithms of the probabilities of the labels [B,T]."""
    return F.log_softmax(logits, dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


class LogProbabilities(nn.Module):
    """Of chosen words, the last position having none: the mean over those that count."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> "dict[str, torch.Tensor]":
        logits = self.model(ids)[:, :-1]
        values = chosen(logits, ids[:, 1:]) * mask[:, 1:]
        return {"loss": -values.sum() / mask[:, 1:].sum()}


class Preference(nn.Module):
    """DPO (Rafailov et al., 2023): the first half of the sequences is preferred to the second. The reference is a frozen twin, or its sums are given."""

    def __init__(self, model: Model, reference: Optional[Model]) -> None:
        super().__init__()
        self.model, self.reference = model, reference

    def forward(self, ids: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor,
                given: Optional[torch.Tensor] = None) -> "dict[str, torch.Tensor]":  # fmt: skip
        sums = (chosen(self.model(ids), labels) * mask).sum(-1)
        if self.reference is not None:
            with torch.no_grad():
                given = (chosen(self.reference(ids), labels) * mask).sum(-1)
        ratios = sums - given
        preferred, other = ratios.chunk(2)
        return {"loss": -F.logsigmoid(0.1 * (preferred - other)).mean()}


class Policy(nn.Module):
    """GRPO (Shao et al., 2024): clipped ratios to an older policy, one advantage a sequence, and the distance to a reference."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor, advantages: torch.Tensor, older: torch.Tensor,
                reference: torch.Tensor) -> "dict[str, torch.Tensor]":  # fmt: skip
        values = chosen(self.model(ids) / 0.9, labels)
        ratios = torch.exp(values - older)
        gains = torch.min(ratios * advantages.unsqueeze(1), ratios.clamp(0.8, 1.2) * advantages.unsqueeze(1))
        apart = reference - values
        distances = torch.exp(apart) - apart - 1
        losses = (0.04 * distances - gains) * mask
        return {"loss": (losses.sum(1) / mask.sum(1)).mean()}


class Distillation(nn.Module):
    """Hinton et al., 2015: softened probabilities of a frozen teacher, and the labels."""

    def __init__(self, model: Model, teacher: Model) -> None:
        super().__init__()
        self.model, self.teacher = model, teacher

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        logits = self.model(ids).flatten(0, 1)
        with torch.no_grad():
            softened = F.softmax(self.teacher(ids).flatten(0, 1) / 2, dim=-1)
        apart = F.kl_div(F.log_softmax(logits / 2, dim=-1), softened, reduction="batchmean")
        return {"loss": 0.7 * 4 * apart + 0.3 * F.cross_entropy(logits, labels.flatten())}


class SmallSums(nn.Module):
    """Cross-entropy beside the squares of the logarithms of its sums (Chowdhery et al., 2022)."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        logits = self.model(ids)
        sums = torch.logsumexp(logits, dim=-1)
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + 1e-2 * sums.square().mean()}


def build(name: str, words: int = 16384, width: int = 64, sequences: int = 2, tokens: int = 512) -> "tuple[nn.Module, dict[str, torch.Tensor]]":
    torch.manual_seed(0)
    model = Model(words, width)
    ids = torch.randint(0, words, (sequences, tokens))
    labels = torch.randint(0, words, (sequences, tokens))
    mask = (torch.rand(sequences, tokens) < 0.8).float()
    near = -torch.log(torch.tensor(float(words)))
    if name == "log-probabilities":
        return LogProbabilities(model), {"ids": ids, "mask": mask}
    if name == "dpo":
        return Preference(model, frozen_twin(model)), {"ids": ids, "labels": labels, "mask": mask}
    if name == "grpo":
        return Policy(model), {"ids": ids, "labels": labels, "mask": mask, "advantages": torch.randn(sequences),
                               "older": near + 0.3 * torch.randn(sequences, tokens), "reference": near + 0.3 * torch.randn(sequences, tokens)}  # fmt: skip
    if name == "distillation":
        return Distillation(model, frozen_twin(model)), {"ids": ids, "labels": labels}
    if name == "z-loss":
        return SmallSums(model), {"ids": ids, "labels": labels}
    raise ValueError(f'no loss "{name}"; there are {", ".join(NAMES)}')
