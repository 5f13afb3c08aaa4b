"""Modules of PyTorch of today: the training export, the check that it is one, and three steps beside PyTorch.

Run in the environment of scripts/install.sh python. STOWAGE_BINARY names the compiler.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import onnx
import stowage
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.onnx._internal.exporter._registration import ONNXRegistry


NIGHT = "STOWAGE_NIGHTLY" in os.environ


def setUpModule() -> None:
    """The exporter's table of operators, which takes half of a small export's time, is made once."""
    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))


class Convolutional(nn.Module):
    """Batch norms with a momentum of their own, dropout, a frozen layer, a parameter that forward does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(8, momentum=0.3)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.second_norm = nn.BatchNorm2d(16)
        self.second.requires_grad_(False)
        self.dropout = nn.Dropout(0.4)
        self.head = nn.Linear(16, 5)
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first_norm(self.first(image)))
        hidden = F.relu(self.second_norm(self.second(hidden))).mean((2, 3))
        return self.head(self.dropout(hidden))


class Language(nn.Module):
    """A causal transformer whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.position = nn.Parameter(torch.randn(1, 6, 16) * 0.1)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, activation="gelu", batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(6)
        return self.head(self.norm(self.block(self.embedding(tokens) + self.position, src_mask=mask, is_causal=True)))


def quiet(module: nn.Module) -> nn.Module:
    """The module without dropout, whose random numbers differ from PyTorch's."""
    for child in module.modules():
        if isinstance(child, nn.Dropout):
            child.p = 0.0
        if isinstance(child, nn.MultiheadAttention):
            child.dropout = 0.0
    return module


class Detached(nn.Module):
    """A student and its teacher, a straight-through estimator, and a loss that ONNX cannot spell."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.student, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        hidden = self.student(x)
        with torch.no_grad():
            wanted = self.teacher(x) + hidden.float().roll(1, 1) * self.head.weight.to(hidden.dtype).abs().mean()
        rounded = hidden + (hidden.sign() - hidden).detach()
        return F.cross_entropy(self.head(rounded), label, label_smoothing=0.2) + F.mse_loss(hidden, wanted)


class Reversed(torch.autograd.Function):
    """The identity, whose gradient changes its sign."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        with torch.no_grad():
            return x.view_as(x)

    @staticmethod
    def backward(ctx, dy: torch.Tensor):
        return -ctx.scale * dy, None


class Spike(torch.autograd.Function):
    """A step, whose gradient is that of a smooth one, with setup_context."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return (x > 0).float()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> torch.Tensor:
        return dy / (1 + ctx.saved_tensors[0].abs()) ** 2


class Product(torch.autograd.Function):
    """A product that keeps no more than its factors: its gradient is that of its forward."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, dy: torch.Tensor):
        x, weight = ctx.saved_tensors
        return dy @ weight.T, x.T @ dy


class Limited(torch.autograd.Function):
    """The identity, whose gradient is limited: no factor says that."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> torch.Tensor:
        return dy.clamp(-0.01, 0.01)


reverse = Reversed.apply  # as scripts name it; the class is not asked again


class Handwritten(nn.Module):
    """Gradients of Functions, a block that is computed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.domains = nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(8, 2)
        self.weight = nn.Parameter(torch.randn(8, 8) * 0.3)

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        hidden = torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)
        hidden = Product.apply(hidden, self.weight)
        again = torch.utils.checkpoint.checkpoint(torch.tanh, hidden, use_reentrant=True)
        return F.cross_entropy(self.head(Spike.apply(again)), label) + F.cross_entropy(self.domains(reverse(again, 0.5)), label % 2)


class Taught(nn.Module):
    """A student whose teacher is in evaluation mode; its own normalization is not."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
        self.student = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))
        with torch.no_grad():
            self.teacher[1].running_mean.normal_()
            self.teacher[1].running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self.student(x), self.teacher(x))


class Recognizer(nn.Module):
    """What torch.export stumbles over: a mask that may be causal, a distribution that looks at its values, products along a ray, CTC, and
    attention whose heads are joined by a view."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder, self.attention, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(8, 24), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, words: torch.Tensor, **lengths: torch.Tensor) -> dict:
        hidden = self.encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(7))
        query, key, value = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in self.attention(hidden).chunk(3, 2))
        joined = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).contiguous().view(x.shape[0], 7, 8)
        scores = F.log_softmax(self.head(joined), 2)
        loss = F.ctc_loss(scores.transpose(0, 1), words, torch.full_like(lengths["words_in"], 7), lengths["words_in"])
        likely = torch.distributions.Normal(scores.mean(), 1.0).log_prob(x).mean()
        return {"loss": loss - likely + torch.cumprod(torch.sigmoid(joined), 1).mean()}


class InFolder(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.onnx"


class Modules(InFolder):
    def assert_follows(self, module: nn.Module, batches: list, loss: str, criterion, optimizer) -> stowage.Step:
        """Three steps of both: losses, then every entry of the state."""
        step = stowage.compile(module, batches[0][0], loss=loss, optimizer=optimizer, threads=1)
        module.train()
        for inputs, target in batches:
            optimizer.zero_grad()
            expected = criterion(module(inputs), target)
            expected.backward()
            optimizer.step()
            self.assertAlmostEqual(step(inputs, target), expected.item(), delta=1e-4 * max(1.0, abs(expected.item())))
        state = step.state_dict()
        self.assertEqual(list(state), list(module.state_dict()))
        for name, value in module.state_dict().items():
            self.assertEqual((state[name].shape, state[name].dtype), (value.shape, value.dtype), name)
            torch.testing.assert_close(state[name], value, rtol=1e-3, atol=1e-4, msg=name)
        module.load_state_dict(state)
        with torch.no_grad():
            torch.testing.assert_close(step.eval(batches[0][0]), module.eval()(batches[0][0]), rtol=1e-3, atol=1e-4)
        return step

    def test_convolutional(self) -> None:
        """Statistics move with their own momentum, the frozen layer stays, counters count, the idle parameter stays."""
        module = quiet(Convolutional())
        batches = [(torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))) for _ in range(3)]
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        step = self.assert_follows(module, batches, "cross-entropy", nn.CrossEntropyLoss(), torch.optim.SGD(trained, lr=0.1, momentum=0.9))
        self.assertEqual({tensor.name for tensor in step.parameters()},
                         {"first.weight", "first_norm.weight", "first_norm.bias", "second_norm.weight", "second_norm.bias",
                          "head.weight", "head.bias"})  # fmt: skip
        self.assertEqual(int(step.state_dict()["first_norm.num_batches_tracked"]), 3)

    def test_language(self) -> None:
        """Tied weights are one tensor with two names; the mask and the attention's scale are not trained."""
        module = quiet(Language())
        batches = [(torch.randint(0, 20, (4, 6)), torch.randint(0, 20, (4, 6))) for _ in range(3)]

        def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(output.flatten(0, 1), target.flatten())

        step = self.assert_follows(module, batches, "cross-entropy:class-axis=-1", criterion, torch.optim.SGD(module.parameters(), lr=0.5))
        self.assertEqual(len(step.parameters()), len(list(module.parameters())))

    def test_regression_with_objects_of_torch(self) -> None:
        module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
        batches = [(torch.randn(4, 6), torch.randn(4, 2)) for _ in range(3)]
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01, betas=(0.8, 0.99), weight_decay=0.1)
        step = self.assert_follows(module, batches, nn.MSELoss(), nn.MSELoss(), optimizer)
        self.assertGreaterEqual(step.max_batch(), 4)
        self.assertEqual(step.frontier()[0]["arena_bytes"], step.plan.arena_bytes)

    def test_losses_and_optimizers_of_torch(self) -> None:
        """Each with settings that are not the defaults, and a module that gives what the loss reads: by day every other one."""
        classes, values = torch.tensor([0, 2, 1, 2]), torch.randn(4, 3)
        shares, weight = torch.softmax(torch.randn(4, 3), 1), torch.tensor([0.5, 2.0, 1.0])
        optim = torch.optim
        for loss, target, last, kind, settings in (
            (nn.CrossEntropyLoss(weight=weight, ignore_index=1, label_smoothing=0.1), classes, nn.Identity(),
             optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
            (nn.NLLLoss(weight=weight, ignore_index=0, reduction="sum"), classes, nn.LogSoftmax(1),
             optim.Adagrad, {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
            (nn.BCEWithLogitsLoss(pos_weight=weight), torch.sigmoid(values), nn.Identity(),
             optim.RMSprop, {"lr": 0.01, "alpha": 0.9, "momentum": 0.5, "centered": True, "eps": 1e-6}),
            (nn.KLDivLoss(reduction="batchmean"), shares, nn.LogSoftmax(1),
             optim.Adafactor, {"lr": 0.05, "beta2_decay": -0.5, "d": 1.5, "weight_decay": 0.1}),
            (nn.KLDivLoss(log_target=True), shares.log(), nn.LogSoftmax(1), optim.SGD, {"lr": 0.05}),
            (nn.L1Loss(reduction="sum"), values, nn.Identity(), optim.SGD, {"lr": 0.05}),
            (nn.SmoothL1Loss(beta=0.5), values, nn.Identity(), optim.AdamW, {"lr": 0.01, "betas": (0.8, 0.9)}),
            (nn.HuberLoss(delta=0.25), values, nn.Identity(), optim.Adam, {"lr": 0.01, "amsgrad": True, "eps": 1e-6}),
        )[:: 1 if NIGHT else 2]:  # fmt: skip
            with self.subTest(loss=loss, optimizer=kind.__name__):
                module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3), last)
                batches = [(torch.randn(4, 5), target) for _ in range(3)]
                self.assert_follows(module, batches, loss, loss, kind(module.parameters(), **settings))

    def test_leaves_the_threads_of_torch_alone(self) -> None:
        """The process's libgomp serves both; a step must not change what PyTorch was told."""
        module, x, target = nn.Linear(3, 2), torch.randn(4, 3), torch.randn(4, 2)
        for count in (1, 2):
            torch.set_num_threads(count)
            step = stowage.compile(module, x, loss="mse", threads=3 - count)
            step(x, target)
            step.eval(x)
            self.assertEqual(torch.get_num_threads(), count)

    def test_groups_of_parameters(self) -> None:
        """Rates and decays by group; what no group has stays, as in PyTorch."""
        module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        matrices, vectors = ([p for p in (*module[0].parameters(), *module[4].parameters()) if p.dim() == rank] for rank in (2, 1))
        optimizer = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0, "lr": 0.05}], lr=0.01, weight_decay=0.5)
        batches = [(torch.randn(4, 6), torch.randn(4, 2)) for _ in range(3)]
        before = module[2].weight.detach().clone()
        step = self.assert_follows(module, batches, nn.MSELoss(), nn.MSELoss(), optimizer)
        self.assertTrue(torch.equal(step.state_dict()["2.weight"], before))

    def test_export_keeps_norms_and_dropout(self) -> None:
        module = Convolutional().eval()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        report = stowage.export(module, torch.randn(4, 3, 8, 8), self.path)
        self.assertTrue(report.ok, str(report))
        self.assertEqual(report.unused, ["idle"])
        self.assertIn("gradient first.weight", report.errors)
        self.assertFalse(module.training)
        self.assertTrue(all(torch.equal(value, before[name]) for name, value in module.state_dict().items()))
        graph = onnx.load(self.path).graph
        kinds = [node.op_type for node in graph.node]
        self.assertEqual((kinds.count("BatchNormalization"), kinds.count("Dropout"), kinds.count("CastLike")), (2, 1, 0))
        self.assertTrue(graph.input[0].type.tensor_type.shape.dim[0].dim_param)
        self.assertIn("p_first_weight: PARAMETER", {p.key: p.value for p in graph.metadata_props}["pkg.torch.export.ExportedProgram.graph_signature"])  # fmt: skip

    def test_own_loss_named_outputs_and_frozen_parameters(self) -> None:
        """A file of a module that computes its loss is compared by that; outputs have their keys, None is none, and
        what the module does not train is frozen for whoever plans the file."""

        class Own(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)
                self.body.requires_grad_(False)

            def forward(self, x: torch.Tensor, label: torch.Tensor) -> dict:
                scores = self.head(self.body(x).tanh())
                return {"loss": F.cross_entropy(scores, label), "result": {"scores": scores, "extra": None}, "x": x + 1}

        module, inputs = Own(), (torch.randn(4, 6), torch.randint(0, 3, (4,)))
        report = stowage.export(module, inputs, self.path)
        self.assertEqual(report.trained, ["head.weight", "head.bias"])
        self.assertEqual({name for name in report.errors if not name.startswith("output")},
                         {"loss", "gradient head.weight", "gradient head.bias"})  # fmt: skip
        outputs = [output.name for output in onnx.load(self.path).graph.output]
        self.assertEqual(outputs[:2], ["loss", "result_scores"])
        self.assertNotIn("x", outputs)  # the input's name
        step = stowage.compile(self.path, loss="output:loss", batch=4)
        self.assertAlmostEqual(step(*inputs), module(*inputs)["loss"].item(), delta=1e-5)
        self.assertEqual([tensor.name for tensor in step.model.state if tensor.kind == "parameter"], report.trained)
        step.close()
        with self.assertRaisesRegex(stowage.StowageError, "this step is closed"):
            step(*inputs)

    def test_batch_of_one_stays_open(self) -> None:
        stowage.export(nn.Linear(3, 2), torch.randn(1, 3), self.path)
        self.assertTrue(onnx.load(self.path).graph.input[0].type.tensor_type.shape.dim[0].dim_param)

    def test_check_finds_what_differs(self) -> None:
        """Other values, a changed activation, a parameter that became a constant: each is named."""
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        example = torch.randn(4, 4)
        stowage.export(module, example, self.path)
        with torch.no_grad():
            module[2].bias += 0.5
        report = stowage.check(module, example, self.path)
        self.assertRegex(str(report), "output .*differs by")
        self.assertFalse(any("parameter" in difference for difference in report.differences))
        with torch.no_grad():
            module[2].bias -= 0.5
        model = onnx.load(self.path)
        for node in model.graph.node:
            if node.op_type == "Tanh":
                node.op_type = "Sigmoid"
        onnx.save(model, self.path)
        self.assertRegex(str(stowage.check(module, example, self.path)), "gradient 0.weight: differs by")

    def test_kinks_are_moved(self) -> None:
        """What lies within a few rounding errors of a kink gets on its other side, the rest stays where it is."""
        from stowage._check import _moved_at_kinks

        def slopes(function, values: list) -> list:
            x = torch.tensor(values, requires_grad=True)
            function(x * 1).sum().backward()
            return x.grad.flatten().tolist()

        near = [3e-7, -3e-7, 1.0, -1.0, 3e-6]
        for relu in (F.relu, torch.relu, lambda x: F.relu(x, inplace=True), lambda x: x.relu_(), nn.ReLU(), nn.Hardtanh(0, 2)):
            self.assertEqual(slopes(relu, near), [1, 0, 1, 0, 1])
            with _moved_at_kinks(1):
                self.assertEqual(slopes(relu, near), [1, 1, 1, 0, 1])
            with _moved_at_kinks(-1):
                self.assertEqual(slopes(relu, near), [0, 0, 1, 0, 1])
        windows = [[[1.0, 1.0 + 2**-23] * 50 + [1.0, 2.0] * 50]]
        with _moved_at_kinks(0):
            found = slopes(nn.MaxPool1d(2), windows)
        self.assertTrue(0 < sum(found[0:100:2]) < 50)
        self.assertEqual(found[100:], [0, 1] * 50)
        with _moved_at_kinks(0):  # PyTorch leaves open which of these it takes
            found = torch.stack([torch.ones(8).topk(4).indices.sort().values for _ in range(20)])
            self.assertGreater(len(found.unique(dim=0)), 1)
        with _moved_at_kinks(1):  # no gradient goes through a mask
            self.assertEqual(torch.tensor([0.0, 1.0]).clamp(0, 1).bool().tolist(), [False, True])

    def test_refusals(self) -> None:
        """What cannot be exported or compiled says so in Python's terms."""
        module = nn.Linear(3, 2)
        with self.assertRaisesRegex(ValueError, "needs example_inputs"):
            stowage.compile(module)
        with self.assertRaisesRegex(ValueError, "CTCLoss has no counterpart"):
            stowage.compile(module, torch.randn(2, 3), loss=nn.CTCLoss())
        used = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        module(torch.randn(2, 3)).sum().backward()
        used.step()
        apart = [{"params": [module.weight]}, {"params": [module.bias], "betas": (0.5, 0.9)}]
        for optimizer, message in (
            (torch.optim.Adam(module.parameters(), maximize=True), "maximize=True has no counterpart"),
            (torch.optim.NAdam(module.parameters()), "NAdam has no counterpart"),
            (torch.optim.SGD(nn.Linear(3, 2).parameters()), "none of the module's"),
            (torch.optim.Adam(apart), "differ in lr and weight_decay only"),
            (used, "has taken steps already"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                stowage.compile(module, torch.randn(2, 3), loss="mse", optimizer=optimizer)
        with self.assertRaisesRegex(stowage.ExportError, "rows in dimension 0"):
            stowage.export(nn.Bilinear(2, 2, 2), (torch.randn(2, 2), torch.randn(3, 2)), self.path)

    def test_examples_that_do_not_fit(self) -> None:
        """One error with the shapes and PyTorch's reason, and nothing that PyTorch logs on standard error."""
        module = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
        logged, kept = tempfile.TemporaryFile(), os.dup(2)
        os.dup2(logged.fileno(), 2)
        try:
            with self.assertRaisesRegex(stowage.StowageError, r"forward does not run on the example inputs \(input \[4, 3, 5\]\): .*mat1 and mat2 shapes"):
                stowage.export(module, np.zeros((4, 3, 5), np.float32), self.path, check=False)
            with torch.device("meta"):
                bare = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
            with self.assertRaisesRegex(stowage.StowageError, r"forward does not run on the example inputs \(input \[4, 15\]\): "):
                stowage.plan(bare, torch.zeros(4, 15))
            with self.assertRaisesRegex(stowage.ExportError, r"argument 0, argument 1\) are not what forward\(input\) takes: too many"):
                stowage.export(module, (torch.zeros(4, 12), torch.zeros(4)), self.path, check=False)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        logged.seek(0)
        self.assertEqual(logged.read(), b"")

    def test_inputs_by_name(self) -> None:
        """forward's own names, in any order; what is no tensor stays as in the example."""

        class Pair(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Linear(3, 3)

            def forward(self, left: torch.Tensor, right: torch.Tensor, sign: int = 1, mask=None) -> torch.Tensor:
                return self.scale(left) - sign * right

        module, left, right, target = Pair(), *(torch.randn(4, 3) for _ in range(3))
        report = stowage.export(module, {"right": right, "sign": 2, "left": left}, self.path)
        self.assertTrue(report.ok, str(report))
        step = stowage.compile(module, (left, right), loss="mse", threads=1)
        torch.testing.assert_close(step.eval(right=right, left=left), module(left, right))
        expected = F.mse_loss(module(left, right), target).item()
        self.assertAlmostEqual(step({"right": right, "target": target, "left": left}), expected, places=5)

    def test_inputs_without_names(self) -> None:
        """Arguments inside a list, and those that forward takes as *values."""

        class Sum(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale = nn.Linear(3, 3)

            def forward(self, pair: list, *values: torch.Tensor) -> torch.Tensor:
                return self.scale(pair[0] - pair[1]) + values[0] * values[1]

        report = stowage.export(Sum(), ([torch.randn(4, 3), torch.randn(4, 3)], torch.randn(4, 3), torch.randn(4, 3)), self.path)
        self.assertTrue(report.ok, str(report))
        self.assertEqual([value.name for value in onnx.load(self.path).graph.input], ["pair_0", "pair_1", "values_0", "values_1"])

    def test_padding_is_not_trained(self) -> None:
        """Embedding's padding row is read, and its gradient is none; ONNX itself has no place for it."""
        module = nn.Sequential(nn.Embedding(6, 4, padding_idx=2), nn.Flatten(), nn.Linear(12, 3))
        with torch.no_grad():
            module[0].weight[2] = 0.5
        batches = [(torch.randint(0, 6, (5, 3)), torch.randint(0, 3, (5,))) for _ in range(3)]
        self.assertTrue(all((tokens == 2).any() for tokens, _ in batches))
        step = self.assert_follows(module, batches, "cross-entropy", nn.CrossEntropyLoss(), torch.optim.SGD(module.parameters(), lr=0.5))
        self.assertTrue((step.state_dict()["0.weight"][2] == 0.5).all())
        with self.assertRaisesRegex(stowage.CompileError, "scale_grad_by_freq"):
            stowage.compile(nn.Embedding(6, 4, scale_grad_by_freq=True), torch.randint(0, 6, (5, 3)), loss="mse")

    def test_what_onnx_has_no_word_for(self) -> None:
        """Values that are detached, or computed without a gradient, and smoothed labels train as the module does. A conversion that
        does nothing is no value of its own: what it is called on keeps its gradient elsewhere."""
        report = stowage.export(Detached(), (torch.randn(4, 6), torch.randint(0, 5, (4,))), self.path)
        self.assertTrue(report.ok, str(report))
        self.assertIn("gradient student.weight", report.errors)

    def test_gradients_of_functions(self) -> None:
        """What a Function's backward says counts: a factor for each element, or the gradient of its forward. Others are refused, and
        hooks with them."""
        inputs = (torch.randn(4, 6), torch.randint(0, 5, (4,)))
        report = stowage.export(Handwritten(), inputs, self.path)
        self.assertTrue(report.ok, str(report))
        self.assertEqual(report.sensitive, [])

        class Unlike(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return Limited.apply(super().forward(x))

        class Hooked(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = super().forward(x)
                y.register_hook(lambda dy: 2 * dy)
                return y

        class Clamped(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.no_grad():
                    self.weight.clamp_(-0.1, 0.1)
                return super().forward(x)

        masked = nn.Linear(6, 3)
        masked.weight.register_hook(lambda dy: 0 * dy)
        for module, message in (
            (Unlike(6, 3), "the backward of Limited is neither"),
            (Hooked(6, 3), "hooks on gradients .*: a value of the forward"),
            (masked, "hooks on gradients .*: parameter weight"),
            (Clamped(6, 3), "forward writes the parameters weight in place"),
        ):
            with self.assertRaisesRegex(stowage.ExportError, message):
                stowage.export(module, inputs[0], self.path)

    def test_other_spellings(self) -> None:
        """What the exporter cannot follow is written otherwise: values and gradients are PyTorch's."""
        from stowage import _spellings

        def both(own, theirs, x: torch.Tensor) -> None:
            found, expected = ([y, *torch.autograd.grad((y * torch.arange(1.0, y.numel() + 1).view(y.shape)).sum(), x)]
                               for y in (own(x), theirs(x)))  # fmt: skip
            for ours, wanted in zip(found, expected):
                torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)

        x = torch.randn(3, 7, 2)
        x[0, 3, 0] = 0
        for dim in (0, 1, -1):
            both(lambda t, dim=dim: _spellings.cumprod(t, dim), lambda t, dim=dim: torch.cumprod(t, dim), x.requires_grad_())
        targets = torch.tensor([[1, 2, 2, 4], [3, 3, 0, 0], [1, 0, 0, 0], [2, 2, 2, 2]])
        arguments = (targets, torch.tensor([9, 8, 9, 6]), torch.tensor([4, 2, 1, 4]))
        for settings in ({"zero_infinity": True}, {"reduction": "sum", "zero_infinity": True}, {"reduction": "none", "zero_infinity": True}):
            with self.subTest(**settings):
                both(lambda t, s=settings: _spellings.ctc_loss(F.log_softmax(t, 2), *arguments, **s),
                     lambda t, s=settings: F.ctc_loss(F.log_softmax(t, 2), *arguments, **s), torch.randn(9, 4, 5, requires_grad=True))  # fmt: skip
        self.assertEqual(_spellings.ctc_loss(F.log_softmax(torch.randn(6, 4, 5), 2), *arguments[:1], [6] * 4, arguments[2], reduction="none")[3],
                         float("inf"))  # four equal labels need seven steps
        for var in (torch.rand(4, 3) + 0.1, torch.rand(4, 3) * 1e-7):
            both(lambda t: _spellings.gaussian_nll_loss(torch.zeros(4, 3), torch.ones(4, 3), t, full=True, reduction="sum"),
                 lambda t: F.gaussian_nll_loss(torch.zeros(4, 3), torch.ones(4, 3), t, full=True, reduction="sum"), var.requires_grad_())  # fmt: skip
        row, rows = torch.tensor([1, 3, 6, 3, 3, 6, 6, 0, 2]), torch.tensor([[1, 3, 6], [3, 3, 3], [0, 3, 1]])
        spelled = _spellings._padded_bags(F.embedding_bag)
        for mode in ("sum", "mean"):
            for bags in ({"input": rows}, {"input": row, "offsets": torch.tensor([0, 3, 3, 5])},
                         {"input": row, "offsets": torch.tensor([0, 3, 5, 9]), "include_last_offset": True}):  # fmt: skip
                with self.subTest(mode=mode, bags=list(bags)):
                    settings = {**bags, "mode": mode, "padding_idx": -4}
                    both(lambda t, s=settings: spelled(weight=t, **s), lambda t, s=settings: F.embedding_bag(weight=t, **s),
                         torch.randn(7, 4, requires_grad=True))  # fmt: skip
        inputs = {"x": torch.randn(4, 7, 8), "words": torch.randint(1, 5, (4, 3)), "words_in": torch.randint(1, 4, (4,))}
        report = stowage.export(Recognizer(), inputs, self.path)
        self.assertTrue(report.ok, str(report))

    def test_names_of_operations(self) -> None:
        """A buffer, a parameter and an argument may be called as the program calls results of operations."""

        class Named(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("mean", torch.full((3,), 0.5))
                self.add, self.mul = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

            def forward(self, sub: torch.Tensor) -> "dict[str, torch.Tensor]":
                hidden = (sub + self.add) * self.mul
                return {"loss": ((hidden - hidden.mean(0) - sub) * self.mean).square().sum()}

        module, rows = Named(), torch.randn(4, 3)
        step = stowage.compile(module, {"sub": rows}, loss="output:loss", optimizer="sgd:lr=0.1")
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(2):
            loss = module(rows)["loss"]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(step({"sub": rows}), loss.item(), delta=1e-5 * abs(loss.item()))

        class Twice(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.x = nn.Parameter(torch.ones(3))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + self.x

        with self.assertRaisesRegex(stowage.ExportError, "'x' is an argument of forward and a parameter or buffer"):
            stowage.export(Twice(), rows, self.path)

    def test_parts_in_evaluation_mode(self) -> None:
        """They stay in it where the module trains, alone or beside others; a module in evaluation mode is switched as a whole."""
        x = torch.randn(4, 6)
        for modes in ("teacher", "both", "all"):
            with self.subTest(modes=modes):
                module = Taught()
                module.teacher.eval()
                if modes == "both":
                    module.student.eval()
                if modes == "all":
                    module.eval()
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    report = stowage.export(module, x, self.path)
                self.assertTrue(report.ok, str(report))
                self.assertEqual(any("left so" in str(warning.message) for warning in said), modes != "all")
                self.assertEqual([part.training for part in (module, module.teacher[1], module.student[1])],
                                 [modes != "all", False, modes == "teacher"])  # fmt: skip
                step = stowage.compile(module, x, loss="output:mse_loss", optimizer="sgd:lr=0.1", threads=1)
                step([x])
                state, before = step.state_dict(), module.state_dict()
                for name, follows in (("teacher", modes == "all"), ("student", modes != "both")):
                    same = torch.equal(state[f"{name}.1.running_mean"], before[f"{name}.1.running_mean"])
                    self.assertEqual(same, not follows, name)

    def test_no_batch(self) -> None:
        """Inputs of any sizes, as a graph's nodes and edges: nothing is left open."""

        class Graph(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(3, 2)

            def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
                return torch.zeros(5, 2).index_add(0, edges[1], self.layer(nodes[edges[0]]))

        module, inputs, target = Graph(), (torch.randn(5, 3), torch.randint(0, 5, (2, 9))), torch.randn(5, 2)
        self.assertTrue(stowage.export(module, inputs, self.path, dynamic_batch=False).ok)
        step = stowage.compile(module, inputs, loss="mse", dynamic_batch=False, threads=1)
        self.assertAlmostEqual(step(*inputs, target), F.mse_loss(module(*inputs), target).item(), places=5)

    def test_bfloat16_tensors_are_converted(self) -> None:
        module = nn.Linear(3, 2)
        values = torch.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
        target = torch.zeros(2, 2)
        first, second = (stowage.compile(module, values, loss="mse", threads=1) for _ in range(2))
        self.assertEqual(first(values, target), second(values.bfloat16(), target.half()))
        np.testing.assert_array_equal(first.eval(values.numpy()), second.eval(values).numpy())


class Night(Modules):
    """What is long and rare, and with it all cases of the day."""

    def test_a_value_at_a_kink_is_no_difference(self) -> None:
        """Behind features.9.expand3x3 one value is -2.7e-6 in double precision, the largest 10: it is on the other side of
        zero here than in PyTorch, and gradients differ by 1.5e-2."""
        import torchvision

        module = torchvision.models.squeezenet1_1(num_classes=10)
        report = stowage.export(module, torch.randn(4, 3, 64, 64), self.path)
        self.assertTrue(report.ok, report)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main()
