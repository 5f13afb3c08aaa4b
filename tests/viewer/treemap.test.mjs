// Tests the treemap: groups by module, areas by bytes.
import assert from "node:assert/strict";
import test from "node:test";
import { follow, groupByModule, layOut } from "../../viewer/src/treemap";

const paths = [["layer1", "conv1"], ["layer1", "conv2"], ["layer2", "0", "conv"], [], ["layer1", "conv1"]];
const bytes = [400, 100, 300, 50, 150];
const tree = () => groupByModule([0, 1, 2, 3, 4], (b) => paths[b], (b) => bytes[b], (b) => `buffer ${b}`);

test("groups add up, larger ones first; chains of single groups are one", () => {
  const root = tree();
  assert.equal(root.bytes, 1000);
  assert.deepEqual(root.children.map((node) => [node.name, node.bytes]),
    [["layer1", 650], ["layer2.0.conv", 300], ["buffer 3", 50]]);
  assert.deepEqual(root.children[0].children.map((node) => node.name), ["conv1", "conv2"]);
});

test("repeated layers lie in order, whatever their bytes", () => {
  const sizes = [["head"], 90, ["layers", "10", "mlp"], 70, ["layers", "2"], 10, ["layers", "0"], 30, ["layers", "9"], 80, ["layers", "norm"], 99];
  const all = [...Array(sizes.length / 2).keys()];
  const root = groupByModule([...all, ...all], (b) => sizes[2 * b], (b) => sizes[2 * b + 1], String);
  const layers = root.children.find((node) => node.name === "layers");
  assert.deepEqual(layers.children.map((node) => node.name), ["0", "2", "9", "10.mlp", "norm"]);
  assert.deepEqual(root.children.map((node) => node.name), ["layers", "head"]);
});

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

test("a path leads to a group as far as the tree has it", () => {
  const at = (...path) => follow(tree(), path);
  assert.deepEqual(at("layer1", "conv1").names, ["layer1", "conv1"]);
  assert.equal(at("layer1", "conv1").node.bytes, 550);
  assert.deepEqual(at("layer2", "0").names, ["layer2.0.conv"]); // a chain is one group
  assert.equal(at("layer1", "gone").node.bytes, 650);
  assert.equal(at().node.bytes, 1000);
});

test("nothing at all is one empty area", () => {
  assert.equal(layOut(groupByModule([], () => [], () => 0, String), 300, 100).length, 1);
});
