"""The models of the zoo: how each is built, what it is fed, what its loss reads.

Every model is built from its library's own definition with random weights. What is random in training (dropout,
stochastic depth) is switched off, so that a run has one right answer; batch normalization trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import Tensor, nn

CLASSES = 10


@dataclass
class Case:
    """A model with one batch: `inputs` by name, `target` as the cross-entropy reads it, classes at `class_axis`.

    Without a target the module's output is its own loss.
    """

    module: nn.Module
    inputs: dict[str, Tensor]
    target: Tensor | None
    class_axis: int = 1


class Output(nn.Module):
    """A model whose forward gives a dictionary or a dataclass, reduced to one tensor of it."""

    def __init__(self, model: nn.Module, key: str, names: list[str]) -> None:
        super().__init__()
        self.model, self.key, self.names = model, key, names

    def forward(self, *tensors: Tensor) -> Tensor:
        if self.names:
            return self.model(**dict(zip(self.names, tensors)))[self.key]
        return self.model(*tensors)[self.key]


def images(batch: int, size: int, channels: int = 3) -> dict[str, Tensor]:
    return {"pixels": torch.randn(batch, channels, size, size)}


def classifier(module: nn.Module, batch: int, size: int, classes: int = CLASSES) -> Case:
    return Case(module, images(batch, size), torch.randint(0, classes, (batch,)))


# ---- torchvision


def torchvision_classifier(name: str, size: int = 64, batch: int = 4, **settings: Any) -> Callable[[], Case]:
    def build() -> Case:
        import torchvision

        return classifier(torchvision.models.get_model(name, num_classes=CLASSES, **settings), batch, size)

    return build


def torchvision_segmenter(name: str, size: int = 64, batch: int = 2) -> Callable[[], Case]:
    def build() -> Case:
        import torchvision

        model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=CLASSES)
        target = torch.randint(0, CLASSES, (batch, size, size))
        return Case(Output(model, "out", []), images(batch, size), target)

    return build


def torchvision_video(name: str) -> Callable[[], Case]:
    def build() -> Case:
        import torchvision

        clips = {"clip": torch.randn(2, 3, 4, 48, 48)}
        return Case(torchvision.models.get_model(name, num_classes=CLASSES), clips, torch.randint(0, CLASSES, (2,)))

    return build


# Settings and image sizes that differ from the common ones. The legacy exporter writes the adaptive pooling of AlexNet
# and VGG only at the size that they were made for.
TORCHVISION: dict[str, dict[str, Any]] = {
    "alexnet": {"size": 224},
    **{f"vgg{depth}{norm}": {"size": 224, "batch": 2} for depth in (11, 13, 16, 19) for norm in ("", "_bn")},
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False, "size": 96},
    **{name: {"image_size": 64} for name in ("vit_b_16", "vit_b_32")},
}
TORCHVISION_SEGMENTATION = [
    "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet101", "deeplabv3_resnet50", "fcn_resnet101", "fcn_resnet50",
    "lraspp_mobilenet_v3_large",
]  # fmt: skip
TORCHVISION_VIDEO = ["mc3_18", "r2plus1d_18", "r3d_18"]


def shallow_vit(patch: int, heads: int, width: int, size: int) -> Callable[[], Case]:
    """A vision transformer of a size whose full depth does not fit beside PyTorch's copies, two layers deep."""

    def build() -> Case:
        from torchvision.models.vision_transformer import VisionTransformer

        return classifier(VisionTransformer(size, patch, 2, heads, width, 4 * width, num_classes=CLASSES), 4, size)

    return build


def shallow_convnext() -> Case:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    stages = [CNBlockConfig(192, 384, 1), CNBlockConfig(384, 768, 1), CNBlockConfig(768, 1536, 1), CNBlockConfig(1536, None, 1)]
    return classifier(ConvNeXt(stages, num_classes=CLASSES), 4, 64)


def shallow_regnet() -> Case:
    from torchvision.models.regnet import BlockParams, RegNet

    params = BlockParams.from_init_params(depth=27, w_0=456, w_a=160.83, w_m=2.52, group_width=264, se_ratio=0.25)
    params.depths = [1] * len(params.depths)
    return classifier(RegNet(params, num_classes=CLASSES), 4, 64)


def small_maxvit() -> Case:
    from torchvision.models.maxvit import MaxVit

    return classifier(MaxVit((64, 64), 64, 2, [64, 128, 256, 512], [2, 2, 5, 2], 32, 0.0, num_classes=CLASSES), 4, 64)


# Models of more than 150 million parameters at their full width, but with fewer layers, and one of a fixed image size.
CHANGED: dict[str, tuple[str, Callable[[], Case]]] = {
    "torchvision/maxvit_t": ("partitions of 2 x 2", small_maxvit),
    "torchvision/convnext_large": ("1 block of each stage", shallow_convnext),
    "torchvision/regnet_y_128gf": ("1 block of each stage", shallow_regnet),
    "torchvision/vit_h_14": ("2 of 32 layers", shallow_vit(14, 16, 1280, 56)),
    "torchvision/vit_l_16": ("2 of 24 layers", shallow_vit(16, 16, 1024, 64)),
    "torchvision/vit_l_32": ("2 of 24 layers", shallow_vit(32, 16, 1024, 64)),
}

# ---- timm, one of each family or kind; with the size of its images and its settings where they differ

TIMM: dict[str, dict[str, Any]] = {
    "cait_xxs24_224": {"img_size": 64},
    "convmixer_768_32": {},
    "convnextv2_atto": {},
    "cspresnet50": {},
    "deit_tiny_patch16_224": {"img_size": 64},
    "dla34": {},
    "edgenext_xx_small": {},
    "efficientformer_l1": {"size": 224},
    "efficientnet_lite0": {},
    "ese_vovnet19b_dw": {},
    "ghostnet_100": {},
    "hrnet_w18_small": {},
    "inception_next_atto": {},
    "levit_128s": {"img_size": 128},
    "mambaout_femto": {},
    "mixer_s32_224": {"img_size": 64},
    "mnasnet_small": {},
    "mobilenetv3_small_050": {},
    "mobilevit_xxs": {},
    "nfnet_l0": {},
    "pit_ti_224": {"img_size": 64},
    "poolformer_s12": {},
    "pvt_v2_b0": {},
    "regnetx_002": {},
    "repvgg_a0": {},
    "repvit_m0_9": {},
    "res2net50_26w_4s": {},
    "resmlp_12_224": {"img_size": 64},
    "resnest14d": {},
    "resnet50_gn": {},
    "resnet50d": {},
    "resnetv2_50": {},
    "rexnet_100": {},
    "selecsls42": {},
    "seresnet50": {},
    "skresnet18": {},
    "swin_tiny_patch4_window7_224": {"img_size": 112},
    "twins_pcpvt_small": {"img_size": 64},
    "visformer_tiny": {"img_size": 64},
    "xcit_nano_12_p16_224": {"img_size": 64},
}


def timm_classifier(name: str, size: int = 64, **settings: Any) -> Callable[[], Case]:
    def build() -> Case:
        import timm

        pixels = settings.get("img_size", size)
        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **settings)
        return classifier(model, 2 if pixels > 112 else 4, pixels)

    return build


# ---- Hugging Face Transformers, small configurations


def tokens(batch: int, length: int, vocabulary: int) -> Tensor:
    """Without the token 0, which pads: no gradient flows to its embedding in PyTorch, and legacy files do not say so."""
    return torch.randint(1, vocabulary, (batch, length))


def language_model(make: Callable[[Any], nn.Module], vocabulary: int = 96, batch: int = 2, length: int = 16) -> Callable[[], Case]:
    """Predicts each position's next token."""

    def build() -> Case:
        import transformers

        ids = tokens(batch, length + 1, vocabulary)
        inputs = {"input_ids": ids[:, :-1].contiguous(), "attention_mask": torch.ones(batch, length, dtype=torch.int64)}
        return Case(Output(make(transformers), "logits", list(inputs)), inputs, ids[:, 1:].contiguous(), class_axis=-1)

    return build


def own_loss(make: Callable[[Any], nn.Module], labels: Callable[[Tensor], Tensor]) -> Callable[[], Case]:
    """A model that takes the labels and computes its loss itself."""

    def build() -> Case:
        import transformers

        ids = tokens(2, 16, 96)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels(ids)}
        return Case(Output(make(transformers), "loss", list(inputs)), inputs, None)

    return build


def gpt2(t: Any) -> nn.Module:
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False))


def llama(t: Any) -> nn.Module:
    return t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False))  # fmt: skip


def bert_classifier(t: Any) -> nn.Module:
    return t.BertForSequenceClassification(t.BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, num_labels=CLASSES))  # fmt: skip


def masked_bert(t: Any) -> nn.Module:
    return t.BertForMaskedLM(t.BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32))  # fmt: skip


def masked_labels(ids: Tensor) -> Tensor:
    """Every third token is to be predicted; the rest is left out of the loss by its label of -100."""
    return torch.where(torch.arange(ids.shape[1]) % 3 == 0, ids, -100)


def bert() -> Case:
    import transformers as t

    model = bert_classifier(t)
    mask = torch.ones(4, 16, dtype=torch.int64)
    mask[1, 10:] = 0
    names = ["input_ids", "attention_mask"]
    return Case(Output(model, "logits", names), {"input_ids": tokens(4, 16, 96), "attention_mask": mask},
                torch.randint(0, CLASSES, (4,)))  # fmt: skip


def t5() -> Case:
    import transformers as t

    model = t.T5ForConditionalGeneration(t.T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0,
        attn_implementation="eager"))  # fmt: skip
    ids = tokens(2, 17, 96)
    inputs = {"input_ids": tokens(2, 12, 96), "decoder_input_ids": ids[:, :-1].contiguous()}
    return Case(Output(model, "logits", list(inputs)), inputs, ids[:, 1:].contiguous(), class_axis=-1)


def vit() -> Case:
    import transformers as t

    model = t.ViTForImageClassification(t.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
        num_labels=CLASSES))  # fmt: skip
    return Case(Output(model, "logits", []), images(4, 32), torch.randint(0, CLASSES, (4,)))


class WhisperLike(nn.Module):
    """The encoder of a small Whisper over a spectrogram, its mean classified."""

    def __init__(self) -> None:
        super().__init__()
        import transformers as t
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        self.encoder = WhisperEncoder(t.WhisperConfig(
            d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64, max_source_positions=16,
            num_mel_bins=20))  # fmt: skip
        self.head = nn.Linear(32, CLASSES)

    def forward(self, spectrogram: Tensor) -> Tensor:
        return self.head(self.encoder(spectrogram).last_hidden_state.mean(1))


def whisper() -> Case:
    return Case(WhisperLike(), {"spectrogram": torch.randn(2, 20, 32)}, torch.randint(0, CLASSES, (2,)))


# ---- modules of PyTorch itself


class Recurrent(nn.Module):
    """Two layers of a recurrent module, in both directions, whose last outputs are classified."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layers = kind(8, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, signal: Tensor) -> Tensor:
        return self.head(self.layers(signal)[0][:, -1])


def recurrent(kind: type[nn.Module]) -> Callable[[], Case]:
    return lambda: Case(Recurrent(kind), {"signal": torch.randn(4, 12, 8)}, torch.randint(0, CLASSES, (4,)))


class UNet(nn.Module):
    """A U-Net of three levels: convolutions with batch normalization, transposed convolutions up, the level's own images beside."""

    def __init__(self, widths: tuple[int, int, int] = (8, 16, 32)) -> None:
        super().__init__()
        first, second, third = widths
        self.down = nn.ModuleList([self.block(3, first), self.block(first, second), self.block(second, third)])
        self.raise_to = nn.ModuleList([nn.ConvTranspose2d(third, second, 2, stride=2), nn.ConvTranspose2d(second, first, 2, stride=2)])
        self.up = nn.ModuleList([self.block(2 * second, second), self.block(2 * first, first)])
        self.head = nn.Conv2d(first, CLASSES, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        layers = [(nn.Conv2d(n, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()) for n in (inputs, outputs)]
        return nn.Sequential(*(module for layer in layers for module in layer))

    def forward(self, pixels: Tensor) -> Tensor:
        levels = []
        for block in self.down:
            pixels = block(nn.functional.max_pool2d(pixels, 2) if levels else pixels)
            levels.append(pixels)
        for raise_to, block, level in zip(self.raise_to, self.up, levels[1::-1]):
            pixels = block(torch.cat([level, raise_to(pixels)], 1))
        return self.head(pixels)


def unet() -> Case:
    return Case(UNet(), images(2, 32), torch.randint(0, CLASSES, (2, 32, 32)))


def all_cases() -> dict[str, Callable[[], Case]]:
    """Name -> builder, by library, in the order of the table."""
    import torchvision

    cases: dict[str, Callable[[], Case]] = {}
    for name in torchvision.models.list_models(torchvision.models):
        cases[f"torchvision/{name}"] = torchvision_classifier(name, **TORCHVISION.get(name, {}))
    cases |= {name: build for name, (_, build) in CHANGED.items()}
    for name in TORCHVISION_SEGMENTATION:
        cases[f"torchvision/{name}"] = torchvision_segmenter(name)
    for name in TORCHVISION_VIDEO:
        cases[f"torchvision/{name}"] = torchvision_video(name)
    for name, settings in TIMM.items():
        cases[f"timm/{name}"] = timm_classifier(name, **settings)
    cases |= {
        "transformers/gpt2": language_model(gpt2), "transformers/gpt2_own_loss": own_loss(gpt2, lambda ids: ids.clone()),
        "transformers/llama": language_model(llama), "transformers/bert": bert,
        "transformers/bert_own_loss": own_loss(masked_bert, masked_labels), "transformers/t5": t5,
        "transformers/vit": vit, "transformers/whisper_encoder": whisper,
        "torch/lstm": recurrent(nn.LSTM), "torch/gru": recurrent(nn.GRU), "torch/unet": unet,
    }  # fmt: skip
    return cases


def switch_off_randomness(module: nn.Module) -> None:
    """Dropout and stochastic depth in every spelling of the three libraries."""
    for part in module.modules():
        name = type(part).__name__
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = 0.0
        elif name == "StochasticDepth":
            part.p = 0.0
        elif name == "DropPath":
            part.drop_prob = 0.0
        for attribute in ("dropout", "attention_dropout", "activation_dropout", "layerdrop", "dropout_p"):
            if isinstance(getattr(part, attribute, None), float):
                setattr(part, attribute, 0.0)
