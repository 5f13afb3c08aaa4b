// Tests the treemap's areas, which are to each other as bytes.
import assert from "node:assert/strict";
import test from "node:test";
import { groupByModule } from "../../viewer/src/tree";
import { layOut } from "../../viewer/src/treemap";

const paths = [["layer1", "conv1"], ["layer1", "conv2"], ["layer2", "0", "conv"], [], ["layer1", "conv1"]];
const bytes = [400, 100, 300, 50, 150];
const tree = () => groupByModule([0, 1, 2, 3, 4], (b) => paths[b], (b) => bytes[b], (b) => `buffer ${b}`);

test("areas of siblings are to each other as their bytes, and do not overlap", () => {
  const areas = layOut(tree(), 400, 200);
  const top = areas.filter((area) => area.depth === 1);
  for (const area of top)
    assert.ok(Math.abs(area.width * area.height - 80 * area.node.bytes) < 1e-6, area.node.name);
  for (const a of top)
    for (const b of top)
      if (a !== b)
        assert.ok(a.x + a.width <= b.x + 1e-9 || b.x + b.width <= a.x + 1e-9 || a.y + a.height <= b.y + 1e-9 ||
          b.y + b.height <= a.y + 1e-9, `${a.node.name} over ${b.node.name}`);
});

test("what a group holds lies inside it", () => {
  const areas = layOut(tree(), 400, 200);
  for (const area of areas)
    for (const child of area.node.children) {
      const inner = areas.find((candidate) => candidate.node === child);
      assert.ok(!inner || (inner.x >= area.x && inner.y >= area.y && inner.x + inner.width <= area.x + area.width + 1e-9 &&
        inner.y + inner.height <= area.y + area.height + 1e-9), child.name);
    }
});

test("equal bytes give nearly square areas", () => {
  const root = groupByModule([...Array(100).keys()], () => [], () => 1, String);
  const worst = Math.max(...layOut(root, 300, 100).slice(1).map((a) => Math.max(a.width / a.height, a.height / a.width)));
  assert.ok(worst < 2.5, `aspect ratio ${worst}`);
});

test("nothing at all is one empty area", () => {
  assert.equal(layOut(groupByModule([], () => [], () => 0, String), 300, 100).length, 1);
});
