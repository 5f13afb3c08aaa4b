#!/usr/bin/python3
"""Runs that are killed, and disks that are full, at random instants: interrupted.py --stowage=PATH --kill-at-call=LIBRARY --work=DIR
[--first=SEED] [--cases=N] [--compilations=N] [--away].

A case trains a network, drawn interruptions of it one after another, each resumed from the last save, and then to its end: log and
weights must be those of a run that nobody disturbs, bit for bit, and nothing but them is left. An interruption is a kill in front of a call that changes
files, a kill or a request to end after a time, or a disk that is full for some writes. What fails is reduced: the
shortest list of its interruptions that still fails is told with the seed. With --away values travel to a disk, and the optimizer's state
and frozen weights lie there, in the smallest arena. Then kills come in front of a piece of a copy as well, on a disk that may be slow, and pieces
fail: with an error, with nothing passed or half of it, or with a bit that has changed. All but the half end the run with an error that names the
disk; in a save they may leave it out with a warning.

A compilation that is interrupted, or that finds no room or a limit on the size of files, leaves neither an output nor a temporary file.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL, DATA = ROOT / "models/digits_cnn.onnx", ROOT / "models/data/digits.npz"
FAULTS = ("error", "end", "half", "bit")
ENDS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM, "HUP": signal.SIGHUP, "KILL": signal.SIGKILL}


class Interrupted:
    def __init__(self, args: argparse.Namespace) -> None:
        self.folder = args.work.absolute()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.stowage, self.killer = args.stowage, args.kill_at_call
        self.executable = self.folder / "model"
        self.step = [str(MODEL), "--threads=1", f"--batch={32 if args.away else 16}", "--optimizer=sgd:lr=0.05,momentum=0.9"]
        self.compiling = [self.stowage, "compile", *self.step, *(self.away() if args.away else ["--recompute=none"])]
        subprocess.run([*self.compiling, "-o", self.executable], check=True, stdout=subprocess.DEVNULL)
        counted = self.folder / "calls"
        self.runs = 0
        begin = time.monotonic()
        code, words = self.train("whole", {"STOWAGE_CALLS": str(counted)})
        self.seconds = time.monotonic() - begin
        assert code == 0, words
        self.calls, self.copies = map(int, counted.read_text().split())
        assert (self.copies > 0) == args.away, f"{self.copies} pieces of copies"
        self.whole = self.results("whole")

    def away(self) -> list[str]:
        """Flags of the smallest arena with state in slow memory, a part of the weights frozen."""
        flags = ["--freeze=fc2.weight", f"--offload={self.folder}", "--offload-bandwidth=1,1,5", "--offload-state=all"]
        told = subprocess.run([self.stowage, "plan", *self.step, *flags, "--memory-budget=1KiB"], capture_output=True, text=True)
        smallest = re.search(r"smallest achievable +.*\((\d+) bytes\)", told.stderr)
        assert smallest, told.stderr
        flags.append(f"--memory-budget={smallest[1]}")
        plan = subprocess.run([self.stowage, "plan", *self.step, *flags, "--format=json"], capture_output=True, text=True).stdout
        copies = next(graph["copies"]["each"] for graph in json.JSONDecoder().raw_decode(plan)[0]["graphs"] if graph["name"] == "train")
        travels = {(copy["name"], copy["direction"]) for copy in copies}
        assert travels >= {("/conv2/Conv", "out"), ("fc1.weight.momentum", "out"), ("fc1.weight", "out"), ("fc2.weight", "in")}, f"a value, all state and a frozen weight travel: {travels}"
        return flags

    def results(self, name: str) -> tuple[bytes, bytes]:
        return (self.folder / name / "run.csv").read_bytes(), (self.folder / name / "w.safetensors").read_bytes()

    def train(self, name: str, settings: dict[str, str], end: tuple[int, float] | None = None, *flags: str) -> tuple[int, str]:
        """Exit code and messages of a run, which goes on from its last save; `end`: a signal, and after how many seconds."""
        self.runs += 1
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        weights, log = folder / "w.safetensors", folder / "run.csv"
        # A log that a full disk has cut short belongs to no save: the next run would say so, and takes what can be kept.
        words = [self.executable, "train", f"--data={DATA}", f"--save={weights}", f"--log={log}", "--steps=40", "--save-every=7",
                 "--lr=0.02", "--seed=3", "--validation-split=0", "--quiet", *flags]  # fmt: skip
        if weights.exists():
            words.append("--resume")
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, LD_PRELOAD=str(self.killer), **settings))  # fmt: skip
        if end:
            try:
                process.wait(end[1])
            except subprocess.TimeoutExpired:
                process.send_signal(end[0])
        words = process.communicate(timeout=600)[1]
        return process.returncode, words

    def draw(self, rng: random.Random) -> tuple:
        kind = rng.choice(["call", "call", "full", "time"] if self.copies == 0 else ["copy", "copy", "fault", "fault", "call", "full", "time"])
        if kind == "copy":  # while other copies are on their way, longer on a slow disk
            return kind, rng.randint(1, self.copies), rng.choice([None, "0.05,0.02,200"])
        if kind == "fault":
            return kind, rng.choice(FAULTS), rng.randint(2, self.copies)  # the first asks whether the file may pass the page cache
        if kind == "call":
            return kind, rng.randint(1, self.calls // 2)
        if kind == "full":
            return kind, rng.randint(1, self.calls // 2), rng.choice([0, 1, 5, 40, self.calls])
        return kind, rng.choice(sorted(ENDS)), rng.uniform(0, self.seconds)

    def problem(self, interruptions: list[tuple]) -> str:
        """What is wrong after these interruptions; empty when nothing is."""
        shutil.rmtree(self.folder / "case", ignore_errors=True)
        for kind, *what in interruptions:
            if kind == "call":
                code, words = self.train("case", {"STOWAGE_KILL_AT": str(what[0])})
                good = code in (0, -signal.SIGKILL)
            elif kind == "copy":
                slow = [f"--offload-bandwidth={what[1]}"] if what[1] else []
                code, words = self.train("case", {"STOWAGE_KILL_AT_COPY": str(what[0])}, None, *slow)
                good = code in (0, -signal.SIGKILL)
            elif kind == "fault":
                code, words = self.fault(*what)
                good = code == 0
            elif kind == "full":
                code, words = self.train("case", {"STOWAGE_FULL": f"{what[0]}-{what[0] + what[1]}"})
                good = code == 0 or code == 1 and "error: cannot write '" in words and "No space left on device" in words
            else:
                number = ENDS[what[0]]
                code, words = self.train("case", {}, (number, what[1]))
                good = code in (0, -number, 128 + number)
            if not good:
                return f"{kind} {what}: exit code {code}: {words[-600:]}"
            log = self.folder / "case/run.csv"
            if kind == "full" and code == 1 and f"cannot write '{log}'" in words:
                return ""  # the log says itself that it is not whole; the weights are compared by the cases that keep it
        code, words = self.train("case", {})
        if code != 0:
            return f"the run to the end: exit code {code}: {words[-600:]}"
        if self.results("case") != self.whole:
            return "log or weights differ from those of the undisturbed run"
        left = sorted(path.name for path in (self.folder / "case").iterdir() if not path.name.endswith(".part"))
        parts = [path for path in (self.folder / "case").iterdir() if path.name.endswith(".part")]
        kills = sum(kind in ("call", "copy") or what[0] == "KILL" for kind, *what in interruptions)
        if left != ["run.csv", "w.safetensors"] or len(parts) > kills:  # a kill between link and rename leaves one
            return f"left behind: {left} {parts}"
        return ""

    def fault(self, kind: str, number: int) -> tuple[int, str]:
        """A run in which this befalls the piece of a copy with this number: 0 where it ends as it has to. A save that cannot read state once is
        left out with a warning, and what has changed a bit on its way out may be overwritten before anybody reads it."""
        counted = self.folder / "copies"
        code, words = self.train("case", {"STOWAGE_COPY_FAULT": f"{kind}@{number}", "STOWAGE_CALLS": str(counted)})
        if code not in (0, 1):
            return code, words
        ends = kind != "half" and int(counted.read_text().split()[1]) >= number
        names = re.search(rf"^(error|warning): .*slow memory in '{re.escape(str(self.folder))}': ", words, re.M)
        if code == 0:
            good = not ends or kind == "bit" or (names is not None and names[1] == "warning")
        else:
            good = ends and names is not None
        return (0 if good else 1), words

    def case(self, seed: int) -> str:
        rng = random.Random(seed)
        interruptions = [self.draw(rng) for _ in range(rng.randint(1, 5))]
        problem = self.problem(interruptions)
        if not problem:
            return ""
        drawn = len(interruptions)
        at = 0
        while at < len(interruptions):
            fewer = interruptions[:at] + interruptions[at + 1 :]
            if found := self.problem(fewer):
                interruptions, problem = fewer, found
            else:
                at += 1
        return f"seed {seed}: {len(interruptions)} of {drawn} interruptions are enough: {interruptions}: {problem}"

    def compilation(self, seed: int) -> str:
        """A compilation that does not come to its end leaves nothing."""
        rng = random.Random(seed)
        folder = self.folder / "compiled"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "tmp").mkdir(parents=True)
        kind = rng.choice(["INT", "TERM", "HUP", "size"])
        limit = rng.choice([0, 1000, 100_000, 1_000_000])

        def limits() -> None:
            for number in (signal.SIGINT, signal.SIGHUP):  # which the tests may run without
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            if kind == "size":
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        process = subprocess.Popen([*self.compiling, "-o", folder / "model"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, TMPDIR=str(folder / "tmp")), preexec_fn=limits)  # fmt: skip
        delay = rng.uniform(0.2, 1.0) * self.compile_seconds()
        if kind != "size":
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.send_signal(ENDS[kind])
        words = process.communicate(timeout=600)[1]
        what = f"seed {seed}: {kind} {limit if kind == 'size' else f'after {delay:.3f} s'}: exit code {process.returncode}"
        good = process.returncode == 1 and words.startswith("error: ") if kind == "size" else process.returncode in (0, -ENDS[kind])
        if not good:
            return f"{what}: {words[-600:]}"
        for _ in range(50):  # the linker, which nobody told to end, comes to its own
            left = [path for path in folder.rglob("*") if path != folder / "tmp"]
            if not left or left == [folder / "model"]:
                break
            time.sleep(0.1)
        if left and (left != [folder / "model"] or process.returncode != 0):
            return f"{what}: left {[str(path.relative_to(folder)) for path in left]}"
        return ""

    def compile_seconds(self) -> float:
        if not hasattr(self, "compiled_in"):
            begin = time.monotonic()
            subprocess.run([*self.compiling, "-o", self.executable], check=True, stdout=subprocess.DEVNULL)
            self.compiled_in = time.monotonic() - begin
        return self.compiled_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--kill-at-call", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--first", type=int, default=1, metavar="SEED")
    parser.add_argument("--cases", type=int, default=3, metavar="N")
    parser.add_argument("--compilations", type=int, default=2, metavar="N")
    parser.add_argument("--away", action="store_true", help="state lies in slow memory")
    args = parser.parse_args()
    tried = Interrupted(args)
    problems = [tried.case(seed) for seed in range(args.first, args.first + args.cases)]
    problems += [tried.compilation(seed) for seed in range(args.first, args.first + args.compilations)]
    failed = [problem for problem in problems if problem]
    print("\n".join([*failed, f"{args.cases} interrupted runs ({tried.runs} processes), {args.compilations} compilations, {len(failed)} failures"]))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
