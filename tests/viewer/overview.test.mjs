// Tests the sum that closes.
import assert from "node:assert/strict";
import test from "node:test";
import { partsOf } from "../../viewer/src/overview";

test("what is not there is left out, the rest keeps its order and adds up", () => {
  const breakdown = { parameters: 40, statistics: 0, optimizer: 30, gradients: 0, activations: 20, workspace: 0, inputs: 5, outputs: 0,
    layout_padding: 1, padding: 4 };
  const parts = partsOf({ summary: { breakdown } });
  assert.deepEqual(parts.map(({ name }) => name), ["parameters", "optimizer", "activations", "inputs", "padding of layouts", "alignment and gaps"]);
  assert.equal(parts.reduce((sum, { bytes }) => sum + bytes, 0), 100);
});
