"""What optimizers keep in 8 bits: trained as PyTorch trains whose state is rounded in every step, and chosen where a budget needs it.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import copy
import tempfile
import unittest
from pathlib import Path

import numpy as np
import stowage
import torch
import torch.nn as nn
from test_frozen import SCALE_LEVELS, dynamic_levels, nearest


LEVELS = {"exp_avg": SCALE_LEVELS, "exp_avg_sq": dynamic_levels(2, (1,)), "momentum_buffer": SCALE_LEVELS}


def round_state(name: str, state: torch.Tensor) -> None:
    """What 8 bits leave of a tensor, in blocks of 256 with the largest magnitude as scale."""
    blocks = state.detach().numpy().reshape(-1, 256)
    scales = np.abs(blocks).max(1, keepdims=True)
    parts = np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales > 0)
    state.copy_(torch.from_numpy((nearest(LEVELS[name], parts) * scales).reshape(state.shape)))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 256), nn.Tanh(), *(layer for _ in range(3) for layer in (nn.Linear(256, 256), nn.Tanh())),
                         nn.Linear(256, 10))  # fmt: skip


class States(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.module = network()
        cls.x, cls.labels = torch.randn(16, 24), torch.randint(0, 10, (16,))
        cls.settings = {"loss": "cross-entropy", "threads": 2, "check": False}

    def rounded(self, make: "type", **settings: float) -> "list[float]":
        """PyTorch's losses, with the state of matrices rounded behind every step."""
        module = copy.deepcopy(self.module)
        optimizer = make(module.parameters(), **settings)
        losses = []
        for _ in range(12):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(self.x), self.labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            for parameter, kept in optimizer.state.items():
                if parameter.dim() == 2 and parameter.numel() >= 4096:
                    for name, tensor in kept.items():
                        if name in LEVELS:
                            round_state(name, tensor)
        return losses

    def test_as_rounded(self) -> None:
        for spec, make, settings in (("adamw:lr=1e-3", torch.optim.AdamW, {"lr": 1e-3}),
                                     ("sgd:lr=0.1,momentum=0.9", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})):  # fmt: skip
            with stowage.compile(self.module, self.x, optimizer=spec, optimizer_state="8bit", **self.settings) as step:
                expected = self.rounded(make, **settings)
                for ours, theirs in zip([step(self.x, self.labels) for _ in expected], expected):
                    self.assertAlmostEqual(ours, theirs, delta=2e-4 * theirs)
                with tempfile.TemporaryDirectory() as folder:
                    step.save(Path(folder) / "state.safetensors")
                    further = [step(self.x, self.labels) for _ in range(3)]
                    step.load(Path(folder) / "state.safetensors")
                    self.assertEqual([step(self.x, self.labels) for _ in range(3)], further)
                small = step.plan
            wide = stowage.plan(self.module, self.x, optimizer=spec, loss="cross-entropy", threads=2)
            self.assertLess(small.breakdown["optimizer"], 0.3 * wide.breakdown["optimizer"])
            self.assertLess(small.arena_bytes, wide.arena_bytes)

    def test_where_the_budget_needs_it(self) -> None:
        """State stays in f32 where that fits; else the largest tensors are in 8 bits, as few as fit."""
        def plan(state: str, budget: "int | None" = None) -> stowage.Plan:
            return stowage.plan(self.module, self.x, optimizer="adamw", loss="cross-entropy", threads=2, optimizer_state=state,
                                memory_budget=budget)  # fmt: skip

        wide, small = plan("f32"), plan("8bit")
        self.assertEqual(plan("auto").arena_bytes, wide.arena_bytes)
        self.assertEqual(plan("auto", wide.arena_bytes).breakdown["optimizer"], wide.breakdown["optimizer"])
        self.assertEqual(plan("auto", small.arena_bytes).breakdown["optimizer"], small.breakdown["optimizer"])
        between = plan("auto", (wide.arena_bytes + small.arena_bytes) // 2)
        self.assertLess(small.breakdown["optimizer"], between.breakdown["optimizer"])
        self.assertLess(between.breakdown["optimizer"], wide.breakdown["optimizer"])
        with self.assertRaisesRegex(stowage.StowageError, "needs no scaling"):
            stowage.plan(self.module, self.x, loss="cross-entropy", optimizer="adamw", precision="fp16", optimizer_state="8bit")


if __name__ == "__main__":
    unittest.main()
