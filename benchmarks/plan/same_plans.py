#!/usr/bin/python3
"""Two builds of the compiler plan the same steps: which plans differ, and the processor time of each, in turns.

  benchmarks/plan/same_plans.py OLD/bin/stowage NEW/bin/stowage              195 questions about 13 networks
  benchmarks/plan/same_plans.py OLD/bin/stowage NEW/bin/stowage --only=gpt   those whose name has "gpt"

Plans are for two threads of x86-64-v3 whatever the machine, so that two runs compare. For a change that should change no plan.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# name: arguments of models/build.py, and the loss where it is not cross-entropy
MODELS = {
    "digits_cnn": ("--batch 64", ""), "mlp": ("--batch 64", ""), "lenet": ("--batch 32", ""),
    "char_gpt": ("--batch 8", ""), "char_bert": ("--batch 8", ""), "char_llama": ("--batch 8", ""),
    "tiny_vit": ("--batch 8", ""), "unet_small": ("--batch 4", "--loss=mse"), "lstm": ("--batch 16", ""),
    "digit_seq2seq": ("--batch 16", "--loss=output:loss"), "resnet18": ("--batch 8 --image 64", ""),
    "mobilenet_v2": ("--batch 4 --image 64", ""), "densenet121": ("--batch 2", ""),
}  # fmt: skip
LARGE = {"resnet18", "mobilenet_v2", "densenet121"}
QUESTIONS = {
    "plain": "plan", "sqrt": "plan --checkpoint=sqrt", "80": "plan --memory-budget=80%",
    "55": "plan --memory-budget=55%", "25 % time": "plan --recompute=25%",
}  # fmt: skip
MORE_QUESTIONS = {  # of the small networks
    "10": "plan --memory-budget=10%", "adamw": "plan --optimizer=adamw:lr=1e-3",
    "bf16": "plan --precision=bf16", "fp16": "plan --precision=fp16 --memory-budget=80%",
    "2 batches": "plan --accumulate=2", "4 batches": "plan --accumulate=4 --memory-budget=90%",
    "batches": "plan --accumulate=auto --memory-budget=70%",
    "bf16 batches": "plan --precision=bf16 --accumulate=2 --memory-budget=85%",
    "loss": "plan --loss-chunks=auto", "loss 70": "plan --loss-chunks=auto --memory-budget=70%",
    "rows": "plan --row-chunks=auto", "rows 70": "plan --row-chunks=auto --memory-budget=70%",
    "h100": "plan --target=cuda:h100", "h100 bf16": "plan --target=cuda:h100 --precision=bf16 --memory-budget=80%",
    "frontier": "frontier", "largest batch": "max-batch --memory-budget=20MiB",
}  # fmt: skip


def asked(tool: str, model: Path, flags: list[str]) -> tuple[str, float]:
    """What the tool answers, without the lines of its progress, and its seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command, *rest = flags
    form = {"plan": ["--format=json"], "frontier": ["--format=csv"]}.get(command, [])
    run = subprocess.run(
        [tool, command, str(model), "--threads=2", "--target-cpu=x86-64-v3", *form, *rest], capture_output=True, text=True
    )
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    said = [line for line in run.stderr.splitlines() if not re.match(r"\[\d+:\d\d\] ", line)]
    return "\n".join([f"exit status {run.returncode}", run.stdout, *said]), seconds


def first_difference(old: str, new: str) -> str:
    for a, b in zip(old.splitlines(), new.splitlines()):
        if a != b:
            return f"    - {a.strip()[:150]}\n    + {b.strip()[:150]}"
    return "    one of them goes on"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--only", default="", help="part of NETWORK: QUESTION")
    arguments = parser.parse_args()
    same = different = 0
    seconds = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        for name, (sizes, loss) in MODELS.items():
            questions = QUESTIONS if name in LARGE else QUESTIONS | MORE_QUESTIONS
            wanted = {title: flags for title, flags in questions.items() if arguments.only in f"{name}: {title}"}
            if not wanted:
                continue
            model = Path(folder) / f"{name}.onnx"
            build = [sys.executable, ROOT / "models/build.py", name, "-o", model, "--weights", "none", *sizes.split()]
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
            for title, flags in wanted.items():
                line = [*flags.split(), *loss.split()]
                (old, before), (new, after) = asked(arguments.old, model, line), asked(arguments.new, model, line)
                seconds[0] += before
                seconds[1] += after
                same += old == new
                different += old != new
                print(f"{name}: {title}: {before:.2f} s, {after:.2f} s{'' if old == new else ', differs'}", flush=True)
                if old != new:
                    print(first_difference(old, new))
    print(f"{same} the same, {different} differ; {seconds[0]:.1f} s, {seconds[1]:.1f} s")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
