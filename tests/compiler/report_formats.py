"""Plans in the formats of other tools, read with those tools' readers where they are there: --stowage=BINARY --work=FOLDER.

PyTorch's snapshot is made by stowage.convert and replayed; pickletools says that its pickle keeps to the opcodes that the reader of
pytorch.org/memory_viz knows. The trace is checked against the documented event format, and loaded with Perfetto's trace processor
where the package `perfetto` and its program are installed. The graph is laid out by Graphviz where it is installed. What is not
there is named in the output.
"""

import argparse
import csv
import json
import os
import pickle
import pickletools
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
FLAGS = ["--batch=32", "--threads=1", "--memory-budget=75%", "--optimizer=sgd:lr=0.1,momentum=0.9"]
# Of MemoryViz.js, as of PyTorch 2.15, under the names that pickletools gives them.
PAGE_OPCODES = {"PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "BININT", "BININT1", "BININT2", "LONG1",
                "NEWTRUE", "NEWFALSE", "NONE", "SHORT_BINUNICODE", "BINUNICODE", "MEMOIZE", "BINGET", "LONG_BINGET", "BINPUT",
                "LONG_BINPUT", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINFLOAT", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
                "LIST", "DICT"}  # fmt: skip


class ReportFormats(unittest.TestCase):
    stowage = ""
    work = Path()

    @classmethod
    def setUpClass(cls) -> None:
        cls.work.mkdir(parents=True, exist_ok=True)
        cls.plan = json.loads(cls.render("json"))
        cls.train = cls.plan["graphs"][0]

    @classmethod
    def render(cls, form: str) -> bytes:
        """The plan in a format; made once by planning, then from the plan's own file."""
        path = cls.work / f"plan.{form}"
        source = [str(cls.work / "plan.json")] if form != "json" else [str(ROOT / "models/digits_cnn.onnx"), *FLAGS]
        command = "inspect" if form != "json" else "plan"
        subprocess.run([cls.stowage, command, *source, f"--format={form}", "-o", str(path)], check=True)
        return path.read_bytes()

    def live(self, step: int) -> int:
        return sum(b["size"] for b in self.plan["buffers"] if b["begin"] <= step < b["end"])

    # The plan itself. ---------------------------------------------------------------------------------------------------------

    def test_steps_of_the_plan(self) -> None:
        strings, steps, buffers = self.plan["strings"], self.train["steps"], self.plan["buffers"]
        self.assertEqual(max(self.live(step) for step in range(len(steps))), self.train["live_peak_bytes"])
        again = [step for step in steps if "recomputes" in step]
        self.assertGreater(len(again), 0, "nothing is recomputed at this budget: the test shows nothing")
        for step in again:
            first = steps[step["recomputes"]]
            self.assertEqual((step["op"], step["source"]), (first["op"], first["source"]))
        spent = sum(step["seconds"] for step in steps)
        self.assertAlmostEqual(spent, self.plan["step_seconds"], delta=1e-9)
        extra = sum(step["seconds"] for step in again)
        self.assertAlmostEqual(extra / (spent - extra), self.plan["extra_time_fraction"], delta=1e-9)
        for number, buffer in enumerate(buffers):
            users = [t for t, step in enumerate(steps) if number in step["reads"] or number in step["writes"]]
            # Views read what the step after them reads; state and results outlive their last command.
            self.assertTrue(all(buffer["begin"] <= t < buffer["end"] for t in users), buffer["name"])
            self.assertIn("reason", buffer)
            if buffer["kind"] in ("activation", "gradient", "workspace"):
                self.assertEqual(users[0], buffer["begin"], buffer["name"])
                self.assertIn(number, steps[buffer["begin"]]["writes"], buffer["name"])
        modules = {strings[step["module"]] for step in steps if "module" in step}
        self.assertLessEqual({"conv1", "bn1", "fc2"}, modules)

    # PyTorch's snapshot. ------------------------------------------------------------------------------------------------------

    def test_memory_viz(self) -> None:
        self.render("json")
        path = self.work / "plan.pickle"
        subprocess.run([sys.executable, "-m", "stowage.convert", "memory-viz", self.work / "plan.json", path], check=True, env=PACKAGE)
        data = path.read_bytes()
        used = {opcode.name for opcode, _, _ in pickletools.genops(data)}
        self.assertLessEqual(used, PAGE_OPCODES)
        snapshot = pickle.loads(data)
        self.assertEqual(len(snapshot["device_traces"]), len(self.plan["graphs"]))
        for segment, trace in zip(snapshot["segments"], snapshot["device_traces"]):
            self.assertEqual(segment["total_size"], self.plan["arena_bytes"])
            self.assertEqual(sum(block["size"] for block in segment["blocks"]), segment["total_size"])
            self.replay(segment, trace)
        frames = [event["frames"] for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
        conv = next(f for f in frames if f[0]["name"] == "activation: /conv1/Conv")
        self.assertEqual(conv[1], {"name": "/conv1/Conv", "filename": "digits_cnn.onnx", "line": 1})
        self.assertEqual(conv[2]["name"], "conv1")

    def replay(self, segment: dict, trace: list) -> None:
        """Allocations never overlap, reach the plan's peak, and leave what the segment says."""
        live, requested, total, most = {}, set(), 0, 0
        for event in trace:
            begin, end = event["addr"], event["addr"] + event["size"]
            if event["action"] == "alloc":
                self.assertTrue(all(end <= a or b <= begin for a, b in live.items()), event)
                self.assertLessEqual(end, segment["total_size"])
                live[begin] = end
                total += event["size"]
                most = max(most, total)
            elif event["action"] == "free_requested":
                self.assertEqual(live[begin], end)
                requested.add(begin)
            elif event["action"] == "free_completed":
                requested.remove(begin)
                del live[begin]
                total -= event["size"]
        self.assertEqual(most, self.plan["graphs"][segment["device"]]["live_peak_bytes"])
        left = {b["address"]: b["address"] + b["size"] for b in segment["blocks"] if b["state"] == "active_allocated"}
        self.assertEqual(live, left)

    # Perfetto. ----------------------------------------------------------------------------------------------------------------

    def test_perfetto(self) -> None:
        trace = json.loads(self.render("perfetto"))
        required = {"X": {"name", "cat", "ts", "dur", "pid", "tid"}, "C": {"name", "ts", "pid", "args"}, "M": {"name", "pid", "args"},
                    "s": {"name", "cat", "id", "ts", "pid", "tid"}, "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"}}  # fmt: skip
        for event in trace["traceEvents"]:
            self.assertLessEqual(required[event["ph"]], set(event))
        steps = sum(graph["step_count"] for graph in self.plan["graphs"])
        self.assertEqual(sum(event["ph"] == "X" for event in trace["traceEvents"]), steps)
        again = sum("recomputes" in step for step in self.train["steps"])
        self.assertEqual(sum(event["ph"] == "f" for event in trace["traceEvents"]), again)
        peak = max(e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C" and e["name"] == "live bytes")
        self.assertEqual(peak, self.plan["live_peak_bytes"])

    def test_perfetto_reads_it(self) -> None:
        try:
            from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
        except ImportError:
            self.skipTest("the package perfetto is not installed: the trace is checked against the documented format alone")
        program = shutil.which("trace_processor_shell")
        if not program:
            self.skipTest("trace_processor_shell is not installed: the trace is checked against the documented format alone")
        self.render("perfetto")
        with TraceProcessor(trace=str(self.work / "plan.perfetto"), config=TraceProcessorConfig(bin_path=program)) as reader:
            count = lambda query: next(iter(reader.query(query))).n  # noqa: E731
            self.assertEqual(count("select count(*) as n from slice"), sum(g["step_count"] for g in self.plan["graphs"]))
            self.assertEqual(count("select count(*) as n from flow"), sum("recomputes" in s for s in self.train["steps"]))
            self.assertEqual(count("select max(value) as n from counter"), self.plan["live_peak_bytes"])
            self.assertEqual(count("select sum(value) as n from stats where severity = 'error'"), 0)

    # Graphviz. ----------------------------------------------------------------------------------------------------------------

    def test_dot(self) -> None:
        text = self.render("dot").decode()
        self.assertEqual(text.count(" [label=") - text.count(" -> "), sum(g["step_count"] for g in self.plan["graphs"]))
        if not shutil.which("dot"):
            self.skipTest("Graphviz is not installed: the graph was not laid out")
        done = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_hostile_names(self) -> None:
        """Every name of the plan is one that would break out of quotes, lines or markup; one is a megabyte long."""
        evil = "a\"'\\\x1b[31m</script>\n,\u202e&{}"
        plan = json.loads(json.dumps(self.plan))
        plan["model"] = evil
        plan["strings"] = [evil + text for text in plan["strings"]]
        for graph in plan["graphs"]:
            graph["step_names"] = [evil + name for name in graph["step_names"]]
            for buffer in graph.get("buffers", plan["buffers"]):
                buffer.update(name=evil + buffer["name"], source=evil, aliases=[evil], alias_kinds=["view"], alias_steps=[-1])
        plan["buffers"][0]["name"] = "n" * (1 << 20)
        (self.work / "evil.json").write_text(json.dumps(plan))
        show = lambda *words: subprocess.run([self.stowage, *words], cwd=self.work, capture_output=True)  # noqa: E731
        texts = [show("inspect", "evil.json"), show("explain", "evil.json"), show("explain", "evil.json", "--buffer=/conv2/Conv"),
                 show("explain", "evil.json", "--at=" + evil), show("diff", "evil.json", "plan.json"),
                 show("inspect", "evil.json", "--format=dot")]  # fmt: skip
        for done in texts:
            self.assertIn(done.returncode, (0, 1), done.stderr)
            text = (done.stdout + done.stderr).decode()
            self.assertEqual([c for c in text if (ord(c) < 32 and c != "\n") or c == "\u202e"], [], done.args)
            self.assertLess(len(text), 200_000, done.args)
        trace = json.loads(show("inspect", "evil.json", "--format=perfetto").stdout)
        self.assertTrue(all(e["name"].startswith(evil) for e in trace["traceEvents"] if e["ph"] == "X"))
        moved = show("inspect", "evil.json", "--format=memory-viz")
        self.assertEqual(moved.returncode, 1)
        self.assertIn(b"python -m stowage.convert memory-viz", moved.stderr)
        csv.field_size_limit(1 << 22)
        rows = list(csv.reader(show("inspect", "evil.json", "--format=csv").stdout.decode().splitlines()))
        self.assertEqual({len(row) for row in rows}, {5})
        if shutil.which("dot"):
            done = subprocess.run(["dot", "-Tplain"], input=texts[-1].stdout, capture_output=True, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    # Bad input. ---------------------------------------------------------------------------------------------------------------

    def test_bad_files(self) -> None:
        whole = (self.work / "plan.json").read_bytes()
        newer = dict(self.plan, format=3)
        cases = {"half.json": (whole[: len(whole) // 2], "not valid JSON"), "newer.json": (json.dumps(newer).encode(), "newer stowage"),
                 "other.json": (b'{"a": 1}', "format: this key is missing"), "list.json": (b"[1]", "expected a plan"),
                 "empty": (b"", "expected a plan"), "elf": (Path("/bin/true").read_bytes(), "carries no plan"),
                 "half.elf": (Path("/bin/true").read_bytes()[:3000], "half.elf")}  # fmt: skip
        for name, (content, reason) in cases.items():
            (self.work / name).write_bytes(content)
            for command in (["inspect", name], ["diff", name, "plan.json"], ["diff", "plan.json", name]):
                done = subprocess.run([self.stowage, *command], cwd=self.work, capture_output=True, text=True)
                self.assertEqual(done.returncode, 2 if command[0] == "diff" else 1, (command, done.stderr))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertTrue(done.stderr.startswith("error: "), done.stderr)
                self.assertIn(reason, done.stderr)
                self.assertIn(name, done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stowage", required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments, rest = parser.parse_known_args()
    ReportFormats.stowage, ReportFormats.work = arguments.stowage, arguments.work
    unittest.main(argv=[__file__, "-v", *rest])
