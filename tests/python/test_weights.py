"""A base from a folder of safetensors: read into the arena, trained around, its adapters saved and merged.

Run in the environment of scripts/install.sh python; what needs PEFT is skipped where it is not installed. STOWAGE_BINARY names the compiler.
"""

import importlib.util
import json
import shutil
import subprocess
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np
import stowage
import torch
import torch.nn as nn
from safetensors.torch import load_file, load_model, save_file, save_model
from test_frozen import SETTINGS, TOKENS, VOCABULARY, Tuned

HAS_PEFT = importlib.util.find_spec("peft") is not None


class Tied(nn.Module):
    """The table is the head, and a table of positions is no part of any file."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 64)
        self.middle = nn.Linear(64, 64)
        self.head = nn.Linear(64, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("places", torch.linspace(-1, 1, TOKENS)[:, None].repeat(1, 64), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.middle(self.tokens(ids) + self.places))).transpose(1, 2)


def on_meta(module: nn.Module) -> nn.Module:
    """Parameters without values, the same ones where they were the same; buffers as they are."""
    bare: "dict[int, nn.Parameter]" = {}
    for child in module.modules():
        for name, parameter in child._parameters.items():
            if parameter is not None:
                child._parameters[name] = bare.setdefault(id(parameter), nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad))
    return module


def write_shards(folder: Path, tensors: "dict[str, torch.Tensor]", count: int = 2) -> None:
    names = sorted(tensors)
    weight_map = {}
    for i in range(count):
        shard = f"model-{i + 1:05}-of-{count:05}.safetensors"
        save_file({name: tensors[name].contiguous() for name in names[i::count]}, folder / shard)
        weight_map.update({name: shard for name in names[i::count]})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        torch.manual_seed(0)
        self.ids, self.labels = (torch.randint(0, VOCABULARY, (4, TOKENS)) for _ in range(2))

    def losses(self, step: stowage.Step, count: int = 3) -> "list[float]":
        return [step(self.ids, self.labels) for _ in range(count)]


class Folder(InAFolder):
    def test_as_from_the_module(self) -> None:
        """In f32, in blocks of 4 bits and in bf16 files, step for step what the module with its weights gives."""
        for dtype, options in ((torch.float32, {}), (torch.float32, {"frozen": "nf4"}), (torch.bfloat16, {"precision": "f32"})):
            torch.manual_seed(1)
            module = Tuned().to(dtype)
            with stowage.compile(module, self.ids, **SETTINGS, **options) as step:
                expected = self.losses(step)
            write_shards(self.folder, module.state_dict(), 3)
            with stowage.compile(on_meta(module), self.ids, weights=self.folder, **SETTINGS, **options) as step:
                self.assertEqual(self.losses(step), expected, (dtype, options))
                trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
                self.assertEqual(set(step.state_dict()), trained, "frozen values are the folder's")

    def test_tied(self) -> None:
        """Whichever of its names a file has tied weights under."""
        module = Tied()
        with stowage.compile(module, self.ids, **SETTINGS) as step:
            expected = self.losses(step)
        for left_out in ("head.weight", "tokens.weight"):
            write_shards(self.folder, {name: value for name, value in module.state_dict().items() if name != left_out})
            with stowage.compile(on_meta(Tied()), self.ids, weights=self.folder, **SETTINGS) as step:
                self.assertEqual(self.losses(step), expected, left_out)

    def test_tied_in_executables(self) -> None:
        """A program without Python knows both names: it reads a file with either, and what it writes is read by safetensors' own."""
        module, model, program = Tied(), self.folder / "tied.onnx", self.folder / "tied"
        stowage.export(module, self.ids, model)
        subprocess.run([stowage.find_binary(), "compile", model, "-o", program, "--loss=cross-entropy:class-axis=1", "--optimizer=sgd:lr=0.1",
                        "--batch=4", "--threads=1", "--recompute=none"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        np.savez(self.folder / "data.npz", x=self.ids.numpy(), y=self.labels.numpy())

        def curve(weights: "dict[str, torch.Tensor]") -> str:
            save_file(weights, self.folder / "given.safetensors")
            log, given = self.folder / "log.csv", self.folder / "given.safetensors"
            subprocess.run([program, "train", f"--data={self.folder / 'data.npz'}", "--steps=2", f"--init-from={given}", f"--log={log}",
                            f"--save-trained={self.folder / 'trained.safetensors'}"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
            return log.read_text()

        values = {name: value.clone() + 0.01 for name, value in module.state_dict().items() if name != "head.weight"}
        expected = curve(values)
        values["head.weight"] = values.pop("tokens.weight")
        self.assertEqual(curve(values), expected)
        found, other = load_file(self.folder / "trained.safetensors"), Tied()
        self.assertEqual(len(found), 3, "the tied weight is there once")
        load_model(other, self.folder / "trained.safetensors")
        self.assertTrue(all(torch.equal(other.state_dict()[name], value) for name, value in found.items()))
        save_model(other, self.folder / "given.safetensors")  # by the name that safetensors keeps
        subprocess.run([program, "eval", f"--data={self.folder / 'data.npz'}", f"--weights={self.folder / 'given.safetensors'}"], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip

    def test_refused(self) -> None:
        module = on_meta(Tuned())
        values = {name: torch.zeros(value.shape) for name, value in module.state_dict().items()}

        def refused(words: str, model: nn.Module = module) -> None:
            with self.assertRaisesRegex(stowage.StowageError, words):
                stowage.compile(model, self.ids, weights=self.folder, **SETTINGS)

        refused("expected model.safetensors or model.safetensors.index.json, found neither")
        write_shards(self.folder, values)
        refused("all parameters of this one have theirs", Tuned())
        bare = on_meta(Tied())
        bare.places = bare.places.to("meta")
        refused("the buffers places have no values", bare)
        (self.folder / "model-00002-of-00002.safetensors").unlink()
        refused("the shard 'model-00002-of-00002.safetensors' is missing, with . of 12 tensors")
        write_shards(self.folder, {**values, "head.weight": torch.zeros(3, 64)})
        refused(r"'head.weight': expected f32\[96,64\], found f32\[3,64\]")
        write_shards(self.folder, {name: value for name, value in values.items() if name != "head.weight"})
        refused("'head.weight' is missing")
        write_shards(self.folder, {**{name: value for name, value in values.items() if name != "head.weight"},
                                   "head.qweight": torch.zeros(3, dtype=torch.int32), "head.g_idx": torch.zeros(3, dtype=torch.int32)})  # fmt: skip
        refused(r"quantized by GPTQ \('head.qweight'\), which is not read; expected f32, bf16 or f16")

    def test_configuration(self) -> None:
        """A folder as Transformers writes it: all of it trained, as from the model itself."""
        from transformers import LlamaConfig, LlamaForCausalLM

        configuration = LlamaConfig(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
                                    num_key_value_heads=2, max_position_embeddings=64, architectures=["LlamaForCausalLM"])  # fmt: skip
        model = LlamaForCausalLM(configuration)
        model.save_pretrained(self.folder, max_shard_size="20KB")
        batch = {"input_ids": self.ids, "labels": self.labels}
        settings = {"optimizer": "adamw:lr=1e-2", "threads": 2, "check": False}
        with stowage.compile(model, batch, **settings) as step:
            expected = [step(batch) for _ in range(3)]
        with stowage.compile(self.folder, (4, TOKENS), **settings) as step:
            self.assertEqual([step(batch) for _ in range(3)], expected)
        with self.assertRaisesRegex(stowage.StowageError, "expected weights=FOLDER"):
            stowage.compile(configuration, (4, TOKENS), **settings)


class Configuration:
    """As much of a configuration of PEFT as a step asks of it."""

    inference_mode = False

    def save_pretrained(self, folder: str) -> None:
        (Path(folder) / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "inference_mode": self.inference_mode}))


class Layer(nn.Module):
    """A linear layer with adapters, named as PEFT's."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base_layer = nn.Linear(inputs, outputs).requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(inputs, 4, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(4, outputs, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + 2 * self.lora_B["default"](self.lora_A["default"](x))


class Wrapped(nn.Module):
    """Names as of peft.get_peft_model(Model): base_model.model.wide.lora_A.default.weight."""

    def __init__(self) -> None:
        super().__init__()
        model = nn.Module()
        model.tokens = nn.Embedding(VOCABULARY, 64).requires_grad_(False)
        model.wide, model.narrow = Layer(64, 128), Layer(128, 64)
        model.head = nn.Linear(64, VOCABULARY, bias=False).requires_grad_(False)
        self.base_model = nn.Module()
        self.base_model.model = model
        self.peft_config, self.active_adapter = {"default": Configuration()}, "default"

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        model = self.base_model.model
        return model.head(model.narrow(torch.relu(model.wide(model.tokens(ids))))).transpose(1, 2)

    def base(self) -> "dict[str, torch.Tensor]":
        """The weights of the model, under its own names."""
        return {name.removeprefix("base_model.model.").replace(".base_layer", ""): value for name, value in self.state_dict().items()
                if "lora_" not in name}  # fmt: skip


class Adapters(InAFolder):
    def test_saved_and_merged(self) -> None:
        """Trained around a base from a folder, saved under PEFT's names, read back, and merged into weights that give the same outputs."""
        module = Wrapped()
        base, adapter, merged = self.folder / "base", self.folder / "adapter", self.folder / "merged"
        base.mkdir()
        write_shards(base, {f"model.{name}": value for name, value in module.base().items()})  # with a path more
        (base / "config.json").write_text("{}")
        bare = Wrapped()
        bare.load_state_dict(module.state_dict())
        for name, parameter in bare.named_parameters():
            if "lora_" not in name:
                path, _, last = name.rpartition(".")
                bare.get_submodule(path)._parameters[last] = nn.Parameter(parameter.detach().to("meta"), requires_grad=False)
        with stowage.compile(module, self.ids, **SETTINGS) as step:
            expected = self.losses(step)
        with stowage.compile(bare, self.ids, weights=base, **SETTINGS) as step:
            self.assertEqual(self.losses(step), expected)
            step.save_adapter(adapter)
            further = self.losses(step)
            step.load_adapter(adapter)
            self.assertEqual(self.losses(step), further)
            step.load_adapter(adapter)
            output = step.eval(self.ids)
            other = self.folder / "other"
            shutil.copytree(adapter, other)
            tensors = load_file(adapter / "adapter_model.safetensors")
            last = max(tensors)
            save_file({**tensors, last: torch.zeros(tensors[last].shape[0], tensors[last].shape[1] + 1)}, other / "adapter_model.safetensors")
            with self.assertRaisesRegex(stowage.StowageError, "that of the step"):
                step.load_adapter(other)
            self.assertTrue(torch.equal(torch.as_tensor(step.eval(self.ids)), torch.as_tensor(output)))  # nothing of it was written
        tensors = load_file(adapter / "adapter_model.safetensors")
        self.assertEqual(set(tensors), {f"base_model.model.{layer}.lora_{which}.weight" for layer in ("wide", "narrow") for which in "AB"})
        self.assertTrue(json.loads((adapter / "adapter_config.json").read_text())["inference_mode"])
        self.assertFalse(bare.peft_config["default"].inference_mode)

        stowage.merge(base, adapter, merged)
        self.assertEqual(sorted(path.name for path in merged.iterdir()), sorted(path.name for path in base.iterdir()))
        found = {name: value for path in merged.glob("*.safetensors") for name, value in load_file(path).items()}
        whole = Wrapped()
        for name, value in found.items():
            key = "base_model.model." + name.removeprefix("model.")
            for layer in ("wide", "narrow"):
                key = key.replace(f".{layer}.", f".{layer}.base_layer.")
            whole.get_parameter(key).data = value
        for layer in (whole.base_model.model.wide, whole.base_model.model.narrow):
            nn.init.zeros_(layer.lora_B["default"].weight)
        self.assertLess((whole(self.ids) - output).abs().max().item(), 1e-5)
        with self.assertRaisesRegex(stowage.StowageError, "expected a new folder"):
            stowage.merge(base, adapter, merged)
        index = base / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
        with self.assertRaisesRegex(stowage.StowageError, "expected the names of files beside the index, found '../secret.safetensors'"):
            stowage.merge(base, adapter, self.folder / "again")

    def test_merged_in_16_bits(self) -> None:
        """Rounded once, to nearest even; settings of PEFT's that change the scale; what other kinds of adapters need is refused."""
        rng = np.random.default_rng(0)
        weight = torch.from_numpy(rng.normal(size=(300, 40)).astype(np.float32)).to(torch.bfloat16)
        turned = torch.from_numpy(rng.normal(size=(40, 300)).astype(np.float32)).to(torch.float16)
        down, up = (torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in ((4, 40), (300, 4)))
        base, adapter = self.folder / "base.safetensors", self.folder / "adapter"
        adapter.mkdir()

        def merged(tensor: torch.Tensor, **configuration: object) -> torch.Tensor:
            save_file({"a.q.weight": tensor, "a.q.bias": torch.ones(300)}, base)
            save_file({"base_model.model.a.q.lora_A.weight": down, "base_model.model.a.q.lora_B.weight": up}, adapter / "adapter_model.safetensors")
            (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "lora_alpha": 8, "r": 4, **configuration}))
            with tempfile.TemporaryDirectory() as output:
                stowage.merge(base, adapter, output)
                found = load_file(Path(output) / base.name)
            self.assertTrue(torch.equal(found["a.q.bias"], torch.ones(300)))
            return found["a.q.weight"]

        product = (up.double() @ down.double()).float()
        for configuration, scale in (({}, 2), ({"use_rslora": True}, 4), ({"alpha_pattern": {"q": 2}}, 0.5)):
            expected = (weight.float() + scale * product).to(torch.bfloat16)
            self.assertLess((merged(weight, **configuration) != expected).float().mean(), 1e-2, configuration)  # sums in another order
        expected = (turned.float() + 2 * product.T).to(torch.float16)
        self.assertLess((merged(turned, fan_in_fan_out=True) != expected).float().mean(), 1e-2)
        for configuration, words in (({"peft_type": "IA3"}, "found IA3"), ({"use_dora": True}, "found use_dora")):
            with self.assertRaisesRegex(stowage.StowageError, words):
                merged(weight, **configuration)
        with self.assertRaisesRegex(stowage.StowageError, "is no change of 'a.q.weight'"):
            merged(turned)

    @unittest.skipUnless(HAS_PEFT, "PEFT is not installed")
    def test_beside_peft(self) -> None:
        """A folder trained with LoRA has PEFT's losses, and PEFT reads back what is saved."""
        import peft
        from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

        LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                     num_key_value_heads=2, max_position_embeddings=64, architectures=["LlamaForCausalLM"]))\
            .save_pretrained(self.folder / "base", max_shard_size="60KB")  # fmt: skip
        batch = {"input_ids": self.ids, "labels": self.labels}
        settings = {"optimizer": "sgd:lr=0.1", "threads": 2, "precision": "f32"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(3)
            step = stowage.compile(self.folder / "base", (4, TOKENS), method="lora", **settings)
            step.save_adapter(self.folder / "first")
            eager = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(self.folder / "base"), self.folder / "first", is_trainable=True)
            optimizer = torch.optim.SGD([p for p in eager.parameters() if p.requires_grad], lr=0.1)
            for _ in range(3):
                # What Transformers shifts, a step is given as it is.
                loss = eager(**batch).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.assertAlmostEqual(step(batch), loss.item(), delta=2e-5 * loss.item())
            step.save_adapter(self.folder / "last")
            again = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(self.folder / "base"), self.folder / "last")
        trained = {name: value for name, value in again.state_dict().items() if "lora_" in name}
        self.assertTrue(trained)
        for name, value in trained.items():
            theirs = eager.state_dict()[name]
            self.assertLess((value - theirs).abs().max().item(), 1e-5, name)
        step.close()


if __name__ == "__main__":
    unittest.main()
