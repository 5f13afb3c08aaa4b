#!/usr/bin/python3
"""Plans for GPUs by times that a program measured on one, here the simulated one (tests/gpu), whose times are made up.

  gpu_profile.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

What ./model train --profile writes prices the same step planned again, command by command, with the same buffers, whatever all times are
multiplied by, and under budgets whose commands run other engines. Kernels that the file makes dear are dear to compute again. Times of
another chip, model, batch or graph, and files that are none, are refused with the cause.
"""

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from commands import ROOT, build_model, check, run

FLAGS = ("--batch=8", "--optimizer=adam:lr=1e-3")
DATA = ROOT / "models/data/digits.npz"


class Profiles:
    def __init__(self, args: argparse.Namespace) -> None:
        self.stowage, self.simulated, self.work = args.stowage, args.simulated, args.work
        self.digits = ROOT / "models/digits_cnn.onnx"

    def plan(self, *words: object, model: Path | None = None, code: int | None = 0) -> str:
        return run(self.stowage, "plan", model or self.digits, *FLAGS, f"--cudnn={self.simulated}", *words, code=code)

    def planned(self, *words: object, target: str = "cuda:h100") -> dict[str, Any]:
        return json.JSONDecoder().raw_decode(self.plan(f"--target={target}", "--format=json", *words))[0]  # what is said on standard error follows

    def measure(self, name: str, *words: object, chip: str = "h100") -> Path:
        """The profile of a program, made on the simulated GPU."""
        program, profile = self.work / name, self.work / f"{name}.json"
        run(self.stowage, "compile", self.digits, *FLAGS, f"--target=cuda:{chip}", f"--cudnn={self.simulated}", "-o", program, *words)
        run(program, "train", f"--data={DATA}", "--steps=4", "--quiet", f"--profile={profile}", environment=self.on(chip))
        return profile

    def on(self, chip: str) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.simulated), "STANDIN_CHIP": chip}

    def changed(self, profile: Path, change: Any) -> Path:
        content = json.loads(profile.read_text())
        change(content)
        path = self.work / "changed.json"
        path.write_text(json.dumps(content))
        return path


def steps_of(plan: dict[str, Any]) -> list[tuple[str, float]]:
    """Of the training step, what its commands are and the milliseconds that they are planned with."""
    graph = plan["graphs"][0]
    return [(name, 1e3 * step["seconds"]) for name, step in zip(graph["step_names"], graph["steps"], strict=True)]


def buffers(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in buffer.items() if key != "recompute_seconds"} for buffer in plan["buffers"]]


def again_of(plan: dict[str, Any]) -> set[str]:
    """The commands of the training step that repeat earlier ones."""
    graph = plan["graphs"][0]
    return {name for name, step in zip(graph["step_names"], graph["steps"], strict=True) if "recomputes" in step}


def check_prices(plan: dict[str, Any], profile: Path) -> None:
    """The plan of the program that was measured has its times: of kernels that are alike, the mean."""
    measured = json.loads(profile.read_text())["commands"]
    steps = steps_of(plan)
    check(len(steps) == len(measured), f"{len(steps)} commands are planned, {len(measured)} were measured")
    alike: dict[tuple[int, ...], list[float]] = {}
    for command in measured:
        alike.setdefault(tuple(command["kernels"]), []).append(command["least_ms"])
    shared = {kernel for kernels in alike if len(kernels) > 1 for kernel in kernels}
    compared = 0
    for (name, planned), command in zip(steps, measured, strict=True):
        check(name.startswith(command["kind"]), f"{name} is planned where {command['kind']} was measured")
        if len(command["kernels"]) > 1 or command["kernels"][0] in shared:
            continue
        times = alike[tuple(command["kernels"])]
        expected = sum(times) / len(times)
        check(abs(planned - expected) <= 1e-6 + 1e-3 * expected, f"{name} is planned with {planned} ms, and took {expected}")
        compared += 1
    check(compared > len(steps) // 2, f"only {compared} of {len(steps)} commands can be compared")


def check_plans(profiles: Profiles) -> None:
    profile = profiles.measure("digits")
    content = json.loads(profile.read_text())
    check("H100" in content["device"], f"the profile is of {content['device']}")
    check(sum(len(command["kernels"]) > 1 for command in content["commands"]) > 0, "no command is several ops")
    plan = profiles.planned(f"--profile={profile}")
    check(plan["cost_source"].startswith(f"measured on {content['device']}"), plan["cost_source"])
    check_prices(plan, profile)
    by_sheet = profiles.planned()
    check(buffers(plan) == buffers(by_sheet) and plan["step_seconds"] != by_sheet["step_seconds"], "times change a plan that keeps everything")

    # Ten times as slow is the same plan at ten times the time.
    budget = "--memory-budget=27%"
    tight = profiles.planned(budget, f"--profile={profile}")
    slower = profiles.planned(budget, f"--profile={profiles.changed(profile, lambda c: [w.update(least_ms=10 * w['least_ms']) for w in c['commands']])}")
    check(tight["extra_time_fraction"] > 0, "nothing is computed again")
    check(buffers(slower) == buffers(tight) and abs(slower["step_seconds"] / tight["step_seconds"] - 10) < 0.05, "ten times the times, another plan")

    # What the file makes dear costs so where it is computed again.
    again = again_of(tight)
    dear = lambda c: [w.update(least_ms=1e3 * w["least_ms"]) for w in c["commands"] if f"{w['kind']} of {w['name']}" in again]
    other = profiles.planned(budget, f"--profile={profiles.changed(profile, dear)}")
    check(again_of(other) & again == set() or other["extra_time_fraction"] > 0.3, f"{again} are dear, and add {other['extra_time_fraction']}")

    # Engines with less scratch: their commands cost what they took, whatever the sheet thinks of them.
    lean = profiles.measure("lean", budget)
    ways = {command.get("implementation", "").split(" (")[0] for command in json.loads(lean.read_text())["commands"]}
    check(sum(way.startswith("cudnn engine") for way in ways) > 1, f"all convolutions run alike: {ways}")
    same = profiles.planned(budget, f"--profile={lean}")
    costs = {name: milliseconds for name, milliseconds in steps_of(same) if name.startswith("conv2d of")}
    took = {f"conv2d of {command['name']}": command["least_ms"] for command in json.loads(lean.read_text())["commands"] if command["kind"] == "conv2d"}
    check(all(abs(costs[name] - took[name]) <= 0.1 * took[name] for name in took), f"{costs} planned, {took} measured")
    profiles.planned(f"--profile={lean}")

    # What the program had otherwise has the sheet's price, and the plan says so.
    def without(content: dict[str, Any]) -> None:
        next(command for command in content["commands"] if command["kind"] == "matmul").pop("kernels")

    partly = profiles.planned(f"--profile={profiles.changed(profile, without)}")["cost_source"]
    check(re.search(r"driver 13.0, 1 of \d+ kernels by the data sheet of h100", partly) is not None, partly)


def check_refusals(profiles: Profiles) -> None:
    profile = profiles.work / "digits.json"

    def refused(expected: str, *words: object, model: Path | None = None) -> None:
        said = profiles.plan(*words, model=model, code=1)
        check(expected in said and said.count("\n") == 1, f"expected one line with '{expected}', found: {said}")

    gpu, given = "--target=cuda:h100", f"--profile={profile}"
    refused("has no time of conv2d of node \"/conv1/Conv\": it is of another model, batch, precision or compiler", gpu, given, "--batch=4")
    refused("it is of another model, batch", gpu, given, "--precision=bf16")
    mlp = profiles.work / "mlp.onnx"
    build_model("mlp", mlp)
    refused("it is of another model", gpu, given, model=mlp)
    refused("was measured on NVIDIA H100", "--target=cuda:a100", given)
    refused("and the plan is for cuda:a100", "--target=cuda:a100", given)
    refused("--profile=run measures kernels in this process", gpu, "--profile=run")
    refused("cannot read profile", gpu, f"--profile={profiles.work / 'absent.json'}")
    run(profiles.work / "digits", "train", f"--data={DATA}", "--steps=2", "--quiet", f"--save={profiles.work / 'w.safetensors'}",
        environment=profiles.on("h100"))  # fmt: skip
    of_eval = profiles.work / "eval.json"
    run(profiles.work / "digits", "eval", f"--data={DATA}", f"--weights={profiles.work / 'w.safetensors'}", f"--profile={of_eval}",
        environment=profiles.on("h100"))  # fmt: skip
    refused("has no times of a training step", gpu, f"--profile={of_eval}")
    host = profiles.work / "host.json"
    run(profiles.stowage, "compile", profiles.digits, *FLAGS, "-o", profiles.work / "host")
    run(profiles.work / "host", "train", f"--data={DATA}", "--steps=4", "--quiet", f"--profile={host}")
    refused("was measured on a processor", gpu, f"--profile={host}")
    for change, expected in (
        (lambda c: c.update(steps=0), "has no step after those to warm up"),
        (lambda c: c.pop("commands"), "is no profile; expected JSON"),
        (lambda c: c["commands"][0].update(least_ms=-1), "must not be below zero"),
        (lambda c: c.update(device="NVIDIA GB300"), "was measured on NVIDIA GB300"),
        (lambda c: [w.pop("kernels") for w in c["commands"] if w["kind"] == "cross_entropy_rows"], "has no time of cross_entropy_rows of node \"/fc2/Gemm\""),
        (lambda c: [w.pop("kernels") for w in c["commands"] if w["kind"] == "map"], "has no time of map of node"),
    ):
        refused(expected, gpu, f"--profile={profiles.changed(profile, change)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    profiles = Profiles(args)
    check_plans(profiles)
    check_refusals(profiles)


if __name__ == "__main__":
    main()
