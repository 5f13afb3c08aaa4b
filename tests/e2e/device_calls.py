#!/usr/bin/python3
"""What a training run asks of the CUDA driver, by the call log of the stand-in for libcuda (tests/gpu).

  device_calls.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

One device allocation of exactly the planned size, behind all else of the load, where the graphs were captured for it; every graph captured and made executable once, before the first step; a step
is copies from pinned memory, one launch, one readback and one event that is waited for, and the next batch is on its way
before that wait. Where the program has places for next inputs, it comes there on a second stream, from an event inside of the launch on; the streams
wait for each other on the device, and it is brought to the inputs before the next launch: to the same losses in any order that
the waits allow, command by command, and where a step is several batches. A program whose places are not free is refused. Arena, fixed part and what is unaccounted add up to what the driver reports.
"""

import argparse
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from commands import build_model, check, run, write_changed

STEPS = 6
# What a run may ask for once it trains.
OF_A_STEP = {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize", "cuGraphLaunch"}
# For a next batch beside the commands: the two streams wait for each other, and it is brought to its place.
BESIDE = {"cuStreamWaitEvent", "cuMemcpyDtoDAsync"}
OUTSIDE = {"STANDIN_CONTEXT_BYTES": 500 << 20, "STANDIN_MODULE_BYTES": 3 << 20, "STANDIN_GRAPH_BYTES": 1 << 20}


@dataclass
class Call:
    name: str
    about: dict[str, str] = field(default_factory=dict)

    def number(self, key: str) -> int:
        return int(self.about[key])


def read_log(path: Path) -> list[Call]:
    calls = []
    for line in path.read_text().splitlines():
        if line.startswith("cuModuleLoadData -> CUDA_ERROR_NO_BINARY_FOR_GPU"):
            continue  # a cubin, which the stand-in does not run: PTX follows
        if line.startswith("cuCtxSetCurrent"):
            continue  # says which context the thread's calls are for, and asks nothing of the device
        check(" -> " not in line, f"a call failed: {line}")
        name, *about = line.split()
        calls.append(Call(name, dict(word.split("=", 1) for word in about)))
    return calls


def check_load(load: list[Call], plan: dict) -> None:
    names = [call.name for call in load]
    check("cuMemAlloc" not in names, "device memory that is no arena")
    taken = [i for i, name in enumerate(names) if name == "cuMemCreate"]
    check(len(taken) == 2 and names.count("cuMemRelease") == 1, f"{len(taken)} device allocations instead of two, one after the other")
    arena = load[taken[1]]
    check(arena.number("bytes") == plan["arena_bytes"], f"{arena.about} allocated, {plan['arena_bytes']} planned")
    loaded = max(i for i, name in enumerate(names) if name in ("cuModuleLoadData", "cuLaunchKernel", "cuGraphInstantiate", "cuGraphUpload"))
    check(names.index("cuMemRelease") > loaded, "the arena is taken before all is loaded")
    places = [call.number("address") for call in load if call.name == "cuMemMap"]
    check(len(places) == 2 and places[0] == places[1], f"graphs are captured for {places[0]}, and the arena lies at {places[1:]}")
    check(places[0] % 256 == 0, "the arena is not aligned to 256 bytes")
    graphs = sum(bool(graph["steps"]) for graph in plan["graphs"])
    check(names.count("cuGraphInstantiate") == graphs, f"{names.count('cuGraphInstantiate')} graphs instead of {graphs}")
    check(names.count("cuModuleLoadData") <= 1, "more than one module")
    managed = [name for name in names if "Managed" in name or "MemPool" in name or "MallocAsync" in name]
    check(not managed, f"memory that is not planned: {managed}")
    launched = [call for call in load if call.name == "cuLaunchKernel" and call.about["captured"] == "0"]
    check(not launched, f"{len(launched)} kernels run outside of graphs")


def launches_of(executable: Path) -> int:
    """Kernels of the program's commands, those of sequences one by one."""
    content = executable.read_bytes()
    program, _ = json.JSONDecoder().raw_decode(content[content.index(b'{"version":') :].decode("utf-8", "ignore"))
    commands = [command for graph in program["graphs"] for command in graph["commands"]]
    return sum(part["op"] == "kernel" for command in commands for part in (command["parts"] if command["op"] == "sequence" else [command]))


def check_launches(load: list[Call], plan: dict, launches: int) -> None:
    """Each kernel of the plan's graphs is captured once, or in the parts that the program has of it; products are cuBLASLt's; updates of
    small tensors share launches."""
    captured = sum(call.name == "cuLaunchKernel" and call.about["captured"] == "1" for call in load)
    steps = [plan["strings"][step["op"]] for graph in plan["graphs"] for step in graph["steps"]]
    kernels = sum(op not in ("matmul", "product_map") for op in steps)
    check(captured == launches >= kernels, f"{captured} launches are captured for {kernels} kernels of the plan, {launches} of the program")
    updates = sum(step["phase"] == "update" for graph in plan["graphs"] for step in graph["steps"])
    trained = sum(buffer["kind"] == "parameter" and buffer["graph"] == "train" for buffer in plan["buffers"])
    check(0 < updates < trained, f"{updates} launches update {trained} tensors")


def check_beside(calls: list[Call], launches: list[int], external: str) -> None:
    """The inputs of each step but the first come on the second stream, behind the `external` event of the launch before; the first stream
    waits for them and brings them to their places."""
    main = calls[launches[0]].about["stream"]
    for step, (launch, following) in enumerate(zip(launches, launches[1:], strict=False)):
        between = calls[launch + 1 : following]
        beside = [call for call in between if call.about.get("stream", main) != main]
        names = [call.name for call in beside]
        check(names == ["cuStreamWaitEvent", "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", "cuEventRecord"], f"beside step {step}: {names}")
        check(beside[0].about["event"] == external, f"the next batch waits for another event than that inside of step {step}")
        behind = between[between.index(beside[-1]) + 1 :]
        joined = next(i for i, call in enumerate(behind) if call.name == "cuStreamWaitEvent")
        check(behind[joined].about["event"] == beside[-1].about["event"], f"step {step + 1} waits for another event than its batch's")
        brought = [call.about["from"] for call in behind[joined + 1 :] if call.name == "cuMemcpyDtoDAsync"]
        check(brought == [call.about["device"] for call in beside[1:3]], f"step {step + 1} takes its batch from {brought}")


def check_steps(calls: list[Call], pinned: set[int], external: str) -> None:
    """`calls` begin with the first step's uploads and end with the last one's readback; `external`: the event inside of a step's launch, if any."""
    strange = {call.name for call in calls} - OF_A_STEP - (BESIDE if external else set())
    check(not strange, f"a step asks for {sorted(strange)}")
    launches = [i for i, call in enumerate(calls) if call.name == "cuGraphLaunch"]
    check(len(launches) == STEPS, f"{len(launches)} launches in {STEPS} steps")
    waits = [i for i, call in enumerate(calls) if call.name == "cuEventSynchronize"]
    check(len(waits) == STEPS, f"{len(waits)} waits in {STEPS} steps")
    streams = {call.about["stream"] for call in calls if "stream" in call.about}
    check(len(streams) == (2 if external else 1), f"{len(streams)} streams")
    if external:
        check_beside(calls, launches, external)
    blocks = []
    for step, (launch, wait) in enumerate(zip(launches, waits, strict=True)):
        previous = launches[step - 1] if step else -1
        uploads = [call for call in calls[previous + 1 : launch] if call.name == "cuMemcpyHtoDAsync"]
        check(all(call.about["pinned"] == "1" for call in uploads), "an upload from memory that is not pinned")
        blocks.append({max(block for block in pinned if block <= call.number("host")) for call in uploads})
        check(len(blocks[-1]) == 1, f"step {step} is uploaded from {len(blocks[-1])} blocks")
        # Behind the launch: the loss, its mark, the next batch, the wait for the mark.
        behind = [call.name for call in calls[launch:wait]]
        loss = max(i for i, name in enumerate(behind) if name == "cuMemcpyDtoHAsync")
        check(behind[loss + 1] == "cuEventRecord", f"behind the loss comes {behind[loss + 1]}")
        check(
            calls[launch + loss + 1].about["event"] == calls[wait].about["event"],
            f"step {step} waits for another event than the one behind its loss",
        )
        if step + 1 < STEPS:
            check("cuMemcpyHtoDAsync" in behind[loss + 2 :], f"batch {step + 1} is uploaded after the wait for step {step}")
    check(all(blocks[i] != blocks[i + 1] for i in range(STEPS - 1)), "two batches in a row pass through one pinned block")


def bytes_after(text: str, what: str) -> int:
    found = re.search(rf"{what} [^()]*\((-?\d+) bytes\)", text)
    check(found is not None, f"no '{what}' with its bytes in: {text}")
    value = int(found[1])
    return -value if re.search(rf"{what} -", text) else value


def check_memory(line: str, arena: int) -> None:
    in_use, unaccounted = bytes_after(line, r"13\.0:"), bytes_after(line, "unaccounted")
    check("fixed part not measured" in line, line)
    check(bytes_after(line, "arena") == arena and in_use == arena + unaccounted, f"does not add up: {line}")
    context, code, graphs = (bytes_after(line, what) for what in ("context", "code and libraries", "graphs"))
    check(context == OUTSIDE["STANDIN_CONTEXT_BYTES"], f"another context than the driver's: {line}")
    check(graphs >= OUTSIDE["STANDIN_GRAPH_BYTES"] and code >= OUTSIDE["STANDIN_MODULE_BYTES"], f"graphs or code: {line}")
    check(unaccounted == context + code + graphs == bytes_after(line, "together"), f"the parts do not add up: {line}")
    check(f"the plan states nothing; --outside={unaccounted} when compiling" in line, line)


def check_case(name: str, model: str, flags: list[str], data: dict, args: argparse.Namespace) -> None:
    """Batches of half of the data; where that is 256 KiB or more, they come beside the commands."""
    onnx, executable, log = (args.work / (name + suffix) for suffix in (".onnx", "", ".calls"))
    build_model(model, onnx, "--batch", len(data["y"]) // 2)
    np.savez(args.work / f"{name}.npz", **data)
    run(args.stowage, "compile", onnx, "-o", executable, "--target=cuda:h100", *flags)
    plan = json.loads(run(executable, "plan", "--format=json"))
    environment = {"LD_LIBRARY_PATH": str(args.simulated), "STANDIN_LOG": str(log)}
    environment |= {name: str(size) for name, size in OUTSIDE.items()}
    text = run(executable, "train", f"--data={args.work / name}.npz", f"--steps={STEPS}", f"--log={args.work / name}.csv",
               environment=environment)  # fmt: skip
    lines = [line for line in text.splitlines() if line.startswith("memory of NVIDIA H100")]
    check(len(lines) == 2, f"expected the driver's figures at load and at the end:\n{text}")
    for line in lines:
        check_memory(line, plan["arena_bytes"])
    calls = read_log(log)
    names = [call.name for call in calls]
    # The last report closes the run; what comes before the first launch and behind the last upload of the state is a step's.
    end = max(i for i, name in enumerate(names) if name == "cuEventSynchronize") + 1
    first = names.index("cuGraphLaunch")
    report = max(i for i, name in enumerate(names[:first]) if name == "cuMemGetInfo")
    check_load(calls[: report + 1], plan)
    check_launches(calls[: report + 1], plan, launches_of(executable))
    pinned = {call.number("address") for call in calls if call.name == "cuMemHostAlloc"}
    recorded = [call.about["event"] for call in calls[: report + 1] if call.name == "cuEventRecordWithFlags"]
    check(len(recorded) == (data["x"].nbytes >= 512 << 10), f"{len(recorded)} events inside of launches")
    check_steps(calls[report + 1 : end], pinned, "".join(recorded))
    gone = {"cuMemGetInfo", "cuStreamSynchronize", "cuDevicePrimaryCtxRelease"}
    strange = [name for name in names[end:] if name not in gone and not re.search("Destroy|Free|Unload|Unmap|cuMemRelease", name)]
    check(not strange, f"after the last step: {strange}")
    print(f"{name}: {len(calls)} calls, {end - report - 1} of them in {STEPS} steps", flush=True)


def train_beside(executable: Path, data: Path, args: argparse.Namespace, *flags: str, order: int = 0) -> tuple[bytes, list[Call]]:
    """The losses of three steps with an evaluation in between, and the calls: `order` 0 runs copies as early as they may, 1 as late."""
    log, calls = executable.with_suffix(".csv"), executable.with_suffix(".calls")
    log.unlink(missing_ok=True)
    run(executable, "train", f"--data={data}", "--steps=3", f"--log={log}", *flags,
        environment={"LD_LIBRARY_PATH": str(args.simulated), "STANDIN_LOG": str(calls), "STANDIN_ORDER": str(order)})  # fmt: skip
    return log.read_bytes(), read_log(calls)


def beside(calls: list[Call]) -> int:
    """Uploads on another stream than the first one that is used."""
    main = next(call.about["stream"] for call in calls if call.name == "cuMemcpyHtoDAsync")
    return sum(call.name == "cuMemcpyHtoDAsync" and call.about["stream"] != main for call in calls)


def check_orders(executable: Path, args: argparse.Namespace, data: dict) -> None:
    path = args.work / "orders.npz"
    np.savez(path, **data, x_test=data["x"][:600], y_test=data["y"][:600])
    early, calls = train_beside(executable, path, args)
    check(beside(calls) == 2, f"{beside(calls)} inputs come beside a step: expected those of the second, and none beside an evaluation")
    for flags, order in (([], 1), (["--poison"], 0), (["--check=canaries"], 0)):
        losses, calls = train_beside(executable, path, args, *flags, order=order)
        check(losses == early, f"{executable.name} {flags}, order {order}: other losses\n{losses}\n{early}")
        check((beside(calls) > 0) == (flags != ["--check=canaries"]), f"{flags}: {beside(calls)} inputs come beside a step")


def check_granularity(executable: Path, args: argparse.Namespace) -> None:
    """Devices give memory in units; those that cannot give it apart from its addresses give the arena first, to the same losses."""
    arena = json.loads(run(executable, "plan", "--format=json"))["arena_bytes"]
    losses = set()
    for unit in (1, 2 << 20, 0):
        log, calls = executable.with_suffix(".csv"), executable.with_suffix(".calls")
        log.unlink(missing_ok=True)
        text = run(executable, "train", f"--data={executable}.npz", "--steps=2", f"--log={log}",
                   environment={"LD_LIBRARY_PATH": str(args.simulated), "STANDIN_LOG": str(calls), "STANDIN_GRANULARITY": str(unit)})  # fmt: skip
        losses.add(log.read_bytes())
        sizes = [call.number("bytes") for call in read_log(calls) if call.name in ("cuMemCreate", "cuMemAlloc")]
        check(sizes[-1] == (-(-arena // unit) * unit if unit else arena), f"in units of {unit} the arena takes {sizes}")
        check(len(sizes) == (2 if unit else 1), f"in units of {unit} device memory is taken {len(sizes)} times")
        check(("the arena was taken before code, libraries and graphs" in text) == (unit == 0), text)
    check(len(losses) == 1, "other losses in other units")


def check_refusals(executable: Path, args: argparse.Namespace) -> None:
    """The places of next inputs are held to the commands when the program is loaded."""
    content, changed = executable.read_bytes(), executable.with_name(executable.name + "-changed")
    for key in (b"next_from", b"next_offset"):
        wrong = re.sub(rb'("%s":)(\d+)' % key, lambda found: found[1] + b"0".rjust(len(found[2])), content, count=1)
        check(wrong != content, f"{executable.name} has no {key!r}")
        write_changed(changed, wrong)
        found = run(changed, "train", f"--data={args.work / executable.name}.npz", "--steps=1", code=1,
                    environment={"LD_LIBRARY_PATH": str(args.simulated)})  # fmt: skip
        said = r"the next '\w+' of graph 'train' comes to \[\d+, \d+\) from command \d+ on, where "
        check(re.search(said, found) is not None, found)


def check_accumulation(args: argparse.Namespace, data: dict) -> None:
    """Each batch of a step comes beside the one before, whichever graph that is."""
    executable, batches = args.work / "mlp_accumulate", args.work / "mlp_accumulate.npz"
    np.savez(batches, **data)
    build_model("mlp_small", executable.with_suffix(".onnx"), "--batch", len(data["y"]))
    flags = ["--target=cuda:h100", "--accumulate=2", "--optimizer=adam"]
    run(args.stowage, "compile", executable.with_suffix(".onnx"), "-o", executable, *flags)
    early, calls = train_beside(executable, batches, args)
    check(beside(calls) == 10, f"{beside(calls)} inputs of 6 batches come beside another one")
    check(train_beside(executable, batches, args, order=1)[0] == early, "accumulation: other losses where copies come late")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    rng = np.random.Generator(np.random.Philox(3))
    images = {"x": rng.random((4, 128), dtype=np.float32), "y": rng.integers(0, 10, 4)}
    check_case("mlp", "mlp_small", ["--optimizer=sgd:lr=0.1,momentum=0.9"], images, args)
    many = {"x": rng.random((1024, 128), dtype=np.float32), "y": rng.integers(0, 10, 1024)}
    check_case("mlp_beside", "mlp_small", ["--optimizer=sgd:lr=0.1,momentum=0.9"], many, args)
    check_orders(args.work / "mlp_beside", args, many)
    check_granularity(args.work / "mlp", args)
    check_refusals(args.work / "mlp_beside", args)
    check_accumulation(args, many)
    # The loss scale and the count of skipped steps come back with the loss.
    check_case("mlp_fp16", "mlp_small", ["--optimizer=adam", "--precision=fp16"], images, args)


if __name__ == "__main__":
    main()
