#!/usr/bin/python3
"""The digits network on a device that proves that nobody cheats (tests/runtime/device/GuardedDevice.h).

  guarded.py --stowage=build/release/bin/stowage --guarded=build/release/tests/guarded/bin/stowage --work=DIR

The second compiler links the same runtime with the guarded device in place of the host. There, code outside a command
dies when it touches the arena, and a command that writes or reads outside the bytes that the plan gives to it is an
error. Holds that everything works there, and gives what it gives on the host, bit for bit: training without and with
recomputation, poison, save and resume, evaluation, and the C interface.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import stowage  # noqa: E402

MODEL, DATA = ROOT / "models/digits_cnn.onnx", ROOT / "models/data/digits.npz"
BATCH = 32
FLAGS = ["--optimizer=adamw:lr=1e-3,weight-decay=0.1", "--threads=2", f"--batch={BATCH}"]
PLANS = {"plain": ["--recompute=none"], "sqrt": ["--checkpoint=sqrt"], "budget": ["--memory-budget=75%"]}
STEPS = 4


def run(command: list[object], **options) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Guarded:
    def __init__(self, args: argparse.Namespace) -> None:
        self.compilers = {"host": args.stowage, "guarded": args.guarded}
        self.folder = args.work
        self.passed = self.failed = 0

    def check(self, condition: bool, message: str) -> None:
        self.passed += condition
        self.failed += not condition
        print(f"{'ok' if condition else 'FAILED'}: {message}", flush=True)

    def compile(self, device: str, plan: str, *flags: str) -> Path:
        output = self.folder / "-".join([device, plan, *(flag.strip("-").replace("=", "-") for flag in flags)])
        run([self.compilers[device], "compile", MODEL, "-o", output, *FLAGS, *PLANS[plan], *flags])
        return output

    def train(self, executable: Path, steps: int, *flags: str) -> tuple[bytes, bytes]:
        """Log and weights of a run. On the guarded device: after a look at how much of it there was."""
        log, weights, report = (executable.with_suffix(end) for end in (".csv", ".safetensors", ".json"))
        if "--resume" not in flags:
            for old in (log, weights):
                old.unlink(missing_ok=True)
        report.unlink(missing_ok=True)
        run([executable, "train", f"--data={DATA}", "--seed=7", "--quiet", "--validation-split=0", f"--steps={steps}", f"--log={log}",
             f"--save={weights}", *flags], env=dict(os.environ, STOWAGE_GUARD_REPORT=str(report)))  # fmt: skip
        is_guarded = executable.name.startswith("guarded")
        if is_guarded != report.exists():
            raise SystemExit(f"{executable} runs on the wrong device")
        if is_guarded:
            counts = json.loads(report.read_text())
            plan = json.loads(run([executable, "plan", "--format=json"]))
            commands = len(plan["graphs"][0]["step_names"])
            done = steps - (steps // 2 if "--resume" in flags else 0)
            self.check(counts["commands"] == commands * done and counts["runs"] == done,
                       f"{executable.name} {' '.join(flags)}: {counts['commands']} commands guarded, {counts['uploads']} uploads")  # fmt: skip
        return log.read_bytes(), weights.read_bytes()

    def plans(self) -> None:
        host = self.compile("host", "plain")
        expected = self.train(host, STEPS)
        for plan in PLANS:
            guarded = self.compile("guarded", plan)
            self.check(self.train(guarded, STEPS) == expected, f"{plan}: same log and weights as on the host")
            if plan == "plain":
                self.check(self.train(guarded, STEPS, "--poison") == expected, f"{plan}: the same with --poison")
            if plan == "budget":
                self.train(guarded, STEPS // 2)
                self.check(self.train(guarded, STEPS, "--resume") == expected, f"{plan}: the same after save and resume")
                weights = host.with_suffix(".safetensors")
                results = [run([executable, "eval", f"--data={DATA}", f"--weights={weights}"]).splitlines()[0] for executable in (host, guarded)]
                self.check(results[0] == results[1], f"{plan}: {results[1]}")

    def library(self) -> None:
        """Steps, evaluation and state through the C interface."""
        found = []
        with np.load(DATA) as data:
            batches = [(data["x"][i * BATCH : (i + 1) * BATCH], data["y"][i * BATCH : (i + 1) * BATCH]) for i in range(3)]
        for device in self.compilers:
            step = stowage.load(self.compile(device, "sqrt", "--emit=shared"), seed=5)
            losses = [step(*batch) for batch in batches]
            outputs = step.eval(batches[0][0])
            found.append((losses, outputs, step.state_dict()))
        np.testing.assert_equal(found[0], found[1])
        self.check(found[0][0][0] != found[0][0][1], f"the C interface gives the losses {found[1][0]}, as on the host")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--guarded", required=True)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    guarded = Guarded(args)
    guarded.plans()
    guarded.library()
    print(f"{guarded.passed} passed, {guarded.failed} failed")
    sys.exit(1 if guarded.failed else 0)


if __name__ == "__main__":
    main()
