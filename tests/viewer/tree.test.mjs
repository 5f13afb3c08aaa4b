// Tests groups of live buffers by module, and layers that are folded.
import assert from "node:assert/strict";
import test from "node:test";
import { commonName, fold, follow, groupByModule, leavesOf, rangesOf } from "../../viewer/src/tree";

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

test("a path leads to a group as far as the tree has it", () => {
  const at = (...path) => follow(tree(), path);
  assert.deepEqual(at("layer1", "conv1").names, ["layer1", "conv1"]);
  assert.equal(at("layer1", "conv1").node.bytes, 550);
  assert.deepEqual(at("layer2", "0").names, ["layer2.0.conv"]); // a chain is one group
  assert.equal(at("layer1", "gone").node.bytes, 650);
  assert.equal(at().node.bytes, 1000);
});

/// A model's buffers as [name, bytes, kind] by module.
function modelOf(buffers) {
  const list = Object.entries(buffers).flatMap(([module, each]) => each.map(([part, size, kind]) => ({ module: part ? `${module}.${part}` : module, size, kind })));
  const root = groupByModule([...list.keys()], (b) => list[b].module.split("."), (b) => list[b].size, (b) => `${list[b].module} op`);
  return { root, list, folded: (isOpen = false, path = []) => fold(follow(root, path).node, (b) => list[b].kind, isOpen) };
}

const LAYER = [["attn.q", 4, "parameter"], ["attn.k", 4, "parameter"], ["attn", 10, "activation"], ["mlp", 30, "activation"]];
const layers = (count, other = {}) => modelOf({ ...Object.fromEntries(Array.from({ length: count }, (_, i) => [`h.${i}`, other[i] ?? LAYER])),
  head: [["", 7, "parameter"]] });

test("layers that are alike are one group, which adds up and knows them", () => {
  const { root, folded } = layers(16);
  const [h, head] = folded().children;
  assert.equal(folded().bytes, root.bytes);
  assert.equal(head.name, "head");
  assert.deepEqual(h.children.map(({ name, bytes, layers }) => [name, bytes, layers.length]), [["16 \u00d7 layer 0\u201315", 16 * 48, 16]]);
  const group = h.children[0];
  assert.deepEqual(group.layers.map(({ name, bytes }) => [name, bytes]), Array.from({ length: 16 }, (_, i) => [String(i), 48]));
  assert.deepEqual(leavesOf(group).map(({ name, bytes, buffers }) => [name, bytes, buffers.length]).sort(),
    [["h.*.attn op", 160, 16], ["h.*.attn.k op", 64, 16], ["h.*.attn.q op", 64, 16], ["h.*.mlp op", 480, 16]]);
});

test("every buffer is in one leaf, at its own place", () => {
  const { list, folded } = layers(5);
  const leaves = leavesOf(folded());
  assert.deepEqual(leaves.flatMap(({ buffers }) => buffers).sort((a, b) => a - b), [...list.keys()]);
  for (const { buffers, bytes } of leaves) {
    assert.equal(bytes, buffers.reduce((sum, b) => sum + list[b].size, 0));
    assert.equal(new Set(buffers.map((b) => `${list[b].size} ${list[b].kind} ${list[b].module.replace(/\d+/, "")}`)).size, 1);
  }
});

test("other bytes, kinds or modules are another layer", () => {
  const other = { 2: [...LAYER.slice(0, 3), ["mlp", 31, "activation"]], 5: [...LAYER.slice(0, 3), ["mlp", 30, "gradient"]], 6: [...LAYER.slice(0, 3), ["moe", 30, "activation"]] };
  const [h] = layers(9, other).folded().children;
  assert.deepEqual(h.children.map(({ name }) => name), ["6 \u00d7 layer 0\u20131, 3\u20134, 7\u20138", "2", "5", "6"]);
});

test("two are no repetition, and numbers alone are no layers", () => {
  assert.deepEqual(layers(2).folded().children[0].children.map(({ name }) => name), ["0", "1"]);
  const { folded } = modelOf({ a1: [["", 3, "x"]], a2: [["", 3, "x"]], a3: [["", 3, "x"]] });
  assert.equal(folded().children.length, 3);
});

test("opened, the layers of the module that is shown stand one by one, and what repeats in them is folded", () => {
  const experts = Array.from({ length: 4 }, (_, i) => [`experts.${i}`, 5, "parameter"]);
  const { folded } = modelOf(Object.fromEntries(Array.from({ length: 3 }, (_, i) => [`h.${i}`, [...experts, ["gate", 1, "parameter"]]])));
  const closed = folded(false, ["h"]).children;
  assert.deepEqual(closed.map(({ name }) => name), ["3 \u00d7 layer 0\u20132"]);
  assert.deepEqual(leavesOf(closed[0]).map(({ name, buffers }) => [name, buffers.length]), [["h.*.experts.* op", 12], ["h.*.gate op", 3]]);
  const open = folded(true, ["h"]).children;
  assert.deepEqual(open.map(({ name, children }) => [name, children[0].children[0].name]), ["0", "1", "2"].map((name) => [name, "4 \u00d7 layer 0\u20133"]));
});

test("names differ in numbers alone, or the first stands for all", () => {
  assert.equal(commonName(["h.0.mlp.4", "h.1.mlp.4", "h.12.mlp.4"]), "h.*.mlp.4");
  assert.equal(commonName(["h.0.q", "h.1.k"]), "h.0.q");
  assert.equal(commonName(["same", "same"]), "same");
});

test("numbers are told by their ranges", () => {
  assert.equal(rangesOf([0, 1, 2, 5, 7, 8]), "0\u20132, 5, 7\u20138");
});
