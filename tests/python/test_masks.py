"""Attention behind masks of every style, beside PyTorch: keys that are hidden, queries that keep none, keys missing from the left.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import unittest

import stowage
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, WIDTH = 4, 6, 4
INFINITE, LEAST, LARGE = float("-inf"), torch.finfo(torch.float32).min, -1e9


def triangle(excluded: float) -> torch.Tensor:
    return torch.full((TOKENS, TOKENS), excluded).triu(1)


def added(excluded: float):
    """As BERT: a mask of numbers is added to the scores."""
    return lambda scores, keep: scores + torch.where(keep, 0.0, excluded)


def filled(excluded: float):
    return lambda scores, keep: scores.masked_fill(~keep, excluded)


# From scores and what of them is kept to weights. What keeps no key is NaN behind minus infinity alone, so it is not asked there; behind
# PyTorch's own attention it is 0.
STYLES = {
    "added_least": added(LEAST),
    "added_large": added(LARGE),
    "filled_least": filled(LEAST),
    "filled_large": filled(LARGE),
    "infinite_triangle_and_least": lambda s, keep: added(LEAST)(s + triangle(INFINITE), keep),
    "infinite_triangle_overwritten": lambda s, keep: filled(LEAST)(s + triangle(INFINITE), keep),
    "least_triangle_and_filled": lambda s, keep: filled(LEAST)(s + triangle(LEAST), keep),
    "filled_twice": lambda s, keep: filled(LEAST)(s.masked_fill(triangle(1.0) > 0, LEAST), keep),
    "sum_of_two": lambda s, keep: s + (triangle(LEAST) + torch.where(keep, 0.0, LEAST)),
    "one_mask": lambda s, keep: s + triangle(INFINITE).masked_fill(~keep, LEAST),
}


class Masked(nn.Module):
    """Queries of their own for every style, so that each has a gradient of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.ParameterDict({name: torch.randn(BATCH, TOKENS, WIDTH) for name in [*STYLES, "boolean", "floats"]})
        self.key, self.value = (nn.Parameter(torch.randn(BATCH, TOKENS, WIDTH)) for _ in range(2))

    def forward(self, kept: torch.Tensor, weight: torch.Tensor) -> dict:
        keep, loss = kept > 0, torch.zeros(())
        for name, style in STYLES.items():
            scores = self.query[name] @ self.key.transpose(1, 2) / WIDTH**0.5
            loss = loss + (F.softmax(style(scores, keep), -1) @ self.value * weight).sum()
        for name, mask in (("boolean", keep), ("floats", torch.where(keep, 0.0, INFINITE))):
            query, key, value = (x[:, None] for x in (self.query[name], self.key, self.value))
            y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None])
            loss = loss + (y[:, 0] * weight).sum()
        return {"loss": loss}


class Attending(nn.Module):
    """PyTorch's own attention of two heads that share keys, behind a mask that may have a trained part."""

    def __init__(self, style: str, tokens: int) -> None:
        super().__init__()
        self.style, self.linear = style, nn.Linear(4, 16)
        self.bias = nn.Parameter(torch.randn(tokens, tokens)) if style == "trained" else None

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        query, shared = self.linear(x).view(x.shape[0], -1, 4, 4).transpose(1, 2).chunk(2, 1)
        mask = keep if self.style == "boolean" else torch.where(keep, 0.0, INFINITE)
        mask = mask if self.bias is None else mask + self.bias
        return F.scaled_dot_product_attention(query, shared[:, :1], shared[:, 1:], mask[:, None], enable_gqa=True)


class Long(nn.Module):
    """Triangles, windows and chunks as scripts write them, of more elements than the importer folds."""

    def __init__(self, names: "list[str]") -> None:
        super().__init__()
        self.names, self.tokens, self.project = names, nn.Embedding(9, 4), nn.Linear(4, 12)

    def masked(self, name: str, scores: torch.Tensor) -> torch.Tensor:
        at = torch.arange(scores.shape[-1], device=scores.device)
        before = at[None] <= at[:, None]
        square = (scores.shape[-1], scores.shape[-1])
        masks = {
            "compared": lambda: scores.masked_fill(~before, INFINITE),
            "triu": lambda: scores + torch.full(square, INFINITE, device=scores.device).triu(1),
            "tril": lambda: torch.where(torch.ones(square, device=scores.device).tril() == 0, LEAST, scores),
            "numbers": lambda: scores + torch.full(square, LEAST, device=scores.device).masked_fill(before, 0.0),
            "all of several": lambda: scores.masked_fill(~(before & torch.ones(square, dtype=torch.bool, device=scores.device)), INFINITE),
            "window": lambda: scores.masked_fill(~(before & (at[None] > at[:, None] - 9)), INFINITE),
            "around": lambda: scores.masked_fill((at[None] - at[:, None]).abs() > 30, INFINITE),
            "chunks": lambda: scores.masked_fill(~(before & (at[None] // 700 == at[:, None] // 700)), INFINITE),
            "every third": lambda: scores.masked_fill(~(before & ((at[:, None] - at[None]) % 3 == 0)), INFINITE),
        }
        return masks[name]()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        y = 0.0
        for name in self.names:
            query, key, value = self.project(self.tokens(ids)).chunk(3, -1)
            y = y + torch.softmax(self.masked(name, query @ key.transpose(1, 2)), -1) @ value
            y = y + F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return y


class Padded(nn.Module):
    """A window of 40 positions and a mask of each sample's tokens, made one mask before attention."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.project = nn.Embedding(9, 4), nn.Linear(4, 12)

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(self.tokens(ids))[:, None].chunk(3, -1)
        at = torch.arange(ids.shape[1], device=ids.device)
        seen = (at <= at[:, None]) & (at > at[:, None] - 40)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=seen[None, None] & keep[:, None, None, :])


class Packed(nn.Module):
    """Documents in one row, two heads: numbers of documents that the script compares, alone or with positions, or positions that begin
    again with each document, indexed as Transformers' masks index them, with a window."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self.style, self.tokens, self.project = style, nn.Embedding(9, 8), nn.Linear(8, 24)

    def seen(self, rows: torch.Tensor) -> torch.Tensor:
        at = torch.arange(rows.shape[1], device=rows.device)
        if self.style != "positions":
            same = (rows[:, None, :] == rows[:, :, None])[:, None]
            return same if self.style == "both ways" else same & (at <= at[:, None])
        numbers = (torch.diff(rows, prepend=rows[:, :1] - 1, dim=-1) != 1).cumsum(-1)
        batch = torch.arange(rows.shape[0], device=rows.device)[:, None, None, None]
        query, key = at[None, None, :, None], at[None, None, None, :]
        near = (rows[batch, key] <= rows[batch, query]) & (rows[batch, key] > rows[batch, query] - 5)
        return (numbers[batch, query] == numbers[batch, key]) & near

    def forward(self, ids: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor) -> dict:
        query, key, value = (x.unflatten(-1, (2, 4)).transpose(1, 2) for x in self.project(self.tokens(ids)).chunk(3, -1))
        if self.style == "added":
            scores = query @ key.transpose(2, 3) / 2 + torch.where(self.seen(rows), 0.0, LEAST)
            y = torch.softmax(scores, -1) @ value
        else:
            y = F.scaled_dot_product_attention(query, key, value, attn_mask=self.seen(rows))
        return {"loss": (y * weight).sum()}


class Masks(unittest.TestCase):
    PACKED = {"loss": "output:loss", "optimizer": "sgd:lr=1", "dynamic_batch": False}

    def test_documents_in_one_row(self) -> None:
        """Gradients are those of PyTorch, and rows of 131,072 tokens have nothing of tokens by tokens."""
        torch.manual_seed(0)
        ids, weight = torch.randint(0, 9, (2, 61)), torch.randn(2, 2, 61, 4)
        documents = torch.tensor([0] * 20 + [1] * 9 + [2] * 32 + [5] * 30 + [0] * 31).view(2, 61)
        positions = torch.cat([torch.arange(n) for n in (20, 9, 32, 30, 31)]).view(2, 61)
        long = torch.zeros(1, 131_072, dtype=torch.long)
        for style in ("documents", "both ways", "added", "positions"):
            inputs = {"ids": ids, "rows": positions if style == "positions" else documents, "weight": weight}
            module = Packed(style).train()
            module(**inputs)["loss"].backward()
            with self.subTest(style=style):
                step = stowage.compile(module, inputs, threads=1, check=False, flags=["--recompute=none"], **self.PACKED)
                step({tensor.name: inputs[tensor.name] for tensor in step.model.step_inputs})
                state = step.state_dict()
                for name, parameter in module.named_parameters():
                    torch.testing.assert_close(parameter.detach() - state[name], parameter.grad, rtol=0,
                                               atol=2e-5 * float(parameter.grad.abs().max()))  # fmt: skip
                if style == "both ways":
                    continue
                with torch.device("meta"):
                    weightless = Packed(style)
                plan = stowage.plan(weightless, {"ids": long, "rows": long, "weight": torch.zeros(1, 2, 131_072, 4)}, **self.PACKED)
                self.assertEqual([buffer["name"] for buffer in plan.buffers if buffer["size"] >= 131_072**2], [])

    def test_long_bands_take_no_memory(self) -> None:
        ids, bands = torch.randint(0, 9, (1, 2100)), ["compared", "triu", "tril", "numbers", "all of several", "window", "around", "chunks"]
        for names, has_masks in (bands, False), (["every third"], True):
            step = stowage.compile(Long(names), (ids,), loss="mse", threads=2, recompute="none")
            self.assertTrue(step.check.ok)
            squares = [buffer["name"] for buffer in step.plan.buffers if buffer["size"] >= 2100 * 2100]
            self.assertEqual(len(squares) > 0, has_masks, squares)

    def test_padded_windows(self) -> None:
        """Of a triangle, a window and the padding of each sample, as one mask of (batch, 1, tokens, tokens), the padding alone is stored."""
        ids = torch.randint(0, 9, (2, 2100))
        keep = torch.ones(2, 2100, dtype=torch.bool)
        keep[1, 2000:] = False
        step = stowage.compile(Padded(), (ids, keep), loss="mse", threads=2, recompute="none")
        self.assertTrue(step.check.ok)
        self.assertEqual([buffer["name"] for buffer in step.plan.buffers if buffer["size"] >= 2100 * 2100], [])

    def test_a_query_without_a_key_gives_zero(self) -> None:
        """And its scores are stored only where their gradient is the mask's."""
        torch.manual_seed(0)
        keep = torch.rand(2, 48, 48) < 0.3
        keep[0, 2] = False
        for style in ("boolean", "floats", "trained"):
            with self.subTest(style=style):
                step = stowage.compile(Attending(style, 48), (torch.randn(2, 48, 4), keep), loss="mse", threads=1, flags=["--recompute=none"])
                self.assertTrue(step.check.ok)
                largest = max(buffer["size"] for buffer in step.plan.buffers if buffer["kind"] == "activation")
                self.assertEqual(largest >= 2 * 2 * 48 * 48 * 4, style == "trained")

    def test_every_style_has_the_gradients_of_torch(self) -> None:
        torch.manual_seed(0)
        kept = torch.randint(0, 3, (BATCH, TOKENS, TOKENS)).clamp(max=1)
        kept[0, 2] = kept[1, 0] = 0  # whole rows
        kept[2, :, :2] = 0  # from the left, so that a triangle leaves the first queries nothing
        kept[3] = 1
        inputs = {"kept": kept, "weight": torch.randn(BATCH, TOKENS, WIDTH)}
        module = Masked().train()
        module(**inputs)["loss"].backward()
        for flags, near in ((), 2e-5), (["--precision=bf16"], 0.03), (["--precision=fp16"], 4e-3):
            step = stowage.compile(module, inputs, loss="output:loss", optimizer="sgd:lr=1", dynamic_batch=False, threads=1, check=False,
                                   flags=["--recompute=none", *flags])  # fmt: skip
            step({tensor.name: inputs[tensor.name] for tensor in step.model.step_inputs})
            state = step.state_dict()
            for name, parameter in module.named_parameters():
                with self.subTest(name=name, flags=flags):
                    torch.testing.assert_close(parameter.detach() - state[name], parameter.grad, rtol=0,
                                               atol=near * float(parameter.grad.abs().max()))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
