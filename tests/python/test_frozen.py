"""Parameters that are not trained: stored in the type that they are worth, and trained around as PyTorch does.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import copy
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import stowage
import torch
import torch.nn as nn

VOCABULARY, WIDTH, TOKENS = 96, 64, 8


class Adapted(nn.Module):
    """A linear layer that is not trained, and two thin ones beside it that are (LoRA, Hu et al., 2021)."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.up.weight, std=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted = self.up(self.down(x.to(self.down.weight.dtype)))
        return self.base(x) + adapted.to(x.dtype)


class Tuned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH).requires_grad_(False)
        self.norm = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.wide, self.narrow = Adapted(nn.Linear(WIDTH, 4 * WIDTH)), Adapted(nn.Linear(4 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False).requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        x = x + self.narrow(torch.relu(self.wide(self.norm(x))))
        return self.head(x).transpose(1, 2)


def in_halves() -> Tuned:
    """The base in bfloat16, adapters in float32, as PEFT keeps them."""
    torch.manual_seed(0)
    module = Tuned()
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            parameter.data = parameter.data.to(torch.bfloat16)
    return module


def of_frozen(plan: stowage.Plan) -> "dict[str, str]":
    return {tensor["name"]: tensor["dtype"] for tensor in plan.buffers if tensor["kind"] == "frozen"}


def dynamic_levels(fewest: int, signs: "tuple[int, ...]") -> np.ndarray:
    """Levels of 8 bits that lie closer near 0 (arXiv:2110.02861): `fewest` in the least power of ten, twice as many in each further one."""
    levels = [np.float32(0), np.float32(1)]
    for exponent in range(7):
        ends = torch.linspace(0.1, 1, fewest * 2**exponent + 1).numpy()
        middles = np.float32(10.0 ** (exponent - 6)) * ((ends[:-1] + ends[1:]) / np.float32(2))
        levels += [sign * middle for middle in middles for sign in signs]
    return np.sort(np.array(levels, np.float32))


SCALE_LEVELS = dynamic_levels(1, (1, -1))
NORMAL_LEVELS = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                          -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                          0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], np.float32)  # fmt: skip


def nearest(levels: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    return levels[np.abs(levels.astype(np.float64) - numbers[..., None].astype(np.float64)).argmin(-1)]


def in_nf4(weight: torch.Tensor) -> torch.Tensor:
    """What QLoRA's rule (arXiv:2305.14314) leaves of a matrix: blocks of 64, their scales in 8 bits in blocks of 256."""
    blocks = weight.detach().float().numpy().reshape(-1, 64)
    scales = np.abs(blocks).max(1)
    levels = nearest(NORMAL_LEVELS, blocks * (np.float32(1) / scales)[:, None])
    mean = np.float32(scales.astype(np.float64).mean())
    rest = scales - mean
    for begin in range(0, len(rest), 256):
        part = rest[begin : begin + 256]
        largest = np.abs(part).max()
        rest[begin : begin + 256] = nearest(SCALE_LEVELS, part / largest) * largest
    return torch.from_numpy((levels * (rest + mean)[:, None]).reshape(weight.shape)).to(weight.dtype)


def in_int8(weight: torch.Tensor) -> torch.Tensor:
    blocks = weight.detach().float().numpy().reshape(-1, 64)
    scales = np.abs(blocks).max(1, keepdims=True) / np.float32(127)
    return torch.from_numpy((np.rint(blocks / scales) * scales).reshape(weight.shape)).to(weight.dtype)


SETTINGS = {"loss": "cross-entropy", "optimizer": "sgd:lr=0.1", "threads": 2, "check": False}


class ManyNames(nn.Module):
    """Parameters whose names together are longer than one argument of a process may be."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterDict({f"part_{i:04}_{'x' * 80}": nn.Parameter(torch.full((8,), 0.01 * i)) for i in range(1600)})
        self.head = nn.Linear(8, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x + torch.stack(list(self.parts.values())).mean(0))


class Frozen(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        torch.manual_seed(0)
        cls.ids = torch.randint(0, VOCABULARY, (4, TOKENS))
        cls.labels = torch.randint(0, VOCABULARY, (4, TOKENS))
        cls.module = Tuned()
        cls.stored = sum(parameter.numel() for parameter in cls.module.parameters() if not parameter.requires_grad)

    def losses(self, step: stowage.Step, count: int = 3) -> "list[float]":
        return [step(self.ids, self.labels) for _ in range(count)]

    def test_stored_as_they_are_read(self) -> None:
        with stowage.compile(self.module, self.ids, precision="bf16", **SETTINGS) as step:
            types = of_frozen(step.plan)
            self.assertEqual(types["head.weight"], "bf16")
            self.assertEqual(types["wide.base.weight"], "bf16")
            self.assertEqual(types["norm.weight"], "f32", "an f32 op reads it")
            self.assertLess(step.plan.breakdown["frozen"], 4 * self.stored)
            self.assertEqual(step.plan.breakdown["statistics"], 0)
            losses = self.losses(step)
            for name, value in step.state_dict().items():
                if name.endswith(("base.weight", "head.weight")):
                    self.assertTrue(torch.equal(value, self.module.state_dict()[name]), f"{name}: the module's own values")
        with stowage.compile(self.module, self.ids, precision="bf16", frozen="f32", **SETTINGS) as wide:
            self.assertEqual(set(of_frozen(wide.plan).values()), {"f32"})
            for low, other in zip(losses, self.losses(wide)):
                self.assertAlmostEqual(low, other, delta=2e-3 * other)

    def test_of_a_module_in_16_bits(self) -> None:
        module = in_halves()
        eager = copy.deepcopy(module)
        optimizer = torch.optim.SGD([p for p in eager.parameters() if p.requires_grad], lr=0.1)
        expected = []
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(eager(self.ids).float(), self.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
        with stowage.compile(module, self.ids, precision="bf16", **SETTINGS) as step:
            self.assertEqual(set(of_frozen(step.plan).values()), {"bf16"})
            self.assertEqual(step.plan.breakdown["frozen"], 2 * self.stored)
            for ours, theirs in zip(self.losses(step), expected):
                self.assertAlmostEqual(ours, theirs, delta=1e-2 * theirs)
            with tempfile.TemporaryDirectory() as folder:
                step.save(Path(folder) / "state.safetensors")
                further = self.losses(step)
                step.load(Path(folder) / "state.safetensors")
                self.assertEqual(self.losses(step), further)

    def test_in_float32_nothing_is_lost(self) -> None:
        """The values that a module has in bfloat16, in a step in float32, are those of the same module in float32."""
        module, wide = in_halves(), in_halves().float()
        with stowage.compile(module, self.ids, precision="f32", **SETTINGS) as step:
            self.assertEqual(set(of_frozen(step.plan).values()), {"bf16"})
            losses = self.losses(step)
        with stowage.compile(wide, self.ids, precision="f32", **SETTINGS) as step:
            self.assertEqual(set(of_frozen(step.plan).values()), {"f32"})
            self.assertEqual(self.losses(step), losses)

    def test_without_values(self) -> None:
        with torch.device("meta"):
            module = in_halves()
        plan = stowage.plan(module, torch.empty(4, TOKENS, dtype=torch.long, device="meta"), target="cuda:h100", **{
            key: value for key, value in SETTINGS.items() if key != "check"})  # fmt: skip
        self.assertEqual(set(of_frozen(plan).values()), {"bf16"})
        self.assertEqual(plan.breakdown["frozen"], 2 * self.stored)

    def test_any_number_that_the_optimizer_leaves_out(self) -> None:
        module = ManyNames()
        self.assertGreater(sum(len(name) for name, _ in module.named_parameters()), 128 * 1024)
        optimizer = torch.optim.SGD(module.head.parameters(), lr=0.1)
        plan = stowage.plan(module, torch.zeros(4, 8), loss="cross-entropy", optimizer=optimizer)
        self.assertEqual(set(of_frozen(plan)), {name for name, _ in module.named_parameters() if name.startswith("parts")})

    def test_asked_for(self) -> None:
        plan = stowage.plan(self.module, self.ids, loss="cross-entropy", frozen="bf16,norm.*:f32,*.bias:f16")
        types = of_frozen(plan)
        self.assertEqual((types["head.weight"], types["norm.weight"], types["wide.base.bias"]), ("bf16", "f32", "f16"))
        for wrong, words in (("fp8", "expected auto, f32, bf16, f16, int8 or nf4"), ("hed.*:bf16", "no frozen parameter matches")):
            with self.assertRaisesRegex(stowage.StowageError, words):
                stowage.plan(self.module, self.ids, loss="cross-entropy", frozen=wrong)

    def test_quantized(self) -> None:
        """Matrices that products read, as the published rules leave them; trained around as PyTorch trains around those values."""
        matrices = ("wide.base.weight", "narrow.base.weight", "head.weight")
        for scheme, rounded, bits in (("nf4", in_nf4, 4.2), ("int8", in_int8, 8.51)):
            eager = copy.deepcopy(self.module)
            for name in matrices:
                parameter = eager.get_parameter(name)
                parameter.data = rounded(parameter)
            with stowage.compile(eager, self.ids, **SETTINGS) as step:
                expected, whole = self.losses(step), step.plan
            with stowage.compile(self.module, self.ids, frozen=scheme, **SETTINGS) as step:
                types = of_frozen(step.plan)
                self.assertEqual({name for name, type in types.items() if type == "u8"}, set(matrices))
                elements = sum(self.module.get_parameter(name).numel() for name in matrices)
                self.assertLess(step.plan.breakdown["frozen"], 4 * (self.stored - elements) + elements * bits / 8)
                self.assertLess(step.plan.arena_bytes, whole.arena_bytes)
                self.assertEqual(self.losses(step), expected)
                for name in matrices:
                    self.assertTrue(torch.equal(step.state_dict()[name], self.module.state_dict()[name]), f"{name}: the module's own values")
                with tempfile.TemporaryDirectory() as folder:
                    step.save(Path(folder) / "state.safetensors")
                    further = self.losses(step)
                    step.load(Path(folder) / "state.safetensors")
                    self.assertEqual(self.losses(step), further)
                # What is written over them is quantized, too.
                step.load_state_dict(self.module.state_dict())
                self.assertEqual(step(self.ids, self.labels), expected[0])

    def test_quantized_takes_less(self) -> None:
        """No arena of quantized matrices is larger than that of the same matrices in 16 bits. A table is no matrix of products: it is stored in
        float32 beside both."""
        matrices = ",".join(f"{name}:bf16" for name in ("wide.base.weight", "narrow.base.weight", "head.weight"))

        def arena(frozen: str, precision: str, **options: Any) -> int:
            try:
                return stowage.plan(self.module, self.ids, loss="cross-entropy", precision=precision, frozen=frozen, **options).arena_bytes
            except stowage.InfeasibleBudget as error:
                return error.smallest_bytes

        for precision in ("f32", "bf16"):
            for options in ({}, {"recompute": "none"}, {"memory_budget": "1KiB"}):
                nf4, int8, bf16 = (arena(frozen, precision, **options) for frozen in ("nf4", "int8", matrices))
                self.assertLess(nf4, bf16, (precision, options))
                self.assertLess(int8, bf16, (precision, options))

    def test_few_rows_read_codes(self) -> None:
        """Products of at most eight rows have no numbers of a matrix in the arena, and give what products of those numbers give, up to the
        order of sums."""
        matrices = ("wide.base.weight", "narrow.base.weight", "head.weight")
        for scheme, rounded in (("nf4", in_nf4), ("int8", in_int8)):
            eager = copy.deepcopy(self.module)
            for name in matrices:
                parameter = eager.get_parameter(name)
                parameter.data = rounded(parameter)
            few = {"ids": self.ids[:1], "labels": self.labels[:1]}
            with stowage.compile(eager, few["ids"], **SETTINGS) as step:
                expected = [step(*few.values()) for _ in range(3)]
            with stowage.compile(self.module, few["ids"], frozen=scheme, **SETTINGS) as step:
                for ours, theirs in zip([step(*few.values()) for _ in range(3)], expected):
                    self.assertAlmostEqual(ours, theirs, delta=2e-6 * theirs)
                transients = [tensor["size"] for tensor in step.plan.buffers if tensor["kind"] not in ("parameters", "frozen", "optimizer")]
                self.assertLess(max(transients), 4 * WIDTH * 4 * WIDTH, "the numbers of a matrix")
