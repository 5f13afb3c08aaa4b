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


class Windows(nn.Module):
    """Windows that overlap, read where values lie in memory: of a transposed product, as Longformer has them, and every other value."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.part(x.transpose(0, 1)).view(8, -1, 3, 2).transpose(0, 1).transpose(1, 2).reshape(-1, 8, 2)
        rows = rows.view(rows.shape[0], 2, 4, 2)
        strides = list(rows.stride())
        windows = rows.as_strided((rows.shape[0], 3, 4, 2), (strides[0], strides[1] // 2, strides[2], strides[3]))
        weights = torch.as_strided(self.part.weight, (3, 2, 1), (8, 2, 5), 1)
        return (windows * torch.arange(24.0).view(3, 4, 2)).sum((1, 2)).view(x.shape[0], 6) + weights.reshape(6) * weights.sum()


class Written(nn.Module):
    """Writes into diagonals, into every other value, and where a mask holds."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.part(x)
        square = torch.zeros(rows.shape[0], 4, 4)
        square.diagonal(dim1=1, dim2=2).copy_(rows[:, :4])
        square.diagonal(-1, 2, 1).add_(1)
        wide = rows.view(-1, 2, 4) * rows.view(-1, 2, 4)
        wide.diagonal(-1, 1, 2).mul_(3)
        wide.diagonal(1, 1, 2)[:] = rows[:, :2]
        rows = rows * 1
        rows.as_strided((rows.shape[0], 4), (8, 2)).mul_(5)
        rows[rows > 0.3] = rows.mean()
        rows[rows.sum(1) > 0] = rows.mean(0)
        similar = rows @ rows.t()
        similar.fill_diagonal_(0.5)
        return torch.cat([rows, square.flatten(1), wide.flatten(1), similar.sum(1, keepdim=True)], 1)


class Registers(nn.Module):
    """A parameter without elements, as DINOv3 has without register tokens, and a part of a head without any."""

    def __init__(self) -> None:
        super().__init__()
        self.registers, self.part = nn.Parameter(torch.empty(1, 0, 4)), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned, kept = torch.split(self.part(x), [4, 0], -1)
        return torch.cat([self.registers.expand(x.shape[0], -1, -1), torch.cat([turned * turned, kept], -1)], 1)


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
        for module, example in ((Rotary(), torch.randn(2, 3, 8)), (Converted(), torch.randn(4, 3)), (Normalized(), torch.randn(4, 3)),
                                (Windows(), torch.randn(2, 8, 4)), (Written(), torch.randn(3, 4))):  # fmt: skip
            self.assertTrue(stowage.compile(module, example, loss="mse", threads=1).check.ok)

    def test_without_elements(self) -> None:
        torch.manual_seed(0)
        module = Registers()
        frozen = Registers()
        frozen.registers.requires_grad_(False)
        for each in module, frozen:
            step = stowage.compile(each, torch.randn(2, 3, 4), loss="mse", threads=1)
            self.assertTrue(step.check.ok)
            self.assertEqual(step.state_dict()["registers"].shape, (1, 0, 4))

    def test_strides(self) -> None:
        from stowage._strides import as_strided

        rows = torch.arange(24.0).view(2, 3, 4)
        for tensor, size, stride, offset in (
            (rows, (3, 2, 2), (4, 1, 13), 1), (rows.permute(2, 0, 1), (2, 3, 4), (12, 4, 1), None), (rows[:, 1:], (2, 2), (12, 5), None),
            (rows.permute(1, 2, 0), (5, 4, 1, 3), (4, 1, 7, 0), None), (rows[:1].expand(5, 3, 4), (2, 2), (1, 1), 3), (rows, (), (), 23),
        ):  # fmt: skip
            self.assertTrue(torch.equal(as_strided(tensor, size, stride, offset), tensor.as_strided(size, stride, offset)))
        for tensor, size, stride in (rows[:, 1:], (12,), (1,)), (rows[:, :, 1:], (2, 8), (12, 1)), (rows[:, ::2, ::2], (2, 2), (12, 3)):
            with self.assertRaisesRegex(ValueError, "as_strided"):
                as_strided(tensor, size, stride)

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

    def test_experts_in_stacked_matrices(self) -> None:
        from transformers.models.dbrx.configuration_dbrx import DbrxConfig, DbrxFFNConfig
        from transformers.models.dbrx.modeling_dbrx import DbrxFFN
        from transformers.models.longcat_flash.configuration_longcat_flash import LongcatFlashConfig
        from transformers.models.longcat_flash.modeling_longcat_flash import LongcatFlashMoE

        torch.manual_seed(0)
        sizes = {"hidden_size": 8, "ffn_hidden_size": 6, "moe_num_experts": 4, "moe_top_k": 2}
        dbrx = DbrxFFN(DbrxConfig(d_model=8, ffn_config=DbrxFFNConfig(**sizes)))
        longcat = LongcatFlashMoE(LongcatFlashConfig(hidden_size=8, expert_ffn_hidden_size=6, n_routed_experts=4, zero_expert_num=2, moe_topk=3))
        for module in dbrx, longcat:
            with self.subTest(model=type(module).__name__):
                for parameter in module.parameters():
                    nn.init.normal_(parameter)
                self.assertTrue(stowage.compile(module, torch.randn(2, 5, 8), loss="mse", threads=1).check.ok)


if __name__ == "__main__":
    unittest.main()
