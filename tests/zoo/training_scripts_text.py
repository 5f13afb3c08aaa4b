"""Training scripts of sequences, sound, graphs and decisions; see training_scripts.py."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_scripts import CausalLm, Script, adamw, cosine_with_warmup, draw, language_batch, script, sgd, tokens


# ---- language


class CausalBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attention, self.project = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width, bias=False), nn.GELU(), nn.Linear(4 * width, width, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.attention(self.ln_1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(b, t, c)
        x = x + self.project(y)
        return x + self.mlp(self.ln_2(x))


class NanoGpt(nn.Module):
    """nanoGPT: tied head, loss over the targets that are not -1."""

    def __init__(self, words: int = 65, width: int = 32, length: int = 24) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h = nn.ModuleList([CausalBlock(width, 4) for _ in range(2)])
        self.ln_f = nn.LayerNorm(width, bias=False)
        self.lm_head = nn.Linear(width, words, bias=False)
        self.wte.weight = self.lm_head.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, 0.0, 0.02)

    def forward(self, idx: Tensor, targets: Tensor) -> dict[str, Tensor]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return {"loss": F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)}


@script
def nanogpt() -> Script:
    """Groups with and without decay, betas of its own, clipped gradients, warm-up and cosine."""

    def optimizer(m: nn.Module) -> torch.optim.Optimizer:
        decayed = [p for p in m.parameters() if p.dim() >= 2]
        rest = [p for p in m.parameters() if p.dim() < 2]
        return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95))

    return Script(NanoGpt(), draw(lambda: {"idx": tokens(4, 24, 65), "targets": tokens(4, 24, 65)}), optimizer, clip_norm=1.0,
                  schedule=cosine_with_warmup(5, 20))  # fmt: skip


class Translator(nn.Module):
    """nn.Transformer with padding masks and label smoothing, as in PyTorch's tutorial of translation."""

    def __init__(self, words: int = 40, width: int = 32) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width, padding_idx=0), nn.Embedding(words, width, padding_idx=0)
        self.transformer = nn.Transformer(width, 4, 2, 2, 64, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(width, words)
        position = torch.arange(20).unsqueeze(1) * torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        self.register_buffer("pe", torch.stack([position.sin(), position.cos()], -1).flatten(1))

    def forward(self, src: Tensor, tgt: Tensor) -> dict[str, Tensor]:
        read, wanted = tgt[:, :-1], tgt[:, 1:]
        mask = nn.Transformer.generate_square_subsequent_mask(read.shape[1])
        src_pad, tgt_pad = src == 0, read == 0
        embed = lambda table, ids: table(ids) * math.sqrt(32) + self.pe[: ids.shape[1]]  # noqa: E731
        out = self.transformer(embed(self.source, src), embed(self.target, read), tgt_mask=mask, src_key_padding_mask=src_pad,
                               tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad)  # fmt: skip
        return {"loss": F.cross_entropy(self.generator(out).flatten(0, 1), wanted.flatten(), ignore_index=0, label_smoothing=0.1)}


@script
def translation_transformer() -> Script:
    def batch() -> dict[str, Tensor]:
        src, tgt = tokens(4, 12, 40), tokens(4, 11, 40)
        src[1, 8:], tgt[2, 7:] = 0, 0
        return {"src": src, "tgt": tgt}

    return Script(Translator(), draw(batch), lambda m: torch.optim.Adam(m.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9))


class LstmTagger(nn.Module):
    """A language model of recurrent layers whose padding is packed."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(30, 16), nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True), nn.Linear(48, 7)

    def forward(self, words: Tensor, tags: Tensor) -> dict[str, Tensor]:
        return {"loss": F.cross_entropy(self.head(self.lstm(self.table(words))[0]).transpose(1, 2), tags)}


@script
def lstm_tagger() -> Script:
    return Script(LstmTagger(), draw(lambda: {"words": tokens(4, 10, 30), "tags": torch.randint(0, 7, (4, 10))}), sgd(0.5, momentum=0.0), clip_norm=0.25)


def small(**more: Any) -> dict[str, Any]:
    return dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, **more)


def causal(name: str, **settings: Any) -> None:
    """Registers a causal language model of Transformers, AdamW with decay."""

    def make() -> Script:
        import transformers as t

        config = getattr(t, f"{name}Config")(**{"use_cache": False, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, **settings})
        return Script(CausalLm(getattr(t, f"{name}ForCausalLM")(config)), draw(lambda: language_batch(2, 16), 10), adamw(1e-3, weight_decay=0.1))

    make.__name__ = f"transformers_{name.lower()}"
    script(make)


for name in ("Mistral", "Qwen2", "Qwen3", "Gemma", "Gemma2", "Gemma3Text", "Phi3", "Olmo2", "StableLm", "Granite", "SmolLM3", "Cohere", "Starcoder2"):
    heads = {} if name in ("Phi3", "Olmo2") else {"num_key_value_heads": 2}
    extra = {"head_dim": 8} if name in ("Gemma", "Gemma2", "Gemma3Text", "Qwen3") else {}
    if name == "Gemma3Text":
        extra |= {"layer_types": ["sliding_attention", "full_attention"]}
    if name not in ("Gemma3Text",):
        causal(name, **small(**heads, **extra))
causal("Mixtral", experts_implementation="batched_mm", **small(num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2))
causal("Qwen3Moe", experts_implementation="batched_mm", **small(num_key_value_heads=2, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32))
causal("DeepseekV3", experts_implementation="batched_mm", **small(num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=32,
                             first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8))  # fmt: skip
causal("OPT", vocab_size=96, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=32,
       dropout=0.0, attention_dropout=0.0)  # fmt: skip
causal("GPTNeoX", **small(hidden_dropout=0.0, attention_dropout=0.0))
causal("Falcon", vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, new_decoder_architecture=True, num_kv_heads=2)
causal("Bloom", vocab_size=96, hidden_size=32, n_layer=2, n_head=4, hidden_dropout=0.0, attention_dropout=0.0)
causal("Mamba", vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8)
causal("Mamba2", vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=1, chunk_size=8)
causal("Rwkv", vocab_size=96, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, context_length=16)
causal("RecurrentGemma", **small(head_dim=8, num_key_value_heads=1, lru_width=32, attention_window_size=8, block_types=("recurrent", "attention")))


def own_loss(model: str, config: str, batch: Any, steps: int = 10, rate: float = 1e-3, **settings: Any) -> None:
    """Registers a model of Transformers that computes its loss from its inputs."""

    def make() -> Script:
        import transformers as t

        return Script(Named(getattr(t, model)(getattr(t, config)(**settings)), list(batch())), draw(batch, steps), adamw(rate))

    make.__name__ = f"transformers_{model.lower()}"
    script(make)


class Named(nn.Module):
    """A model of Transformers with the inputs of a batch; torch.export names them by forward's own signature."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, **inputs: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(**inputs, return_dict=True).loss}


QUIET = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SPEECH = dict(vocab_size=12, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16), conv_stride=(5, 4),
              conv_kernel=(10, 8), num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, hidden_dropout=0.0,
              activation_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, final_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0,
              apply_spec_augment=False, classifier_proj_size=16, num_labels=4)  # fmt: skip


def masked_words() -> dict[str, Tensor]:
    ids = tokens(4, 16, 96)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.where(torch.rand(4, 16) < 0.3, ids, -100)}


def pairs_of_words() -> dict[str, Tensor]:
    return {**masked_words(), "token_type_ids": torch.randint(0, 2, (4, 16)), "next_sentence_label": torch.randint(0, 2, (4,))}


def spans() -> dict[str, Tensor]:
    ids = tokens(4, 16, 96)
    return {"input_ids": ids, "start_positions": torch.randint(0, 16, (4,)), "end_positions": torch.randint(0, 16, (4,))}


def text_to_text() -> dict[str, Tensor]:
    return {"input_ids": tokens(2, 12, 96), "labels": tokens(2, 9, 96)}


own_loss("BertForPreTraining", "BertConfig", pairs_of_words, **small(**QUIET))
own_loss("BertForQuestionAnswering", "BertConfig", spans, **small(**QUIET))
own_loss("DebertaV2ForMaskedLM", "DebertaV2Config", masked_words, **small(relative_attention=True, pos_att_type=["p2c", "c2p"], **QUIET))
own_loss("ElectraForPreTraining", "ElectraConfig", lambda: {"input_ids": tokens(4, 16, 96), "labels": torch.randint(0, 2, (4, 16))},
         embedding_size=32, **small(**QUIET))  # fmt: skip
own_loss("AlbertForMaskedLM", "AlbertConfig", masked_words, embedding_size=16, **small(**QUIET))
own_loss("ModernBertForMaskedLM", "ModernBertConfig", masked_words, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, **small())
own_loss("XLNetLMHeadModel", "XLNetConfig", lambda: {"input_ids": tokens(2, 12, 96), "labels": tokens(2, 12, 96)}, vocab_size=96, d_model=32, n_layer=2,
         n_head=4, d_inner=64, dropout=0.0)  # fmt: skip
own_loss("LongformerForMaskedLM", "LongformerConfig", masked_words, attention_window=8, pad_token_id=0, **small(**QUIET))
own_loss("BartForConditionalGeneration", "BartConfig", text_to_text, vocab_size=96, d_model=32, encoder_layers=2, decoder_layers=2,
         encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, dropout=0.0,
         use_cache=False, pad_token_id=0, decoder_start_token_id=2)  # fmt: skip
own_loss("T5ForConditionalGeneration", "T5Config", text_to_text, vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False,
         decoder_start_token_id=0, dropout_rate=0.0, feed_forward_proj="gated-gelu")  # fmt: skip
own_loss("Wav2Vec2ForCTC", "Wav2Vec2Config", lambda: {"input_values": torch.randn(2, 640), "labels": torch.randint(1, 12, (2, 5))}, **SPEECH)
own_loss("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", lambda: {"input_values": torch.randn(2, 640), "labels": torch.randint(0, 4, (2,))}, **SPEECH)
own_loss("HubertForSequenceClassification", "HubertConfig", lambda: {"input_values": torch.randn(2, 640), "labels": torch.randint(0, 4, (2,))}, **SPEECH)
own_loss("WavLMForSequenceClassification", "WavLMConfig", lambda: {"input_values": torch.randn(2, 640), "labels": torch.randint(0, 4, (2,))}, **SPEECH)
own_loss("Wav2Vec2ConformerForSequenceClassification", "Wav2Vec2ConformerConfig",
         lambda: {"input_values": torch.randn(2, 640), "labels": torch.randint(0, 4, (2,))}, conformer_conv_dropout=0.0, **SPEECH)  # fmt: skip
own_loss("ASTForAudioClassification", "ASTConfig", lambda: {"input_values": torch.randn(2, 40, 16), "labels": torch.randint(0, 2, (2,))}, hidden_size=32,
         num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_length=40, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8,
         **QUIET)  # fmt: skip
own_loss("WhisperForConditionalGeneration", "WhisperConfig", lambda: {"input_features": torch.randn(2, 20, 32), "labels": tokens(2, 7, 96)}, vocab_size=96,
         d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
         max_source_positions=16, max_target_positions=16, num_mel_bins=20, dropout=0.0, use_cache=False, pad_token_id=0, decoder_start_token_id=1,
         bos_token_id=1, eos_token_id=2, suppress_tokens=None, begin_suppress_tokens=None)  # fmt: skip
own_loss("SegformerForSemanticSegmentation", "SegformerConfig", lambda: {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 5, (2, 32, 32))},
         hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16, num_labels=5, drop_path_rate=0.0,
         classifier_dropout_prob=0.0, **QUIET)  # fmt: skip
own_loss("DPTForSemanticSegmentation", "DPTConfig", lambda: {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 5, (2, 32, 32))},
         hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8, backbone_out_indices=[0, 1, 2, 3],
         neck_hidden_sizes=[8, 16, 16, 16], fusion_hidden_size=16, num_labels=5, semantic_classifier_dropout=0.0, **QUIET)  # fmt: skip
own_loss("ViTMAEForPreTraining", "ViTMAEConfig", lambda: {"pixel_values": torch.randn(4, 3, 32, 32), "noise": torch.rand(4, 16)}, hidden_size=32,
         num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8, decoder_hidden_size=16, decoder_num_hidden_layers=1,
         decoder_num_attention_heads=2, decoder_intermediate_size=32, **QUIET)  # fmt: skip
own_loss("VideoMAEForVideoClassification", "VideoMAEConfig", lambda: {"pixel_values": torch.randn(2, 4, 3, 16, 16), "labels": torch.randint(0, 2, (2,))},
         hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=8, num_frames=4, **QUIET)  # fmt: skip
own_loss("SiglipForImageClassification", "SiglipConfig", lambda: {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 2, (2,))},
         vision_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8))  # fmt: skip
own_loss("Dinov2ForImageClassification", "Dinov2Config", lambda: {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 2, (2,))},
         hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8, **QUIET)  # fmt: skip
own_loss("PatchTSTForPrediction", "PatchTSTConfig", lambda: {"past_values": torch.randn(4, 32, 2), "future_values": torch.randn(4, 8, 2)}, num_input_channels=2,
         context_length=32, patch_length=8, patch_stride=8, prediction_length=8, d_model=16, num_hidden_layers=2, num_attention_heads=4, ffn_dim=32,
         attention_dropout=0.0, ff_dropout=0.0, head_dropout=0.0, loss="mse")  # fmt: skip
own_loss("PatchTSMixerForPrediction", "PatchTSMixerConfig", lambda: {"past_values": torch.randn(4, 32, 2), "future_values": torch.randn(4, 8, 2)},
         num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, prediction_length=8, d_model=16, num_layers=2, dropout=0.0,
         head_dropout=0.0)  # fmt: skip
own_loss("AutoformerForPrediction", "AutoformerConfig",
         lambda: {"past_values": torch.randn(2, 24), "past_time_features": torch.randn(2, 24, 2), "past_observed_mask": torch.ones(2, 24),
                  "future_values": torch.randn(2, 8), "future_time_features": torch.randn(2, 8, 2)},
         prediction_length=8, context_length=16, lags_sequence=[1, 2, 3, 4, 5, 6, 7, 8], num_time_features=2, d_model=16, encoder_layers=1, decoder_layers=1,
         encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0, label_length=8, autocorrelation_factor=1)  # fmt: skip
own_loss("TimeSeriesTransformerForPrediction", "TimeSeriesTransformerConfig",
         lambda: {"past_values": torch.randn(2, 24), "past_time_features": torch.randn(2, 24, 2), "past_observed_mask": torch.ones(2, 24),
                  "future_values": torch.randn(2, 8), "future_time_features": torch.randn(2, 8, 2)},
         prediction_length=8, context_length=16, lags_sequence=[1, 2, 3, 4, 5, 6, 7, 8], num_time_features=2, d_model=16, encoder_layers=1, decoder_layers=1,
         encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
         distribution_output="normal")  # fmt: skip
