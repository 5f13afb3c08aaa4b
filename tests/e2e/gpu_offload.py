#!/usr/bin/python3
"""What travels to pinned memory of the host, on the simulated GPU (tests/gpu), against the same step with everything kept.

  gpu_offload.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR [--quick]

A perceptron and a convolutional network are compiled for the smallest arena that a refusal names, less than recomputation alone can do, with
activations that travel, and then with the optimizer's state and frozen weights in the host's memory, too. Each trains to the same losses and
state, bit for bit: with copies as early and as late as waits allow, in drawn orders, with every buffer filled with NaN at its death, command by
command, and after a resume. The pinned block is the one that the plan states, taken once; copies are on two streams of their own, inside of the
captured graph; --profile has each. What the flags do not allow is refused by name.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np

from commands import build_model, check, run

STEPS = 3
# Samples of a step, the shape of one, and flags where state travels.
NETWORKS = {
    "mlp_wide": (512, (128,), ["--optimizer=adamw:lr=1e-3"]),
    "digits_cnn": (128, (1, 8, 8), ["--optimizer=sgd:lr=0.1,momentum=0.9", "--freeze=fc*.weight"]),
}
ORDERS = (0, 1, 2, 7)  # of the stand-in: as late as waits allow, as early, drawn


def smallest(said: str) -> int:
    found = re.search(r"smallest achievable +.*\((\d+) bytes\)", said)
    check("STOW1001" in said and found is not None, f"a budget of one byte is refused with its smallest: {said}")
    return int(found[1])


class Network:
    def __init__(self, name: str, args: argparse.Namespace) -> None:
        batch, shape, self.of_state = NETWORKS[name]
        self.name, self.args = name, args
        self.model, self.data = args.work / f"{name}.onnx", args.work / f"{name}.npz"
        self.saved, self.log, self.calls = (args.work / f"{name}.{end}" for end in ("safetensors", "csv", "calls"))
        build_model(name, self.model, "--batch", batch)
        draw = np.random.default_rng(0)
        np.savez(self.data, x=draw.standard_normal((batch * STEPS, *shape)).astype(np.float32), y=draw.integers(0, 10, batch * STEPS))
        # Which biases' gradients products sum depends on the room that there is, and with it their last bits.
        self.flags = ["--no-dropout", "--epilogues=none", "--target=cuda:h100", f"--cudnn={args.simulated}"]

    def plan(self, *flags: object, code: int = 0) -> str:
        return run(self.args.stowage, "plan", self.model, *self.flags, *flags, code=code)

    def compiled(self, name: str, *flags: object) -> "tuple[Path, str]":
        program = self.args.work / f"{self.name}-{name}"
        return program, run(self.args.stowage, "compile", self.model, "-o", program, *self.flags, *flags)

    def run(self, program: Path, *how: object, order: int = 0, steps: int = STEPS, code: "int | None" = 0) -> str:
        environment = {"LD_LIBRARY_PATH": str(self.args.simulated), "STANDIN_ORDER": str(order), "STANDIN_LOG": str(self.calls)}
        self.log.unlink(missing_ok=True)
        return run(program, "train", f"--data={self.data}", f"--steps={steps}", "--no-shuffle", "--validation-split=0", f"--save={self.saved}",
                   f"--log={self.log}", *how, code=code, environment=environment)  # fmt: skip

    def trained(self, program: Path, *how: object, order: int = 0, steps: int = STEPS) -> "tuple[bytes, bytes]":
        self.run(program, *how, order=order, steps=steps)
        return self.log.read_bytes(), self.saved.read_bytes()


def check_copies(network: Network, program: Path) -> None:
    """The pinned block of the plan, taken once and said; copies of a graph on two streams beside that of the commands."""
    plan = json.loads(run(program, "plan", "--format=json"))
    said = network.run(program)
    calls = network.calls.read_text()
    pinned = [int(size) for size in re.findall(r"^cuMemHostAlloc .*bytes=(\d+)", calls, re.M)]
    check(pinned.count(plan["slow_bytes"]) == 1, f"{plan['slow_bytes']} bytes of slow memory are planned, {pinned} are pinned")
    check(f"({plan['slow_bytes']} bytes)" in network.run(program, "--steps=1"), f"the run does not say what it pins: {said}")
    copies = plan["graphs"][0]["copies"]
    found = re.search(r"slow memory: .*?\((\d+) bytes\) out and .*?\((\d+) bytes\) in, pinned memory of the host", said)
    check(found is not None and [int(x) for x in found.groups()] == [STEPS * copies["bytes_out"], STEPS * copies["bytes_in"]],
          f"{copies['bytes_out']} and {copies['bytes_in']} bytes a step travel: {said}")  # fmt: skip
    capture = calls[calls.index("cuStreamBeginCapture") : calls.index("cuGraphInstantiate")]
    lanes = {}
    for name in ("DtoH", "HtoD"):
        streams = re.findall(rf"^cuMemcpy{name}Async .*stream=(\d+)", capture, re.M)
        check(len(set(streams)) <= 1, f"copies of one direction on the streams {streams}")
        lanes[name] = set(streams)
    each = copies["each"]
    check(lanes["DtoH"] != lanes["HtoD"] and len(re.findall(r"^cuMemcpy", capture, re.M)) == len(each), f"{len(each)} copies are planned, on {lanes}: {capture}")
    names = {copy["name"] for copy in each}
    profiled = network.run(program, f"--profile={network.args.work / 'profile.json'}")
    known = json.loads((network.args.work / "profile.json").read_text())
    check({copy["tensor"] for copy in known["copies"]} == names and all(copy["ms"] > 0 for copy in known["copies"]), f"{names} in {known['copies']}: {profiled}")


def check_program(network: Network, kind: str, known: "tuple[bytes, bytes]", first: "tuple[bytes, bytes]", plain: Path, program: Path) -> None:
    """The same bits whenever copies are made, command by command, after a resume, and in an evaluation."""
    check_copies(network, program)
    title = f"{network.name}, {kind}"
    for order in ORDERS:
        check(network.trained(program, order=order) == known, f"{title}: other bits in order {order}")
    for how in ("--check=early-copies", "--check=late-copies"):
        check(network.trained(program, how, "--poison") == known, f"{title}: other bits with {how}")
    check(network.trained(program, "--check=canaries", steps=1) == first, f"{title}: other bits command by command")
    part = network.args.work / "part.safetensors"
    network.saved.replace(part)
    check(network.trained(program, f"--resume={part}")[1] == known[1], f"{title}: other bits after a resume")
    evaluate = ["eval", f"--data={network.data}", f"--weights={network.saved}"]
    said = [run(p, *evaluate, environment={"LD_LIBRARY_PATH": str(network.args.simulated)}) for p in (plain, program)]
    metrics = [re.search(r"loss .*", text)[0] for text in said]
    check(metrics[0] == metrics[1], f"{title}: another evaluation: {metrics}")


def check_network(name: str, args: argparse.Namespace) -> None:
    network = Network(name, args)
    nothing, travels = "--memory-budget=16KiB", "--offload=host"
    network.flags.append("--optimizer=sgd:lr=0.1")
    least, with_copies = smallest(network.plan(nothing, code=2)), smallest(network.plan(nothing, travels, code=2))
    check(with_copies < least, f"{name}: {least} bytes with recomputation alone, {with_copies} with copies")
    found = {"values": with_copies}
    for kind, flags in (("values", [travels]), ("state", ["--offload=auto"])):
        if kind == "state":
            network.flags[-1:] = network.of_state
            said = network.plan(nothing, code=2)
            check("in memory of the host: --offload=host --offload-state=all" in said, f"memory of the host is no remedy: {said}")
            found[kind] = smallest(network.plan(nothing, travels, "--offload-state=all", code=2))
            check(found[kind] < smallest(network.plan(nothing, travels, code=2)), f"{name}: {found} with state in the host's memory")
        plain, _ = network.compiled(f"plain-{kind}", "--recompute=none")
        first, known = network.trained(plain, steps=1), network.trained(plain)
        program, said = network.compiled(kind, f"--memory-budget={found[kind]}", *flags)
        check("slow memory: train sends" in said, f"{name}: no word of what travels: {said}")
        check("over pcie5 (NVIDIA H100" in run(program, "plan"), f"{name}: the plan does not say over what")
        check_explained(network, f"--memory-budget={found[kind]}", flags)
        check_program(network, kind, known, first, plain, program)
    print(f"{name}: {least} bytes with recomputation alone, {with_copies} with copies, {found['state']} with its optimizer's state in the host's memory, "
          "the same bits", flush=True)  # fmt: skip


def check_explained(network: Network, budget: str, flags: "list[str]") -> None:
    """explain says of each traveller what it is, of which buffer the copies are, and what the peak is spared, as the plan has it."""
    asked = [budget, *flags]
    plan = json.JSONDecoder().raw_decode(network.plan(*asked, "--format=json"))[0]
    said = run(network.args.stowage, "explain", network.model, *network.flags, *asked, "--rows=100")
    each = plan["graphs"][0]["copies"]["each"]
    table = said[said.index("off the peak  away") :].splitlines()
    rows = {line.split("  ")[-1] for line in table[1 : table.index("")]}
    check(rows == {copy["name"] for copy in each}, f"{network.name}: {[copy['name'] for copy in each]} travel, explained is {rows}")
    copy = each[0]
    of_buffer = run(network.args.stowage, "explain", network.model, *network.flags, *asked, f"--buffer={plan['buffers'][copy['buffer']]['name']}")
    words = f"{'sent to' if copy['direction'] == 'out' else 'fetched from'} slow memory at command {copy['start']}, awaited by command {copy['await']}: "
    check(words in of_buffer, f"{network.name}: {words} is not said: {of_buffer}")


def check_words(args: argparse.Namespace) -> None:
    network = Network("mlp_wide", args)
    budget = f"--memory-budget={smallest(network.plan('--memory-budget=16KiB', '--offload=host', code=2))}"
    # auto takes nothing that a budget does not need.
    roomy = json.JSONDecoder().raw_decode(network.plan("--offload=auto", "--memory-budget=1GiB", "--format=json"))[0]
    check("slow_bytes" not in roomy and all("copies" not in graph for graph in roomy["graphs"]), "something travels where there is room")
    check("slow memory" not in network.plan("--offload=auto").split("\n\n")[0], "something travels without a budget")
    # A slower link is never faster, and says so.
    seconds = [json.JSONDecoder().raw_decode(network.plan(budget, "--offload=host", f"--link={link}", "--format=json"))[0]["step_seconds"]
               for link in ("nvlink-c2c", "pcie5", "pcie4", "1")]  # fmt: skip
    check(seconds == sorted(seconds) and seconds[0] < seconds[-1], f"steps over slower and slower links take {seconds} s")
    check("pass 2.5 GB/s out and 3.0 in as --offload-bandwidth says" in network.plan(budget, "--offload=host", "--offload-bandwidth=2.5,3,20"), "a bandwidth is stated")
    little = smallest(network.plan("--memory-budget=16KiB", "--offload=host", "--host-memory=4KiB", code=2))
    check(little == smallest(network.plan("--memory-budget=16KiB", code=2)), f"in 4 KiB of the host's memory {little} bytes")

    def refused(*flags: object) -> str:
        return network.plan(*flags, code=1)

    check("without a budget nothing travels" in refused("--offload=host"), "a budget is asked for")
    check("--offload=FOLDER is for programs on the CPU" in refused("--offload=/tmp", budget), "a folder is refused")
    check("--host-memory is about --offload=host" in refused("--host-memory=1GiB", budget), "host memory of nothing is refused")
    check("--link is about --offload=host" in refused("--link=pcie4", budget), "a link of nothing is refused")
    check("known are pcie4, pcie5, nvlink-c2c" in refused("--offload=host", "--link=pcie9", budget), "an unknown link is refused")
    check("give one of them" in refused("--offload=host", "--link=pcie4", "--offload-bandwidth=1", budget), "two speeds are refused")
    check("say --link=" in run(args.stowage, "plan", network.model, "--target=cuda:sm_90", "--offload=host", budget, code=1), "an architecture has no link")
    for place in ("host", "auto"):
        said = run(args.stowage, "plan", network.model, f"--offload={place}", budget, code=1)
        check("are for GPUs" in said and "--offload=FOLDER" in said, f"--offload={place} on the CPU: {said}")
    program = args.work / "mlp_wide-values"
    for flag, words in (("--offload=/tmp", "names a folder"), ("--offload-bandwidth=1", "holds copies to a file back")):
        check(words in network.run(program, flag, code=1), f"{flag} of a run on a GPU is not refused")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="the perceptron alone, for the day")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for name in list(NETWORKS)[: 1 if args.quick else None]:
        check_network(name, args)
    check_words(args)


if __name__ == "__main__":
    main()
