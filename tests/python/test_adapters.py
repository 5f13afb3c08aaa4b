"""PEFT's adapters beside PEFT itself: small models without pretrained weights, losses in float32, bf16 and f16, and adapters that PEFT takes back by name.

Run in the environment of scripts/install.sh python, with peft, and diffusers for the U-Net and bitsandbytes for bases in 4 bits; a case whose library is missing is
skipped. STOWAGE_BINARY names the compiler.
"""

import contextlib
import copy
import importlib.util
import os
import subprocess
import tempfile
import unittest
from typing import Any, Callable

import numpy as np
import safetensors.torch
import stowage
import torch
import torch.nn as nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched

RATE, STEPS, WORDS = 0.1, 6, 96


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


class OwnLoss(nn.Module):
    """A model of Transformers that is given labels."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> "dict[str, torch.Tensor]":
        return {"loss": self.model(**inputs).loss}


class TextLoss(OwnLoss):
    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        return {"loss": self.model(input_ids=input_ids, labels=labels).loss}


class SpeechLoss(OwnLoss):
    def forward(self, input_features: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        return {"loss": self.model(input_features=input_features, labels=labels).loss}


class NoiseLoss(OwnLoss):
    """What a diffusion model learns: the noise in an image."""

    def forward(self, noisy: torch.Tensor, times: torch.Tensor, words: torch.Tensor, noise: torch.Tensor) -> "dict[str, torch.Tensor]":
        found = self.model(noisy, times, encoder_hidden_states=words, return_dict=False)[0]
        return {"loss": nn.functional.mse_loss(found.float(), noise)}


def texts(rows: int = 2, tokens: int = 12) -> "dict[str, torch.Tensor]":
    ids = torch.randint(3, WORDS, (rows, tokens))
    return {"input_ids": ids, "labels": ids.clone()}


def decoder(kind: str, head: str = "ForCausalLM", **settings: Any) -> nn.Module:
    import transformers

    return getattr(transformers, kind + head)(getattr(transformers, f"{kind}Config")(vocab_size=WORDS, use_cache=False, **settings))


LLAMA = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 32}  # fmt: skip


def t5() -> nn.Module:
    import transformers

    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                                                                         dropout_rate=0.0, use_cache=False, decoder_start_token_id=0))  # fmt: skip


def whisper() -> nn.Module:
    import transformers

    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        vocab_size=WORDS, num_mel_bins=16, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=20, max_target_positions=32, dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None))  # fmt: skip


def unet() -> nn.Module:
    import diffusers

    return diffusers.UNet2DConditionModel(sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 64),
                                          down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                          up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=32, attention_head_dim=8,
                                          norm_num_groups=8)  # fmt: skip


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.fc, self.flat, self.head = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.flat(self.fc(torch.relu(self.norm(self.conv(x))).mean((2, 3))))))


#: Model, adapted layers, its loss, a batch.
CASES: "dict[str, tuple[Callable[[], nn.Module], list[str], type, Callable[[], dict[str, torch.Tensor]]]]" = {
    "llama": (lambda: decoder("Llama", **LLAMA), ["q_proj", "v_proj"], TextLoss, texts),
    "qwen2": (lambda: decoder("Qwen2", **LLAMA), ["q_proj", "v_proj"], TextLoss, texts),
    "mistral": (lambda: decoder("Mistral", **LLAMA), ["q_proj", "v_proj"], TextLoss, texts),
    "gpt2": (lambda: decoder("GPT2", "LMHeadModel", n_positions=32, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0), ["c_attn"], TextLoss, texts),
    "t5": (t5, ["q", "v"], TextLoss, texts),
    "whisper": (whisper, ["q_proj", "v_proj"], SpeechLoss,
                lambda: {"input_features": torch.randn(2, 16, 40), "labels": torch.randint(3, WORDS, (2, 10))}),
    "unet": (unet, ["to_q", "to_k", "to_v", "to_out.0"], NoiseLoss,
             lambda: {"noisy": torch.randn(2, 4, 16, 16), "times": torch.tensor([10, 500]), "words": torch.randn(2, 7, 32),
                      "noise": torch.randn(2, 4, 16, 16)}),
}  # fmt: skip

#: Layers that Transformers does not quantize either: heads, and what T5 computes in the type of its weight.
WIDE = ("lm_head", "proj_out", ".wo")


def in_four_bits(base: nn.Module) -> nn.Module:
    """A copy whose linear layers but those of WIDE are bitsandbytes' in NF4. GPT-2's have no module of its own there: their numbers, stored input by output, are those
    that its functions make of them as they lie. (Transformers would turn them over first, so that blocks were columns.)"""
    import bitsandbytes
    import transformers

    four = copy.deepcopy(base)
    for path, layer in list(four.named_modules()):
        if isinstance(layer, transformers.pytorch_utils.Conv1D):
            codes, state = bitsandbytes.functional.quantize_4bit(layer.weight.data, compress_statistics=True, quant_type="nf4")
            layer.weight.data = bitsandbytes.functional.dequantize_4bit(codes, state)
        if isinstance(layer, nn.Linear) and not path.endswith(WIDE):
            small = bitsandbytes.nn.Linear4bit(layer.in_features, layer.out_features, bias=layer.bias is not None, compute_dtype=torch.float32,
                                               compress_statistics=True, quant_type="nf4")  # fmt: skip
            small.load_state_dict(layer.state_dict())
            four.set_submodule(path, small.to("cpu"))
    return four


def adapted(base: nn.Module, layers: "list[str]") -> nn.Module:
    import peft

    model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=8, target_modules=layers))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # else the gradients of the first step are 0 for half of the adapters
            parameter.data = 0.02 * torch.randn(parameter.shape, generator=generator)
    return model


#: What PyTorch's autocast computes in.
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def train(module: nn.Module, batch: "dict[str, torch.Tensor]", halves: "torch.dtype | None") -> "list[float]":
    scaler = torch.amp.GradScaler("cpu", enabled=halves is torch.float16)
    optimizer = torch.optim.SGD([parameter for parameter in module.parameters() if parameter.requires_grad], RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", halves) if halves else contextlib.nullcontext():
            loss = module(**batch)["loss"]
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


def adapters_of(module: nn.Module) -> "dict[str, torch.Tensor]":
    import peft

    return {name: value.detach().clone() for name, value in peft.get_peft_model_state_dict(module.model).items()}


@unittest.skipUnless(has("peft"), "needs peft")
class Adapters(unittest.TestCase):
    def beside_peft(self, module: nn.Module, batch: "dict[str, torch.Tensor]", ours: nn.Module, apart: float = 2e-3, **options: Any) -> None:
        """`module` trained by PyTorch, `ours` by Stowage, from which PEFT takes the adapters back; `apart` by how much of their way they may be in f32."""
        import peft

        halves = HALVES.get(options.get("precision", "f32"))
        fresh = copy.deepcopy(module)
        start = adapters_of(module)
        module.train()
        expected = train(module, batch, halves)
        with stowage.compile(ours, batch, optimizer=f"sgd:lr={RATE}", threads=2, check=False, dynamic_batch=False, **options) as step:
            found = [step(batch) for _ in range(STEPS)]
            learned = step.state_dict()
        close = {None: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[halves]
        for low, other in zip(found, expected):
            self.assertAlmostEqual(low, other, delta=close * abs(other))
        # The names of PEFT's files: without that of the adapter.
        adapters = {name.removeprefix("model.").replace(".default", ""): value for name, value in learned.items() if "lora_" in name}
        result = peft.set_peft_model_state_dict(fresh.model, adapters)
        self.assertEqual(list(result.unexpected_keys), [])
        self.assertFalse([name for name in result.missing_keys if "lora_" in name])
        taken, trained = adapters_of(fresh), adapters_of(module)
        self.assertEqual(taken.keys(), trained.keys())
        self.assertGreater(len(taken), 0)
        for name, value in taken.items():
            moved = (trained[name] - start[name]).abs().max().item()
            self.assertGreater(moved, 0, name)
            difference = (value - trained[name]).abs().max().item()
            self.assertLessEqual(difference, (0.2 if halves else apart) * moved + 1e-7, name)

    def one(self, name: str, **options: Any) -> None:
        make, layers, loss, batch = CASES[name]
        torch.manual_seed(0)
        module = loss(adapted(make(), layers))
        self.beside_peft(module, batch(), copy.deepcopy(module), **options)

    def test_running_statistics(self) -> None:
        """Normalizations beside adapters: PEFT loads what the step and the executable save, statistics included, whether it keeps their modules whole or not."""
        import peft

        batch, classes = 2 * torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(5)) + 1, torch.arange(8) % 5
        for kept in (["head"], ["head", "norm", "flat"]):
            with self.subTest(kept), tempfile.TemporaryDirectory() as folder:
                torch.manual_seed(0)
                settings = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["conv", "fc"], modules_to_save=kept, init_lora_weights=False)
                base = Normalized()
                ours = peft.get_peft_model(copy.deepcopy(base), settings)
                theirs = copy.deepcopy(ours)
                optimizer = torch.optim.SGD([parameter for parameter in theirs.parameters() if parameter.requires_grad], RATE)
                theirs.train()
                for _ in range(3):
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(theirs(batch), classes).backward()
                    optimizer.step()
                theirs.save_pretrained(f"{folder}/theirs")
                with torch.no_grad():
                    expected = theirs.eval()(batch)
                with stowage.compile(ours, batch, loss="cross-entropy", optimizer=f"sgd:lr={RATE}", threads=1, check=False) as step:
                    for _ in range(3):
                        step(batch, classes)
                    step.save_adapter(f"{folder}/ours")
                    self.same(base, f"{folder}/ours", batch, expected)
                    safetensors.torch.save_file(base.state_dict(), f"{folder}/base.safetensors")
                    stowage.merge(f"{folder}/base.safetensors", f"{folder}/ours", f"{folder}/merged")
                    merged = Normalized()
                    merged.load_state_dict(safetensors.torch.load_file(f"{folder}/merged/base.safetensors"))
                    with torch.no_grad():
                        torch.testing.assert_close(merged.eval()(batch), expected, rtol=1e-4, atol=1e-5)
                    self.assertEqual(merged.norm.num_batches_tracked, 3 if "norm" in kept else 0)
                    # And back: its own as it is, PEFT's with the statistics that are in it.
                    learned = step.state_dict()
                    step(batch, classes)
                    step.load_adapter(f"{folder}/ours")
                    for name, value in step.state_dict().items():
                        if "num_batches_tracked" not in name or "modules_to_save" in name:  # others count on: they are in no file
                            self.assertTrue(torch.equal(value, learned[name]), name)
                    with contextlib.nullcontext() if "norm" in kept else self.assertWarnsRegex(stowage.StowageWarning, "has no running statistics"):
                        step.load_adapter(f"{folder}/theirs")
                # What an executable of the same module writes, beside PEFT's configuration.
                ours.train()
                stowage.export(ours, (batch,), f"{folder}/model.onnx")
                np.savez(f"{folder}/data.npz", x=batch.numpy(), y=classes.numpy())
                flags = ["--batch=8", "--loss=cross-entropy", f"--optimizer=sgd:lr={RATE}", "--threads=1"]
                for command in ([stowage.find_binary(), "compile", f"{folder}/model.onnx", "-o", f"{folder}/model", *flags],
                                [f"{folder}/model", "train", f"--data={folder}/data.npz", "--epochs=3", f"--save-trained={folder}/ours/adapter_model.safetensors"]):
                    subprocess.run(command, check=True, capture_output=True)
                self.same(base, f"{folder}/ours", batch, expected)

    def same(self, base: nn.Module, folder: str, batch: torch.Tensor, expected: torch.Tensor) -> None:
        import peft

        loaded = peft.PeftModel.from_pretrained(copy.deepcopy(base), folder).eval()
        with torch.no_grad():
            torch.testing.assert_close(loaded(batch), expected, rtol=1e-4, atol=1e-5)
        counts = [value.item() for name, value in loaded.state_dict().items() if "modules_to_save.default.num_batches_tracked" in name]
        self.assertTrue(all(count == 3 for count in counts), counts)

    def quantized(self, name: str, **options: Any) -> None:
        """Over bitsandbytes' matrices of 4 bits, whose rule Stowage's nf4 follows; embeddings, heads and kernels stay as they are."""
        make, layers, loss, batch = CASES[name]
        torch.manual_seed(0)
        base = make()
        ours = loss(adapted(copy.deepcopy(base), layers))
        theirs = loss(adapted(in_four_bits(base), layers))
        theirs.load_state_dict({key: value for key, value in ours.state_dict().items() if "lora_" in key}, strict=False)
        wide = [key for key, _ in ours.named_parameters() if key.removesuffix(".weight").endswith(WIDE)]
        data = batch()
        with torch.no_grad():  # quantizing changes what is asked
            self.assertNotAlmostEqual(ours(**data)["loss"].item(), theirs(**data)["loss"].item(), delta=1e-5)
        # bitsandbytes' look-up takes a neighbour of the nearest level for 4 of T5's 2,048 scales.
        self.beside_peft(theirs, data, ours, apart=5e-3, frozen=",".join(["nf4"] + [f"{key}:f32" for key in wide]), **options)


def add_cases() -> None:
    for name in CASES:
        for precision in ("f32", "bf16", "fp16"):
            def case(self: Adapters, name: str = name, precision: str = precision) -> None:
                if name == "unet" and not has("diffusers"):
                    self.skipTest("needs diffusers")
                self.one(name, precision=precision)

            def quantized(self: Adapters, name: str = name, precision: str = precision) -> None:
                for package in ("bitsandbytes", "diffusers") if name == "unet" else ("bitsandbytes",):
                    if not has(package):
                        self.skipTest(f"needs {package}")
                self.quantized(name, precision=precision)

            setattr(Adapters, f"test_{name}_{precision}", case)
            setattr(Adapters, f"test_{name}_quantized_{precision}", quantized)


add_cases()

if __name__ == "__main__":
    unittest.main()
