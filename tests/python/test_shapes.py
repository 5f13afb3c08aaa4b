"""Rows of any length in one arena: a DataLoader of ragged rows, beside PyTorch on the same batches.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import unittest

import stowage
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

try:
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
except ImportError:
    LlamaConfig = None

VOCABULARY, LONGEST, BATCH = 61, 24, 3
SHAPES = {"sequence": [8, 16, 24]}


def rows(lengths: "list[int]") -> "list[torch.Tensor]":
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCABULARY, (length,), generator=generator) for length in lengths]


def collate(batch: "list[torch.Tensor]") -> "dict[str, torch.Tensor]":
    """As collators of Transformers: padded to the longest row of the batch, with a mask, and labels of -100."""
    ids = pad_sequence(batch, batch_first=True)
    mask = pad_sequence([torch.ones_like(row) for row in batch], batch_first=True)
    return {"input_ids": ids, "attention_mask": mask, "labels": pad_sequence(batch, batch_first=True, padding_value=-100)}


def widened(batch: "dict[str, torch.Tensor]", size: int) -> "dict[str, torch.Tensor]":
    """What a batch is in a shape: the same with padding behind."""
    fill = {"labels": -100}
    return {name: torch.nn.functional.pad(value, (0, size - value.shape[1]), value=fill.get(name, 0)) for name, value in batch.items()}


def llama() -> "torch.nn.Module":
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                        num_key_value_heads=2, max_position_embeddings=LONGEST))  # fmt: skip


def gpt2() -> "torch.nn.Module":
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=LONGEST, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0,
                                      attn_pdrop=0, bos_token_id=0, eos_token_id=0))  # fmt: skip


@unittest.skipIf(LlamaConfig is None, "needs transformers")
class Shapes(unittest.TestCase):
    def trained(self, module: torch.nn.Module, lengths: "list[int]", shapes: dict) -> stowage.Step:
        """Trains both on the same batches; every loss and, in the end, every parameter is PyTorch's."""
        loader = DataLoader(rows(lengths), batch_size=BATCH, collate_fn=collate)
        step = stowage.compile(module, next(iter(loader)), optimizer=torch.optim.AdamW(module.parameters(), lr=1e-3), shapes=shapes, threads=1,
                               flags=["--recompute=none"])  # fmt: skip
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        module.train()
        for _ in range(2):
            for batch in loader:
                size = next(size for size in shapes["sequence"] if size >= batch["input_ids"].shape[1])
                loss = module(**widened(batch, size), use_cache=False).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.assertAlmostEqual(step(batch), loss.item(), delta=2e-6 * max(1, loss.item()))
                self.assertIn(f"sequence={size}", step.shape)
        for name, value in step.state_dict().items():
            torch.testing.assert_close(value, module.state_dict()[name], rtol=1e-3, atol=2e-4, msg=name)
        return step

    def test_llama(self) -> None:
        step = self.trained(llama(), [5, 7, 3, 20, 9, 11, 16, 2, 8, 24, 1, 4], SHAPES)
        self.assertEqual([shape["name"] for shape in step.plan.shapes], ["sequence=24", "sequence=16", "sequence=8"])
        self.assertEqual(step.plan.arena_bytes, max(shape["arena_bytes"] for shape in step.plan.shapes))
        self.assertTrue(all(shape["step_seconds"] > 0 for shape in step.plan.shapes))
        self.assertIsNotNone(step.check)
        self.assertTrue(step.check.ok)

    def test_gpt2_with_a_short_last_batch(self) -> None:
        """11 rows in batches of 3: the last has 2, and its loss is the mean over their labels."""
        step = self.trained(gpt2(), [5, 7, 3, 20, 9, 11, 16, 2, 8, 6, 4], {"sequence": [8, 24]})
        self.assertTrue(step._fills)

    def test_samples_are_an_axis(self) -> None:
        step = self.trained(llama(), [5, 7, 3, 20, 9], {"sequence": [8, 24], "batch": [3, 2]})
        self.assertEqual(step.shape, "sequence=24,batch=2")
        self.assertEqual(len(step.plan.shapes), 4)

    def test_evaluation_and_fit(self) -> None:
        module, lengths = llama(), [5, 7, 3, 20, 9, 11]
        loader = DataLoader(rows(lengths), batch_size=BATCH, collate_fn=collate)
        step = stowage.compile(module, next(iter(loader)), optimizer="sgd:lr=0.1", shapes={"sequence": [8, 24]}, threads=1, check=False)
        with torch.no_grad():
            expected = sum(module(**widened(batch, LONGEST)).loss.item() for batch in loader) / len(loader)
        self.assertAlmostEqual(step.evaluate(loader)["loss"], expected, delta=1e-5)
        # Outputs are as large as the batch, whatever the shape, and those of the batch in the largest shape.
        for batch in loader:
            with torch.no_grad():
                logits = module(**batch, use_cache=False).logits
            length = logits.shape[1]
            found, wide = (next(output for output in step.eval(given) if output.dim() == 3) for given in (batch, widened(batch, LONGEST)))
            self.assertEqual(found.shape, logits.shape)
            self.assertEqual(wide.shape[1], LONGEST)
            torch.testing.assert_close(found, wide[:, :length], rtol=0, atol=1e-6)
            kept = batch["attention_mask"].bool()
            torch.testing.assert_close(found[kept], logits[kept], rtol=1e-5, atol=1e-5)
        records = step.fit(loader, epochs=2, quiet=True)
        self.assertLess(records[1]["loss"], records[0]["loss"])

    def test_plan_without_weights(self) -> None:
        with torch.device("meta"):
            module = llama()
        ids = torch.zeros(1, 8, dtype=torch.long)
        plan = stowage.plan(module, {"input_ids": ids, "labels": ids}, optimizer="adamw", shapes="sequence:8,16")
        self.assertEqual([shape["extents"] for shape in plan.shapes], [{"sequence": 16}, {"sequence": 8}])
        self.assertIn("sequence=8: arena", str(plan))

    def test_refusals(self) -> None:
        module, batch = llama(), collate(rows([5, 7, 3]))
        with self.assertRaisesRegex(ValueError, "expected sizes for each axis once"):
            stowage.compile(module, batch, shapes={"sequence": ["long"]})
        with self.assertRaisesRegex(ValueError, "dimension 1 of the example's tensors"):
            stowage.compile(module, batch, shapes={"sequence": [8], "heads": [2, 4]})
        step = stowage.compile(module, batch, shapes={"sequence": [4, 8]}, threads=1, check=False)
        before = step.state_dict()
        with self.assertRaisesRegex(stowage.StowageError, "no shape of the program holds 9 in dimension 1 of 'input_ids'"):
            step(collate(rows([9, 2, 3])))
        for name, value in step.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)


if __name__ == "__main__":
    unittest.main()
