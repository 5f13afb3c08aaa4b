#!/usr/bin/env python3
"""The arena of torchvision's convolutional models against the live peak of PyTorch eager, as a table. Nothing is trained.

  torchvision_memory.py --stowage build/release/bin/stowage                    all models, batch 4 and 32
  torchvision_memory.py --stowage ... --models resnet18,mobilenet_v2 --batches 4

Needs PyTorch 2.x and torchvision, which is why no test of the suite runs it. A model is exported as the README says, in
training mode at the smallest batch, and planned by `stowage plan` at every batch, with everything kept. PyTorch's figure is that of
peak_memory.py: the largest sum of live storages in a steady step, on shapes alone. Both train with SGD and momentum on the
cross-entropy of the model's output; auxiliary heads are off. A model that cannot be imported is a line with the reason.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision

sys.path.insert(0, str(Path(__file__).resolve().parent))
from peak_memory import LiveBytes  # noqa: E402

warnings.filterwarnings("ignore", message="TypedStorage is deprecated")  # peak_memory.py also runs on PyTorch 1.x

OPTIMIZER = "sgd:lr=0.1,momentum=0.9"
NOT_CONVOLUTIONAL = ("vit_", "swin", "maxvit")


def model_names() -> list[str]:
    listed = torchvision.models.list_models(module=torchvision.models)
    listed += torchvision.models.list_models(module=torchvision.models.segmentation)
    return [name for name in listed if not name.startswith(NOT_CONVOLUTIONAL)]


def build(name: str) -> torch.nn.Module:
    options: dict = {"weights": None}
    if name in torchvision.models.list_models(module=torchvision.models.segmentation):
        options |= {"weights_backbone": None, "aux_loss": None if name.startswith("lraspp") else False}
        if name.startswith("lraspp"):
            del options["aux_loss"]
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
    return torchvision.models.get_model(name, **options).train()


def output_of(result: object) -> torch.Tensor:
    return result["out"] if isinstance(result, dict) else result  # type: ignore[return-value]


class MainOutput(torch.nn.Module):
    """The model with its one output, whatever it wraps it in."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return output_of(self.model(x))


def torch_peak(model: torch.nn.Module, batch: int, size: int) -> int:
    """`model` lies on the meta device."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.empty(batch, 3, size, size, device="meta")
    dense = output_of(model(x)).shape[2:]
    y = torch.empty(batch, *dense, dtype=torch.int64, device="meta")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(output_of(model(x)), y).backward()
        optimizer.step()

    step()
    with LiveBytes() as live:
        live.add((list(model.state_dict().values()), [state["momentum_buffer"] for state in optimizer.state.values()], x, y))
        step()
    return live.peak


def export(model: torch.nn.Module, path: Path, batch: int, size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(MainOutput(model), (torch.zeros(batch, 3, size, size),), str(path), dynamo=False, opset_version=17,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)


def plan(stowage: str, path: Path, batch: int) -> dict | str:
    """The plan, or why there is none."""
    run = subprocess.run([stowage, "plan", str(path), f"--batch={batch}", f"--optimizer={OPTIMIZER}", "--loss=cross-entropy",
                          "--recompute=none", "--format=json"], capture_output=True, text=True)
    if run.returncode == 0:
        return json.loads(run.stdout)
    first = next((line for line in run.stderr.splitlines() if "error:" in line), run.stderr.strip())
    return first.split("error: ", 1)[-1][:110]


def mebibytes(count: int) -> str:
    return f"{count / 2**20:,.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--models", help="comma-separated; default: all convolutional ones")
    parser.add_argument("--batches", default="4,32")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--largest", type=float, default=200e6, help="models with more parameters are left out")
    arguments = parser.parse_args()
    batches = [int(batch) for batch in arguments.batches.split(",")]
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, {arguments.size}x{arguments.size}, {OPTIMIZER}, MiB")
    print("\n| model | batch | PyTorch live peak | arena | ratio | lower bound of logical bytes | reference calls |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    above = 0
    for name in arguments.models.split(",") if arguments.models else model_names():
        torch.manual_seed(0)
        model = build(name)
        if sum(p.numel() for p in model.parameters()) > arguments.largest:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.onnx"
            export(model, path, batches[0], arguments.size)
            model = model.to("meta")
            for batch in batches:
                found = plan(arguments.stowage, path, batch)
                if isinstance(found, str):
                    print(f"| {name} | {batch} | | not planned: {found} | | | |", flush=True)
                    continue
                peak, arena = torch_peak(model, batch, arguments.size), found["arena_bytes"]
                above += arena > peak
                calls = sum(len(graph["reference_steps"]) for graph in found["graphs"])
                print(f"| {name} | {batch} | {mebibytes(peak)} | {mebibytes(arena)} | {arena / peak:.2f} | "
                      f"{mebibytes(found['logical_bound_bytes'])} | {calls or ''} |", flush=True)
    print(f"\n{above} arenas above PyTorch's peak")
    return above > 0


if __name__ == "__main__":
    sys.exit(main())
