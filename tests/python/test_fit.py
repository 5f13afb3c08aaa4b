"""Training over epochs: the losses of a PyTorch loop, short batches and schedules included, and runs that go on where they were stopped.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import contextlib
import copy
import io
import os
import tempfile
import unittest
from pathlib import Path

import stowage
import torch
from torch.utils.data import DataLoader, TensorDataset

BATCH, ROWS = 16, 40  # the last batch of an epoch has 8


def network(bias: bool = False) -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 12, bias=bias), torch.nn.BatchNorm1d(12), torch.nn.ReLU(), torch.nn.Linear(12, 3))


class Own(torch.nn.Module):
    """Gives scores, and the loss where it is given labels, as modules of Transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        logits = self.inner(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def batches(batch: int = BATCH, **options) -> DataLoader:
    return DataLoader(TensorDataset(X, Y), batch_size=batch, **options)


torch.manual_seed(0)
X, Y = torch.randn(ROWS, 6), torch.randint(0, 3, (ROWS,))


def reference(epochs: int, schedule=None) -> "tuple[list[float], torch.nn.Module]":
    """PyTorch's losses and the module it has trained."""
    module, losses = network(), []
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    scheduler = None if schedule is None else schedule(optimizer)
    for _ in range(epochs):
        for x, y in batches():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if scheduler is not None:
                scheduler.step()
    return losses, module


class Losses:
    """A callback that keeps the loss of every step, and may end the run."""

    def __init__(self, last: int = 10**9) -> None:
        self.found: "list[float]" = []
        self._last = last

    def on_step(self, step: stowage.Step, record: dict) -> bool:
        self.found.append(record["loss"])
        return record["step"] == self._last


class Stopped:
    """Ctrl-C during a step's callbacks."""

    def __init__(self, at: int) -> None:
        self._at = at

    def on_step(self, step: stowage.Step, record: dict) -> None:
        if record["step"] == self._at:
            raise KeyboardInterrupt


class Fit(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.errors = io.StringIO()
        module = network()
        with contextlib.redirect_stderr(cls.errors):
            cls.step = stowage.compile(module, X[:BATCH], optimizer=torch.optim.AdamW(module.parameters(), lr=1e-2))
        cls.step.save(cls.folder / "start.safetensors")

    def setUp(self) -> None:
        self.step.load(self.folder / "start.safetensors")
        errors = contextlib.redirect_stderr(self.errors)
        errors.__enter__()
        self.addCleanup(errors.__exit__, None, None, None)

    def near(self, found: "list[float]", expected: "list[float]") -> None:
        self.assertEqual(len(found), len(expected))
        for ours, theirs in zip(found, expected):
            self.assertAlmostEqual(ours, theirs, delta=2e-5)

    def test_short_batches(self) -> None:
        """Each step of 8 samples among those of 16 is PyTorch's; so are the statistics, and what is evaluated at the end."""
        expected, module = reference(2)
        self.near([self.step(x, y) for _ in range(2) for x, y in batches()], expected)
        self.assertEqual(self.step.step_count, 6)
        for name, tensor in module.state_dict().items():
            torch.testing.assert_close(self.step.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)
        module.eval()
        with torch.no_grad():
            scores = module(X)
        found = self.step.evaluate(batches(13), {"share": lambda outputs, targets: (outputs.argmax(1) == targets).float().mean()})
        self.assertAlmostEqual(found["loss"], torch.nn.functional.cross_entropy(scores, Y).item(), places=5)
        self.assertAlmostEqual(found["accuracy"], (scores.argmax(1) == Y).float().mean().item(), places=6)
        self.assertAlmostEqual(found["share"], found["accuracy"], places=6)

    def test_refused_batch_changes_nothing(self) -> None:
        before, wrong = self.step(X[:BATCH], Y[:BATCH]), torch.full((8,), 7)
        with self.assertRaisesRegex(stowage.StowageError, "7"):
            self.step(X[:8], wrong)
        self.assertEqual(self.step.step_count, 1)
        self.step.load(self.folder / "start.safetensors")
        self.assertEqual(self.step(X[:BATCH], Y[:BATCH]), before)

    def test_schedules(self) -> None:
        """A scheduler of PyTorch, and the same as a function of the steps done."""
        expected, _ = reference(2, lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=4))
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1e-2)
        for schedule in (torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, total_iters=4), lambda done: 1e-2 * min(0.5 + done / 8, 1)):
            self.step.load(self.folder / "start.safetensors")
            losses = Losses()
            records = self.step.fit(batches(), 2, schedule=schedule, callbacks=[losses], validation=batches())
            self.near(losses.found, expected)
            self.assertEqual([record["step"] for record in records], [3, 6])
            self.assertAlmostEqual(records[0]["loss"], (16 * expected[0] + 16 * expected[1] + 8 * expected[2]) / 40, delta=2e-5)
            self.assertIn("validation_accuracy", records[1])

    def test_resumed(self) -> None:
        """Stopped in the middle of a shuffled epoch and gone on, the losses are those of a run that nobody disturbed, bit for bit."""
        whole, path = Losses(), self.folder / "run.safetensors"
        self.step.fit(batches(shuffle=True), 3, callbacks=[whole])
        self.step.load(self.folder / "start.safetensors")
        first, second = Losses(), Losses()
        with self.assertRaises(KeyboardInterrupt):
            self.step.fit(batches(shuffle=True), 3, callbacks=[first, Stopped(5)], checkpoint=path, resume=True)
        self.step.load(self.folder / "start.safetensors")
        self.step.fit(batches(shuffle=True), 3, callbacks=[second], checkpoint=path, resume=True)
        self.assertEqual(first.found + second.found, whole.found)
        self.assertNotEqual(whole.found[:2], whole.found[3:5])
        self.assertEqual(self.step.fit(batches(shuffle=True), 3, checkpoint=path, resume=True), [])
        with self.assertRaisesRegex(stowage.StowageError, "has done 9 steps"):
            self.step.fit(batches(), checkpoint=path)

    def test_stops(self) -> None:
        self.assertEqual(len(self.step.fit(batches(), 9, callbacks=[lambda step, record: record["epoch"] == 2])), 2)
        losses = Losses(last=8)
        self.step.fit(batches(), 9, callbacks=[losses])
        self.assertEqual(len(losses.found), 8)
        with self.assertRaisesRegex(stowage.StowageError, "loss of step 2 .* is nan"):
            self.step.fit([(X[:BATCH], Y[:BATCH])] * 3, schedule=lambda done: 1e30)

    def test_refusals(self) -> None:
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([torch.zeros(1)], lr=1.0))
        for options, text in (({"schedule": plateau}, "ReduceLROnPlateau"), ({"schedule": 1}, "found 1"), ({"schedule_interval": "day"}, "'day'"),
                              ({"resume": True}, "checkpoint=PATH")):  # fmt: skip
            with self.assertRaisesRegex(ValueError, text):
                self.step.fit(batches(), **options)
        with self.assertRaisesRegex(stowage.StowageError, "no batch"):
            self.step.fit([])
        with self.assertRaisesRegex(stowage.StowageError, "at least one batch"):
            self.step.evaluate([])

    def test_tensorboard(self) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self.step.fit(batches(drop_last=True), 2, validation=batches(), tensorboard=self.folder / "events", quiet=True)
        events = EventAccumulator(os.fspath(self.folder / "events"))
        events.Reload()
        self.assertEqual([event.step for event in events.Scalars("train/loss")], [1, 2, 3, 4])
        self.assertEqual([event.step for event in events.Scalars("validation/accuracy")], [2, 4])


class OwnLoss(unittest.TestCase):
    def test_module_with_a_loss(self) -> None:
        """Without loss=, an output `loss` that is a number is it; short batches are evaluated by themselves."""
        module = Own()
        eager = copy.deepcopy(module)
        with contextlib.redirect_stderr(io.StringIO()):
            step = stowage.compile(module, {"x": X[:BATCH], "labels": Y[:BATCH]}, optimizer="sgd:lr=0.1", recompute="10%")
            optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
            for x, y in batches():
                optimizer.zero_grad()
                loss = eager(x, y)["loss"]
                loss.backward()
                optimizer.step()
                self.assertAlmostEqual(step({"x": x, "labels": y}), loss.item(), places=5)
            eager.eval()
            with torch.no_grad():
                expected = eager(X, Y)["loss"].item()
            found = step.evaluate({"x": x, "labels": y} for x, y in batches())
        self.assertAlmostEqual(found["loss"], expected, places=5)


if __name__ == "__main__":
    unittest.main()
