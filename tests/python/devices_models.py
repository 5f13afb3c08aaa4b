"""Models that ranks train beside PyTorch's: test_devices.py exports them, ddp_rank.py trains them."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in self.qkv(self.first(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        return x + self.mlp(self.second(x))


class Gpt(nn.Module):
    """GPT-2's block and tied head."""

    def __init__(self, words: int = 65, width: int = 32, length: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.words(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(y)))


class Residual(nn.Module):
    """A block of ResNet-18 behind its first convolution."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))  # fmt: skip
        self.head = nn.Linear(width, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        return self.head(F.relu(y + self.body(y)).mean((2, 3)))


class Gpt2(nn.Module):
    """The smallest of GPT-2, 124 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        self.model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x, use_cache=False).logits


def blocks(model: nn.Module) -> "list[nn.Module]":
    """Those that fully_shard is to have by themselves."""
    return [part for part in model.modules() if type(part).__name__ in ("Block", "GPT2Block")]


def rate(name: str) -> float:
    """The learning rate of a run. AdamW makes steps of that size of whatever a gradient near zero is rounded to: at 1e-3 ResNet-18's losses in PyTorch's float32
    are 1e-2 from its double after four steps."""
    return {"resnet18": 1e-5, "gpt2": 1e-4}.get(name, 1e-2)


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "resnet18":
        from torchvision.models import resnet18

        return resnet18(num_classes=5)
    if name == "gpt2":
        return Gpt2()
    if name == "mlp":
        return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
    if name == "wide":
        return nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 5))
    return Gpt() if name == "gpt" else Residual()


def samples(name: str, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    if name == "gpt":
        return torch.randint(0, 65, (rows, 16), generator=draw), torch.randint(0, 65, (rows, 16), generator=draw)
    if name == "gpt2":
        return torch.randint(0, 50257, (rows, 16), generator=draw), torch.randint(0, 50257, (rows, 16), generator=draw)
    shape = (rows, 20) if name in ("mlp", "wide") else (rows, 3, 64, 64) if name == "resnet18" else (rows, 3, 8, 8)
    return torch.randn(*shape, generator=draw), torch.randint(0, 5, (rows,), generator=draw)
