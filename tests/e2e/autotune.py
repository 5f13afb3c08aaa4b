#!/usr/bin/python3
"""--autotune=load on the simulated GPU (tests/gpu), whose cuBLASLt has the algorithms that STANDIN_CUBLASLT_ALGORITHMS names, each with the
time that it takes.

  autotune.py --stowage=build/release/bin/stowage --simulated=build/release/lib/simulated --work=DIR

The fastest of them runs, in graphs that are captured with it, and its name is saved with the run; a resumed run takes it again, whatever is
faster there, and says so where the library does not have it, or the run asks for other products; one that fails when it runs is not taken.
Timing ends after 10 s of the device, also inside a question. Nothing of that is asked of a run without the flag.
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

    def train(self, name: str, times: str, *flags: object, steps: int = 2, code: int = 0, executable: Path | None = None) -> tuple[str, Path, str]:
        """What it says, the checkpoint, and the driver's calls."""
        saved, calls = self.args.work / f"{name}.safetensors", self.args.work / f"{name}.calls"
        environment = {"LD_LIBRARY_PATH": str(self.args.simulated), "STANDIN_CUBLASLT_ALGORITHMS": times, "STANDIN_LOG": str(calls)}
        output = run(executable or self.executable, "train", f"--data={self.data}", f"--steps={steps}", f"--save={saved}", *flags, code=code, environment=environment)
        return output, saved, calls.read_text() if calls.exists() else ""


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
    output, _, calls = runs.train("damaged-run", "30,10,20", f"--resume={damaged}", steps=3, code=1)
    check(f"{damaged}: metadata 'algorithms'" in output and "expected QUESTION=ALGORITHM, found" in output and "--autotune=off" in output, output)
    check(not calls, "the driver was asked before the checkpoint was read")
    runs.train("damaged-off", "30,10,20", f"--resume={damaged}", "--autotune=off", steps=3)


def check_other_products(runs: Runs, tuned: Path) -> None:
    other = runs.args.work / "mlp-tf32"
    runs.compile(other, "--target=cuda:h100", "--tf32")
    output, saved, _ = runs.train("tf32", "10,30,20", f"--resume={tuned}", steps=3, executable=other)
    note = "kinds of products are not those of the run that the checkpoint is of"
    check(output.count(note) == 1 and "are not among" not in output, output)
    check(algorithms_of(saved) == algorithms_of(tuned), "what the checkpoint says is lost")
    output, _, _ = runs.train("tf32-timed", "10,30,20", f"--resume={tuned}", "--autotune=load", steps=3, executable=other)
    check(note not in output, output)


def check_time(runs: Runs) -> None:
    """The stand-in's algorithms take the microseconds that are named, of the device's time."""
    _, quick, _ = runs.train("quick", "30,10,20", "--autotune=load")
    ended = "timing algorithms ended after 10 s"
    output, some, _ = runs.train("some", "300000,100000,200000", "--autotune=load")
    check(ended in output and 0 < len(algorithms_of(some)) < len(algorithms_of(quick)), output)
    output, none, calls = runs.train("none", "3000000,1000000,2000000", "--autotune=load")
    check(ended in output and not algorithms_of(none), output)
    # First runs of 2 + 1 and 2 s, which are 5; then the first algorithm's of 3 s and its timed ones of 9 s, and the next does not begin.
    found = calls.count("cuEventElapsedTime")
    check(found == 5, f"expected 3 first runs of other algorithms and 2 of the first, found {found}")


def check_notes_of_evaluation(runs: Runs, tuned: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(runs.args.simulated), "STANDIN_GRANULARITY": "0"}
    output = run(runs.executable, "eval", f"--data={runs.data}", f"--weights={tuned}", environment=environment)
    check("note: the arena was taken before code, libraries and graphs" in output, output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, required=True, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    runs = Runs(args)
    tuned = check_choice(runs)
    check_resumed(runs, tuned)
    check_other_products(runs, tuned)
    check_time(runs)
    check_notes_of_evaluation(runs, tuned)
    host = args.work / "mlp-host"
    runs.compile(host, "--threads=1")
    found = run(host, "train", f"--data={runs.data}", "--steps=1", "--autotune=load", code=1)
    check("--autotune chooses among the kernels of a GPU's libraries" in found, found)
    found = run(runs.executable, "train", f"--data={runs.data}", "--steps=1", "--autotune=now", code=1)
    check('unknown time "now" for --autotune; known are off, load' in found, found)


if __name__ == "__main__":
    main()
