#!/usr/bin/env python3
"""How far are Stowage's gradients from those in double precision, and how far are PyTorch's own?

  accuracy.py --stowage=build/release/bin/stowage [--work=DIR] [--worst=N] PATTERN...

Losses over several steps tell little where batch normalization over few values magnifies rounding. The gradients of the first step
tell more: per model, the error of Stowage and of PyTorch in float, both against PyTorch in double, as shares of the 2-norm; then the
N parameters whose errors are furthest apart. A ratio well above 1 over many parameters is a kernel that gives up accuracy. One at a
single layer may be a relu whose input is within rounding errors of zero. Names are those of zoo.py list. One thread.
"""

import argparse
import copy
import fnmatch
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

# A gradient is read off the state: the step subtracts RATE times it, a large power of two, so that rounding the new value costs
# a relative error of the gradient.
RATE = 2.0**20
# Gradients below this share of the largest one are compared on that scale: those of biases before a normalization are rounding errors.
SMALL = 1e-4


def of_torch(case: Any, dtype: Any) -> "tuple[float, dict[str, Any]]":
    """Loss and gradients of PyTorch, computed in `dtype`."""
    import torch.nn.functional as F

    module = copy.deepcopy(case.module).to(dtype).train()
    inputs = [value.to(dtype) if value.is_floating_point() else value for value in case.inputs.values()]
    loss = module(*inputs)
    if case.target is not None:
        loss = F.cross_entropy(loss.movedim(case.class_axis, 1), case.target)
    loss.backward()
    return loss.item(), {name: p.grad.double().numpy() for name, p in module.named_parameters() if p.grad is not None}


def of_stowage(case: Any, stowage: str, work: Path) -> "tuple[float, dict[str, Any]]":
    import numpy as np
    from stowage import _tool
    from stowage._library import Library, Model
    from zoo import export, untrained

    weights = {name: value.clone() for name, value in case.module.state_dict().items()}
    path, library = work / "model.onnx", work / "libmodel.so"
    export("dynamo", case, path)
    case.module.load_state_dict(weights)
    frozen = untrained(case.module, path)
    wanted = "output:loss" if case.target is None else f"cross-entropy:class-axis={case.class_axis}"
    _tool.run(["compile", str(path), "--emit=shared", "-o", str(library), f"--optimizer=sgd:lr={RATE}", "--no-dropout",
               "--threads=1", f"--loss={wanted}", *([f"--freeze={','.join(frozen)}"] if frozen else [])], stowage)  # fmt: skip
    model = Model(Library(library))
    names = [tensor.name for tensor in model.state if tensor.kind == "parameter"]
    before = {name: model.read(name).astype(np.float64) for name in names}
    loss = model.step([*case.inputs.values(), *([] if case.target is None else [case.target])])
    gradients = {name: (before[name] - model.read(name).astype(np.float64)) / RATE for name in names}
    model.close()
    return loss, gradients


def compare(name: str, stowage: str, work: Path, worst: int) -> None:
    import numpy as np
    import torch
    from models import all_cases, switch_off_randomness

    torch.manual_seed(0)
    case = all_cases()[name]()
    switch_off_randomness(case.module)
    if case.target is None:
        return print(f"{name}: left out, it computes its loss itself")
    loss, ours = of_stowage(case, stowage, work)
    near_loss, near = of_torch(case, torch.float32)
    true_loss, true = of_torch(case, torch.float64)
    shared = [key for key in true if key in ours]
    size = {key: np.linalg.norm(true[key]) for key in shared}
    largest, total = max(size.values()), np.sqrt(sum(value**2 for value in size.values()))

    def whole(found: "dict[str, Any]") -> float:
        return np.sqrt(sum(np.linalg.norm(found[key] - true[key]) ** 2 for key in shared)) / total

    rows = []
    for key in shared:
        scale = max(size[key], SMALL * largest)
        errors = [np.linalg.norm(found[key] - true[key]) / scale for found in (ours, near)]
        rows.append((errors[0] / max(errors[1], 1e-9), *errors, key))
    rows.sort(key=lambda row: -row[0])
    print(f"{name}: loss {abs(loss - true_loss) / abs(true_loss):.1e} (PyTorch {abs(near_loss - true_loss) / abs(true_loss):.1e}), "
          f"gradients {whole(ours):.1e} (PyTorch {whole(near):.1e}), ratio per parameter: median {rows[len(rows) // 2][0]:.2f}, "
          f"largest {rows[0][0]:.2f}", flush=True)  # fmt: skip
    for ratio, own, other, key in rows[:worst]:
        print(f"  {key:60} {own:.1e} (PyTorch {other:.1e}), ratio {ratio:.1f}")


def main() -> None:
    warnings.filterwarnings("ignore")
    import torch
    from models import all_cases

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="+", metavar="PATTERN", help="models, e.g. 'timm/*'")
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, help="keep the files here")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="parameters to list per model")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in all_cases():
        if any(fnmatch.fnmatch(name, pattern) for pattern in args.patterns):
            with tempfile.TemporaryDirectory(prefix="stowage-") as folder:
                work = args.work / name.replace("/", "-") if args.work else Path(folder)
                work.mkdir(parents=True, exist_ok=True)
                compare(name, args.stowage, work, args.worst)


if __name__ == "__main__":
    main()
