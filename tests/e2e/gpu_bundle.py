#!/usr/bin/python3
"""The scripts for machines with a GPU (scripts/gpu-bundle.sh, gpu-check.sh), on the simulated one with small sizes.

  gpu_bundle.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR [--whole] [--torch-python=FILE]

A bundle is written, carried as one file, checked from another folder, interrupted and resumed, also with the results of another
machine; a wrong reference, a wrong kernel and a model that cannot be compiled show in the report. With a Python that has PyTorch 2
its variants of a small model run, too, on the processor.
"""

import argparse
import json
import shutil
from pathlib import Path

from commands import check, run

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="all of the tiny workloads")
    parser.add_argument("--torch-python", type=Path, metavar="FILE")
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    made, out = args.work / "made", args.work / "moved"
    only = "*" if args.whole else "[ml]*"  # mlp, lstm_tiny
    print(run(ROOT / "scripts/gpu-bundle.sh", made, "--tiny", f"--only={only}", f"--build={args.stowage.parents[1]}", f"--cudnn={args.simulated}"))
    shutil.rmtree(made)
    run("/usr/bin/python3", "-m", "tarfile", "-e", args.work / "made.tar.xz", args.work)
    made.rename(out)
    bundle = json.loads((out / "bundle.json").read_text())
    check(bundle["kernel_cases"] > 0 and len(bundle["numerics"]) >= 2 and len(bundle["table"]) >= 2, f"too little: {bundle}")
    if args.whole:
        names = {item["name"] for item in bundle["left_out"]} | {f"{n['name']}-{n['precision']}" for n in bundle["numerics"]}
        check({"digits_cnn-f32", "digits_cnn-bf16"} <= names, f"a model is neither there nor left out: {bundle}")

    (args.work / "no-torch").mkdir()  # Debian's is older than torch.compile
    (args.work / "no-torch/torch.py").write_text("raise ImportError\n")

    def gpu_check(*flags: str, expected: int = 0, python: str = "/usr/bin/python3") -> str:
        environment = {"LD_LIBRARY_PATH": str(args.simulated), "PYTHON": python}
        if python == "/usr/bin/python3":
            environment["PYTHONPATH"] = str(args.work / "no-torch")
        return run(out / "gpu-check.sh", *flags, code=expected, environment=environment)

    # A step, and no time for more; then the rest, and nothing a second time.
    found = gpu_check("--only=system")
    check("done   system" in found, found)
    found = gpu_check("--limit=-1", expected=3)
    check("steps are left" in found and "done  " not in found, found)
    found = gpu_check(*(() if args.whole else ("--only=[!t]*",)))
    print(found)
    check("done   kernels" in found and "done   determinism-mlp-bf16" in found and "done   system" not in found, found)
    check("done  " not in gpu_check(*(() if args.whole else ("--only=[!t]*",))), "finished steps are done again")
    if not args.whole:
        gpu_check("--only=table-lstm_tiny-f32-ours-0")
    report = (out / "results/report.md").read_text()
    print(report)
    check("| mlp | f32 |" in report and "| lstm_tiny | f32 | ours |" in report, report)
    check(" 0 failed, the largest difference" in report, report)

    # Results of another machine count; a step that the limit cuts is begun once more.
    other = args.work / "other"
    other.mkdir()
    shutil.copy(out / "results/results.json", other)
    check("done  " not in gpu_check(f"--out={other}", "--only=[!t]*"), "finished steps are done again with --out")
    kernel_check = (out / "bin/kernel-check").rename(out / "bin/kept")
    (out / "bin/kernel-check").write_text("#!/bin/sh\nsleep 1000\n")
    (out / "bin/kernel-check").chmod(0o755)
    limited = (f"--out={other}", "--limit=4", "--only=kernels")
    found = gpu_check(*limited, "--again=kernels", expected=3)
    check("cut    kernels" in found, found)
    found = gpu_check(*limited, expected=1)
    check("the limit of the run came twice" in found, found)
    kernel_check.rename(out / "bin/kernel-check")
    if args.torch_python and args.torch_python.exists():
        name = "gpt2_tiny-bf16" if args.whole else "lstm_tiny-f32"  # not every processor has PyTorch's LSTM in bf16
        found = gpu_check(f"--only=table-{name}-[ec]*-0", "--torch-device=cpu", python=str(args.torch_python))
        check(f"done   table-{name}-compile-budget-0" in found, found)

    # What is wrong is found: a reference, and a kernel's recorded result.
    reference = out / "numerics/mlp/f32.csv"
    rows = reference.read_text().splitlines()
    reference.write_text("\n".join([*rows[:-1], rows[-1].rsplit(",", 1)[0] + ",7.5"]) + "\n")
    found = gpu_check("--again=numerics-mlp-f32", "--only=numerics-mlp-f32", expected=1)
    check("losses differ from the host's" in found, found)
    case = sorted((out / "kernels").glob("*.case"))[0]
    content = bytearray(case.read_bytes())
    content[-2] ^= 0x55
    case.write_bytes(content)
    found = gpu_check("--again=kernels", "--only=kernels", expected=1)
    check("times what is allowed" in found or "1 failed" in found, found)
    check("## Failed" in (out / "results/report.md").read_text(), "the report does not name what failed")


if __name__ == "__main__":
    main()
