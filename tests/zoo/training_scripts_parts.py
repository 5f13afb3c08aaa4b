"""Training scripts that hold a rarer part: norms on weights, half precision inside, complex weights, libraries of blocks; see
training_scripts.py."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_scripts import Script, adam, adamw, draw, script, sgd, tokens


class Classified(nn.Module):
    """A model whose scores are compared with labels."""

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.model(x), labels, label_smoothing=self.smoothing)}


def classes(shape: tuple[int, ...], rows: int = 8, count: int = 5) -> dict[str, Tensor]:
    return {"x": torch.randn(rows, *shape), "labels": torch.randint(0, count, (rows,))}


@script
def normalizations_without_statistics() -> Script:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU(), nn.InstanceNorm2d(8, affine=True),
                          nn.Flatten(), nn.Linear(8 * 36, 5))  # fmt: skip
    return Script(Classified(model), draw(lambda: classes((3, 8, 8))), sgd(0.01))


@script
def normalizations_of_cumulative_average() -> Script:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.ReLU(), nn.Linear(8, 5))
    return Script(Classified(model), draw(lambda: classes((6,))), sgd(0.01))


class Autocast(nn.Module):
    """Half precision inside the module, the loss outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 5))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = self.body(x)
        return {"loss": F.cross_entropy(scores.float(), labels)}


@script
def autocast_inside() -> Script:
    return Script(Autocast(), draw(lambda: classes((16,), 16)), sgd(0.1), tolerance=1e-3)


class Clamped(nn.Module):
    """A weight that forward itself keeps in bounds, under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 5)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            self.layer.weight.clamp_(-0.1, 0.1)
        return {"loss": F.cross_entropy(self.layer(x), labels)}


@script
def weight_clamped_in_forward() -> Script:
    return Script(Clamped(), draw(lambda: classes((16,), 16)), sgd(0.5))


class Spectral(nn.Module):
    """A Fourier neural operator's layer: complex weights on the lowest frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 5, dtype=torch.cfloat) * 0.1)
        self.lift, self.drop = nn.Conv1d(1, 4, 1), nn.Conv1d(4, 1, 1)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        h = self.lift(x)
        spectrum = torch.fft.rfft(h)
        low = torch.einsum("bix,iox->box", spectrum[..., :5], self.weight)
        h = torch.fft.irfft(F.pad(low, (0, spectrum.shape[-1] - 5)), n=16)
        return {"loss": F.mse_loss(self.drop(F.gelu(h)), y)}


@script
def fourier_neural_operator() -> Script:
    return Script(Spectral(), draw(lambda: {"x": torch.randn(4, 1, 16), "y": torch.randn(4, 1, 16)}), adam())


class Packed(nn.Module):
    """Packed sequences: the last state of each row is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor, lengths: Tensor, labels: Tensor) -> dict[str, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return {"loss": F.cross_entropy(self.head(self.gru(packed)[1][-1]), labels)}


@script
def packed_sequences() -> Script:
    return Script(Packed(), draw(lambda: {"x": torch.randn(4, 7, 6), "lengths": torch.randint(1, 8, (4,)), "labels": torch.randint(0, 5, (4,))}), adam())


class StepSize(torch.autograd.Function):
    """Learned quantization (LSQ): a step for all elements, whose gradient is a sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor) -> Tensor:
        ctx.save_for_backward(x, step)
        return torch.round(torch.clamp(x / step, -8, 7)) * step

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, step = ctx.saved_tensors
        q = x / step
        inside = (q > -8) & (q < 7)
        return dy * inside, (dy * torch.where(inside, torch.round(q) - q, q.clamp(-8, 7))).sum().reshape(step.shape)


class Quantized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.step = nn.Linear(16, 5), nn.Parameter(torch.tensor(0.05))

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(F.linear(x, StepSize.apply(self.layer.weight, self.step), self.layer.bias), labels)}


@script
def learned_step_quantization() -> Script:
    return Script(Quantized(), draw(lambda: classes((16,), 16)), sgd(0.05))


@script
def quantization_aware_by_torch() -> Script:
    """torch.ao's fake quantization with scales that observers follow."""
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

    class Qat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 5)
            self.fake = FakeQuantize(MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8)

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": F.cross_entropy(F.linear(x, self.fake(self.layer.weight), self.layer.bias), labels)}

    return Script(Qat(), draw(lambda: classes((16,), 16)), sgd(0.05))


@script
def x_transformers_decoder() -> Script:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoregressiveWrapper(TransformerWrapper(num_tokens=40, max_seq_len=16, attn_layers=Decoder(
                dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True, attn_kv_heads=2)))  # fmt: skip

        def forward(self, words: Tensor) -> dict[str, Tensor]:
            return {"loss": self.model(words)}

    return Script(Wrapped(), draw(lambda: {"words": tokens(2, 16, 40)}, 10), adamw())


@script
def vector_quantized_autoencoder() -> Script:
    """A learned codebook: straight-through, commitment, codebook loss."""

    class Vq(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.Conv2d(3, 8, 4, 4), nn.ConvTranspose2d(8, 3, 4, 4)
            self.codes = nn.Embedding(16, 8)

        def forward(self, images: Tensor) -> dict[str, Tensor]:
            z = self.encoder(images).permute(0, 2, 3, 1)
            flat = z.reshape(-1, 8)
            nearest = torch.cdist(flat, self.codes.weight).argmin(1)
            q = self.codes(nearest).view_as(z)
            loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
            through = (z + (q - z).detach()).permute(0, 3, 1, 2)
            return {"loss": loss + F.mse_loss(self.decoder(through), images)}

    return Script(Vq(), draw(lambda: {"images": torch.rand(4, 3, 16, 16)}), adam(), settings={"dynamic_batch": False})


@script
def timm_fine_tuning_with_mixup() -> Script:
    """A ViT of timm with layer scale, soft targets of mixed images, rates that fall from layer to layer."""
    import timm
    from timm.loss import SoftTargetCrossEntropy

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = timm.create_model("deit3_small_patch16_224", img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, num_classes=5)
            self.loss = SoftTargetCrossEntropy()

        def forward(self, images: Tensor, labels: Tensor, share: Tensor) -> dict[str, Tensor]:
            hot = F.one_hot(labels, 5).float()
            mix = share.view(-1, 1, 1, 1)
            soft = share.view(-1, 1) * hot + (1 - share.view(-1, 1)) * hot.flip(0)
            return {"loss": self.loss(self.model(mix * images + (1 - mix) * images.flip(0)), soft)}

    def optimizer(m: nn.Module) -> torch.optim.Optimizer:
        late = [p for n, p in m.named_parameters() if "blocks.1" in n or "head" in n]
        held = {id(p) for p in late}
        early = [p for p in m.parameters() if id(p) not in held]
        return torch.optim.AdamW([{"params": late, "lr": 1e-3, "weight_decay": 0.05}, {"params": early, "lr": 5e-4, "weight_decay": 0.05}])

    return Script(Mixed(), draw(lambda: {"images": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 5, (4,)), "share": torch.rand(4)}, 10), optimizer)
