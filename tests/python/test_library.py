"""A compiled library from Python and from C: the same training as the executable's, and what is refused how.

NumPy is all these need. STOWAGE_BINARY names the compiler.
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import stowage  # noqa: E402
from stowage import _library  # noqa: E402

MODEL = ROOT / "models/digits_cnn.onnx"
WIDE = ROOT / "tests/python/Inputs/wide.mlir"  # no convolution, so that a plan for a GPU needs nothing of cuDNN
DATA = ROOT / "models/data/digits.npz"
OPTIMIZER = "adamw:lr=1e-3,weight-decay=0.1"
BATCH = 128
# Where the compiler has a GPU as its target (tests/e2e/CMakeLists.txt).
ON_GPU = Path(os.environ.get("STOWAGE_BINARY", "")).parent.name == "simulated"


def needs(*modules: str):
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    return unittest.skipIf(missing, f"needs the Python package {', '.join(missing)}")


class Processors(unittest.TestCase):
    """Steps of different instruction sets: each process has one, so every run is a process of its own."""

    RUN = """
import sys, stowage, numpy as np
out, *libraries = sys.argv[1:]
for library in libraries:
    try:
        step = stowage.load(library)
    except stowage.StowageError as error:
        sys.exit(str(error))
with np.load({data!r}) as data:
    losses = [step(data["x"][i * 16 : i * 16 + 16], data["y"][i * 16 : i * 16 + 16]) for i in range(3)]
np.savez(out, losses=np.array(losses, np.float32), **step.state_dict())
"""

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)

    def compile(self, name: str, most: str = "", **options) -> Path:
        """In a process of its own: this one may run steps of another set."""
        library = self.folder / f"lib{name}.so"
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        subprocess.run([stowage.find_binary(), "compile", MODEL, f"--optimizer={OPTIMIZER}", "--batch=16", "--threads=2", "--recompute=none",
                        "--emit=shared", *flags, "-o", library], check=True, stdout=subprocess.DEVNULL, env=self.environment(most))  # fmt: skip
        return library

    def environment(self, most: str) -> "dict[str, str]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        if most:
            environment["ONEDNN_MAX_CPU_ISA"] = most
        return environment

    def run_steps(self, *libraries: Path, most: str = "") -> "dict[str, bytes] | str":
        """Losses and state of the last one as bytes, or the error."""
        out = self.folder / "out.npz"
        run = subprocess.run([sys.executable, "-c", self.RUN.format(data=str(DATA)), out, *libraries], env=self.environment(most),
                             stderr=subprocess.PIPE, text=True)  # fmt: skip
        if run.returncode:
            return run.stderr
        with np.load(out) as arrays:
            return {name: arrays[name].tobytes() for name in arrays.files}

    def test_same_bits_on_larger_processors(self) -> None:
        """Compiled for AVX2 it trains alike wherever it runs, and like what a processor without more compiles for itself."""
        planned = stowage.plan(MODEL, optimizer=OPTIMIZER, target_cpu="x86-64-v3", batch=16, threads=2)
        self.assertIn("computes with avx2 (x86-64-v3), on every processor that has it", planned.json["notes"][0])
        here, there = self.compile("here", target_cpu="x86-64-v3"), self.compile("there", most="AVX2")
        expected = self.run_steps(here, most="AVX2")
        self.assertIsInstance(expected, dict)
        self.assertEqual(self.run_steps(here), expected)
        self.assertEqual(self.run_steps(there), expected)

    def test_one_set_in_a_process(self) -> None:
        small, large = self.compile("small", target_cpu="x86-64-v2"), self.compile("large", target_cpu="x86-64-v3")
        self.assertIsInstance(self.run_steps(small, small), dict)
        self.assertIn("this program needs sse41 (x86-64-v2), and oneDNN computes with avx2 (x86-64-v3) in this process",
                      self.run_steps(large, small))  # fmt: skip
        self.assertIn("this program is compiled for avx2 (x86-64-v3), and ONEDNN_MAX_CPU_ISA=SSE41 keeps this process to sse41",
                      self.run_steps(large, most="SSE41"))  # fmt: skip


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.library = cls.folder / "libdigits.so"
        cls.step = stowage.compile(MODEL, optimizer=OPTIMIZER, threads=2, memory_budget="80%", output=cls.library)
        with np.load(DATA) as data:
            cls.x, cls.y, cls.x_test, cls.y_test = (data[name] for name in ("x", "y", "x_test", "y_test"))

    def fresh(self, **options) -> stowage.Step:
        return stowage.load(self.library, **options)

    def batch(self, index: int) -> "tuple[np.ndarray, np.ndarray]":
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return self.x[rows], self.y[rows]

    def test_same_as_the_executable(self) -> None:
        """Losses, weights and evaluation are those of the executable, bit for bit, dropout included."""
        executable, log, weights = (self.folder / name for name in ("digits", "log.csv", "theirs.safetensors"))
        flags = [MODEL, f"--optimizer={OPTIMIZER}", "--threads=2", "--memory-budget=80%"]
        subprocess.run([stowage.find_binary(), "compile", *flags, "-o", executable], check=True, stdout=subprocess.DEVNULL)
        train = [executable, "train", f"--data={DATA}", "--no-shuffle", "--steps=14", "--validation-split=0", "--seed=5"]
        subprocess.run([*train, f"--log={log}", f"--save={weights}", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        expected = np.loadtxt(log, delimiter=",", skiprows=1)[:, 3].astype(np.float32)
        step = self.fresh(seed=5)
        found = np.array([step(*self.batch(i % 11)) for i in range(14)], np.float32)
        np.testing.assert_array_equal(found, expected)
        ours = self.folder / "ours.safetensors"
        step.save(ours)
        evaluate = [executable, "eval", f"--data={DATA}"]
        results = [subprocess.run([*evaluate, f"--weights={file}"], check=True, stdout=subprocess.PIPE).stdout.splitlines()[0]
                   for file in (weights, ours)]  # fmt: skip
        self.assertEqual(results[0], results[1])
        measured = step.evaluate([(self.x_test, self.y_test)])
        self.assertIn(f"loss {measured['loss']:.6g}, accuracy {100 * measured['accuracy']:.2f} %", results[0].decode())
        other = self.fresh()
        other.load(weights)
        self.assertEqual((other.step_count, other(*self.batch(0))), (14, step(*self.batch(0))))

    def test_instances_are_independent(self) -> None:
        """Two models in one process, stepping in turns, train as each would alone."""
        alone = self.fresh(seed=1)
        expected = [alone(*self.batch(i)) for i in range(3)]
        first, second = self.fresh(seed=1), self.fresh(seed=1)
        losses = [(first(*self.batch(i)), second(*self.batch(i))) for i in range(3)]
        self.assertEqual(losses, [(loss, loss) for loss in expected])
        self.assertNotEqual(self.fresh(seed=2)(*self.batch(0)), expected[0])  # another dropout

    def test_a_step_may_be_called_from_any_thread(self) -> None:
        """One at a time, as a loop in a thread of its own, or a server, does."""
        here, there = self.fresh(seed=3), self.fresh(seed=3)
        expected = [here(*self.batch(index)) for index in range(3)]
        losses = []
        thread = threading.Thread(target=lambda: losses.extend(there(*self.batch(index)) for index in range(2)))
        thread.start()
        thread.join()
        losses.append(there(*self.batch(2)))
        self.assertEqual(losses, expected)

    def test_others_come_and_go_beside_a_step(self) -> None:
        """While a step runs in one thread, another thread makes, steps and closes models."""
        alone, beside = self.fresh(seed=4), self.fresh(seed=4)
        expected = [alone(*self.batch(index)) for index in range(4)]
        losses, others = [], []
        thread = threading.Thread(target=lambda: losses.extend(beside(*self.batch(index)) for index in range(4)))
        thread.start()
        while thread.is_alive():
            other = self.fresh(seed=4)
            others.append(other(*self.batch(0)))
            other.close()
        thread.join()
        self.assertEqual(losses, expected)
        self.assertEqual(set(others), {expected[0]})

    def test_poison_changes_nothing(self) -> None:
        library = stowage.Library(self.library)
        plain, poisoned = stowage.Model(library), stowage.Model(library, poison=True)
        for i in range(3):
            self.assertEqual(plain.step(self.batch(i)), poisoned.step(self.batch(i)))

    def test_inputs(self) -> None:
        """By position, by name, as a pair; other types and orders of memory are converted."""
        x, y = self.batch(0)
        expected = self.fresh()(x, y)
        wide, small = x.astype(np.float64), y.astype(np.uint8)
        fortran = np.asfortranarray(x)
        self.assertFalse(fortran.flags.c_contiguous)
        for batch in ((wide, small), (fortran, y.astype(">i4")), ({"target": y, "input": x},), ((x, y),), (x.tolist(), y.tolist())):
            self.assertEqual(self.fresh()(*batch), expected)
        self.assertEqual(self.fresh()(x, target=y), expected)

    @needs("torch")
    def test_torch_tensors(self) -> None:
        import torch

        x, y = self.batch(0)
        step, other = self.fresh(), self.fresh()
        self.assertEqual(step(torch.from_numpy(x), torch.from_numpy(y)), other(x, y))
        result = step.eval(torch.from_numpy(x))
        self.assertIsInstance(result, torch.Tensor)
        np.testing.assert_array_equal(result.numpy(), other.eval(x))

    def test_evaluation_of_any_number_of_rows(self) -> None:
        """The filling of the last batch never shows."""
        step = self.fresh()
        whole = step.eval(self.x_test)
        self.assertEqual(whole.shape, (len(self.x_test), 10))
        np.testing.assert_array_equal(step.eval(self.x_test[:5]), whole[:5])
        np.testing.assert_array_equal(step.eval(self.x_test[128:256]), whole[128:256])

    def test_state_dict(self) -> None:
        """What was read can be written, into another model, and both go on alike; optimizer state does not come along."""
        step, other = self.fresh(), self.fresh()
        for i in range(3):
            step(*self.batch(i))
        state = step.state_dict()
        self.assertEqual(state["conv1.weight"].shape, (32, 1, 3, 3))
        self.assertFalse(any("adam" in name or name.endswith((".m", ".v")) for name in state))
        other.load_state_dict(state)
        np.testing.assert_array_equal(other.eval(self.x_test), step.eval(self.x_test))
        for name, value in other.state_dict().items():
            np.testing.assert_array_equal(value, state[name])
        del state["conv1.weight"]
        with self.assertRaisesRegex(stowage.StowageError, "missing are conv1.weight"):
            other.load_state_dict(state)

    def test_learning_rate(self) -> None:
        step = self.fresh()
        self.assertEqual(step.learning_rate, 1e-3)
        step.learning_rate = 0.0
        before = step.state_dict()
        step(*self.batch(0))
        after = step.state_dict()
        np.testing.assert_array_equal(after["conv1.weight"], before["conv1.weight"])
        self.assertFalse(np.array_equal(after["bn1.running_mean"], before["bn1.running_mean"]))
        with self.assertRaisesRegex(stowage.StowageError, "at least 0"):
            step.learning_rate = -1.0

    def cut_short(self, size: int) -> Path:
        """The library without its end, which ends a process that loads it."""
        cut = Path(self.folder) / "cut.so"
        cut.write_bytes(Path(self.library).read_bytes()[:size])
        return cut

    def test_refusals(self) -> None:
        step = self.fresh()
        x, y = self.batch(0)
        for message, call in {
            "expected 128 samples, found 5; .*drop_last=True": lambda: step(x[:5], y[:5]),
            r"expected a batch of 128, found f32\[5,1,8,8\]": lambda: step(x[:5], y),
            "row 0 has the label": lambda: step(x, y + 10),
            "expected input, target, found 1 arrays": lambda: step(x),
            "expected input, target, found 1 arrays by position and labels by name": lambda: step(x, labels=y),
            "holds complex64": lambda: step(x.astype(np.complex64), y),
            "real numbers are not rounded": lambda: step(x, y + 0.5),
            "planned for 2 threads, 3 are asked for": lambda: self.fresh(threads=3),
            "cannot open '/nowhere.safetensors'": lambda: step.load("/nowhere.safetensors"),
            "no state 'conv9.weight'": lambda: step.model.read("conv9.weight"),
            "cannot load": lambda: stowage.load(DATA),
            r"is cut short: 9000 of at least \d+ bytes": lambda: stowage.load(self.cut_short(9000)),
            "is cut short: 40 of": lambda: stowage.load(self.cut_short(40)),
        }.items():
            with self.subTest(message), self.assertRaisesRegex(stowage.StowageError, message):
                call()
        self.assertEqual(step(x, y), self.fresh()(x, y))  # nothing of that left a trace

    def test_plan(self) -> None:
        plan = self.step.plan
        self.assertEqual(sum(plan.breakdown.values()), plan.arena_bytes)
        self.assertLessEqual(plan.lower_bound_bytes, plan.arena_bytes)
        self.assertLess(plan.arena_bytes, 0.8 * plan.without_recompute_bytes)
        self.assertEqual(sum(buffer["size"] for buffer in plan.live()), plan.json["graphs"][0]["live_peak_bytes"])
        self.assertIn("<td>parameters</td>", plan._repr_html_())
        self.assertIn(f"{plan.arena_bytes:,}", str(plan))
        stated = stowage.plan(MODEL, optimizer=OPTIMIZER, threads=2, memory_budget="80%")
        stated.json.pop("verdict", None)  # of a GPU: whether it fits the card
        self.assertEqual(stated.json, plan.json)

    def test_frontier_and_largest_batch(self) -> None:
        """Of a smaller network, which is planned at many budgets and batches in a second."""
        step = stowage.compile(ROOT / "tests/compiler/import/networks/residual_train_14.onnx", loss="mse", batch=16, threads=1)
        points = step.frontier()
        self.assertEqual(points[0]["arena_bytes"], step.plan.without_recompute_bytes)
        self.assertGreater(len(points), 2)
        self.assertTrue(all(a["arena_bytes"] > b["arena_bytes"] for a, b in zip(points, points[1:])))
        self.assertGreaterEqual(step.max_batch(step.plan.arena_bytes), 16)

    def test_several_devices_are_compared(self) -> None:
        model = {"model": ROOT / "tests/compiler/import/networks/residual_train_14.onnx", "loss": "mse", "threads": 1, "optimizer": "adamw:lr=1e-3"}
        alone = stowage.max_batch(memory_budget="64KiB", **model)
        records = stowage.max_batch(memory_budget="64KiB", devices=[1, 2], shard_state="auto", **model)
        self.assertEqual([(record["devices"], record["shard_state"]) for record in records], [(1, "none"), (2, "none"), (2, "optimizer"), (2, "parameters")])
        self.assertEqual(records[0]["batch"], alone)
        self.assertTrue(all(record["batch_of_all"] == record["devices"] * record["batch"] for record in records))
        self.assertGreaterEqual(records[2]["batch"], records[1]["batch"])  # what shards leave is room for samples
        points = stowage.frontier(batch=16, devices=[1, 2], flags=["--step=50"], **model)
        self.assertEqual({(point["devices"], point["shard_state"]) for point in points}, {(1, "none"), (2, "none")})

    def test_compiler_errors(self) -> None:
        with self.assertRaises(stowage.InfeasibleBudget) as caught:
            stowage.compile(MODEL, memory_budget=100_000, threads=2)
        error = caught.exception
        self.assertEqual((error.budget_bytes, error.exit_code), (100_000, 2))
        self.assertLess(error.lower_bound_bytes, error.smallest_bytes + 1)
        self.assertLess(error.smallest_bytes, error.without_recompute_bytes)
        self.assertIn("remedies", str(error))
        with self.assertRaisesRegex(stowage.CompileError, "unknown optimizer"):
            stowage.compile(MODEL, optimizer="sgdx")
        with self.assertRaisesRegex(stowage.ToolNotFound, "the argument binary is '/nowhere'"):
            stowage.compile(MODEL, binary="/nowhere")

    def test_version_of_the_interface(self) -> None:
        """The package, the header and the library say the same; another version is refused in one line."""
        stated = re.search(r"#define STOWAGE_ABI_VERSION (\d+)", (ROOT / "runtime/include/stowage.h").read_text())
        self.assertEqual(int(stated[1]), _library.ABI_VERSION)
        with mock.patch.object(_library, "ABI_VERSION", 99):
            with self.assertRaises(stowage.StowageError) as refused:
                stowage.load(self.library)
        self.assertEqual(str(refused.exception), f"'{self.library}' has version {stated[1]} of the C interface, this package version 99; compile it again")

    def test_a_folder_without_travellers(self) -> None:
        """The folder for slow memory reaches the library, which says that nothing of this step travels."""
        with self.assertRaisesRegex(stowage.StowageError, "--offload is about buffers that travel to slow memory, and of this program none does"):
            stowage.load(self.library, offload=self.folder)

    def test_another_gpu(self) -> None:
        """The number of a GPU reaches the library: there is none on the host, and one where this runs on a simulated GPU."""
        with self.assertRaisesRegex(stowage.StowageError, "GPU 1 is asked for, and (this program was compiled for the processor|the CUDA driver has GPU 0 alone)"):
            stowage.load(self.library, gpu=1)

    def test_the_host_beside_a_gpu(self) -> None:
        """Memory of the host reaches the planner of a GPU: what travels is pinned, over the link that is named; auto takes state, too."""
        gpu = {} if ON_GPU else {"target": "cuda:h100"}
        plan, optimizer = functools.partial(stowage.plan, WIDE, loss="mse", **gpu), "adam:lr=1e-3"
        least = {}
        for options in ({}, {"offload": "host"}):
            with self.assertRaises(stowage.InfeasibleBudget) as refused:
                plan(memory_budget="16KiB", **options)
            least[len(options)] = refused.exception.smallest_bytes
        self.assertLess(least[1], least[0])
        copies = {}
        for link in ("pcie4", "nvlink-c2c"):
            found = plan(memory_budget=least[1], offload="host", link=link)
            self.assertLessEqual(found.arena_bytes, least[1])
            copies[link] = found.json["graphs"][0]["copies"]
            self.assertGreaterEqual(found.json["slow_bytes"], copies[link]["slow_peak_bytes"])
        self.assertGreater(copies["pcie4"]["exposed_seconds"], copies["nvlink-c2c"]["exposed_seconds"])
        with self.assertRaises(stowage.InfeasibleBudget):
            plan(memory_budget=least[1], offload="host", host_memory="4KiB")
        kept = plan(optimizer=optimizer, recompute="none").arena_bytes
        self.assertNotIn("slow_bytes", plan(optimizer=optimizer, offload="auto", memory_budget=kept).json)
        with self.assertRaises(stowage.InfeasibleBudget) as refused:
            plan(optimizer=optimizer, memory_budget="16KiB", offload="host")
        found = plan(optimizer=optimizer, memory_budget=refused.exception.smallest_bytes - 65536, offload="auto")
        self.assertIn("fetched_optimizer", {buffer["kind"] for buffer in found.buffers})

    def test_plan_with_a_disk(self) -> None:
        """What is known of a disk reaches the planner: a step that copies fits where none that computes again does, folder or not."""
        disk = {"offload": "host" if ON_GPU else self.folder / "missing", "offload_bandwidth": "20,20,5", "offload_capacity": "1GiB"}
        least = {}
        for options in ({}, disk):
            with self.assertRaises(stowage.CompileError) as refused:
                stowage.plan(MODEL, threads=2, memory_budget="64KiB", **options)
            least[len(options)] = refused.exception.smallest_bytes
        self.assertLess(least[3], least[0])
        plan = stowage.plan(MODEL, threads=2, memory_budget=least[3], **disk)
        self.assertLessEqual(plan.arena_bytes, least[3])
        self.assertGreater(plan.json["graphs"][0]["copies"]["bytes_out"], 0)
        # What is fetched is no gradient, and has its part of the sum.
        plan = stowage.plan(MODEL, threads=2, memory_budget="4MiB", optimizer="adam:lr=1e-3", offload_state="optimizer", **disk)
        self.assertIn("fetched_optimizer", {buffer["kind"] for buffer in plan.buffers})
        self.assertIn("fetched_optimizer", plan.breakdown)
        self.assertEqual(sum(plan.breakdown.values()), plan.arena_bytes)

    def test_only_the_interface_is_visible(self) -> None:
        """What a library brings along cannot be mistaken for another's."""
        symbols = subprocess.run(["nm", "-D", "--defined-only", self.library], check=True, stdout=subprocess.PIPE, text=True)
        names = {line.split()[-1] for line in symbols.stdout.splitlines()}
        header = (ROOT / "runtime/include/stowage.h").read_text()
        declared = {word.split("(")[0].lstrip("*") for line in header.splitlines() if not line.startswith((" *", "/*", " "))
                    for word in line.split() if word.lstrip("*").startswith("stowage_") and "(" in word}  # fmt: skip
        self.assertEqual(names, declared)

    def test_nothing_of_other_libraries_is_read(self) -> None:
        """A library that has large ones in its process checks itself alone: their pages stay where they are."""
        compiler, source, other = shutil.which("cc") or shutil.which("clang-22"), self.folder / "other.c", self.folder / "other.so"
        source.write_text("const char other[64 << 20] = {1};\n")
        subprocess.run([compiler, "-shared", "-o", other, source], check=True)
        code = f"""
import ctypes, re, stowage
def mapped():
    return int(re.search(r"RssFile:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10
other = ctypes.CDLL({str(other)!r})
before = mapped()
stowage.load({str(self.library)!r})
print(mapped() - before)
"""
        done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip
        self.assertLess(int(done.stdout), os.path.getsize(self.library) + (32 << 20))

    def test_c_example(self) -> None:
        compiler = shutil.which("cc") or shutil.which("clang-22")
        self.assertIsNotNone(compiler, "no C compiler")
        program = self.folder / "train"
        subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "runtime/include",
                        ROOT / "runtime/examples/train.c", "-o", program, self.library], check=True)  # fmt: skip
        done = subprocess.run([program, self.folder / "c.safetensors"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("step 30: loss", done.stdout)


if __name__ == "__main__":
    unittest.main()
