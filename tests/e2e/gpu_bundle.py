#!/usr/bin/python3
"""The scripts for machines with a GPU (scripts/gpu-bundle.sh, gpu-check.sh), on the simulated one with small sizes.

  gpu_bundle.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR [--whole] [--torch-python=FILE]

A bundle is written, carried as one file, checked from another folder, interrupted and resumed, also with the results of another
machine; a wrong reference, a wrong kernel and a model that cannot be compiled show in the report. A fault is injected at every kind of step: it
fails with its cause, costs no other step, and is done again once the fault is gone. compute-sanitizer and ncu are scripts that run the program and
print what those print. With a Python that has PyTorch 2 its variants of a small model run, too, on the processor.
"""

import argparse
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from commands import check, run

ROOT = Path(__file__).resolve().parents[2]

# Runs the program, and prints the summary of the tool that it is asked to be; FAKE_SANITIZER is printed instead.
SANITIZER = """#!/bin/sh
for word; do
  case "$word" in
    --tool=racecheck) summary="RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"; shift ;;
    --tool=*) summary="ERROR SUMMARY: 0 errors"; shift ;;
    --*) shift ;;
    *) break ;;
  esac
done
echo "========= COMPUTE-SANITIZER"
"$@" || exit
echo "========= ${FAKE_SANITIZER-$summary}"
"""
# Runs the program, and prints a table of three launches with whatever metrics it is asked for; of those that a filter lets through.
NCU = """#!/usr/bin/python3
import csv, os, re, subprocess, sys
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word and not word.startswith(("--data", "--steps")))
program = next(i for i, word in enumerate(sys.argv) if i > 0 and not word.startswith("--"))
subprocess.run(sys.argv[program:], check=True)
if fault := os.environ.get("FAKE_NCU"):
    print(fault)
    sys.exit(1 if fault.startswith("==ERROR==") else 0)
print("==PROF== Disconnected from process 7")
metrics = flags["metrics"].split(",")
out = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
out.writerow(["ID", "Process ID", "Kernel Name", *metrics])
out.writerow(["", "", "", *["ns" for _ in metrics]])
chosen = re.compile(flags.get("kernel-name", "regex:.*").removeprefix("regex:"))
for number, (name, ns) in enumerate((("map_1", "1,200"), ("gemm", "90,000.5"), ("map_1", "900"))):
    if chosen.match(name):
        out.writerow([number, 7, name, *[ns for _ in metrics]])
"""


@dataclass
class Fault:
    """What goes wrong at a step, and what is then said."""

    step: str
    expected: str
    environment: dict[str, str]
    fails: bool = True


FAULTS = [
    Fault("properties", "", {"LD_LIBRARY_PATH": "/nowhere"}, fails=False),  # a cuDNN that does not tell has not failed
    Fault("kernels", "kernel-check", {"STANDIN_FAIL": "cuModuleLoadData:1:218"}),
    Fault("copies", "cuMemAlloc_v2 failed: error 2", {"STANDIN_FAIL": "cuMemAlloc:1:2"}),
    Fault("numerics-mlp-f32", "CUDA_ERROR_LAUNCH_FAILED", {"STANDIN_FAIL": "cuGraphLaunch:2:719"}),
    Fault("table-lstm_tiny-f32-ours-0", "GPU", {"STANDIN_MEMORY": "1000000"}),
    Fault("profile-lstm_tiny-f32", "CUDA_ERROR_ILLEGAL_ADDRESS", {"STANDIN_FAIL": "cuEventElapsedTime:1:700"}),
    Fault("determinism-mlp-f32", "CUDA_ERROR_LAUNCH_FAILED", {"STANDIN_FAIL": "cuGraphLaunch:3:719"}),
    Fault("sanitizer-memcheck-mlp-f32", "memcheck found ['2']", {"FAKE_SANITIZER": "ERROR SUMMARY: 2 errors"}),
    Fault("sanitizer-racecheck-mlp-f32", "racecheck found ['1']", {"FAKE_SANITIZER": "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"}),
    Fault("sanitizer-memcheck-mlp-bf16", "compute-sanitizer has no summary", {"FAKE_SANITIZER": "killed"}),
    Fault("sanitizer-initcheck-mlp-f32", "CUDA_ERROR_LAUNCH_FAILED", {"STANDIN_FAIL": "cuGraphLaunch:1:719"}),
    Fault("ncu-lstm_tiny-f32", "ncu wrote no table", {"FAKE_NCU": "No kernels were profiled."}),
    Fault("ncu-lstm_tiny-f32", "may not read the GPU's counters", {"FAKE_NCU": "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"}, fails=False),
]


def rehearse(out: Path, gpu_check: Callable[..., str]) -> None:
    """Every kind of step with a fault, then without."""
    for fault in FAULTS:
        chosen = (f"--only={fault.step}", f"--again={fault.step}")
        found = gpu_check(*chosen, expected=int(fault.fails), more=fault.environment)
        report = (out / "results/report.md").read_text()
        check(fault.expected in report, f"{fault.step}: expected '{fault.expected}' in the report: {found}\n{report}")
        check((f"FAILED {fault.step}" in found) == fault.fails, found)
        check(not fault.fails or f"- {fault.step}: " in report, f"{fault.step} is not among what failed: {report}")
        found = gpu_check(*chosen)
        check(f"done   {fault.step}" in found, f"{fault.step} is not done without the fault: {found}")
        check("## Failed" not in (out / "results/report.md").read_text(), "the report still says that a step failed")


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

    tools = args.work / "tools"
    tools.mkdir()
    for name, text in (("compute-sanitizer", SANITIZER), ("ncu", NCU)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)

    def gpu_check(*flags: str, expected: int = 0, python: str = "/usr/bin/python3", more: dict[str, str] | None = None) -> str:
        environment = {"LD_LIBRARY_PATH": str(args.simulated), "PYTHON": python, "PATH": f"{tools}:{os.environ['PATH']}"}
        if python == "/usr/bin/python3":
            environment["PYTHONPATH"] = str(args.work / "no-torch")
        return run(out / "gpu-check.sh", *flags, code=expected, environment=environment | (more or {}))

    # What is missing is said, a line each.
    found = gpu_check("--only=system", more={"PATH": "/usr/bin:/bin"})
    check("PyTorch does not run on cuda" in found, found)
    for name in ("compute-sanitizer", "ncu"):
        there = shutil.which(name, path="/usr/bin:/bin:/usr/local/cuda/bin") is not None
        check(there or f"{name} is neither on PATH nor beside a CUDA toolkit" in found, found)

    # A step, and no time for more; then the rest, and nothing a second time.
    check("done   system" in found, found)
    found = gpu_check("--limit=-1", expected=3)
    check("steps are left" in found and "done  " not in found, found)
    found = gpu_check(*(() if args.whole else ("--only=[!t]*",)))
    print(found)
    check("done   kernels" in found and "done   determinism-mlp-bf16" in found and "done   system" not in found, found)
    check("done  " not in gpu_check(*(() if args.whole else ("--only=[!t]*",))), "finished steps are done again")
    if not args.whole:
        gpu_check("--only=table-lstm_tiny-f32-ours-0")
    rehearse(out, gpu_check)
    report = (out / "results/report.md").read_text()
    print(report)
    check("| mlp | f32 |" in report and "| lstm_tiny | f32 | ours |" in report, report)
    check(" 0 failed, the largest difference" in report, report)
    check("without a finding: sanitizer-memcheck-mlp-f32" in report, report)
    profile = json.loads((out / "results/profile-lstm_tiny-f32-ours.json").read_text())
    check(any("kernels" in command for command in profile["commands"]), "the profile says nothing of kernels for plans")

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
        found = gpu_check(f"--only=table-{name}-[ecrm]*-0", "--torch-device=cpu", python=str(args.torch_python))
        for variant in ("eager", "compile", "reduce-overhead", "max-autotune", "compile-budget"):
            check(f"done   table-{name}-{variant}-0" in found, found)

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
