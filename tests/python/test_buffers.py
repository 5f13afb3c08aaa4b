"""What a module's forward writes: buffers are state of the step, as in PyTorch; and the comparison of the first step with PyTorch's.

Run in the environment of scripts/install.sh python, in one process with test_modules.py.
"""

import contextlib
import io
import re
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import stowage
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


def without_progress(said: str) -> str:
    """What was said but for the lines that a long command shows, as on a slow machine."""
    return re.sub(r"(?m)^\[\d+:\d\d\] .*\n", "", said)


class Written(nn.Module):
    """Buffers of every kind: spectral norm's vectors, instance norm's statistics, those of a batch norm whose result nothing reads, a
    moving average that training alone updates, a counter, the last batch, and a buffer that takes over another."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 1), nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
        self.auxiliary, self.after = nn.BatchNorm1d(4), nn.BatchNorm1d(6)
        self.linear, self.head = spectral_norm(nn.Linear(20, 6)), nn.Linear(6, 5)
        self.register_buffer("mean", torch.ones(6))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("last", torch.zeros(5))
        self.register_buffer("older", torch.ones(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.conv(x))
        self.auxiliary(hidden)
        hidden = self.after(F.leaky_relu(self.linear(hidden.flatten(1)), 0.3))
        if self.training:
            with torch.no_grad():
                self.seen += 1
                self.mean.mul_(0.9).add_(0.1 * hidden.mean(0))
        y = self.head(torch.tanh(hidden - self.mean)) / (1 + self.seen.float().sqrt())
        if self.training:
            self.older.copy_(self.last)
            self.last.copy_(y.detach().mean(0))
        return y - self.older


class Buffers(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "saved.safetensors"

    def assert_same_state(self, step: stowage.Step, module: nn.Module) -> None:
        state = step.state_dict()
        self.assertEqual(list(state), list(module.state_dict()))
        for name, value in module.state_dict().items():
            self.assertEqual(state[name].dtype, value.dtype, name)
            torch.testing.assert_close(state[name], value, rtol=1e-3, atol=1e-4, msg=name)

    def test_are_state_of_the_step(self) -> None:
        """After each step they are PyTorch's; an evaluation reads them and writes none; a saved run goes on with them."""
        module = Written().train()
        batches = [(torch.randn(6, 3, 5), torch.randint(0, 5, (6,))) for _ in range(3)]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            step = stowage.compile(module, batches[0][0], optimizer="sgd:lr=0.2", threads=1)
        self.assertRegex(without_progress(said.getvalue()), r"^stowage: the first step is PyTorch's: loss, \d+ gradients and 11 buffers differ by at most")
        self.assertTrue(step.check.ok)
        self.assert_same_state(step, module)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
        for inputs, target in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(module(inputs), target)
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(step(inputs, target), loss.item(), places=4)
            self.assert_same_state(step, module)
        module.eval()
        kept = {name: value.clone() for name, value in module.state_dict().items()}
        with torch.no_grad():
            expected = module(batches[1][0])
            module.load_state_dict(kept)  # what forward wrote here as well
        torch.testing.assert_close(step.eval(batches[1][0]), expected, rtol=1e-3, atol=1e-4)
        self.assert_same_state(step, module)
        step.save(self.path)
        losses = [step(*batch) for batch in batches]
        step.load(self.path)
        self.assert_same_state(step, module)
        self.assertEqual([step(*batch) for batch in batches], losses)

    def test_exchange_their_values(self) -> None:
        module, x, target = Exchanged(), torch.randn(5, 4), torch.randn(5, 3)
        step = stowage.compile(module, x, loss="mse", optimizer="sgd:lr=0.1", threads=1, flags=["--recompute=none"])
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.mse_loss(module(x), target)
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(step(x, target), loss.item(), places=5)
            self.assert_same_state(step, module)
        with self.assertRaisesRegex(stowage.ExportError, "forward writes the buffers a, b, and PyTorch's exporter has lost what it writes"):
            stowage.compile(Assigned(), x, loss="mse", threads=1, flags=["--recompute=none"])

    def test_follow_every_batch_of_a_step(self) -> None:
        """And the compiler's warnings are Python's."""
        module = Written().train()
        x, target = torch.randn(6, 3, 5), torch.randint(0, 5, (6,))
        with self.assertWarnsRegex(stowage.StowageWarning, "1 batch normalization in training mode"):
            step = stowage.compile(module, x, optimizer="sgd:lr=0.2", accumulate=2, threads=1, flags=["--recompute=none"])
        self.assertTrue(step.check.ok)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
        for part in (slice(0, 3), slice(3, 6)):
            (F.cross_entropy(module(x[part]), target[part]) / 2).backward()
        optimizer.step()
        step(x, target)
        self.assert_same_state(step, module)


class Exchanged(nn.Module):
    """Three buffers that change places, and two of which a third takes one over."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        for name in "abcdef":
            self.register_buffer(name, torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * (self.a - self.b.clone()) + self.c * self.d - self.e * self.f
        with torch.no_grad():
            old_a, old_d = self.a.clone(), self.d.clone()
            for place, value in ((self.a, self.b), (self.b, self.c), (self.c, old_a), (self.f, self.d), (self.d, self.e), (self.e, old_d)):
                place.copy_(value)
        return y


class Assigned(Exchanged):
    """Which tensor a name stands for is nothing that a file holds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * self.a + self.b
        self.a, self.b = self.b, self.a
        return y


class Other(nn.Linear):
    """Not what is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y if torch.compiler.is_exporting() else y * 1.01


class Detached(nn.Module):
    """A loss that is computed inside no_grad(), or detached."""

    def __init__(self, target: torch.Tensor, inside: bool = True) -> None:
        super().__init__()
        self.linear, self.inside = nn.Linear(6, 3), inside
        self.register_buffer("target", target)

    def forward(self, x: torch.Tensor) -> dict:
        with torch.set_grad_enabled(not self.inside):
            loss = F.mse_loss(self.linear(x), self.target)
        return {"loss": loss if self.inside else loss.detach()}


class Choosing(nn.Module):
    """A part that is read and that no gradient reaches: it chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.rows, self.linear = nn.Linear(6, 4), nn.Embedding(4, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.rows(self.score(x).argmax(-1))


class Added(nn.Module):
    """What is made without a gradient gets a part with one in place, as the positions of Kosmos-2.5 do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(8, 6))
        self.rows, self.linear = nn.Parameter(torch.randn(8, 6)), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            places = self.table + x
        places += self.rows
        return self.linear(places)


class FirstStep(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.x, self.y = torch.randn(8, 6), torch.randn(8, 3)

    def compiled(self, module: nn.Module, **settings) -> "tuple[stowage.Step, str]":
        with contextlib.redirect_stderr(io.StringIO()) as said:
            step = stowage.compile(module, self.x, loss="mse", threads=1, **settings)
        return step, without_progress(said.getvalue())

    def test_names_what_differs(self) -> None:
        with self.assertRaisesRegex(stowage.ExportError, "(?s)the first step is not the module's.*check=False.*loss: differs by"):
            self.compiled(Other(6, 3))
        step, said = self.compiled(Other(6, 3), check=False)
        self.assertEqual((step.check, said), (None, ""))

    def test_a_detached_loss_is_refused(self) -> None:
        """As by PyTorch's backward; without the comparison each parameter is named in a warning."""
        for module in (Detached(self.y), Detached(self.y, inside=False)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with self.assertRaisesRegex(stowage.ExportError, "the loss has no gradient in PyTorch"):
                    stowage.compile(module, self.x, loss="output:loss", threads=1)
            with self.assertWarnsRegex(stowage.StowageWarning, '"linear.weight" does not influence the loss; it stays as it is'):
                step = stowage.compile(module, self.x, loss="output:loss", threads=1, check=False)
            step(self.x)
            self.assertTrue(torch.equal(step.state_dict()["linear.weight"], module.linear.weight))

    def test_written_in_place_behind_no_grad(self) -> None:
        step, _ = self.compiled(Added(), dynamic_batch=False)
        self.assertTrue(step.check.ok)

    def test_a_part_without_a_gradient(self) -> None:
        module = Choosing()
        for optimizer in "sgd:momentum=0.9", "adamw":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the part stays as it is
                step, _ = self.compiled(module, optimizer=optimizer)
            self.assertTrue(step.check.ok)
            step(self.x, self.y)
            self.assertTrue(torch.equal(step.state_dict()["score.weight"], module.score.weight))

    def test_leaves_everything_as_it_was(self) -> None:
        """The module, its gradients and modes, the random numbers to come, and the step, which starts anew."""
        module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)).train()
        module[1].eval()
        F.mse_loss(module(self.x), self.y).backward()
        gradient, numbers = module[0].weight.grad.clone(), torch.random.get_rng_state()
        state = {name: value.clone() for name, value in module.state_dict().items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the part in evaluation mode
            checked, said = self.compiled(module, optimizer="adam:lr=0.01,weight-decay=0.1", seed=3)
            plain, _ = self.compiled(module, optimizer="adam:lr=0.01,weight-decay=0.1", seed=3, check=False)
        self.assertRegex(said, r"is PyTorch's: loss, 6 gradients and 2 buffers .* without dropout\)")
        self.assertTrue(torch.equal(module[0].weight.grad, gradient) and torch.equal(torch.random.get_rng_state(), numbers))
        self.assertEqual([part.training for part in module], [True, False, True, True, True])
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, state[name]) and torch.equal(checked.state_dict()[name], value), name)
        self.assertEqual((checked.step_count, checked.learning_rate), (0, 0.01))
        self.assertEqual([checked(self.x, self.y) for _ in range(3)], [plain(self.x, self.y) for _ in range(3)])

    def test_without_the_memory(self) -> None:
        """Fewer samples, or a line that says why not."""
        module = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 3))
        step, _ = self.compiled(module, check=False)
        for share, message in ((0.6, r"is PyTorch's.*at [2-7] samples, PyTorch's memory"), (0.0, "is not compared with PyTorch's: PyTorch would take")):
            with mock.patch("stowage._first_step.available_bytes", lambda share=share: int(share * 2.5 * step.plan.without_recompute_bytes)):
                self.assertRegex(self.compiled(module)[1], message)


if __name__ == "__main__":
    unittest.main()
