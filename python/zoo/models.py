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
    """A model with one batch: `inputs` by name, `target` as the cross-entropy reads it, classes at `class_axis`."""

    module: nn.Module
    inputs: dict[str, Tensor]
    target: Tensor
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


# Settings and image sizes that differ from the common ones; the batch is smaller where a model is large.
TORCHVISION: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"aux_logits": False, "init_weights": False, "size": 96},
    "maxvit_t": {"size": 64, "input_size": (64, 64), "partition_size": 2, "batch": 2},
    **{name: {"size": 64, "image_size": 64} for name in ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32")},
    "vit_h_14": {"size": 56, "image_size": 56},
}
TORCHVISION_SEGMENTATION = [
    "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet101", "deeplabv3_resnet50", "fcn_resnet101", "fcn_resnet50",
    "lraspp_mobilenet_v3_large",
]  # fmt: skip

# ---- timm

TIMM = [
    "cait_xxs24_224", "convnextv2_atto", "deit_tiny_patch16_224", "efficientnet_lite0", "ese_vovnet19b_dw", "ghostnet_100",
    "hrnet_w18_small", "levit_128s", "mixer_s32_224", "mobilenetv3_small_050", "mobilevit_xxs", "nfnet_l0", "poolformer_s12",
    "pvt_v2_b0", "regnetx_002", "res2net50_26w_4s", "resmlp_12_224", "resnet50d", "seresnet50",
    "swin_tiny_patch4_window7_224",
]  # fmt: skip
# Those that take the size of the image when they are built.
TIMM_SIZES = {"deit_tiny_patch16_224": 64, "swin_tiny_patch4_window7_224": 112, "mixer_s32_224": 224, "resmlp_12_224": 224,
              "cait_xxs24_224": 64, "levit_128s": 224}  # fmt: skip
TIMM_TAKES_SIZE = {"deit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "cait_xxs24_224"}


def timm_classifier(name: str) -> Callable[[], Case]:
    def build() -> Case:
        import timm

        size = TIMM_SIZES.get(name, 64)
        settings = {"img_size": size} if name in TIMM_TAKES_SIZE else {}
        model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **settings)
        return classifier(model, 2 if size > 112 else 4, size)

    return build


# ---- Hugging Face Transformers, small configurations


def tokens(batch: int, length: int, vocabulary: int) -> Tensor:
    return torch.randint(0, vocabulary, (batch, length))


def language_model(make: Callable[[Any], nn.Module], vocabulary: int = 96, batch: int = 2, length: int = 16) -> Callable[[], Case]:
    """Predicts each position's next token."""

    def build() -> Case:
        import transformers

        ids = tokens(batch, length + 1, vocabulary)
        module = Output(make(transformers), "logits", ["input_ids"])
        return Case(module, {"input_ids": ids[:, :-1].contiguous()}, ids[:, 1:].contiguous(), class_axis=-1)

    return build


def gpt2(t: Any) -> nn.Module:
    return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False))


def llama(t: Any) -> nn.Module:
    return t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, use_cache=False))  # fmt: skip


def bert() -> Case:
    import transformers as t

    model = t.BertForSequenceClassification(t.BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, num_labels=CLASSES))  # fmt: skip
    mask = torch.ones(4, 16, dtype=torch.int64)
    mask[1, 10:] = 0
    names = ["input_ids", "attention_mask"]
    return Case(Output(model, "logits", names), {"input_ids": tokens(4, 16, 96), "attention_mask": mask},
                torch.randint(0, CLASSES, (4,)))  # fmt: skip


def t5() -> Case:
    import transformers as t

    model = t.T5ForConditionalGeneration(t.T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False, decoder_start_token_id=0))  # fmt: skip
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


def all_cases() -> dict[str, Callable[[], Case]]:
    """Name -> builder, by library, in the order of the table."""
    import torchvision

    cases: dict[str, Callable[[], Case]] = {}
    for name in torchvision.models.list_models(torchvision.models):
        cases[f"torchvision/{name}"] = torchvision_classifier(name, **TORCHVISION.get(name, {}))
    for name in TORCHVISION_SEGMENTATION:
        cases[f"torchvision/{name}"] = torchvision_segmenter(name)
    for name in TIMM:
        cases[f"timm/{name}"] = timm_classifier(name)
    cases |= {
        "transformers/gpt2": language_model(gpt2), "transformers/llama": language_model(llama), "transformers/bert": bert,
        "transformers/t5": t5, "transformers/vit": vit, "transformers/whisper_encoder": whisper,
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
