// Tests levels of detail: what is a rectangle, and what pixels add up to.
import assert from "node:assert/strict";
import test from "node:test";
import { Cells, divide, noLayers } from "../../viewer/src/layers";

function boxes(rows) { // [begin, end, offset, size]
  return {
    begin: Int32Array.from(rows, (r) => r[0]), end: Int32Array.from(rows, (r) => r[1]),
    offset: Float64Array.from(rows, (r) => r[2]), size: Float64Array.from(rows, (r) => r[3]),
  };
}

function run(rows, window, categories, votes = null) {
  const cells = new Cells(), layers = noLayers();
  divide(boxes(rows), Int32Array.from(rows.keys()), window, Uint16Array.from(categories), votes, cells, layers);
  return { cells, layers };
}

test("a buffer of at least a pixel is a rectangle, addresses upwards", () => {
  //   addresses 0..100 on 50 pixels, steps 0..10 on 100 pixels
  const { layers } = run([[2, 5, 20, 40]], { t0: 0, t1: 10, a0: 0, a1: 100, width: 100, height: 50 }, [0]);
  assert.equal(layers.count, 1);
  assert.deepEqual([...layers.places.slice(0, 4)], [20, 20, 30, 20]); // top: 50 - (20 + 40) / 2
});

test("buffers outside of the window are left out", () => {
  const rows = [[0, 2, 0, 10], [4, 6, 0, 10], [2, 4, 50, 10], [2, 4, 0, 10]];
  const { layers } = run(rows, { t0: 2, t1: 4, a0: 0, a1: 50, width: 100, height: 100 }, [0, 0, 0, 0]);
  assert.deepEqual([...layers.buffers.slice(0, layers.count)], [3]);
});

test("thinner buffers are summed; a pixel takes the category that covers most of it", () => {
  // One step a tenth of a pixel wide; ten of them side by side, six of category 1.
  const rows = Array.from({ length: 10 }, (_, i) => [i, i + 1, 0, 1]);
  const categories = [0, 1, 0, 1, 1, 0, 1, 1, 0, 1];
  const { layers, cells } = run(rows, { t0: 0, t1: 10, a0: 0, a1: 1, width: 1, height: 1 }, categories);
  assert.equal(layers.count, 0);
  assert.equal(layers.aggregated, 10);
  assert.equal(cells.categoryAt(0, 0), 1);
  assert.ok(Math.abs(cells.coverAt(0, 0) - 1) < 1e-6);
});

test("a pixel is as opaque as it is covered", () => {
  const { cells } = run([[0, 1, 0, 1]], { t0: 0, t1: 4, a0: 0, a1: 1, width: 1, height: 1 }, [0]);
  assert.ok(Math.abs(cells.coverAt(0, 0) - 0.25) < 1e-6);
});

test("what a search matches is not hidden by what surrounds it", () => {
  const rows = Array.from({ length: 10 }, (_, i) => [i, i + 1, 0, 1]);
  const categories = rows.map((_, i) => i === 3 ? 0 : 5);
  const votes = Float32Array.from(rows, (_, i) => i === 3 ? 1e6 : 1);
  const { cells } = run(rows, { t0: 0, t1: 10, a0: 0, a1: 1, width: 1, height: 1 }, categories, votes);
  assert.equal(cells.categoryAt(0, 0), 0);
});

test("cells forget the last frame", () => {
  const cells = new Cells(), layers = noLayers();
  const window = { t0: 0, t1: 100, a0: 0, a1: 1, width: 10, height: 10 };
  const rows = boxes([[0, 1, 0, 1]]);
  const draw = (which) => divide(rows, Int32Array.from(which), window, Uint16Array.of(0), null, cells, layers);
  draw([0]);
  assert.ok(cells.coverAt(9, 0) > 0);
  draw([]);
  assert.equal(cells.coverAt(9, 0), 0);
});

test("a thin buffer covers every pixel of its life alike, however long it is", () => {
  // 100 pixels wide; it lives from pixel 10.5 to 90.25 in the upper half of the only row.
  const { cells } = run([[42, 361, 1, 1]], { t0: 0, t1: 400, a0: 0, a1: 2, width: 100, height: 1 }, [3]);
  const expected = (column) => Math.max(Math.min(90.25, column + 1) - Math.max(10.5, column), 0) / 2;
  for (let column = 0; column < 100; ++column) {
    assert.ok(Math.abs(cells.coverAt(0, column) - expected(column)) < 1e-6, `pixel ${column}: ${cells.coverAt(0, column)}`);
    if (expected(column))
      assert.equal(cells.categoryAt(0, column), 3);
  }
});
