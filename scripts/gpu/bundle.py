#!/usr/bin/python3
"""Writes one folder with everything that a machine with a GPU needs to check and measure Stowage: no compiler there, no LLVM.

  scripts/gpu-bundle.sh OUT                          for an H100 (--target=cuda:h100)
  scripts/gpu-bundle.sh OUT --target=cuda:a100
  scripts/gpu-bundle.sh OUT --tiny                   small sizes of everything, to test the scripts
  scripts/gpu-bundle.sh OUT --only='char_gpt*'       of the executables, those that match

A GPU is not needed here. OUT.tar.xz is the folder as one file to carry. On the other machine: OUT/gpu-check.sh (docs/gpu.md).

  bin/          executables by workload and precision, and kernel-check
  lib/          the system libraries that they were linked with
  kernels/      launches of generated kernels with their results, recorded on the simulated GPU
  numerics/     data, and the losses of the host's executables; weights are drawn by both when they are loaded
  bundle.json   what is here, what is left out and why
"""

import argparse
import datetime
import fnmatch
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from onnx import load as load_model

ROOT = Path(__file__).resolve().parents[2]
PRECISIONS = ("f32", "bf16")
TIMEOUT_S = 1800
CLASSES = ["--loss=cross-entropy"]
TOKENS = ["--loss=cross-entropy:class-axis=-1"]
SGD = ["--optimizer=sgd:lr=0.01,momentum=0.9"]
ADAMW = ["--optimizer=adamw:lr=1e-4"]


@dataclass
class Workload:
    """A model of models/build.py at one size. `inputs` and `classes` say what its data are: images, features or tokens."""

    name: str
    model: str
    batch: int
    inputs: list[int]
    classes: int
    build: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    compared: int = 20  # first losses that are held to the host's

    @property
    def reads_tokens(self) -> bool:
        return self.flags[: len(TOKENS)] == TOKENS


# Beside PyTorch on the same GPU, in the order of worth.
TABLE = [
    Workload("resnet50_b128", "resnet50", 128, [3, 224, 224], 1000, [], CLASSES + SGD),
    Workload("gpt2_4x1024", "gpt2", 4, [1024], 50257, [], TOKENS + ADAMW),
    Workload("resnet18_b128", "resnet18", 128, [3, 224, 224], 1000, [], CLASSES + SGD),
    Workload("gpt2_32x1024", "gpt2", 32, [1024], 50257, [], TOKENS + ADAMW),
    Workload("lstm_b64", "lstm_long", 64, [500, 64], 10, [], CLASSES + ADAMW),
]
TINY_TABLE = [
    Workload("resnet18_tiny", "resnet18", 2, [3, 32, 32], 1000, ["--image=32"], CLASSES + SGD),
    Workload("gpt2_tiny", "char_gpt", 2, [32], 65, [], TOKENS + ADAMW),
    Workload("lstm_tiny", "lstm", 2, [24, 32], 10, [], CLASSES + ADAMW),
]
# Losses step by step beside the host's; sizes that a processor trains in seconds.
NUMERICS = [
    Workload("mlp", "mlp", 32, [784], 10, [], CLASSES + SGD),
    Workload("mlp_wide", "mlp_wide", 32, [128], 10, [], CLASSES + ["--optimizer=adam:lr=1e-3"]),
    Workload("char_gpt", "char_gpt", 8, [32], 65, [], TOKENS + ADAMW),
    Workload("char_llama", "char_llama", 4, [32], 65, [], TOKENS + ADAMW),
    Workload("gpt2_1x64", "gpt2", 1, [64], 1024, ["--length=64", "--layers=3", "--vocabulary=1024"], TOKENS + ADAMW),
    Workload("gpt2_2x256", "gpt2", 2, [256], 1024, ["--length=256", "--layers=2", "--vocabulary=1024"], TOKENS + ADAMW),
    Workload("gpt2_odd", "gpt2", 2, [256], 2045, ["--length=256", "--layers=2", "--vocabulary=2045"], TOKENS + ADAMW),
    Workload("lstm", "lstm", 8, [24, 32], 10, [], CLASSES + ["--optimizer=adam:lr=1e-3"]),
    Workload("digits_cnn", "digits_cnn", 32, [1, 8, 8], 10, [], CLASSES + SGD),
    Workload("lenet", "lenet", 16, [1, 28, 28], 10, [], CLASSES + SGD),
    # Batch norm over few values makes of a last bit a few percent in a step: the host's own losses of ResNet-50 are 7.78 and 8.18 in step 2
    # with AVX-512 and with AVX2, from 6.71056 and 6.71057.
    Workload("resnet18_i64", "resnet18", 8, [3, 64, 64], 1000, ["--image=64"], CLASSES + SGD, compared=1),
    Workload("resnet50_i64", "resnet50", 4, [3, 64, 64], 1000, ["--image=64"], CLASSES + SGD, compared=1),
]
TINY_NUMERICS = ["mlp", "digits_cnn"]
STEPS, TINY_STEPS = 20, 3
# Of the table: how often PyTorch's variants are run, ours once more; the steps of a first run, and the seconds that a second takes beyond.
TIMED = {"rounds": 2, "steps": 10, "seconds": 6}
TINY_TIMED = {"rounds": 1, "steps": 1, "seconds": 0}
# Of a loss, relative to the host's. In f32 sums have another order; in 16 bits other values are rounded, too.
TOLERANCE = {"f32": 2e-4, "bf16": 2e-2}


class Bundle:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out = args, args.out
        self.steps = TINY_STEPS if args.tiny else STEPS
        self.left_out: list[dict[str, str]] = []
        self.executables: list[Path] = []

    def run(self, command: list[object], **more: object) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, **more)
        if done.returncode:
            raise RuntimeError(f"{done.stderr or done.stdout}".strip())
        return done.stdout

    def model(self, workload: Workload) -> Path:
        """Without weights: an executable with them is as large as they are."""
        path = self.out / "models" / f"{workload.name}.onnx"
        path.parent.mkdir(exist_ok=True)
        self.run([sys.executable, ROOT / "models/build.py", workload.model, "-o", path, f"--batch={workload.batch}",
                  "--weights=none", *workload.build])  # fmt: skip
        return path

    def compile(self, workload: Workload, onnx: Path, name: str, precision: str, more: list[str]) -> bool:
        """False, and a reason in the bundle, where the compiler cannot."""
        path = self.out / "bin" / name
        library = [f"--cudnn={self.args.cudnn}"] if self.args.cudnn else []
        flags = [f"--target={self.args.target}", *library, *flags_of(workload, onnx, precision), *more]
        try:
            self.run([self.args.stowage, "compile", onnx, "-o", path, *flags])
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            reason = str(error).splitlines()[0] if str(error) else "no message"
            self.left_out.append({"name": name, "reason": reason})
            print(f"  left out: {name}: {reason}", flush=True)
            return False
        self.executables.append(path)
        print(f"  {name}", flush=True)
        return True

    def write_table(self, workloads: list[Workload]) -> list[dict]:
        entries = []
        for workload in self.chosen(workloads):
            onnx = self.model(workload)
            for precision in PRECISIONS:
                variants = [
                    name
                    for name, more in (("ours", []), ("ours-70%", ["--memory-budget=70%"]))
                    if self.compile(workload, onnx, f"{workload.name}-{precision}-{name}", precision, more)
                ]
                timed = TINY_TIMED if self.args.tiny else TIMED
                entries.append({**asdict(workload), **timed, "precision": precision, "ours": variants,
                                "tokens": workload.reads_tokens})  # fmt: skip
        return entries

    def write_numerics(self, workloads: list[Workload]) -> list[dict]:
        entries = []
        for workload in self.chosen(workloads):
            onnx = self.model(workload)
            folder = self.out / "numerics" / workload.name
            folder.mkdir(parents=True, exist_ok=True)
            np.savez(folder / "data.npz", **make_data(workload))
            for precision in PRECISIONS:
                name = f"{workload.name}-{precision}"
                if not self.compile(workload, onnx, name, precision, []):
                    continue
                host, log = self.out / "models" / f"{name}-host", folder / f"{precision}.csv"
                self.run([self.args.stowage, "compile", onnx, "-o", host, *flags_of(workload, onnx, precision)])
                self.run([host, "train", f"--data={folder / 'data.npz'}", f"--steps={self.steps}", "--no-shuffle", f"--log={log}"])
                host.unlink()
                entries.append({"name": workload.name, "precision": precision, "tolerance": TOLERANCE[precision], "steps": self.steps,
                                "compared": min(workload.compared, self.steps)})  # fmt: skip
        return entries

    def chosen(self, workloads: list[Workload]) -> list[Workload]:
        return [workload for workload in workloads if fnmatch.fnmatch(workload.name, self.args.only)]

    def write_kernels(self) -> int:
        """Records the launches of the kernels' tests, which pass on the simulated GPU."""
        folder = self.out / "kernels"
        folder.mkdir(exist_ok=True)
        tests = ["--gtest_filter=*Softmax*:*Copy*"] if self.args.tiny else ["--gtest_filter=-Mutation*"]
        chip = json.loads((ROOT / f"codegen/cuda/chips/{self.args.target.split(':')[1]}.json").read_text())
        architecture = f"sm_{chip['cudnn_device']['deviceVer'] // 10}"
        binary = self.args.build / "bin/DeviceCodegenTest"
        self.run([binary, *tests], env={**os.environ, "STOWAGE_RECORD_KERNELS": str(folder), "STOWAGE_TEST_CHIP": architecture})
        shutil.copy(self.args.build / "bin/kernel-check", self.out / "bin/kernel-check")
        return len(list(folder.glob("*.case")))

    def copy_libraries(self) -> None:
        """Those of the executables that are no part of the C library, which belongs to the system."""
        (self.out / "lib").mkdir(exist_ok=True)
        for line in self.run(["ldd", self.executables[0]]).splitlines():
            name, _, rest = line.strip().partition(" => ")
            if rest and not name.startswith(("libc.", "libm.", "libpthread.", "libdl.", "librt.", "ld-")):
                shutil.copy(rest.split()[0], self.out / "lib" / name)

    def copy_scripts(self) -> None:
        for name in ("scripts/gpu-check.sh", "scripts/gpu/check.py", "scripts/gpu/copy_bandwidth.py", "scripts/gpu/device_properties.py",
                     "scripts/gpu/pytorch_steps.py", "models/torch_models.py"):  # fmt: skip
            shutil.copy(ROOT / name, self.out / Path(name).name)

    def write(self) -> None:
        args = self.args
        for folder in ("bin", "numerics"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)
        (self.out / "bundle.json").write_text('{"unfinished": true}\n')
        print("numerics", flush=True)
        numerics = self.write_numerics([w for w in NUMERICS if not args.tiny or w.name in TINY_NUMERICS])
        print("table", flush=True)
        table = self.write_table(TINY_TABLE if args.tiny else TABLE)
        if not self.executables:
            raise SystemExit("gpu-bundle.sh: no executable was made; see the reasons above")
        cases = self.write_kernels()
        self.copy_libraries()
        self.copy_scripts()
        try:
            commit = self.run(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
        except (RuntimeError, OSError):
            commit = "not known"
        content = {"commit": commit, "date": datetime.date.today().isoformat(), "target": args.target, "kernel_cases": cases,
                   "numerics": numerics, "table": table, "left_out": self.left_out}  # fmt: skip
        (self.out / "bundle.json").write_text(json.dumps(content, indent=1) + "\n")
        shutil.rmtree(self.out / "models")
        archive = self.pack()
        print(f"{archive}: {archive.stat().st_size / (1 << 20):.1f} MiB; {len(self.executables)} executables, "
              f"{cases} launches of kernels, {len(self.left_out)} left out")  # fmt: skip

    def pack(self) -> Path:
        """The folder as one file, with a window so long that the code which executables share is there once."""
        archive = self.out.with_name(self.out.name + ".tar.xz")
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 26}]
        with lzma.open(archive, "wb", filters=filters) as file, tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(self.out, arcname=self.out.name)
        return archive


def flags_of(workload: Workload, onnx: Path, precision: str) -> list[str]:
    """The file's weights are inputs, too: the first of its inputs is the data."""
    data = load_model(onnx).graph.input[0].name
    return [f"--input={data}", f"--precision={precision}", *workload.flags]


def make_data(workload: Workload) -> dict[str, np.ndarray]:
    rng = np.random.Generator(np.random.Philox(11))
    rows = 4 * workload.batch
    if workload.reads_tokens:
        return {key: rng.integers(0, workload.classes, (rows, *workload.inputs)) for key in ("x", "y")}
    return {"x": rng.random((rows, *workload.inputs), dtype=np.float32), "y": rng.integers(0, workload.classes, rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder, beside which OUT.tar.xz is written; both are replaced")
    parser.add_argument("--target", default="cuda:h100", help="a chip of codegen/cuda/chips (default: cuda:h100)")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="the build (default: build/release)")
    parser.add_argument("--cudnn", type=Path, metavar="FOLDER", help="of the cuDNN that plans convolutions (default: as the compiler finds it)")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of the workloads, those that match")
    parser.add_argument("--tiny", action="store_true", help="small sizes of everything, to test the scripts")
    args = parser.parse_args()
    args.stowage = args.build / "bin/stowage"
    for path in (args.stowage, args.build / "bin/DeviceCodegenTest", args.build / "bin/kernel-check"):
        if not path.exists():
            parser.error(f"{path} is missing; build it: scripts/build.sh release {path.name}")
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "bundle.json").exists():
        parser.error(f"{args.out} holds something that is no bundle; name another folder")
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    Bundle(args).write()


if __name__ == "__main__":
    main()
