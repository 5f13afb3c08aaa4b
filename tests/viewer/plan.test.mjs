// Tests the data behind the page: columns, live bytes, first runs, modules, search.
import assert from "node:assert/strict";
import test from "node:test";
import { deflateSync } from "node:zlib";
import { marksOf } from "../../viewer/src/marks";
import { openPicture, unpack } from "../../viewer/src/plan";
import { colorBy } from "../../viewer/src/colors";
import { findMatches } from "../../viewer/src/search";

const strings = ["", "w", "x", "y", "parameter", "activation", "f32", "2x2", "m.onnx:3 (/block/0/conv/Conv)", "layer1.0.conv",
  "conv of x", "train", "m.onnx:1 (fc.weight)", "in_place"];

/// w lives all the time; x in steps 0 and 1, again in 3; y in steps 1 to 3.
function raw() {
  return {
    version: 1, strings,
    plans: [{
      label: "", summary: { model: "m.onnx", arena_bytes: 100, persistent_bytes: 10 },
      graphs: [{
        name: "train", step_count: 4, live_peak_bytes: 60, peak_step: 1, lower_bound_bytes: 60,
        steps: { name: [10, 10, 10, 10], source: [0, 0, 0, 0], phase: [0, 0, 0, 0], reads: [[0], [0, 1], [2], [2, 3]], writes: [[1], [2], [2], [3]],
          seconds: [1, 2, 0, 1], recomputes: [null, null, null, 0] },
        buffers: { name: [1, 2, 3, 2], kind: [4, 5, 5, 5], dtype: [6, 6, 6, 6], shape: [7, 7, 7, 7], source: [12, 8, 8, 8],
          offset: [0, 10, 40, 10], size: [10, 30, 20, 30], logical_size: [10, 30, 20, 30], begin: [0, 0, 1, 3], end: [4, 2, 4, 4],
          aliases: [[], [], [1], []], alias_kinds: [[], [], [13], []], alias_steps: [[], [], [2], []], recomputed: [0, 0, 0, 1], module: [0, 9, 0, 9], layout: [0, 0, 0, 0], reason: [0, 0, 0, 0],
          recompute_seconds: [null, 0.5, null, null] },
      }],
    }],
  };
}
const graph = () => openPicture(raw()).plans[0].graphs[0];

/// A graph of buffers [module, begin, end, size], all activations.
function ofModules(...buffers) {
  const graph = { count: buffers.length, stepCount: 10, kindOf: () => "activation", isRecomputed: () => false,
    modulePath: (b) => buffers[b][0] ? buffers[b][0].split(".") : [] };
  for (const [i, name] of ["begin", "end", "size"].entries())
    graph[name] = buffers.map((buffer) => buffer[i + 1]);
  return graph;
}

test("a module that covers most of the map is shown by its parts, in the order of the step", () => {
  const blocks = Array.from({ length: 6 }, (_, i) => [`layers.${i}.mlp`, i + 1, 9, 100]);
  const graph = ofModules(["embed", 0, 9, 50], ["norm", 7, 9, 1], ["head", 8, 9, 200], ["out", 9, 10, 1], ...blocks, ["layers.5.norm", 0, 1, 1]);
  assert.deepEqual(colorBy(graph, "module").categories.map(({ label }) => label),
    ["embed", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "norm", "head", "out"]);
});

test("a module of too many parts stays one", () => {
  const blocks = Array.from({ length: 100 }, (_, i) => [`layers.${i}`, i % 8, 9, 100]);
  const graph = ofModules(["a", 0, 9, 1], ["b", 0, 9, 1], ["c", 0, 9, 1], ["d", 0, 9, 1], ...blocks);
  assert.equal(colorBy(graph, "module").categories.length, 5);
});

test("copies pass where the clock of the commands has them, and between their commands where there is none", () => {
  const travelling = raw();
  const copies = { name: [1, 2, 1], is_out: [1, 0, 0], buffer: [0, 2, 0], bytes: [10, 20, 10], start: [0, 0, 2], await: [1, 3, 3],
    begin_seconds: [0.5, 1, 0], seconds: [1.5, 3, 0] };
  travelling.plans[0].graphs[0].copies = copies;
  const placed = (picture) => openPicture(picture).plans[0].graphs[0].copies.map(({ from, to }) => [from, to]);
  // Commands take 1, 2, 0 and 1 s: the first copy ends in the middle of the second command, the next with the last one.
  assert.deepEqual(placed(travelling), [[0.5, 1.5], [1, 4], [2, 4]]);
  const [out, back] = openPicture(travelling).plans[0].graphs[0].copies;
  assert.deepEqual([out.name, out.isOut, out.bytes, out.waited], ["w", true, 10, 2]);
  assert.deepEqual([back.buffer, back.isOut, back.waited], [2, false, 1]);
  travelling.plans[0].graphs[0].steps.seconds = [0, 0, 0, 0];
  assert.deepEqual(placed(travelling), [[0, 2], [0, 4], [2, 4]]);
  assert.deepEqual(graph().copies, []);
});

test("live bytes per step", () => assert.deepEqual([...graph().live], [40, 60, 30, 60]));

test("what is live, largest first", () => assert.deepEqual(graph().liveAt(1), [1, 2, 0]));

test("what a buffer is there for at a step", () => {
  assert.equal(graph().waitAt(1, 1), "used");
  assert.equal(graph().waitAt(2, 1), "used"); // written
  assert.equal(graph().waitAt(0, 1), null); // state
  assert.equal(graph().waitAt(1, 3), null); // gone
  const { plans: [{ graphs: [longer] }], ...rest } = raw();
  longer.steps.reads[2] = [];
  assert.equal(openPicture({ ...rest, plans: [{ ...raw().plans[0], graphs: [longer] }] }).plans[0].graphs[0].waitAt(2, 2), "used"); // written there
  longer.steps.writes[2] = [];
  assert.equal(openPicture({ ...rest, plans: [{ ...raw().plans[0], graphs: [longer] }] }).plans[0].graphs[0].waitAt(2, 2), 3);
});

test("a recomputed buffer knows its first run, and the other way round", () => {
  assert.equal(graph().firstRun[3], 1);
  assert.deepEqual(graph().clonesOf(1), [3]);
});

test("what lies in a buffer beside its first value", () => {
  assert.deepEqual(graph().aliasesOf(2), [{ name: "w", kind: "in_place", step: 2 }]);
  assert.deepEqual(graph().aliasKinds(), ["in_place"]);
});

test("marks: one per kind and command, none where the plan does not say what a value is", () => {
  const marks = marksOf([{ name: "a", kind: "part", step: 3 }, { name: "b", kind: "part", step: 3 }, { name: "c", kind: "", step: 3 },
    { name: "d", kind: "view", step: -1 }, { name: "e", kind: "view", step: 3 }]);
  assert.deepEqual(marks, [{ kind: "part", step: 3 }, { kind: "view", step: 3 }]);
});

test("writers and readers", () => {
  assert.deepEqual([...graph().writers.of(2)], [1, 2]); // the second in place
  assert.deepEqual([...graph().readers.of(2)], [2, 3]);
  assert.deepEqual([...graph().readers.of(0)], [0, 1]);
});

test("a module is its parts", () => {
  assert.deepEqual(graph().modulePath(1), ["layer1", "0", "conv"]);
  assert.deepEqual(graph().modulePath(2), []);
});

test("colours name the categories that are there", () => {
  assert.deepEqual(colorBy(graph(), "kind").categories.map((c) => c.label), ["activation", "recomputed", "parameter"]);
  const cost = colorBy(graph(), "cost");
  assert.equal(cost.categories[cost.of[0]].label, "not recomputable, or free");
  assert.equal(cost.categories[cost.of[1]].label, "500 ms");
  assert.deepEqual(colorBy(graph(), "dtype").categories.map((c) => c.label), ["f32"]);
});

test("search finds names, further values and modules, and says when an expression is none", () => {
  assert.deepEqual(findMatches(graph(), "^x$").list, [1, 3]);
  assert.deepEqual(findMatches(graph(), "^W$").list, [2, 0]); // w is stored in y's place as well
  assert.deepEqual(findMatches(graph(), "layer1\\.0").list, [1, 3]);
  assert.equal(findMatches(graph(), "").matches, null);
  assert.match(findMatches(graph(), "(").problem, /regular expression/);
});

test("the file's data is base64 of zlib's format", async () => {
  const packed = deflateSync(Buffer.from(JSON.stringify(raw()))).toString("base64");
  assert.deepEqual(await unpack(`\n${packed}\n`), raw());
  await assert.rejects(unpack(packed.slice(0, 40)));
});

test("a newer page is refused", () => assert.throws(() => openPicture({ ...raw(), version: 2 }), /version 1, found 2/));
