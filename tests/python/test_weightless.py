"""Modules without values: planned as they would be with them, refused where a step is asked for.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import stowage
import torch
import torch.nn as nn
from torch._subclasses.fake_tensor import FakeTensorMode


class Tiny(nn.Module):
    """Tied weights, statistics, a buffer of integers, attention, and a parameter that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(5000, 16)
        self.places = nn.Embedding(12, 16)
        self.register_buffer("at", torch.arange(12))
        self.query, self.rest = nn.Linear(16, 16), nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(12)
        self.head = nn.Linear(16, 5000, bias=False)
        self.head.weight = self.tokens.weight
        self.places.weight.requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.tokens(ids) + self.places(self.at))
        key, value = self.rest(x).unsqueeze(1).chunk(2, -1)
        seen = nn.functional.scaled_dot_product_attention(self.query(x).unsqueeze(1), key, value, is_causal=True)
        return self.head(seen.squeeze(1)).transpose(1, 2)


class Halved(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


SETTINGS = {"loss": "cross-entropy", "optimizer": torch.optim.AdamW, "threads": 2}


class Weightless(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.ids = torch.zeros(4, 12, dtype=torch.long)
        cls.wanted = stowage.plan(Tiny(), cls.ids.numpy(), **SETTINGS)
        with torch.device("meta"):
            cls.meta = Tiny()

    def same(self, plan: stowage.Plan) -> None:
        def held(which: stowage.Plan) -> "list[tuple[str, int]]":
            return sorted((tensor["name"], tensor["size"]) for tensor in which.buffers if tensor["kind"] in ("parameters", "optimizer"))

        self.assertEqual(held(plan), held(self.wanted))
        # The buffer of integers is a constant outside of the arena where it has values.
        self.assertEqual(plan.arena_bytes, self.wanted.arena_bytes + 128)

    def test_meta(self) -> None:
        self.same(stowage.plan(self.meta, torch.zeros(4, 12, dtype=torch.long, device="meta"), **SETTINGS))
        self.assertTrue(all(tensor.is_meta for tensor in self.meta.state_dict().values()))

    def test_pytorch_in_the_types_of_the_module(self) -> None:
        """What eager takes for a module in 16 bits: half of everything but what the module itself computes in float32."""

        class Wide(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second, self.last = nn.Linear(64, 512), nn.Linear(512, 512), nn.Linear(512, 8)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                inner = self.second(self.first(x).relu())
                return self.last(torch.tanh(inner.float()).to(inner.dtype))

        settings = {"loss": "cross-entropy", "card": "24GiB", "threads": 2, "recompute": "none"}
        whole, x = Wide(), torch.zeros(2048, 64)
        wide = stowage.plan(whole, x, **settings).verdict
        half = stowage.plan(whole.to(torch.bfloat16), x.to(torch.bfloat16), **settings).verdict
        self.assertEqual((wide.pytorch_eager_types, half.pytorch_eager_types), ("", "16 bits, optimizer state included"))
        # The tanh keeps its result in float32, and at its backward there are two gradients of that type.
        tanh = 2048 * 512 * 4
        self.assertAlmostEqual(half.pytorch_eager_bytes, wide.pytorch_eager_bytes / 2 + 3 * tanh / 2, delta=tanh / 8)
        self.assertEqual(stowage.plan(Wide(), x, precision="bf16", **settings).verdict.pytorch_eager_types, "float32")
        # A module of two types takes its inputs as they are.
        both = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), Halved(), nn.Linear(8, 2).to(torch.bfloat16))
        self.assertIsNotNone(stowage.plan(both, torch.zeros(2, 4, 8), loss="mse", card="24GiB", threads=2).verdict.pytorch_eager_bytes)
        # Arrays have no type of 16 bits: inputs in float32 are taken in the module's.
        again = stowage.plan(whole, x.numpy(), **settings).verdict
        self.assertEqual(again.pytorch_eager_bytes, half.pytorch_eager_bytes)

    def test_fake(self) -> None:
        with FakeTensorMode():
            fake = Tiny()
        held = dict(fake.named_parameters(remove_duplicate=False))
        self.same(stowage.plan(fake, self.ids, **SETTINGS))
        after = dict(fake.named_parameters(remove_duplicate=False))
        self.assertTrue(held.keys() == after.keys() and all(held[name] is after[name] for name in held))

    def test_questions(self) -> None:
        largest = stowage.max_batch(self.meta, self.ids, memory_budget=4 * self.wanted.arena_bytes, **SETTINGS)
        self.assertGreater(largest, 4)
        points = stowage.frontier(self.meta, self.ids, **SETTINGS)
        self.assertEqual(max(point["arena_bytes"] for point in points), stowage.plan(self.meta, self.ids, recompute="none", **SETTINGS).arena_bytes)
        half = stowage.plan(self.meta, self.ids, target="cuda:h100", precision="bf16", no_dropout=True, keep=None, **SETTINGS)
        self.assertIn("bf16", {tensor["dtype"] for tensor in half.buffers})
        self.assertTrue(half.verdict.fits and half.verdict.card == "h100" and half.verdict.text in str(half) and half.verdict.text in repr(half))
        self.assertIsNone(self.wanted.verdict)
        with self.assertRaisesRegex(stowage.CompileError, "\"?optimiser"):
            stowage.plan(self.meta, self.ids, optimiser="sgd")

    def test_half(self) -> None:
        with torch.device("meta"):
            half = Tiny().to(torch.bfloat16)
        with self.assertWarnsRegex(stowage.StowageWarning, 'precision="bf16"'):
            plan = stowage.plan(half, self.ids, **SETTINGS)
        wide = stowage.plan(self.meta, self.ids, precision="bf16", **SETTINGS)
        self.assertEqual(plan.arena_bytes, wide.arena_bytes - 2 * half.places.weight.numel(), "what is not trained stays in 16 bits")
        self.assertEqual(half.tokens.weight.dtype, torch.bfloat16)

    def test_no_step(self) -> None:
        with self.assertRaisesRegex(stowage.StowageError, "no values to train from"):
            stowage.compile(self.meta, self.ids, **SETTINGS)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tiny.onnx"
            with self.assertRaisesRegex(stowage.ExportError, "check=False"):
                stowage.export(self.meta, self.ids, path)
            stowage.export(self.meta, self.ids, path, check=False)
            self.assertLess(path.stat().st_size, 80_000)


class Card(unittest.TestCase):
    def test_fit(self) -> None:
        model = Path(__file__).resolve().parents[2] / "models/digits_cnn.onnx"
        settings = {"card": "525MiB", "outside": "1MiB", "recompute": "none", "threads": 1}
        with self.assertWarnsRegex(stowage.StowageWarning, "does not fit the card"):
            plan = stowage.plan(model, **settings)
        verdict = plan.verdict
        self.assertEqual(verdict.spare_bytes, verdict.usable_bytes - plan.arena_bytes)
        self.assertTrue(not verdict.fits and verdict.remedies and verdict.remedies[0]["text"] in str(plan))
        with self.assertRaisesRegex(stowage.DoesNotFit, "STOW1002"):
            stowage.plan(model, fit=True, **settings)
        self.assertTrue(stowage.plan(model, fit=True, **{**settings, "card": "1GiB"}).verdict.fits)


class Examples(unittest.TestCase):
    def test_arrays(self) -> None:
        step = stowage.compile(nn.Linear(3, 2), np.zeros((4, 3), np.float32), loss="mse", optimizer=torch.optim.SGD)
        self.assertEqual(step.batch, 4)


class Configurations(unittest.TestCase):
    """Models of Transformers without a module: a configuration, its file or its folder."""

    @classmethod
    def setUpClass(cls) -> None:
        from transformers import LlamaConfig

        cls.llama = LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
                                num_key_value_heads=2, max_position_embeddings=64, architectures=["LlamaForCausalLM"], dtype="bfloat16")  # fmt: skip

    def test_a_file_and_its_folder(self) -> None:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore", stowage.StowageWarning)  # of the precision that the weights have
            self.llama.save_pretrained(folder)
            named = Path(folder) / "llama.json"
            named.write_bytes((Path(folder) / "config.json").read_bytes())
            plans = [stowage.plan(model, (2, 16), target="cuda:h100") for model in (self.llama, folder, Path(folder) / "config.json", named)]
            self.assertEqual(len({plan.arena_bytes for plan in plans}), 1)
            shapes = {buffer["name"]: buffer["shape"] for buffer in plans[0].buffers if buffer["kind"] == "input"}
            self.assertEqual(shapes["input_ids"], [2, 16])

    def test_its_classes(self) -> None:
        from transformers import ViTConfig

        vit = ViTConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
                        num_labels=5, architectures=["ViTForImageClassification"])  # fmt: skip
        shapes = {buffer["name"]: buffer["shape"] for buffer in stowage.plan(vit, 3).buffers if buffer["kind"] == "input"}
        self.assertEqual(shapes["pixel_values"], [3, 3, 32, 32])

    def test_what_is_wrong_is_said(self) -> None:
        with self.assertRaisesRegex(stowage.StowageError, "has places for 64 tokens, not for 65"):
            stowage.plan(self.llama, (1, 65))
        with self.assertRaisesRegex(stowage.StowageError, r"expected \(batch, tokens\)"):
            stowage.plan(self.llama, (1, 2, 3))
        with self.assertRaisesRegex(stowage.StowageError, "a module is planned as it is"):
            stowage.plan(Tiny(), torch.zeros(4, 12, dtype=torch.long), method="lora")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text("{}")
            with self.assertRaisesRegex(stowage.StowageError, "is no configuration that Transformers knows"):
                stowage.plan(folder)


if __name__ == "__main__":
    unittest.main()
