// Tests that the legend has every category and every sign that the map draws.
import assert from "node:assert/strict";
import test from "node:test";
import { keyOf, legendOf } from "../../viewer/src/legend";

const categories = (count) => Array.from({ length: count }, (_, i) => ({ label: `m${i}`, color: [i, 0, 0] }));
const legend = (count, mode = "module", bytes = Array.from({ length: count }, (_, i) => 1 + i * 7 % count)) =>
  ({ bytes, entries: legendOf({ categories: categories(count) }, mode, Float64Array.from(bytes)) });

test("every category is in one entry, whose bytes and colours are its members'", () => {
  for (const count of [1, 14, 15, 40, 69, 70, 71, 84, 1000]) {
    const { bytes, entries } = legend(count);
    assert.ok(entries.length <= 15, `${entries.length} entries for ${count} modules`);
    assert.deepEqual(entries.flatMap(({ members }) => members).sort((a, b) => a - b), [...Array(count).keys()]);
    for (const { members, colors, bytes: sum } of entries) {
      assert.equal(sum, members.reduce((total, i) => total + bytes[i], 0));
      assert.deepEqual(colors.map(([red]) => red), members);
    }
  }
});

test("up to 14 modules, and all kinds, stand alone", () => {
  assert.deepEqual(legend(14).entries.map(({ label }) => label), categories(14).map(({ label }) => label));
  assert.equal(legend(16, "kind").entries.length, 16);
});

test("of some dozens the fullest stand alone, in the step's order, and the rest together", () => {
  const { bytes, entries } = legend(40);
  const rest = entries.pop();
  assert.equal(rest.label, "26 other modules");
  const alone = entries.map(({ members: [i] }) => i);
  assert.deepEqual(alone, [...alone].sort((a, b) => a - b));
  assert.ok(Math.min(...alone.map((i) => bytes[i])) >= Math.max(...rest.members.map((i) => bytes[i])));
});

test("hundreds are stretches of the step's order", () => {
  const { entries } = legend(1000);
  assert.equal(entries[0].label, "m0 to m71");
  assert.equal(entries[entries.length - 1].label, "m936 to m999");
  for (const { members } of entries)
    assert.deepEqual(members, members.map((_, i) => members[0] + i));
});

const graph = (more = {}) => ({ hasRecomputed: () => false, firstRun: [-1, -1], aliasKinds: () => [], phases: () => [], copies: [], ...more });
const signs = (...words) => keyOf(...words).map(({ sign }) => sign);

test("signs are told where the map has them", () => {
  const always = ["arena", "bound", "instant", "pointer", "chosen", "pointed", "dim"];
  assert.deepEqual(signs(graph(), null), always);
  const full = graph({ hasRecomputed: () => true, firstRun: [-1, 0], aliasKinds: () => ["in_place", "view"],
    phases: () => [{ name: "forward" }, { name: "backward" }, { name: "" }, { name: "forward" }], copies: [{ waited: 0 }, { waited: 1 }] });
  assert.deepEqual(signs(full, { name: "gpu", bytes: 1 }).sort(), [...always, "hatch", "link", "in_place", "view", "card", "copy", "wait", "phase", "phase"].sort());
  assert.deepEqual(signs(graph({ copies: [{ waited: 0 }] }), null), [...always, "copy"]); // nobody waits
  assert.ok(keyOf(full, { name: "gpu", bytes: 1 }).some(({ text }) => text.includes("gpu")));
});
