"""Whole training scripts: the module with its losses, the optimizer, the schedule and the data of each.

Random numbers that a script draws in its loop (noise, time steps, masks) are inputs here, so that both sides see the same; dropout is
off. Sizes are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 20
SCRIPTS: dict[str, Callable[[], Script]] = {}
NOTES = {
    "vector_quantized_autoencoder": "`dynamic_batch=False`: `torch.cdist` asks for the number of rows",
    "autocast_inside": "products in bfloat16, whose rounding error is 4e-3: held to 1e-3",
    "learned_step_quantization": "the gradient of a step that all elements share is a sum, no factor",
    "quantization_aware_by_torch": "whether observers and quantization are on is asked of tensors",
    "normalizations_of_cumulative_average": "`momentum=None` divides by the number of batches so far, which it asks of a tensor",
    "fourier_neural_operator": "complex weights",
    "packed_sequences": "how many rows each step has depends on data",
    "hook_on_a_hidden_value": "a gradient's factor belongs into the forward: `x * m + (x - x * m).detach()`",
    "hook_on_a_weight": "likewise",
    "wgan_gradient_penalty": "a gradient of a gradient: `torch.autograd.grad` inside forward has no place in an exported program",
    "physics_informed_network": "as the gradient penalty",
    "segmentation_unet_lovasz": "a constant of the loss comes without its values, with `dynamic_batch=False`, too",
    "torchvision_retinanet": "which boxes match which depends on data, and with it how many",
    "anchor_free_detector_with_torchvision_overlaps": "torchvision's loss picks the boxes that overlap by a mask; by clamps, as `anchor_free_detector` has it, it trains",
    "geometric_gcnconv_edges_as_input": "self-loops are looked for among the edges; with the edges in a buffer, as `geometric_gcnconv` has them, it trains",
    "transformers_wav2vec2forctc": "its labels are picked by a mask; `speech_ctc` trains with padded ones",
    "transformers_longformerformaskedlm": "whether any token is global depends on data",
    "transformers_autoformerforprediction": "the correlations' delays are picked by data",
    "transformers_timeseriestransformerforprediction": "`distribution_output=\"normal\"`: PyTorch's exporter has no logarithm of the gamma function, which Student's t needs",
    "transformers_mixtral": "`experts_implementation=\"batched_mm\"`, as the two other mixtures of experts",
    "simclr_resnet18": "`dynamic_batch=False`; ten rounding errors in PyTorch itself are a tenth of its loss",
}


@dataclass
class Script:
    """What a training script holds. Without a `target` the module's output "loss" is the loss."""

    module: nn.Module
    batches: list[dict[str, Tensor]]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    loss: Any = "output:loss"
    target: str | None = None
    clip_norm: float = 0.0
    schedule: Callable[[int], float] | None = None
    flags: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-4  # of a loss, where that is more than PyTorch's own noise

    def example(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.batches[0].items() if name != self.target}

    def loss_of(self, module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        output = module(**{name: value for name, value in batch.items() if name != self.target})
        return output["loss"] if self.target is None else self.loss(output, batch[self.target])

    def step_inputs(self, batch: dict[str, Tensor], step: Any) -> list[Tensor]:
        held = [info.name for info in step.model.step_inputs]
        return [batch[name] if name in batch else batch[self.target or ""] for name in held]


def script(make: Callable[[], Script]) -> Callable[[], Script]:
    SCRIPTS[make.__name__] = make
    return make


class Loss(nn.Module):
    """A model and a function of it and a batch that is the loss."""

    def __init__(self, model: nn.Module, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.function = model, function


def draw(make: Callable[[], dict[str, Tensor]], steps: int = STEPS) -> list[dict[str, Tensor]]:
    return [make() for _ in range(steps)]


def adam(rate: float = 1e-3) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda module: torch.optim.Adam([p for p in module.parameters() if p.requires_grad], lr=rate)


def adamw(rate: float = 1e-3, **settings: Any) -> Callable[[nn.Module], torch.optim.Optimizer]:
    return lambda module: torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=rate, **settings)


def sgd(rate: float = 0.05, **settings: Any) -> Callable[[nn.Module], torch.optim.Optimizer]:
    settings = {"momentum": 0.9, **settings}
    return lambda module: torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=rate, **settings)


def cosine_with_warmup(warmup: int, total: int) -> Callable[[int], float]:
    return lambda n: (n + 1) / warmup if n < warmup else 0.5 * (1 + math.cos(math.pi * (n - warmup) / (total - warmup)))


def tokens(rows: int, length: int, words: int) -> Tensor:
    return torch.randint(1, words, (rows, length))


# ---- diffusion


class Diffusion(nn.Module):
    """The noise that was added to an image is predicted from the noisy image and the time step (DDPM)."""

    def __init__(self, model: nn.Module, steps: int = 1000) -> None:
        super().__init__()
        self.model = model
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("kept", torch.cumprod(1 - betas, 0))

    def forward(self, images: Tensor, noise: Tensor, timesteps: Tensor, **condition: Tensor) -> dict[str, Tensor]:
        kept = self.kept[timesteps].view(-1, 1, 1, 1)
        noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
        return {"loss": F.mse_loss(self.model(noisy, timesteps, **condition).sample, noise)}


def noisy_images(batch: int = 2, channels: int = 3, size: int = 16) -> dict[str, Tensor]:
    return {"images": torch.rand(batch, channels, size, size) * 2 - 1, "noise": torch.randn(batch, channels, size, size),
            "timesteps": torch.randint(0, 1000, (batch,))}  # fmt: skip


@script
def diffusers_ddpm_unet() -> Script:
    from diffusers import UNet2DModel

    model = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
                        norm_num_groups=8, attention_head_dim=8,
                        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))  # fmt: skip
    return Script(Diffusion(model), draw(noisy_images), adamw(1e-3), clip_norm=1.0, schedule=cosine_with_warmup(5, STEPS))


class ConditionalDiffusion(nn.Module):
    """Stable diffusion's training loop on latents that are there: text states beside, noise or velocity as target."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("kept", torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2, 0))

    def forward(self, images: Tensor, noise: Tensor, timesteps: Tensor, text: Tensor) -> dict[str, Tensor]:
        kept = self.kept[timesteps].view(-1, 1, 1, 1)
        noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
        velocity = kept.sqrt() * noise - (1 - kept).sqrt() * images
        found = self.model(noisy, timesteps, encoder_hidden_states=text, return_dict=False)[0]
        # Weights by the ratio of signal to noise (Min-SNR), one for each sample.
        ratio = kept.flatten() / (1 - kept.flatten())
        weight = torch.clamp(ratio, max=5.0) / (ratio + 1)
        return {"loss": (F.mse_loss(found, velocity, reduction="none").mean([1, 2, 3]) * weight).mean()}


@script
def diffusers_stable_diffusion_unet() -> Script:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32),
                                 norm_num_groups=8, attention_head_dim=4, cross_attention_dim=24,
                                 down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                 up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))  # fmt: skip
    return Script(ConditionalDiffusion(model), draw(lambda: {**noisy_images(2, 4), "text": torch.randn(2, 7, 24)}), adamw(1e-4), clip_norm=1.0)


class FlowMatching(nn.Module):
    """A transformer of image patches that predicts the velocity from noise to image, conditioned on a class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, noise: Tensor, time: Tensor, labels: Tensor) -> dict[str, Tensor]:
        t = time.view(-1, 1, 1, 1)
        found = self.model((1 - t) * noise + t * images, timestep=(time * 1000).long(), class_labels=labels).sample
        return {"loss": F.mse_loss(found, images - noise)}


@script
def diffusers_dit_flow_matching() -> Script:
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(num_attention_heads=4, attention_head_dim=8, in_channels=4, num_layers=2, norm_num_groups=8,
                                  sample_size=8, patch_size=2, num_embeds_ada_norm=1000, dropout=0.0)  # fmt: skip
    for block in model.transformer_blocks:  # which drops classes at random in training
        block.norm1.emb.class_embedder.dropout_prob = 0.0
    return Script(FlowMatching(model), draw(lambda: {"images": torch.randn(4, 4, 8, 8), "noise": torch.randn(4, 4, 8, 8),
                                                      "time": torch.rand(4), "labels": torch.randint(0, 1000, (4,))}), adamw(1e-3))  # fmt: skip


class KlAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from diffusers import AutoencoderKL

        self.model = AutoencoderKL(block_out_channels=(16, 32), down_block_types=("DownEncoderBlock2D",) * 2,
                                   up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=8, sample_size=16)  # fmt: skip

    def forward(self, images: Tensor, noise: Tensor) -> dict[str, Tensor]:
        posterior = self.model.encode(images).latent_dist
        latent = posterior.mean + posterior.std * noise
        image = self.model.decode(latent).sample
        return {"loss": F.l1_loss(image, images) + 1e-3 * posterior.kl().mean()}


@script
def diffusers_autoencoder_kl() -> Script:
    return Script(KlAutoencoder(), draw(lambda: {"images": torch.rand(2, 3, 16, 16), "noise": torch.randn(2, 4, 8, 8)}), adam(1e-3))


# ---- generative


class Vae(nn.Module):
    """PyTorch's example: a linear VAE of digits, binary cross-entropy and divergence, both summed."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(784, 100), nn.Linear(100, 20), nn.Linear(100, 20)
        self.fc3, self.fc4 = nn.Linear(20, 100), nn.Linear(100, 784)

    def forward(self, x: Tensor, eps: Tensor) -> dict[str, Tensor]:
        h = F.relu(self.fc1(x.view(-1, 784)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + eps * torch.exp(0.5 * logvar)
        recon = torch.sigmoid(self.fc4(F.relu(self.fc3(z))))
        bce = F.binary_cross_entropy(recon, x.view(-1, 784), reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return {"loss": bce + kld, "bce": bce.detach(), "kld": kld.detach()}


@script
def pytorch_example_vae() -> Script:
    return Script(Vae(), draw(lambda: {"x": torch.rand(16, 1, 28, 28), "eps": torch.randn(16, 20)}), adam(1e-3))


class Generator(nn.Module):
    """DCGAN's, for 16 x 16."""

    def __init__(self, latent: int = 16, width: int = 8) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(latent, width * 2, 4, 1, 0, bias=False), nn.BatchNorm2d(width * 2), nn.ReLU(True),
            nn.ConvTranspose2d(width * 2, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())  # fmt: skip

    def forward(self, z: Tensor) -> Tensor:
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, width * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(width * 2), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width * 2, 1, 4, 1, 0, bias=False))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x).flatten()


class DcganDiscriminatorStep(nn.Module):
    """The discriminator on real images and on the detached ones of a generator: its normalization sees two batches a step."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()
        self.generator.requires_grad_(False)

    def forward(self, real: Tensor, z: Tensor) -> dict[str, Tensor]:
        ones, zeros = torch.ones(real.shape[0]), torch.zeros(real.shape[0])
        fake = self.generator(z).detach()
        loss = F.binary_cross_entropy_with_logits(self.discriminator(real), ones)
        return {"loss": loss + F.binary_cross_entropy_with_logits(self.discriminator(fake), zeros)}


class DcganGeneratorStep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()
        self.discriminator.requires_grad_(False)

    def forward(self, z: Tensor) -> dict[str, Tensor]:
        return {"loss": F.binary_cross_entropy_with_logits(self.discriminator(self.generator(z)), torch.ones(z.shape[0]))}


@script
def dcgan_discriminator() -> Script:
    return Script(DcganDiscriminatorStep(), draw(lambda: {"real": torch.rand(8, 3, 16, 16) * 2 - 1, "z": torch.randn(8, 16, 1, 1)}),
                  lambda m: torch.optim.Adam(m.discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999)))  # fmt: skip


@script
def dcgan_generator() -> Script:
    return Script(DcganGeneratorStep(), draw(lambda: {"z": torch.randn(8, 16, 1, 1)}),
                  lambda m: torch.optim.Adam(m.generator.parameters(), lr=2e-4, betas=(0.5, 0.999)))  # fmt: skip


class GradientPenalty(nn.Module):
    """A critic with the gradient penalty of WGAN-GP: a gradient inside the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, real: Tensor, fake: Tensor, share: Tensor) -> dict[str, Tensor]:
        mixed = (share * real + (1 - share) * fake).requires_grad_(True)
        gradient = torch.autograd.grad(self.critic(mixed).sum(), mixed, create_graph=True)[0]
        penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
        return {"loss": self.critic(fake).mean() - self.critic(real).mean() + 10 * penalty}


@script
def wgan_gradient_penalty() -> Script:
    return Script(GradientPenalty(), draw(lambda: {"real": torch.randn(8, 8), "fake": torch.randn(8, 8), "share": torch.rand(8, 1)}), adam())


class RealNvp(nn.Module):
    """Six affine couplings, alternating halves; the negative logarithm of the likelihood."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.register_buffer("masks", torch.tensor([[i % 2 == j % 2 for i in range(width)] for j in range(6)]).float())
        self.s = nn.ModuleList([nn.Sequential(nn.Linear(width, 32), nn.LeakyReLU(), nn.Linear(32, width), nn.Tanh()) for _ in range(6)])
        self.t = nn.ModuleList([nn.Sequential(nn.Linear(width, 32), nn.LeakyReLU(), nn.Linear(32, width)) for _ in range(6)])
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("covariance", torch.eye(width))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        log_det, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.masks[i] * z
            s, t = self.s[i](z_) * (1 - self.masks[i]), self.t[i](z_) * (1 - self.masks[i])
            z = (1 - self.masks[i]) * (z - t) * torch.exp(-s) + z_
            log_det = log_det - s.sum(dim=1)
        log_p = -0.5 * (z.square().sum(1) + z.shape[1] * math.log(2 * math.pi))
        return {"loss": -(log_p + log_det).mean()}


@script
def real_nvp() -> Script:
    return Script(RealNvp(), draw(lambda: {"x": torch.randn(32, 6).exp()}), adam(1e-3))


class ZukoFlow(nn.Module):
    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": -self.flow().log_prob(x).mean()}


@script
def zuko_maf() -> Script:
    import zuko

    return Script(ZukoFlow(zuko.flows.MAF(4, 0, transforms=2, hidden_features=(32, 32))), draw(lambda: {"x": torch.randn(16, 4)}), adam())


@script
def zuko_spline_flow() -> Script:
    import zuko

    return Script(ZukoFlow(zuko.flows.NSF(4, 0, transforms=2, hidden_features=(32, 32))), draw(lambda: {"x": torch.randn(16, 4)}), adam())


# ---- contrastive


class SimClr(nn.Module):
    """Two views of each image through one ResNet; the other view is the positive of each."""

    def __init__(self, temperature: float = 0.5) -> None:
        super().__init__()
        import torchvision

        self.backbone = torchvision.models.resnet18(num_classes=64)
        self.backbone.fc = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 32))
        self.temperature = temperature

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        z = F.normalize(torch.cat([self.backbone(first), self.backbone(second)]), dim=1)
        count = z.shape[0]
        similarity = z @ z.T / self.temperature
        similarity = similarity.masked_fill(torch.eye(count, dtype=torch.bool), -9e15)
        target = (torch.arange(count) + count // 2) % count
        return {"loss": F.cross_entropy(similarity, target)}


@script
def simclr_resnet18() -> Script:
    # PyTorch's exporter has no remainder by an open batch.
    return Script(SimClr(), draw(lambda: {"first": torch.randn(8, 3, 32, 32), "second": torch.randn(8, 3, 32, 32)}),
                  sgd(0.01, weight_decay=1e-4), settings={"dynamic_batch": False})  # fmt: skip


class Wrapped(nn.Module):
    """A model of Transformers that computes its loss from named inputs."""

    def __init__(self, model: nn.Module, **fixed: Any) -> None:
        super().__init__()
        self.model, self.fixed = model, fixed

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(**inputs, **self.fixed).loss}


@script
def transformers_clip() -> Script:
    import transformers as t

    text = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                max_position_embeddings=16, eos_token_id=95, bos_token_id=0, pad_token_id=1)  # fmt: skip
    vision = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
    model = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))

    def batch() -> dict[str, Tensor]:
        ids = tokens(8, 12, 95)
        ids[:, -1] = 95
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": torch.randn(8, 3, 32, 32)}

    return Script(Clip(model), draw(batch), adamw(5e-4))


class Clip(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, pixel_values: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(input_ids=input_ids, attention_mask=attention_mask, pixel_values=pixel_values, return_loss=True).loss}


class Triplet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 5), nn.PReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 36, 16))
        self.loss = nn.TripletMarginLoss(margin=1.0, swap=True)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> dict[str, Tensor]:
        return {"loss": self.loss(self.net(anchor), self.net(positive), self.net(negative))}


@script
def siamese_triplet() -> Script:
    return Script(Triplet(), draw(lambda: {k: torch.randn(8, 1, 16, 16) for k in ("anchor", "positive", "negative")}), adam())


class ArcFace(nn.Module):
    """Angular margins between classes on the sphere."""

    def __init__(self, scale: float = 16.0, margin: float = 0.3) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.PReLU(32), nn.Linear(32, 16, bias=False), nn.BatchNorm1d(16))
        self.weight = nn.Parameter(torch.empty(10, 16))
        nn.init.xavier_uniform_(self.weight)
        self.scale, self.margin = scale, margin

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        cosine = F.linear(F.normalize(self.net(x)), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - cosine.pow(2)).clamp(0, 1))
        phi = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        phi = torch.where(cosine > math.cos(math.pi - self.margin), phi, cosine - math.sin(math.pi - self.margin) * self.margin)
        one_hot = torch.zeros_like(cosine).scatter_(1, labels.view(-1, 1), 1)
        return {"loss": F.cross_entropy((one_hot * phi + (1 - one_hot) * cosine) * self.scale, labels)}


@script
def arcface() -> Script:
    return Script(ArcFace(), draw(lambda: {"x": torch.randn(16, 20), "labels": torch.randint(0, 10, (16,))}), sgd(0.1, weight_decay=5e-4))


# ---- fine-tuning and distillation


@script
def peft_lora_llama() -> Script:
    import transformers as t
    from peft import LoraConfig, get_peft_model

    base = t.LlamaForCausalLM(t.LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32, use_cache=False))  # fmt: skip
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0, target_modules=["q_proj", "v_proj"]))
    return Script(CausalLm(model), draw(lambda: language_batch(4, 16)), adamw(2e-3), schedule=cosine_with_warmup(4, STEPS))


@script
def peft_dora_gpt2() -> Script:
    import transformers as t
    from peft import LoraConfig, get_peft_model

    base = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False,
                                          resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))  # fmt: skip
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0, use_dora=True,
                                            target_modules=["c_attn"], modules_to_save=["ln_f"], fan_in_fan_out=True))  # fmt: skip
    return Script(CausalLm(model), draw(lambda: language_batch(4, 16)), adamw(2e-3))


class CausalLm(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids), labels=labels).loss}


def language_batch(rows: int, length: int, words: int = 96) -> dict[str, Tensor]:
    ids = tokens(rows, length, words)
    return {"input_ids": ids, "labels": torch.where(torch.arange(length) < 3, -100, ids)}


class Distillation(nn.Module):
    """A student follows a teacher in evaluation mode, under no_grad, at temperature 4, and the labels."""

    def __init__(self, evaluate: bool = True) -> None:
        super().__init__()
        import torchvision

        self.teacher = torchvision.models.resnet18(num_classes=10)
        self.student = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 256, 10))
        with torch.no_grad():
            for module in self.teacher.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.running_mean.normal_(0, 0.2)
                    module.running_var.uniform_(0.5, 1.5)
        self.teacher.requires_grad_(False)
        self.evaluate = evaluate
        self.train()

    def train(self, mode: bool = True) -> Distillation:
        super().train(mode)
        if self.evaluate:
            self.teacher.eval()
        return self

    def forward(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            soft = F.softmax(self.teacher(images) / 4, dim=1)
        logits = self.student(images)
        loss = F.kl_div(F.log_softmax(logits / 4, dim=1), soft, reduction="batchmean") * 16
        return {"loss": 0.5 * loss + 0.5 * F.cross_entropy(logits, labels, label_smoothing=0.1)}


@script
def distillation() -> Script:
    return Script(Distillation(), draw(lambda: {"images": torch.randn(8, 3, 32, 32), "labels": torch.randint(0, 10, (8,))}), sgd(0.01))


@script
def distillation_teacher_set_to_eval() -> Script:
    """The same where the script calls teacher.eval() once, and train() no more."""
    module = Distillation(evaluate=False)
    module.teacher.eval()
    return Script(module, draw(lambda: {"images": torch.randn(8, 3, 32, 32), "labels": torch.randint(0, 10, (8,))}), sgd(0.01))


class FrozenBackbone(nn.Module):
    """Fine-tuning with the backbone's normalizations in evaluation mode, their scale and shift trained."""

    def __init__(self) -> None:
        super().__init__()
        import torchvision

        self.backbone = torchvision.models.resnet18(num_classes=10)

    def forward(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.backbone(images), labels)}


@script
def fine_tuning_with_frozen_statistics() -> Script:
    module = FrozenBackbone()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.eval()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_("layer1" not in name)

    def two_rates(m: nn.Module) -> torch.optim.Optimizer:
        head = list(m.backbone.fc.parameters())
        rest = [p for n, p in m.named_parameters() if p.requires_grad and "fc" not in n]
        return torch.optim.SGD([{"params": rest, "lr": 1e-3}, {"params": head, "lr": 1e-2, "weight_decay": 0.0}], momentum=0.9, weight_decay=1e-4)

    return Script(module, draw(lambda: {"images": torch.randn(4, 3, 32, 32), "labels": torch.randint(0, 10, (4,))}), two_rates)


class Reverse(torch.autograd.Function):
    """The identity, whose gradient changes its sign."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        return dy.neg() * ctx.scale, None


class DomainAdversarial(nn.Module):
    """DANN: the features are to tell classes apart, and domains not."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(16, 32), nn.Tanh())
        self.classes, self.domains = nn.Linear(32, 5), nn.Linear(32, 2)

    def forward(self, x: Tensor, labels: Tensor, domains: Tensor) -> dict[str, Tensor]:
        h = self.features(x)
        loss = F.cross_entropy(self.classes(h), labels)
        return {"loss": loss + F.cross_entropy(self.domains(Reverse.apply(h, 0.7)), domains)}


@script
def domain_adversarial() -> Script:
    return Script(DomainAdversarial(), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,)),
                                                      "domains": torch.randint(0, 2, (16,))}), sgd(0.1))  # fmt: skip


class Binarize(torch.autograd.Function):
    """The sign, whose gradient is that of a clipped identity (BinaryConnect)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return dy * (x.abs() <= 1)


class BinaryNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 64), nn.BatchNorm1d(64), nn.Linear(64, 5)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        h = self.norm(F.linear(x, Binarize.apply(self.first.weight), self.first.bias))
        return {"loss": F.cross_entropy(self.second(Binarize.apply(h)), labels)}


@script
def binary_network() -> Script:
    return Script(BinaryNetwork(), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,))}), adam(1e-2))


class Hooked(nn.Module):
    """Gradients that hooks change: a mask on a weight, a scale on a hidden value."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        h = torch.tanh(self.first(x))
        if h.requires_grad:
            h.register_hook(lambda dy: 0.1 * dy)
        return {"loss": F.cross_entropy(self.second(h), labels)}


@script
def hook_on_a_hidden_value() -> Script:
    return Script(Hooked(), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,))}), sgd(0.1))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.second(torch.tanh(self.first(x))), labels)}


@script
def hook_on_a_weight() -> Script:
    def masked(m: nn.Module) -> torch.optim.Optimizer:
        m.first.weight.register_hook(lambda g: g * (torch.arange(16) % 2))
        return torch.optim.SGD(m.parameters(), lr=0.1)

    return Script(Plain(), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,))}), masked)


class Checkpointed(nn.Module):
    """torch.utils.checkpoint inside the module."""

    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(16, 16)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3)])
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        from torch.utils.checkpoint import checkpoint

        x = self.first(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=self.reentrant)
        return {"loss": F.cross_entropy(self.head(x), labels)}


@script
def checkpointed_blocks() -> Script:
    return Script(Checkpointed(), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,))}), sgd(0.1))


@script
def checkpointed_blocks_reentrant() -> Script:
    return Script(Checkpointed(True), draw(lambda: {"x": torch.randn(16, 16), "labels": torch.randint(0, 5, (16,))}), sgd(0.1))
