#!/usr/bin/env python3
"""Peak memory of a training step under torch.compile, to the byte: the second peer of the arena.

  compiled_memory.py --models resnet18:128 [--activation-budget=0.7] [--optimizer sgd:lr=0.01,momentum=0.9]

The step is compiled by Inductor for real and run once, which yields the Python that Inductor wrote for the forward and the
backward: every buffer's allocation, reuse and deletion is explicit there. That code is then executed again on tensors that have
shapes but no data, fused kernels left out, with every storage counted as in peak_memory.py; gradients and the optimizer's
step, which stays eager, included. One JSON line per model: model, batch, optimizer, activation_budget, peak_bytes, and
eager_peak_bytes of the same step uncompiled.

Needed: PyTorch 2.6 or newer with a C++ compiler, and the memory of one real step.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models"), str(ROOT / "python/references"), str(ROOT / "benchmarks/pytorch")]

import torch  # noqa: E402
import torch._functorch.config as functorch  # noqa: E402
import torch._inductor.config as inductor  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from peak_memory import LiveBytes, measure  # noqa: E402
from torch._inductor import output_code  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch_models import MODELS  # noqa: E402
from train_curve import make_optimizer  # noqa: E402


class Kernels:
    """Stands for Inductor's kernel compiler: fused kernels write into buffers that exist already, so they do nothing."""

    def cpp_pybinding(self, *args: Any, **kwargs: Any) -> Callable[..., None]:
        return lambda *buffers: None

    def wait(self, scope: dict[str, Any]) -> None:
        pass


def replayable(code: str) -> Callable[[list[Any]], tuple[Any, ...]]:
    """The `call` of a generated module, on tensors without data."""
    scope: dict[str, Any] = {"__name__": "replayed", "Kernels": Kernels}
    exec(code.replace("async_compile = AsyncCompile()", "async_compile = Kernels()"), scope)
    scope["empty_strided_cpu"] = lambda size, stride, dtype: torch.empty_strided(size, stride, dtype=dtype, device="meta")
    scope["reinterpret_tensor"] = lambda t, size, stride, offset=0: torch.as_strided(t, size, stride, offset)
    for check in ("assert_size_stride", "assert_size_stride_grouped", "assert_tensor_metadata", "assert_alignment"):
        scope[check] = lambda *args: None
    return scope["call"]


class Recorded:
    """One real step under torch.compile: the code Inductor wrote, and what its two graphs were given and gave."""

    def __init__(self, name: str, batch: int, channels_last: bool) -> None:
        spec = MODELS[name]
        torch.manual_seed(0)
        module = spec.build().train()
        x, y = torch.randn(batch, *spec.sample), torch.randint(0, spec.classes, (batch,))
        if channels_last:
            module, x = (value.to(memory_format=torch.channels_last) for value in (module, x))
        self.parameters = list(module.parameters())
        self.calls: list[tuple[list[Any], list[Any]]] = []
        original = output_code.CompiledFxGraph.__call__

        def recording(graph: Any, inputs: Any) -> Any:
            given = list(inputs)
            result = original(graph, inputs)
            self.calls.append((given, list(result)))
            return result

        output_code.CompiledFxGraph.__call__ = recording
        try:
            step = torch.compile(lambda: F.cross_entropy(module(x), y))
            _, self.codes = run_and_get_code(lambda: step().backward())
        finally:
            output_code.CompiledFxGraph.__call__ = original
        if len(self.codes) != 2 or len(self.calls) != 2:
            raise SystemExit(f"{name}: {len(self.codes)} graphs; expected one forward and one backward")


def replay(recorded: Recorded, optimizer_text: str) -> int:
    """Peak of the second step, in bytes: the optimizer has its state, the first step's gradients are gone."""
    forward, backward = map(replayable, recorded.codes)
    (given, gave), (taken, _) = recorded.calls
    twins: dict[Any, torch.Tensor] = {}

    def twin(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")

    def key(tensor: torch.Tensor) -> Any:
        return tensor.untyped_storage().data_ptr(), tuple(tensor.size()), tuple(tensor.stride()), tensor.dtype

    inputs = [twin(tensor) for tensor in given]
    twins = {key(tensor): twin for tensor, twin in zip(given, inputs)}
    parameters = [torch.nn.Parameter(twins[key(p)]) for p in recorded.parameters]
    optimizer = make_optimizer(optimizer_text, ((str(i), p) for i, p in enumerate(parameters)))
    places = {key(tensor): place for place, tensor in enumerate(gave) if isinstance(tensor, torch.Tensor)}
    with LiveBytes() as tracker:
        tracker.add((inputs, parameters))
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            tracker.peak = 0
            results = list(forward(list(inputs)))
            saved = []
            for tensor in taken:
                found = places.get(key(tensor))
                saved.append(results[found] if found is not None else twins.get(key(tensor), twin(tensor)))
            del results, found
            gradients = backward(saved)
            for parameter, original in zip(parameters, recorded.parameters):
                position = next(i for i, tensor in enumerate(given) if key(tensor) == key(original))
                parameter.grad = gradients[position]
            del gradients, parameter, saved
            optimizer.step()
    return tracker.peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", required=True, help="NAME:BATCH,...")
    parser.add_argument("--optimizer", default="sgd:lr=0.01,momentum=0.9")
    parser.add_argument("--activation-budget", type=float, default=1.0, help="torch's activation_memory_budget, 0 to 1")
    parser.add_argument("--channels-last", action="store_true", help="weights and batch in that memory format; otherwise Inductor "
                        "keeps copies of them")  # fmt: skip
    args = parser.parse_args()
    inductor.fx_graph_cache = False
    functorch.enable_autograd_cache = False
    functorch.activation_memory_budget = args.activation_budget
    for item in args.models.split(","):
        name, _, batch = item.partition(":")
        peak = replay(Recorded(name, int(batch or 1), args.channels_last), args.optimizer)
        print(json.dumps({"model": name, "batch": int(batch or 1), "optimizer": args.optimizer,
                          "activation_budget": args.activation_budget, "channels_last": args.channels_last, "peak_bytes": peak,
                          "eager_peak_bytes": measure(name, int(batch or 1), args.optimizer)}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
