// Tests the table of measured and planned times: the step's sum, ratios, the order of its columns, colours.
import assert from "node:assert/strict";
import test from "node:test";
import { openPicture } from "../../viewer/src/plan";
import { colorBy } from "../../viewer/src/colors";
import { formatRatio, measuredStep, ratioOf, sortSteps, timesOf } from "../../viewer/src/times";

const strings = ["", "conv of x", "map of x", "matmul of y", "layer1", "layer2", "forward", "f32", "activation"];

/// Four commands; what the last but one was planned with is not known, and command 3 makes nothing of its own.
function plan(measured) {
  const column = [0, 0, 0];
  return openPicture({
    version: 1, strings,
    plans: [{
      label: "", summary: {},
      graphs: [{
        name: "eval", step_count: 0, live_peak_bytes: 0, peak_step: 0, lower_bound_bytes: 0,
        steps: { name: [], source: [], module: [], phase: [], seconds: [], reads: [], writes: [], recomputes: [] },
        buffers: { name: [], kind: [], dtype: [], shape: [], source: [], module: [], layout: [], reason: [], offset: [], size: [],
          logical_size: [], begin: [], end: [], aliases: [], recomputed: [], recompute_seconds: [] },
      }, {
        name: "train", step_count: 4, live_peak_bytes: 3, peak_step: 2, lower_bound_bytes: 3,
        steps: { name: [1, 2, 3, 2], source: [0, 0, 0, 0], module: [5, 4, 5, 4], phase: [6, 6, 6, 6], seconds: [2, 1, 0, 4],
          reads: [[], [0], [1], [2]], writes: [[0], [1], [2], [0]], recomputes: [null, null, null, null] },
        buffers: { name: column, kind: [8, 8, 8], dtype: [7, 7, 7], shape: column, source: column, module: column, layout: column,
          reason: column, offset: [0, 1, 2], size: [1, 1, 1], logical_size: [1, 1, 1], begin: [0, 1, 2], end: [4, 3, 4],
          aliases: [[], [], []], recomputed: column, recompute_seconds: [null, null, null] },
        ...(measured && { measured: { threads: 2, steps: 5, input_seconds: 0.25, rest_seconds: 0.75, seconds: [3, 8, 8, 1],
          least_seconds: [3, 7, 8, 1], processor_seconds: [6, 9, 16, 1] } }),
      }],
    }],
  }).plans[0];
}
const graph = () => plan(true).graphs[1];

test("a plan knows which of its graphs was measured", () => {
  assert.equal(plan(true).measuredGraph, 1);
  assert.equal(plan(false).measuredGraph, -1);
});

test("a step is its commands and what lies around them", () => {
  assert.equal(measuredStep(graph()), 21);
  assert.equal(measuredStep(plan(false).graphs[1]), 0);
});

test("ratios, where a time is planned", () => {
  assert.deepEqual([0, 1, 2, 3].map((step) => ratioOf(graph(), step)), [1.5, 8, null, 0.25]);
  assert.equal(ratioOf(plan(false).graphs[1], 0), null);
  assert.equal(formatRatio(1.5), "1.50 \u00d7");
  assert.equal(formatRatio(12345), "12,345 \u00d7");
});

test("slowest first, ties in the order of the step", () => assert.deepEqual(sortSteps(graph(), "measured", true), [1, 2, 0, 3]));

test("every column sorts", () => {
  assert.deepEqual(sortSteps(graph(), "command", false), [0, 1, 2, 3]);
  assert.deepEqual(sortSteps(graph(), "planned", true), [3, 0, 1, 2]);
  assert.deepEqual(sortSteps(graph(), "ratio", true), [1, 0, 3, 2]); // not known: last
  assert.deepEqual(sortSteps(graph(), "module", false), [1, 3, 0, 2]);
  assert.deepEqual(sortSteps(graph(), "name", false), [1, 3, 0, 2]); // by module, as it is shown
  assert.deepEqual(sortSteps(graph(), "share", true), sortSteps(graph(), "measured", true));
});

test("words for a step's times", () => {
  assert.equal(timesOf(graph(), 0), "3.00 s measured, 2.00 s planned");
  assert.equal(timesOf(graph(), 2), "8.00 s measured");
  assert.equal(timesOf(plan(false).graphs[1], 0), "");
});

test("a buffer has the colour of the command that makes it", () => {
  const { categories, of } = colorBy(graph(), "measured");
  assert.deepEqual([...of].map((category) => categories[category].label), ["3.00 s", "8.00 s", "8.00 s"]);
  const none = colorBy(plan(false).graphs[1], "measured");
  assert.deepEqual([...none.of].map((category) => none.categories[category].label), Array(3).fill("not made by a command"));
});
