#!/usr/bin/python3
"""--autotune=load on the simulated GPU (tests/gpu), whose cuBLASLt has the algorithms that STANDIN_CUBLASLT_ALGORITHMS names, each with the
time that it takes.

  autotune.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

The fastest of them runs, in graphs that are captured with it, and its name is saved with the run; a resumed run takes it again, whatever is
faster there, and says so where the library does not have it; one that fails when it runs is not taken. Nothing of that is asked of a run
without the flag.
"""

import argparse
import json
import re
import struct
from pathlib import Path

import numpy as np

from commands import build_model, check, run


def algorithms_of(checkpoint: Path) -> dict[str, str]:
    """By what is asked of the library."""
    content = checkpoint.read_bytes()
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    text = header["__metadata__"].get("algorithms", "")
    return dict(entry.split("=") for entry in text.split())


def numbers_of(chosen: dict[str, str]) -> set[int]:
    """The stand-in keeps an algorithm's number behind its scratch and the alignments."""
    return {int(name.split(":")[1].split(".")[5], 16) for name in chosen.values()}


class Runs:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.executable, self.data = args.work / "mlp", args.work / "mlp.npz"
        rng = np.random.Generator(np.random.Philox(3))
        np.savez(self.data, x=rng.random((8, 128), dtype=np.float32), y=rng.integers(0, 10, 8))
        build_model("mlp_small", self.executable.with_suffix(".onnx"), "--batch", 4)
        self.compile(self.executable, "--target=cuda:h100")

    def compile(self, executable: Path, *flags: str) -> None:
        run(self.args.stowage, "compile", self.executable.with_suffix(".onnx"), "-o", executable, "--optimizer=adam", *flags)

    def train(self, name: str, times: str, *flags: object, steps: int = 2, code: int = 0) -> tuple[str, Path, str]:
        """What it says, the checkpoint, and the driver's calls."""
        saved, calls = self.args.work / f"{name}.safetensors", self.args.work / f"{name}.calls"
        environment = {"LD_LIBRARY_PATH": str(self.args.simulated), "STANDIN_CUBLASLT_ALGORITHMS": times, "STANDIN_LOG": str(calls)}
        output = run(self.executable, "train", f"--data={self.data}", f"--steps={steps}", f"--save={saved}", *flags, code=code, environment=environment)
        return output, saved, calls.read_text()


def check_choice(runs: Runs) -> Path:
    _, plain, calls = runs.train("plain", "30,10,20")
    check(not algorithms_of(plain), "algorithms were chosen that nobody asked for")
    captures = calls.count("cuGraphInstantiate")
    _, tuned, calls = runs.train("tuned", "30,10,20", "--autotune=load")
    chosen = algorithms_of(tuned)
    check(len(chosen) > 3 and numbers_of(chosen) == {1}, f"the second of three is the fastest, and this was chosen: {chosen}")
    check(calls.count("cuGraphInstantiate") == 2 * captures, "graphs were not captured with what was chosen")
    check(calls.rindex("cuGraphInstantiate") > calls.rindex("cuMemCreate"), "algorithms were timed before the arena was there")
    _, first, calls = runs.train("first", "10,30,20", "--autotune=load")
    check(numbers_of(algorithms_of(first)) == {0} and calls.count("cuGraphInstantiate") == captures, "the first is the fastest, and graphs stand")
    _, failing, _ = runs.train("failing", "30,-1,20", "--autotune=load")
    check(numbers_of(algorithms_of(failing)) == {2}, "an algorithm that does not run was chosen")
    return tuned


def check_resumed(runs: Runs, tuned: Path) -> None:
    chosen = algorithms_of(tuned)
    output, again, calls = runs.train("again", "10,30,20", f"--resume={tuned}", steps=3)
    check(algorithms_of(again) == chosen, "a resumed run took others")
    check("algorithms" not in output and "cuEventElapsedTime" not in calls, "a resumed run timed them again")
    _, straight, _ = runs.train("straight", "30,10,20", "--autotune=load", steps=3)
    check(straight.read_bytes() == again.read_bytes(), "a resumed run ends in another state")
    _, off, _ = runs.train("off", "10,30,20", f"--resume={tuned}", "--autotune=off", steps=3)
    check(not algorithms_of(off), "--autotune=off took what the checkpoint says")
    output, gone, _ = runs.train("gone", "30", f"--resume={tuned}", steps=3)
    check(f"note: {len(chosen)} of the algorithms that the checkpoint names are not among" in output and not algorithms_of(gone), output)
    output, anew, _ = runs.train("anew", "30", f"--resume={tuned}", "--autotune=load", steps=3)
    check("they were timed anew" in output and numbers_of(algorithms_of(anew)) == {0}, output)
    damaged = runs.args.work / "damaged.safetensors"
    text = tuned.read_bytes()
    damaged.write_bytes(re.sub(rb'("algorithms": ?"[^"=]*)=', rb"\1~", text, count=1))
    check(damaged.read_bytes() != text, "the checkpoint was not damaged")
    output, _, _ = runs.train("damaged-run", "30,10,20", f"--resume={damaged}", steps=3, code=1)
    check("expected QUESTION=ALGORITHM, found" in output and "--autotune=off" in output, output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    runs = Runs(args)
    check_resumed(runs, check_choice(runs))
    host = args.work / "mlp-host"
    runs.compile(host, "--threads=1")
    found = run(host, "train", f"--data={runs.data}", "--steps=1", "--autotune=load", code=1)
    check("--autotune chooses among the kernels of a GPU's libraries" in found, found)
    found = run(runs.executable, "train", f"--data={runs.data}", "--steps=1", "--autotune=now", code=1)
    check('unknown time "now" for --autotune; known are off, load' in found, found)


if __name__ == "__main__":
    main()
