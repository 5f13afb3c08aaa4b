// Tests the comparison of two plans: matched by name and kind, sorted by difference.
import assert from "node:assert/strict";
import test from "node:test";
import { compareGraphs, fullestGraph } from "../../viewer/src/difference";
import { openPicture } from "../../viewer/src/plan";

/// Rows of buffers: name, kind, size, begin, end.
function graphOf(rows, peak) {
  const strings = ["", ...new Set(rows.flatMap(([name, kind]) => [name, kind]))];
  const id = (text) => strings.indexOf(text);
  const column = (value) => rows.map(value);
  const none = () => rows.map(() => 0);
  const empty = { name: [0, 0], source: [0, 0], phase: [0, 0], seconds: [0, 0], reads: [[], []], writes: [[], []], recomputes: [null, null] };
  return openPicture({
    version: 1, strings, plans: [{
      label: "", summary: {}, graphs: [{
        name: "train", step_count: 2, live_peak_bytes: 1, peak_step: peak, lower_bound_bytes: 0, steps: empty,
        buffers: { name: column(([name]) => id(name)), kind: column(([, kind]) => id(kind)), dtype: none(), shape: none(), source: none(),
          module: none(), layout: none(), reason: none(), offset: none(), size: column((row) => row[2]), logical_size: column((row) => row[2]),
          begin: column((row) => row[3]), end: column((row) => row[4]), aliases: rows.map(() => []), recomputed: none(),
          recompute_seconds: rows.map(() => null) },
      }],
    }],
  }).plans[0].graphs[0];
}

test("buffers are matched by name and kind; equal ones are left out", () => {
  const before = graphOf([["x", "activation", 100, 0, 2], ["y", "activation", 40, 0, 2], ["w", "parameter", 7, 0, 2]], 0);
  const after = graphOf([["x", "activation", 10, 0, 2], ["x", "gradient", 30, 0, 2], ["w", "parameter", 7, 0, 2]], 1);
  assert.deepEqual(compareGraphs(before, after).map((d) => [d.name, d.kind, d.before, d.after]),
    [["x", "activation", 100, 10], ["y", "activation", 40, 0], ["x", "gradient", 0, 30]]);
});

test("each side counts what is live at its own peak, clones added up", () => {
  const before = graphOf([["x", "activation", 8, 0, 1], ["x", "activation", 8, 0, 2]], 0);
  const after = graphOf([["x", "activation", 8, 0, 1], ["x", "activation", 8, 1, 2]], 1);
  assert.deepEqual(compareGraphs(before, after).map((d) => [d.before, d.after]), [[16, 8]]);
});

test("other steps than the peaks can be compared", () => {
  const before = graphOf([["x", "activation", 8, 0, 1], ["y", "activation", 4, 1, 2]], 0);
  assert.deepEqual(compareGraphs(before, before, 0, 1).map((d) => [d.name, d.before, d.after]), [["x", 8, 0], ["y", 0, 4]]);
});

test("the fullest graph stands for a plan, the first of equals", () => {
  const graphs = [{ livePeak: 3 }, { livePeak: 5 }, { livePeak: 5 }];
  assert.equal(fullestGraph({ graphs }), graphs[1]);
});
