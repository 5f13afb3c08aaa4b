"""Tests of the model builders, the data files and the reference tools.

Those that need torch, onnx or scikit-learn are skipped with a message where the package is missing.
"""

import contextlib
import hashlib
import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NIGHT = "STOWAGE_NIGHTLY" in os.environ  # with more of the networks
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python"), str(ROOT / "python/references")]


def needs(*modules: str):
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    return unittest.skipIf(missing, f"needs the Python package {', '.join(missing)}")


class Safetensors(unittest.TestCase):
    def setUp(self) -> None:
        import safetensors_io

        self.io = safetensors_io
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "t.safetensors"

    def test_round_trip(self) -> None:
        """Names, dtypes, shapes and bytes survive, rank 0 and empty tensors included."""
        tensors = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.array(2.5, np.float64),
                   "i": np.array([1, -2], np.int64), "none": np.zeros((0, 4), np.float32)}  # fmt: skip
        self.io.save(self.path, tensors, {"step": "3"})
        loaded = self.io.load(self.path)
        self.assertEqual(list(loaded), list(tensors))
        for name, array in tensors.items():
            self.assertEqual(loaded[name].dtype, array.dtype)
            np.testing.assert_array_equal(loaded[name], array)

    def test_layout(self) -> None:
        """The file is what the format says: length, JSON, bytes; data start 8-byte aligned."""
        self.io.save(self.path, {"x": np.array([1.0, 2.0], np.float32)})
        data = self.path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        self.assertEqual(length % 8, 0)
        header = json.loads(data[8 : 8 + length])
        self.assertEqual(header, {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
        self.assertEqual(data[8 + length :], np.array([1.0, 2.0], "<f4").tobytes())

    def test_malformed(self) -> None:
        """A header that promises more bytes than there are is refused, cut anywhere."""
        self.io.save(self.path, {"x": np.ones(4, np.float32)})
        whole = self.path.read_bytes()
        for length in (0, 4, 8, len(whole) - 17, len(whole) - 1):
            self.path.write_bytes(whole[:length])
            with self.assertRaises(ValueError):
                self.io.load(self.path)


class Digits(unittest.TestCase):
    def test_shapes_and_ranges(self) -> None:
        with np.load(ROOT / "models/data/digits.npz") as data:
            arrays = dict(data)
        self.assertEqual({k: (v.shape, v.dtype.name) for k, v in arrays.items()},
                         {"x": ((1437, 1, 8, 8), "float32"), "y": ((1437,), "int64"),
                          "x_test": ((360, 1, 8, 8), "float32"), "y_test": ((360,), "int64")})  # fmt: skip
        for name in ("x", "x_test"):
            np.testing.assert_array_equal(arrays[name] * 16, np.round(arrays[name] * 16))
            self.assertEqual((arrays[name].min(), arrays[name].max()), (0.0, 1.0))
        counts = np.bincount(arrays["y_test"])
        share = np.bincount(np.concatenate([arrays["y"], arrays["y_test"]])) * 360 / 1797
        self.assertTrue((np.abs(counts - share) < 1).all(), "the split is not stratified")

    @needs("sklearn")
    def test_reproducible(self) -> None:
        """The stored file has what make_digits.py makes."""
        from make_digits import make_arrays

        with np.load(ROOT / "models/data/digits.npz") as data:
            for name, array in make_arrays(360, 0).items():
                np.testing.assert_array_equal(data[name], array)


@needs("torch", "onnx")
class Models(unittest.TestCase):
    def test_demo_model_is_fresh(self) -> None:
        """models/digits_cnn.onnx is byte for byte what the builder writes."""
        from build import build

        made = build("digits_cnn", 128, "seed:0").SerializeToString(deterministic=True)
        stored = (ROOT / "models/digits_cnn.onnx").read_bytes()
        self.assertEqual(hashlib.sha256(made).hexdigest(), hashlib.sha256(stored).hexdigest())

    def test_export_computes_what_the_module_computes(self) -> None:
        """Training-mode logits of module and exported graph agree, batch norm and residuals included."""
        import torch
        from build import build
        from onnx import numpy_helper
        from onnx_torch import OnnxTorch
        from torch_models import MODELS

        for name in ("digits_cnn", "lenet", "resnet18", *(["mobilenet_v2"] if NIGHT else [])):
            with self.subTest(name), torch.no_grad():
                # Shapes are static in the graph, yet it runs on smaller images: nothing in these depends on the size.
                model = build(name, 2, "seed:3")
                weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
                spec = MODELS[name]
                module = spec.build().train()
                state = module.state_dict()
                module.load_state_dict({k: torch.from_numpy(weights[k].copy()) if k in weights else v for k, v in state.items()})
                for child in module.modules():
                    if isinstance(child, torch.nn.Dropout):
                        child.p = 0.0
                torch.manual_seed(0)
                small = (3, 64, 64) if len(spec.sample) == 3 and spec.sample[1] == 224 else spec.sample
                x = torch.randn(4, *small)
                found, expected = OnnxTorch(model, weights).forward(x), module(x)
                torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)

    def test_parameters_of_a_model_without_weights(self) -> None:
        """The same parameters are found whether they are initializers or graph inputs."""
        from build import build
        from onnx_init import find_parameters

        inside, outside = (find_parameters(build("inception", 1, w)) for w in ("seed:0", "none"))
        self.assertEqual({n: p.shape for n, p in inside.items()}, {n: p.shape for n, p in outside.items()})
        self.assertEqual(sum(int(np.prod(p.shape)) for p in inside.values()), 6_998_552)

    def test_published_networks_have_their_number_of_parameters(self) -> None:
        """Statistics do not count; the figures are those of model cards, of transformers and of torchvision."""
        import onnx
        from build import main
        from onnx_init import find_parameters

        published = {"bert": 109_514_298, "vit": 86_567_656, "llama_1b --length 64": 1_235_814_400, "unet": 31_037_698,
                     "gpt2 --length 64 --vocabulary 50304": 124_475_904, "my_model": 13_644_283,
                     "my_model_full": 1_736_561_974, "mlp_wide": 333_834, "mlp_accumulation": 8_578}  # fmt: skip
        for words, count in published.items():
            with self.subTest(words), tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                with contextlib.redirect_stdout(io.StringIO()):
                    main([*words.split(), "-o", file.name, "--weights", "none"])
                parameters = find_parameters(onnx.load(file.name)).items()
                self.assertEqual(sum(math.prod(p.shape) for name, p in parameters if ".running_" not in name), count)


@needs("torch", "onnx")
class References(unittest.TestCase):
    def test_op_references_are_fresh(self) -> None:
        """Every stored file has the arrays its case gives; none is left over."""
        from make_op_references import all_cases, compute

        folder = ROOT / "tests/data/op_references"
        cases = all_cases()
        self.assertEqual({p.stem for p in folder.glob("*.npz")}, {c.stem for c in cases})
        for case in cases:
            if not case.available:
                continue
            with self.subTest(case.stem), np.load(folder / f"{case.stem}.npz") as stored:
                made = compute(case)
                self.assertEqual(set(stored), set(made))
                for name, array in made.items():
                    if name != "model":
                        np.testing.assert_allclose(stored[name], array, rtol=1e-9, atol=1e-12)

    def test_small_curves_are_fresh(self) -> None:
        """The curves that take seconds come out as stored."""
        names = ["mlp", *(["digits_cnn", "lenet"] if NIGHT else [])]
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, ROOT / "python/references/make_curves.py", *names, "-o", folder, "--threads", "1"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for name in names:
                made = np.loadtxt(Path(folder) / f"{name}.csv", delimiter=",", skiprows=1)
                stored = np.loadtxt(ROOT / f"tests/data/curves/{name}.csv", delimiter=",", skiprows=1)
                np.testing.assert_allclose(made, stored, rtol=1e-3)


if __name__ == "__main__":
    unittest.main()
