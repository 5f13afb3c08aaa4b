"""What the door spells otherwise so that it can be exported, each beside PyTorch: the first step that stowage.compile compares.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import unittest
import warnings

import numpy as np
import stowage
import torch
import torch.nn as nn


class Rotary(nn.Module):
    """Rotations by complex numbers, made without a gradient and where autocast is off, as Llama 4 and DeepSeek-V2 make them."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    @torch.no_grad()
    def rotations(self, count: int) -> torch.Tensor:
        with torch.autocast(device_type="cpu", enabled=False):
            angles = torch.outer(torch.arange(count).float(), 0.1 ** torch.arange(2).float())
            return torch.polar(torch.ones_like(angles), angles)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rotations = self.rotations(x.shape[1])[None, :, None]

        def rotated(linear: nn.Linear) -> torch.Tensor:
            pairs = torch.view_as_complex(linear(x).view(x.shape[0], -1, 2, 2, 2))
            return torch.view_as_real(pairs * rotations.to(pairs.device)).flatten(3)

        query, key = rotated(self.query), rotated(self.key)
        pairs = torch.view_as_complex(key.reshape(*key.shape[:3], 2, 2))
        rest = (pairs.conj() * pairs.transpose(-1, -2) / 2 - pairs.unsqueeze(-1).squeeze(-1) + 2.0 * pairs).imag
        return (query * key).sum((2, 3)) + torch.add(0.25, rest, alpha=0.5).mean((2, 3))


class Converted(nn.Module):
    """A part that forward converts to the type that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.part = self.part.to(torch.float32)
        return self.part(x)


class Normalized(nn.Module):
    """A weight of norm 1, the norm's type given, as the positions of HuBERT have it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.weight / torch.linalg.vector_norm(self.weight, 2, 0, True, dtype=torch.float32))


class Drawn(nn.Module):
    """Numbers between 2 and 3, drawn anew in each step: once with known extents, once for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales = torch.empty(1000).uniform_(2, 3)
        return ((self.weight * scales).sum() * x + (torch.rand_like(x) * 0).sum()).mean()


class Spellings(unittest.TestCase):
    def test_first_steps(self) -> None:
        torch.manual_seed(0)
        for module, example in (Rotary(), torch.randn(2, 3, 8)), (Converted(), torch.randn(4, 3)), (Normalized(), torch.randn(4, 3)):
            self.assertTrue(stowage.compile(module, example, loss="mse", threads=1).check.ok)

    def test_what_is_drawn(self) -> None:
        step = stowage.compile(Drawn(), torch.ones(2, 1), loss="output:mean", optimizer="sgd:lr=1", threads=1, check=False)
        drawn = []
        for _ in range(2):
            before = step.state_dict()["weight"].numpy().copy()
            step(torch.ones(2, 1))
            drawn.append(before - step.state_dict()["weight"].numpy())
        for scales in drawn:
            self.assertTrue(2 <= scales.min() < 2.02 and 2.98 < scales.max() <= 3.0001)
        self.assertFalse(np.array_equal(*drawn))

    def test_experts(self) -> None:
        import transformers as library

        sizes = {"vocab_size": 60, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_experts": 4, "decoder_start_token_id": 0,
                 "dropout": 0, "dropout_rate": 0}  # fmt: skip
        switch = library.SwitchTransformersConfig(**sizes, num_layers=2, num_decoder_layers=1, num_heads=4, num_sparse_encoder_layers=1,
                                                  num_sparse_decoder_layers=0, router_jitter_noise=0)  # fmt: skip
        nllb = library.NllbMoeConfig(**sizes, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                                     encoder_ffn_dim=32, decoder_ffn_dim=32, encoder_sparse_step=2, moe_token_dropout=0, attention_dropout=0,
                                     activation_dropout=0, encoder_layerdrop=0, decoder_layerdrop=0)  # fmt: skip
        torch.manual_seed(0)
        tokens = torch.randint(3, 50, (2, 12))
        for model in library.SwitchTransformersForConditionalGeneration(switch), library.NllbMoeForConditionalGeneration(nllb):
            with self.subTest(model=type(model).__name__), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                example = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}
                self.assertTrue(stowage.compile(model.train(), example, loss="output:loss", threads=1).check.ok)


if __name__ == "__main__":
    unittest.main()
