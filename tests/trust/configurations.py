"""Small configurations of the model families of Transformers, without weights.

A family is a type of configuration that has a model for one of the tasks below; its model is the first one's. The configuration is
the library's default with every size made smaller by what its field is called, and with nothing random in training. `case` builds a
family's module as its own loss, with one batch.
"""

import contextlib
import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Callable, Optional

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, ResNetConfig, TimmBackboneConfig
from transformers.models.auto import configuration_auto, modeling_auto

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/zoo"))
from models import Case, switch_off_randomness  # noqa: E402

BATCH, LENGTH, VOCABULARY, CLASSES = 2, 12, 61, 5
HEADS, HEAD, WIDTH = 4, 8, 32
ORDINARY = 20  # tokens from here on have no meaning of their own
LARGEST = 3_000_000  # parameters; what stays larger is not small

#: What a field of whole numbers becomes, by its name; the first pattern that is found counts. A size never grows.
SIZES: list[tuple[str, int]] = [
    (r"type_vocab|num_hidden_groups|inner_group_num|num_channels|in_channels|in_chans|kernel|stride|padding|num_labels|pipeline|eos|factor", 0),
    (r"vocab", VOCABULARY),
    (r"(per_tok|moe_topk|top_k|topk)$|experts_per_tok|moe_k$", 2),
    (r"^n_group$|topk_group|n_shared|num_shared|expert_group", 1),
    (r"(num|n|routed|local)_?(routed_|local_)?experts$|moe_num_experts", 4),
    (r"first_k_dense|dense_layers|full_attention_interval|_interval$|_step$|_freq$|_period$|_every$", 0),
    (r"layers$|n_layer$|num_layers|depth$|num_blocks$|n_blocks$|num_stages?_layers", 2),
    (r"(key_value|kv)_heads$|kv_n_heads|num_kv|head_kv$|multi_query_group", 2),
    (r"heads$|n_head$|head_count|num_attention_heads", HEADS),
    (r"rotary_dim", HEAD // 2),
    (r"head_dim$|head_size$|d_kv$|kv_channels|qk_dim|v_dim", HEAD),
    (r"lora_rank|_rank$|_rank_dim$", HEAD),
    (r"intermediate|ffn|inner|mlp_dim|mlp_hidden|feed_forward|feedforward|dim_ff", 2 * WIDTH),
    (r"max_source_positions", LENGTH),
    (r"position|max_seq|seq_len|seq_length|n_ctx|context_length|block_size|max_len", 64),
    (r"image_size|img_size|input_size|crop_size", WIDTH),
    (r"patch_size|tubelet|temporal_patch", HEAD),
    (r"window|chunk_size|local_attention|attention_block", HEAD),
    (r"mel_bins|feature_size|input_feat|input_dim$|num_features|n_mels", 16),
    (r"frames", 2),
    (r"quer(y|ies)|latents", HEAD),
    (r"hidden|embed|width|_dim$|^dim$|d_model|n_embd|_size$|channels|projection|features|d_state|state|_units$", WIDTH),
]  # fmt: skip

#: By task: the table of the library, what the model reads, and its labels.
TASKS: list[tuple[str, str]] = [
    ("MODEL_FOR_CAUSAL_LM", "tokens"), ("MODEL_FOR_MASKED_LM", "tokens"), ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM", "tokens"),
    ("MODEL_FOR_SEQUENCE_CLASSIFICATION", "class"), ("MODEL_FOR_TOKEN_CLASSIFICATION", "tokens"), ("MODEL_FOR_IMAGE_CLASSIFICATION", "class"),
    ("MODEL_FOR_SEMANTIC_SEGMENTATION", "map"), ("MODEL_FOR_AUDIO_CLASSIFICATION", "class"), ("MODEL_FOR_SPEECH_SEQ_2_SEQ", "tokens"),
    ("MODEL_FOR_CTC", "tokens"), ("MODEL_FOR_VIDEO_CLASSIFICATION", "class"), ("MODEL_FOR_DEPTH_ESTIMATION", ""), ("MODEL", ""),
]  # fmt: skip


#: Parameters that choose experts or tokens. Where one starts as zeros all candidates are equal, and PyTorch leaves open which of them topk takes.
CHOOSING = r"(router|gate)\.weight$|self_attn\.A$"
#: Families whose library makes the mask only where it is not exported.
MASKED = ("longt5",)
#: Families that choose among tokens, of which a sample holds none twice: equal ones would be equal candidates.
DISTINCT = ("doge",)


@dataclasses.dataclass(frozen=True)
class Family:
    name: str  # of the type of configuration
    model: str  # class
    labels: str

    def model_class(self) -> type:
        module = importlib.import_module(f"transformers.models.{configuration_auto.model_type_to_module_name(self.name)}")
        return getattr(module, self.model)


def families() -> dict[str, Family]:
    found: dict[str, Family] = {}
    for task, labels in TASKS:
        for name, models in getattr(modeling_auto, f"{task}_MAPPING_NAMES").items():
            if name in configuration_auto.CONFIG_MAPPING_NAMES:
                found.setdefault(name, Family(name, models if isinstance(models, str) else models[0], labels))
    return dict(sorted(found.items()))


def smaller_list(name: str, values: list) -> list:
    """Of sizes by stage: as many stages, widths that still grow."""
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values) or "out" in name or "kernel" in name or "stride" in name:
        return values
    if re.search(r"depth|layer|block|repeats", name):
        return [min(value, 1) for value in values]
    if re.search(r"heads", name):
        return [min(value, 2) for value in values]
    if re.search(r"hidden|embed|channels|width|dim|filters", name):
        grown = sorted(set(values))
        return [min(value, 16 * (1 + grown.index(value))) for value in values]
    return values


def smaller_field(name: str, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return False if name in ("use_cache", "apply_spec_augment") else value
    if isinstance(value, float):
        return 0.0 if re.search(r"drop|noise|jitter|mask_(time|feature)_prob", name) else value
    if isinstance(value, dict) and "mrope_section" in value:
        rest = len(value["mrope_section"]) - 1
        return {**value, "mrope_section": [HEAD // 2 - rest] + [1] * rest}
    if isinstance(value, (list, tuple)):
        return type(value)(smaller_list(name, list(value)))
    if isinstance(value, int) and not name.endswith(("_id", "_index", "_ids")):
        size = next((size for pattern, size in SIZES if re.search(pattern, name)), 0)
        return min(value, size) if size else value
    return value


def number_tokens(fields: dict[str, Any]) -> None:
    """Special tokens get the first numbers of the small vocabulary, each its own."""
    special = [name for name, value in fields.items() if name.endswith(("token_id", "token_index")) and isinstance(value, int) and value >= 0]
    for number, name in enumerate(sorted(special, key=lambda name: ("pad" not in name, name))):
        fields[name] = number


def kinds_of_layers(default: PreTrainedConfig) -> dict[str, Any]:
    """Where layers are of several kinds, one of each instead of two."""
    kinds = getattr(default, "layer_types", None)
    if not isinstance(kinds, (list, tuple)) or "layer_types" not in {field.name for field in dataclasses.fields(default)}:
        return {}
    kinds = list(dict.fromkeys(kinds))
    kinds *= 2 if len(kinds) == 1 else 1
    return {"layer_types": kinds, default.attribute_map.get("num_hidden_layers", "num_hidden_layers"): len(kinds)}


def small_backbone() -> PreTrainedConfig:
    """In the place of one of timm's, which are large."""
    return ResNetConfig(embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1] * 4, layer_type="basic", out_features=["stage4"])


def small_configuration(kind: type[PreTrainedConfig]) -> PreTrainedConfig:
    default = kind()
    plain = {field.name for field in dataclasses.fields(PreTrainedConfig)} - {"pad_token_id", "bos_token_id", "eos_token_id"}
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        held = getattr(default, field.name, None)
        if field.name in plain or field.name.startswith("_") or not field.init:
            continue
        if isinstance(held, TimmBackboneConfig):
            fields[field.name] = small_backbone()
        elif isinstance(held, PreTrainedConfig):
            fields[field.name] = small_configuration(type(held))
        elif field.default is not None or isinstance(held, dict):  # what is computed of the rest is computed anew
            fields[field.name] = smaller_field(field.name, held)
    number_tokens(fields)
    fields.update(kinds_of_layers(default))
    if getattr(default, "num_key_value_heads", None) == getattr(default, "num_attention_heads", 0) and "num_key_value_heads" in fields:
        fields["num_key_value_heads"] = HEADS
    changed = {name: value for name, value in fields.items() if value != getattr(default, name, None)}
    return kind(**changed)


def token_ids(vocabulary: int) -> Tensor:
    return torch.randint(min(ORDINARY, vocabulary // 2), vocabulary, (BATCH, LENGTH))


def found_in(config: PreTrainedConfig, *names: str, otherwise: Any) -> Any:
    """The first of these fields that the configuration, or a part of it, has."""
    parts = [config, *(part for part in vars(config).values() if isinstance(part, PreTrainedConfig))]
    values = (getattr(part, name, None) for name in names for part in parts)
    return next((value for value in values if value is not None), otherwise)


def pixels(config: PreTrainedConfig, frames: bool) -> Tensor:
    size = found_in(config, "image_size", "img_size", "input_size", otherwise=2 * WIDTH)
    size = list(size) if isinstance(size, (list, tuple)) else [size, size]
    size = size[-2:] if len(size) > 1 else size * 2
    channels = found_in(config, "num_channels", "in_channels", "in_chans", otherwise=3)
    return torch.randn(BATCH, *([found_in(config, "num_frames", otherwise=2)] if frames else []), channels, *size)


def features(config: PreTrainedConfig) -> Tensor:
    """A spectrum, frames last where the model convolves over them."""
    bins = found_in(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", "n_mels", otherwise=16)
    length = 2 * found_in(config, "max_source_positions", otherwise=LENGTH)
    return torch.randn(BATCH, bins, length)


def inputs_of(model: nn.Module, video: bool) -> dict[str, Tensor]:
    config, reads = model.config, inspect.signature(model.forward).parameters
    vocabulary = found_in(config, "vocab_size", otherwise=VOCABULARY)
    makers: dict[str, Callable[[], Tensor]] = {
        "input_ids": lambda: token_ids(vocabulary), "pixel_values": lambda: pixels(config, video), "input_features": lambda: features(config),
        "input_values": lambda: torch.randn(BATCH, 1600), "bbox": lambda: torch.randint(0, 50, (BATCH, LENGTH, 4)).sort(-1).values,
        "decoder_input_ids": lambda: token_ids(vocabulary),
    }  # fmt: skip
    main = model.main_input_name
    if main not in makers:
        raise ValueError(f"reads {main}")
    wanted = [main, *(name for name in ("bbox", "decoder_input_ids") if name in reads and name != main)]
    return {name: makers[name]() for name in wanted}


class OwnLoss(nn.Module):
    """A model as its own loss: that of its labels or, where it has none, the mean square from `wanted`."""

    def __init__(self, model: nn.Module, names: list[str], key: str) -> None:
        super().__init__()
        self.model, self.names, self.key = model, names, key

    def forward(self, *tensors: Tensor) -> Tensor:
        given = dict(zip(self.names, tensors))
        wanted = given.pop("wanted", None)
        output = self.model(**given)[self.key]
        return output if wanted is None else nn.functional.mse_loss(output, wanted)


class Named(nn.Module):
    """The same loss as an output of that name."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *tensors: Tensor) -> dict[str, Tensor]:
        return {"loss": self.module(*tensors)}


def labels_of(model: nn.Module, kind: str, inputs: dict[str, Tensor]) -> Optional[Tensor]:
    if not kind or "labels" not in inspect.signature(model.forward).parameters:
        return None
    if kind == "class":
        return torch.randint(0, model.config.num_labels, (BATCH,))
    if kind == "map":
        return torch.randint(0, model.config.num_labels, (BATCH, *inputs["pixel_values"].shape[-2:]))
    first = next(iter(inputs.values()))
    vocabulary = found_in(model.config, "vocab_size", otherwise=VOCABULARY)
    return torch.randint(min(ORDINARY, vocabulary // 2), vocabulary, first.shape) if first.ndim == 2 else token_ids(vocabulary)


def case(family: str) -> Case:
    """Raises where the family cannot be built small, or cannot be run by PyTorch."""
    kind, labels = families()[family].model_class(), families()[family].labels
    torch.manual_seed(0)
    config = small_configuration(kind.config_class)
    if "class" in labels or labels == "map" or "TokenClassification" in kind.__name__:
        config.num_labels = CLASSES
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    config._experts_implementation = "batched_mm"
    model = kind(config).train()
    switch_off_randomness(model)
    for name, parameter in model.named_parameters():
        if re.search(CHOOSING, name) and not parameter.any():
            nn.init.normal_(parameter)
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > LARGEST:
        raise ValueError(f"{count:,} parameters")
    inputs = inputs_of(model, "Video" in kind.__name__)
    if family in MASKED:
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if family in DISTINCT:
        tokens = [ORDINARY + torch.randperm(VOCABULARY - ORDINARY)[:LENGTH] for _ in range(BATCH)]
        inputs["input_ids"] = torch.stack(tokens)
    given = labels_of(model, labels, inputs)
    if "TokenClassification" in kind.__name__:
        given = torch.randint(0, CLASSES, given.shape)
    if given is not None:
        if "decoder_input_ids" in inputs:
            del inputs["decoder_input_ids"]  # the labels, one later
        inputs["labels"] = given
        return Case(OwnLoss(model, list(inputs), "loss"), inputs, None)
    with torch.no_grad():
        output = model(**inputs)
    floats = [key for key, value in output.items() if isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1]
    key = "last_hidden_state" if "last_hidden_state" in floats else floats[0]
    inputs["wanted"] = torch.randn(output[key].shape)
    return Case(OwnLoss(model, list(inputs), key), inputs, None)
