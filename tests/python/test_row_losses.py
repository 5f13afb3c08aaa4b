"""Losses whose rows are apart, in chunks of rows: PyTorch's losses and parameters, no logits as wholes, and the bits of every budget.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import copy
import os
import tempfile
import unittest
from pathlib import Path

import row_losses
import stowage
import torch

WORDS, WIDTH, SEQUENCES, TOKENS = 2048, 16, 2, 40
#: Bytes of all logits, of one sequence less a position where the loss leaves it out.
LOGITS = 4 * SEQUENCES * (TOKENS - 1) * WORDS
#: Those of the head's weight, and of its gradient.
TABLE = 4 * WORDS * WIDTH
SETTINGS = {"loss": "output:loss", "threads": 2}
RATE, STEPS = 0.5, 3
#: By day the loss whose rows meet is trained under a budget, and it and one other are left to the planner.
NIGHT = bool(os.environ.get("STOWAGE_NIGHTLY"))


def trained_by_pytorch(module: torch.nn.Module, example: "dict[str, torch.Tensor]") -> "tuple[list[float], dict[str, torch.Tensor]]":
    module = copy.deepcopy(module)
    optimizer = torch.optim.SGD([parameter for parameter in module.parameters() if parameter.requires_grad], RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = module(**example)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, module.state_dict()


class RowLosses(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.cases = {}
        for name in row_losses.NAMES:
            module, example = row_losses.build(name, WORDS, WIDTH, SEQUENCES, TOKENS)
            path = Path(folder.name) / f"{name}.onnx"
            stowage.export(module, example, path, dynamic_batch=False, check=False)
            cls.cases[name] = (path, module, example)

    def train(self, name: str, **options: object) -> "tuple[list[float], dict[str, object], stowage.Plan]":
        path, _, example = self.cases[name]
        batch = {key: value.numpy() for key, value in example.items()}
        with stowage.compile(path, optimizer=f"sgd:lr={RATE}", **SETTINGS, **options) as step:
            losses = [step(batch) for _ in range(STEPS)]
            return losses, step.state_dict(), step.plan

    def smallest(self, name: str, chunks: int) -> int:
        with self.assertRaises(stowage.InfeasibleBudget) as raised:
            stowage.plan(self.cases[name][0], memory_budget="1KiB", loss_chunks=chunks, **SETTINGS)
        return raised.exception.smallest_bytes

    def test_as_pytorch(self) -> None:
        for name, (_, module, example) in self.cases.items():
            losses, state = trained_by_pytorch(module, example)
            for chunks in (1, 3, 7) if NIGHT else (3,):
                with self.subTest(name, chunks=chunks):
                    found, learned, plan = self.train(name, loss_chunks=chunks, recompute="none")
                    for ours, theirs in zip(found, losses):
                        self.assertAlmostEqual(ours, theirs, delta=2e-5 * abs(theirs))
                    for key, value in learned.items():
                        torch.testing.assert_close(torch.from_numpy(value), state[key], rtol=1e-4, atol=2e-6)
                    largest = max(buffer["size"] for buffer in plan.buffers if buffer["kind"] in ("activation", "gradient"))
                    if chunks == 1:
                        self.assertGreaterEqual(largest, LOGITS)
                    else:
                        self.assertLess(largest, max(LOGITS / (chunks - 1), TABLE + 1))

    def test_bits_of_every_budget(self) -> None:
        """And a budget takes less than whole logits could."""
        for name in self.cases if NIGHT else ("dpo",):
            with self.subTest(name):
                losses, state, _ = self.train(name, loss_chunks=5, recompute="none")
                budget = self.smallest(name, 5)
                self.assertLess(budget, self.smallest(name, 1))
                again, learned, plan = self.train(name, loss_chunks=5, memory_budget=budget)
                self.assertLessEqual(plan.arena_bytes, budget)
                self.assertEqual(again, losses)
                for key, value in learned.items():
                    self.assertTrue((value == state[key]).all(), key)

    def test_chosen_where_a_budget_needs_them(self) -> None:
        for name in self.cases if NIGHT else ("dpo", "grpo"):
            with self.subTest(name):
                budget = (self.smallest(name, 8) + self.smallest(name, 1)) // 2
                path = self.cases[name][0]
                with self.assertRaisesRegex(stowage.InfeasibleBudget, "loss_chunks=8"):
                    stowage.plan(path, memory_budget=budget, **SETTINGS)
                plan = stowage.plan(path, memory_budget=budget, loss_chunks="auto", **SETTINGS)
                self.assertLessEqual(plan.arena_bytes, budget)

    def test_evaluated(self) -> None:
        path, module, example = self.cases["distillation"]
        batch = {key: value.numpy() for key, value in example.items()}
        with stowage.compile(path, loss_chunks=4, **SETTINGS) as step:
            found = step.evaluate([batch])["loss"]
        with torch.no_grad():
            expected = module(**example)["loss"].item()
        self.assertAlmostEqual(found, expected, delta=1e-5 * abs(expected))


if __name__ == "__main__":
    unittest.main()
