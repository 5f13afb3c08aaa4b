"""Images that come as bytes: a module that casts, scales and shifts them itself."""

import unittest

try:
    import torch
    from torch import nn
except ImportError as missing:  # the module's tests are skipped
    raise unittest.SkipTest(f"no {missing.name}") from missing

import stowage


class Normalized(nn.Module):
    """Images [N,H,W,3] of bytes as a convolution wants them."""

    def __init__(self, rest: nn.Module) -> None:
        super().__init__()
        self.rest = rest
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor([0.2, 0.25, 0.3]).view(1, 3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest((x.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.deviation)


class Bytes(unittest.TestCase):
    def test_losses_are_those_of_torch(self) -> None:
        torch.manual_seed(0)
        module = Normalized(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)))
        x, y = torch.randint(0, 256, (4, 8, 8, 3), dtype=torch.uint8), torch.randint(0, 10, (4,))
        self.assertGreater(int(x.max()), 127)
        step = stowage.compile(module, x, loss="cross-entropy", optimizer="sgd:lr=0.1")
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for number in range(3):
            loss = nn.functional.cross_entropy(module(x), y)
            given = (x, y) if number else (x.numpy(), y.numpy())
            self.assertAlmostEqual(step(*given), loss.item(), delta=1e-5 * loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    unittest.main()
