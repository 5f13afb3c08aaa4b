"""Conditions on data in forward: the branch of the example, and a warning that says so.

Run in the environment of scripts/install.sh python, in one process with test_modules.py.
"""

import unittest
import warnings

import stowage
import torch
import torch.nn as nn
import torch.nn.functional as F


class Deciding(nn.Module):
    """Skips a mask that hides nothing, as Longformer and LED do by item(), and guards against overflow, as DETR does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        self.seen.mul_(0.9).add_(hidden.detach().mean(0))
        some_are_hidden = (keep == 0).flatten().any().item()
        if some_are_hidden:
            hidden = hidden * keep
        if not torch.isfinite(hidden).all():
            hidden = hidden.clamp(-1e4, 1e4)
        return self.second(torch.tanh(hidden))


class Wavering(nn.Linear):
    """A condition that the example answers both ways."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for column in x[0]:
            if column > 0:
                x = x * 1.5
        return super().forward(x)


class Filling(nn.Linear):
    """Fills a buffer in the first step, as codebooks and ranges of activations are."""

    def __init__(self) -> None:
        super().__init__(6, 3)
        self.register_buffer("filled", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.filled == 0:
            self.mean.copy_(x.mean(0))
            self.filled.fill_(1)
        return super().forward(x - self.mean)


class Decisions(unittest.TestCase):
    def test_the_branch_of_the_example_is_taken_with_a_warning(self) -> None:
        torch.manual_seed(0)
        x, target = torch.randn(5, 6), torch.randn(5, 3)
        hidden = torch.ones(5, 8)
        hidden[1, 3:] = 0
        for keep, value in ((torch.ones(5, 8), False), (hidden, True)):
            module = Deciding().train()
            seen = module.seen.clone()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                step = stowage.compile(module, (x, keep), loss="mse", optimizer="sgd:lr=0.1", threads=1, flags=["--recompute=none"])
            said = [str(warning.message) for warning in caught if warning.category is stowage.StowageWarning]
            self.assertEqual(len(said), 2, said)
            self.assertRegex(said[0], rf"test_decisions.py:\d+: `some_are_hidden = .*` decides by the values of a tensor.* is {value}, as on the example")
            self.assertRegex(said[1], r"`if not torch.isfinite\(hidden\).all\(\):`.* is True")
            self.assertTrue(torch.equal(module.seen, seen) and step.check.ok)
            # A mask that the branch does not read is no input.
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = F.mse_loss(module(x, keep), target)
                loss.backward()
                optimizer.step()
                self.assertAlmostEqual(step(*((x, keep, target) if value else (x, target))), loss.item(), places=5)

    def test_what_wavers_on_the_example_is_refused(self) -> None:
        with self.assertRaisesRegex(stowage.ExportError, "(?i)data-dependent"):
            stowage.plan(Wavering(6, 3), torch.tensor([[1.0, -1, 1, -1, 1, -1]]).repeat(4, 1), loss="mse")

    def test_what_the_first_step_changes_is_refused(self) -> None:
        module = Filling()
        with self.assertRaisesRegex(stowage.ExportError, r"test_decisions.py:\d+: `if self.filled == 0:` .* comes out both ways"):
            stowage.plan(module, torch.randn(4, 6), loss="mse")
        self.assertEqual(module.filled.item(), 0)


if __name__ == "__main__":
    unittest.main()
