#!/usr/bin/python3
"""Samples that stay on the device (--data-on-device=ROWS): the bits of a run whose batches the host brings.

  data_on_device.py --stowage=build/release/bin/stowage --work=DIR [--simulated=build/release/lib/simulated]

On the host, and with --simulated on the simulated GPU: shuffled over several epochs, with rows held out and rows to test, resumed, in 16 bits, over several
batches a step, and of tokens, the log and what is saved are the same bytes. The samples are a line of the plan and within its budget; in the arena's room
for more samples than there are nothing changes. Of a GPU's copies those of batches are gone: the samples come once. What does not fit is refused.
"""

import argparse
import json
import re
import shutil
from pathlib import Path

import numpy as np

from commands import build_model, check, run

BATCH, ROWS, TOKENS, LENGTH = 4, 22, 65, 32
ADAM = "--optimizer=adamw:lr=1e-3"
CASES = {
    "images": ("lenet", (ADAM,), ROWS),
    "images_bf16": ("lenet", (ADAM, "--precision=bf16"), ROWS + 9),
    "parts": ("lenet", (ADAM, "--accumulate=2"), ROWS + 9),
    "tokens": ("char_gpt", (ADAM, "--loss=cross-entropy:class-axis=-1"), ROWS),
}


class Samples:
    def __init__(self, args: argparse.Namespace) -> None:
        self.stowage, self.work = args.stowage, args.work
        self.target = ("--target=cuda:h100", f"--cudnn={args.simulated}") if args.simulated else ()
        self.environment = {"LD_LIBRARY_PATH": str(args.simulated)} if args.simulated else {}
        self.isSimulated = bool(args.simulated)
        rng = np.random.default_rng(5)
        for name in ("lenet", "char_gpt"):
            build_model(name, self.work / f"{name}.onnx", f"--batch={BATCH}")
        images = {key: rng.random((count, 1, 28, 28)).astype(np.float32) for key, count in (("x", ROWS), ("x_test", 6))}
        np.savez(self.work / "lenet.npz", **images, y=rng.integers(0, 10, ROWS), y_test=rng.integers(0, 10, 6))
        tokens = rng.integers(0, TOKENS, (ROWS, LENGTH + 1))
        np.savez(self.work / "char_gpt.npz", x=tokens[:, :-1], y=tokens[:, 1:])
        np.savez(self.work / "wrong.npz", x=np.where(tokens == 3, TOKENS, tokens)[:, :-1], y=tokens[:, 1:])

    def compile(self, program: str, model: str, *flags: str, code: int = 0) -> str:
        return run(self.stowage, "compile", self.work / f"{model}.onnx", "-o", self.work / program, *flags, *self.target, code=code)

    def alike(self, model: str, flags: tuple[str, ...], rows: int) -> tuple[str, ...]:
        """What stays in f32 beside 16 bits follows the memory of all that is kept, samples included: that of both."""
        path, wide = self.work / "notes.json", set[str]()
        for more in ((), (f"--data-on-device={rows}",)):
            run(self.stowage, "plan", self.work / f"{model}.onnx", *flags, *more, "--format=json", "-o", path, *self.target)
            for note in json.loads(path.read_text())["notes"]:
                if found := re.match(r"--precision=bf16: (.+) runs? in f32, since", note):
                    wide |= set(found[1].split(", "))
        return (f"--keep=f32:{','.join(sorted(wide))}",) if wide else ()

    def train(self, program: str, data: str, *flags: str, code: int = 0, calls: Path | None = None) -> str:
        environment = {**self.environment, **({"STANDIN_LOG": str(calls)} if calls else {})}
        return run(self.work / program, "train", f"--data={self.work / data}.npz", *flags, code=code, environment=environment)

    def outcome(self, program: str, data: str) -> tuple[bytes, bytes]:
        """Log and state of two epochs, the second of which is resumed; after the first the rows held out are evaluated."""
        log, state = self.work / f"{program}.csv", self.work / f"{program}.safetensors"
        split = ("--validation-split=0.2", "--seed=3") if data == "char_gpt" else ("--seed=3",)
        self.train(program, data, "--epochs=1", *split, f"--save={state}", f"--log={log}")
        self.train(program, data, "--epochs=2", f"--save={state}", "--resume", f"--log={log}", *(("--poison",) if "kept" in program else ()))
        return log.read_bytes(), state.read_bytes()

    def compare(self, case: str) -> None:
        model, flags, rows = CASES[case]
        if "--precision=bf16" in flags:
            flags += self.alike(model, flags, rows)
        self.compile(f"{case}_host", model, *flags)
        self.compile(f"{case}_kept", model, *flags, f"--data-on-device={rows}")
        expected, found = self.outcome(f"{case}_host", model), self.outcome(f"{case}_kept", model)
        check(found[0] == expected[0], f"{case} with room for {rows} samples: {found[0]!r}, with batches of the host {expected[0]!r}")
        check(found[1] == expected[1], f"{case} with room for {rows} samples: what is saved differs from that of batches of the host")

    def plan(self) -> None:
        """Samples count: as a line of their own, and within a budget."""
        def planned(*flags: str) -> dict:
            path = self.work / "plan.json"
            run(self.stowage, "plan", self.work / "lenet.onnx", ADAM, "--recompute=none", "--format=json", "-o", path, *flags, *self.target)
            return json.loads(path.read_text())

        rows, size = 1000, 28 * 28 * 4 + 8
        host, kept = planned(), planned(f"--data-on-device={rows}")
        check("data_set" not in host["breakdown"] and kept["breakdown"]["data_set"] == rows * size, f"of {rows} samples: {kept['breakdown']}")
        sets = [(each["name"], each["size"]) for each in kept["buffers"] if each["kind"] == "data_set"]
        check(sorted(each for _, each in sets) == [8 * rows, (size - 8) * rows], f"samples are {sets}")
        more = kept["arena_bytes"] - host["arena_bytes"]
        check(rows * size - BATCH * size <= more <= rows * size + BATCH * size, f"{rows} samples take {more} bytes of the arena")
        text = run(self.stowage, "plan", self.work / "lenet.onnx", ADAM, f"--data-on-device={rows}", *self.target)
        check(re.search(rf"\n  \+  data set +{rows * size:,} ", text) is not None, text)
        counted, told = planned(f"--data-on-device={self.work / 'lenet.npz'}"), planned(f"--data-on-device={ROWS}")
        check(counted["breakdown"] == told["breakdown"], f"of a file of {ROWS} samples beside test rows: {counted['breakdown']}")
        budget = kept["arena_bytes"]
        check(planned(f"--data-on-device={rows}", f"--memory-budget={budget}")["arena_bytes"] <= budget, f"more than {budget} bytes")
        said = run(self.stowage, "plan", self.work / "lenet.onnx", ADAM, f"--data-on-device={rows}", f"--memory-budget={rows * size}", *self.target, code=2)
        check("STOW1001" in said, said)

    def copies(self) -> None:
        """The samples come once; a step gets their numbers."""
        sizes = {}
        for program in ("images_host", "images_kept"):
            calls = self.work / f"{program}.calls"
            self.train(program, "lenet", "--steps=12", "--validation-split=0", calls=calls)
            words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in calls.read_text().splitlines() if line.startswith("cuMemcpyHtoDAsync")]
            sizes[program] = [int(each["bytes"]) for each in words]
        image = 28 * 28 * 4
        host, kept = ([each.count(images * image) for images in (BATCH, ROWS % BATCH)] for each in sizes.values())
        check(host == [12, 0] and kept == [ROWS // BATCH, 1], f"copies of {sizes}")

    def refusals(self) -> None:
        said = self.compile("few", "lenet", ADAM, f"--data-on-device={BATCH - 1}", code=1)
        check(f"expected room for at least a batch of {BATCH} samples, found {BATCH - 1}" in said, said)
        for flag in ("--emit=shared", "--input-gradients=x"):
            said = self.compile("few", "lenet", ADAM, "--data-on-device=100", flag, code=1)
            check(f"leave it or {flag.split('=')[0]}" in said, said)
        said = run(self.stowage, "plan", self.work / "lenet.onnx", "--data-on-device=all", code=1)
        check("--data-on-device: expected a number of samples, a data file or none, found 'all'" in said, said)
        np.savez(self.work / "two.npz", x=np.zeros((3, 2)), y=np.zeros(4), x_test=np.zeros(7))
        said = run(self.stowage, "plan", self.work / "lenet.onnx", f"--data-on-device={self.work / 'two.npz'}", code=1)
        check("found x has 3, y has 4; give the number of samples" in said, said)
        self.compile("few", "lenet", ADAM, f"--data-on-device={ROWS - 1}")
        said = self.train("few", "lenet", "--epochs=1", code=1)
        check(f"expected at most {ROWS - 1} samples" in said and f"--data-on-device={ROWS}" in said, said)
        said = self.train("tokens_kept", "wrong", "--epochs=1", code=1)
        check(f"holds the index {TOKENS}" in said, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", type=Path, required=True)
    parser.add_argument("--simulated", type=Path, help="the folder of the stand-ins")
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.work, ignore_errors=True)
    args.work.mkdir(parents=True)
    samples = Samples(args)
    for case in CASES:
        samples.compare(case)
    samples.plan()
    samples.refusals()
    if samples.isSimulated:
        samples.copies()


if __name__ == "__main__":
    main()
