// Tests what the frontier's chart is drawn from.
import assert from "node:assert/strict";
import test from "node:test";
import { boundSteps, cardOfPoints, extraOf } from "../../viewer/src/frontier";
import { around, held, ticks, zoomed } from "../../viewer/src/view";

const points = [
  { budget: 100, arena: 100, seconds: 10, bound_seconds: 10 },
  { budget: 80, arena: 78, seconds: 11, bound_seconds: 10.5 },
  { budget: 60, arena: 60, seconds: 14, bound_seconds: 12 },
];

test("extra time is counted from the plan that keeps everything", () => {
  assert.equal(extraOf({ points }, 11), 0.1);
  assert.equal(extraOf({ points }, 10), 0);
});

test("a budget's bound holds down to the next budget", () => {
  assert.deepEqual(boundSteps(points).map(({ bytes, seconds }) => [bytes, seconds]),
    [[100, 10], [80, 10], [80, 10.5], [60, 10.5], [60, 12]]);
});

test("the card of points is what the plan leaves of it that takes most beside its arena", () => {
  const plans = [900, 880, 910].map((usable_bytes) => ({ summary: { verdict: { card: "gpu", usable_bytes } } }));
  assert.deepEqual(cardOfPoints([{ plan: 0 }, { plan: 1 }, { plan: 2 }], plans), { name: "gpu", bytes: 880 });
  assert.equal(cardOfPoints([{ plan: 0 }], [{ summary: {} }]), null);
});

test("zooming keeps what is under the pointer, and stays within the plan", () => {
  const limits = { low: 0, high: 100 };
  const near = zoomed(limits, 25, 0.5, limits, 1);
  assert.deepEqual(near, { low: 12.5, high: 62.5 });
  assert.equal((25 - near.low) / 50, 0.25);
  assert.deepEqual(zoomed(near, 25, 10, limits, 1), limits);
  assert.deepEqual(zoomed(limits, 100, 0.001, limits, 4), { low: 96, high: 100 }); // never closer than 4
  assert.deepEqual(held({ low: -20, high: 30 }, limits), { low: 0, high: 50 });
  assert.deepEqual(around(40, 50, 1, limits), { low: 30, high: 60 });
});

test("ticks are round numbers: decimal for steps, powers of two for bytes", () => {
  assert.deepEqual(ticks({ low: 3, high: 31 }, 4, false), [10, 20, 30]);
  assert.deepEqual(ticks({ low: 0, high: 100 * 2 ** 20 }, 4, true), [0, 32, 64, 96].map((m) => m * 2 ** 20));
});
