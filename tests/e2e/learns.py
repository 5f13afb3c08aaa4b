#!/usr/bin/python3
"""Networks learn real data as well as they do in PyTorch: learns.py --stowage=build/release/bin/stowage --work=DIR [TASK...]

The tasks are python/references/learn.py's: GPT-2's architecture on a text, judged by the bits per character of what it never saw,
and ResNet-18 on pictures of digits, judged by the accuracy on others. Each trains on the same batches from the same weights as
PyTorch did, and the value is as good as the stored one of PyTorch, to the tolerance below; rounding alone leads the two apart long
before the last step. The text is learned a second time in half of the activations' memory: the saved tensors are the same bytes.
"""

import argparse
import json
import math
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/references"), str(ROOT / "models"), str(ROOT / "python")]

try:
    import numpy as np
    import onnx  # noqa: F401
    import torch  # noqa: F401  # image models are exported from modules
except ImportError as error:
    print(f"skipped: {error}; install python3-numpy, python3-onnx and python3-torch")
    sys.exit(77)

from commands import check, half_budget, run  # noqa: E402
from learn import TASKS, NoData, build_model, learned, make_data  # noqa: E402
from safetensors_io import load  # noqa: E402

# Bits per character above PyTorch's, and points of accuracy below it: about what another order of summation moves.
ALLOWED = {"text": 0.03, "digits": 1.5}
# On pictures this small the peak of ResNet-18 is state and one weight's gradient, with nothing to compute again.
MODES = {"text": ("plain", "half"), "digits": ("plain",)}


def value_of(name: str, printed: str) -> float:
    if name == "text":
        return float(re.search(r"loss ([\d.]+)", printed)[1]) / math.log(2)
    return float(re.search(r"accuracy ([\d.]+)", printed)[1])


def check_task(name: str, args: argparse.Namespace) -> None:
    task, reference = TASKS[name], learned()[name]
    model, data, test = (args.work / f"{name}{suffix}" for suffix in (".onnx", ".npz", "-test.npz"))
    arrays = make_data(name)
    build_model(name, model)
    np.savez(data, x=arrays["x"], y=arrays["y"])
    np.savez(test, x=arrays["x_test"], y=arrays["y_test"])
    flags, values, budget = ["--recompute=none"], {}, 0
    for mode in MODES[name]:
        executable, weights = args.work / f"{name}-{mode}", args.work / f"{name}-{mode}.safetensors"
        run(args.stowage, "compile", model, "-o", executable, f"--optimizer={task.optimizer}", f"--loss={task.loss}", "--no-dropout", "--threads=1",
            *flags)  # fmt: skip
        plan = json.loads(run(executable, "plan", "--format=json"))
        check(not budget or plan["arena_bytes"] <= budget, f"{name}: {plan['arena_bytes']} bytes in a budget of {budget}")
        budget = half_budget(plan)
        flags = [f"--memory-budget={budget}"]
        weights.unlink(missing_ok=True)
        run(executable, "train", f"--data={data}", f"--steps={task.steps}", "--no-shuffle", "--validation-split=0", f"--save={weights}")
        values[mode] = value_of(name, run(executable, "eval", f"--data={test}", f"--weights={weights}"))
        print(f"{name}, {mode}: {values[mode]:.4f} {task.unit}, PyTorch {reference:.4f}; arena {plan['arena_bytes']:,} bytes", flush=True)
    plain, *others = (load(args.work / f"{name}-{mode}.safetensors") for mode in MODES[name])
    for other in others:
        same = plain.keys() == other.keys() and all(plain[key].tobytes() == other[key].tobytes() for key in plain)
        check(same, f"{name}: recomputing trains other tensors")
    off = values["plain"] - reference if name == "text" else reference - values["plain"]
    check(off <= ALLOWED[name], f"{name}: {values['plain']:.4f} {task.unit}, expected PyTorch's {reference:.4f} to within {ALLOWED[name]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)}; default: all")
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in args.names or TASKS:
        try:
            check_task(name, args)
        except NoData as error:
            print(f"skipped: {error}")
            sys.exit(77)


if __name__ == "__main__":
    main()
