// Tests how numbers and names are shown.
import assert from "node:assert/strict";
import test from "node:test";
import * as text from "../../viewer/src/text";

test("bytes have three digits and a binary unit", () => {
  assert.equal(text.formatBytes(0), "0 bytes");
  assert.equal(text.formatBytes(1), "1 byte");
  assert.equal(text.formatBytes(1023), "1,023 bytes");
  assert.equal(text.formatBytes(1024), "1.00 KiB");
  assert.equal(text.formatBytes(4409796), "4.21 MiB");
  assert.equal(text.formatBytes(1072807876), "1023 MiB");
  assert.equal(text.formatBytes(2 ** 30 - 1), "1.00 GiB"); // never "1024 MiB"
  assert.equal(text.formatBytes(-2048), "\u22122.00 KiB");
  assert.equal(text.formatChange(2048), "+2.00 KiB");
  assert.equal(text.formatBytesExact(4409796), "4,409,796 bytes (4.21 MiB)");
});

test("marks of an axis are exact and short", () => {
  assert.equal(text.formatTick(0), "0 bytes");
  assert.equal(text.formatTick(512), "512 bytes");
  assert.equal(text.formatTick(32 * 2 ** 20), "32 MiB");
  assert.equal(text.formatTick(1.25 * 2 ** 30), "1.25 GiB");
  assert.equal(text.formatTick(1.125 * 2 ** 30), "1.125 GiB");
  assert.equal(text.formatTick(1.0625 * 2 ** 30), "1,088 MiB");
  assert.equal(text.formatTick(24 * 2 ** 30 + 65536), "25,165,888 KiB"); // far zoomed in
});

test("a name's end stays together", () => {
  assert.deepEqual(text.splitName("layers.0.mlp.weight", 100, 6), ["layers.0.mlp.", "weight"]);
  assert.deepEqual(text.splitName("abc", 100, 6), ["", "abc"]);
  assert.deepEqual(text.splitName("ab\u{1f600}", 100, 1), ["ab", "\u{1f600}"]); // no half of a pair
  assert.equal(text.splitName("x".repeat(50), 9, 3).join("").length, 9);
});

test("times have a unit that fits", () => {
  assert.equal(text.formatSeconds(0.0056), "5.60 ms");
  assert.equal(text.formatSeconds(3.38), "3.38 s");
  assert.equal(text.formatSeconds(8.1e-7), "810 ns");
  assert.equal(text.formatSeconds(9.9999e-4), "1.00 ms"); // not 1.00e3 \u00b5s
  assert.equal(text.formatSeconds(9.991e-4), "999 \u00b5s");
  assert.equal(text.formatSeconds(0), "0 s");
});

test("shares", () => {
  assert.equal(text.formatPercent(0.0970410), "9.7 %");
  assert.equal(text.formatPercent(0.0002), "0.02 %");
  assert.equal(text.formatPercent(0), "0.0 %");
  assert.equal(text.formatPercent(-0.151), "\u221215.1 %");
  assert.equal(text.groupDigits(-1048576), "\u22121,048,576");
});

test("what cannot be seen is spelled out", () => {
  assert.equal(text.visible("a\u0000b\n"), "a\\u{0}b\\u{a}");
  assert.equal(text.visible("x\u202ey"), "x\\u{202e}y"); // would turn the rest of the line around
  assert.equal(text.visible("\ud800z"), "\\u{d800}z"); // half of a pair
  assert.equal(text.visible("\ud83d\ude80 \u05e9"), "\ud83d\ude80 \u05e9");
});

test("long names keep their ends", () => {
  assert.equal(text.shorten("short", 10), "short");
  assert.equal(text.shorten("0123456789abcdef", 7), "012\u2026def");
  const started = Date.now();
  assert.equal(text.shorten("x".repeat(1e6), 60).length, 60);
  assert.ok(Date.now() - started < 1000);
});

test("names say the module before the operation", () => {
  assert.equal(text.nameByModule("batch_norm_training of /layer1/layer1.0/bn3/BatchNormalization#0", "layer1.0.bn3"),
    "layer1.0.bn3 batch_norm_training");
  assert.equal(text.nameByModule("/conv1/Conv", "conv1"), "conv1 Conv");
  assert.equal(text.nameByModule("conv1.weight.exp_avg", "conv1"), "conv1.weight.exp_avg");
  assert.equal(text.nameByModule("input", ""), "input");
  assert.equal(text.nameByModule("node_linear_112", ""), "node_linear_112"); // no module is known
});

test("numbers that an exporter gives to nodes are left out where the module is known", () => {
  assert.equal(text.nameByModule("node_linear_112", "lm_head"), "lm_head linear");
  assert.equal(text.nameByModule("node_conv2d", "conv1"), "conv1 conv2d");
  assert.equal(text.nameByModule("matmul of node_linear_112", "lm_head"), "lm_head matmul");
  assert.equal(text.nameByModule("workspace: matmul of node_linear_112", "lm_head"), "lm_head workspace: matmul");
  assert.equal(text.nameByModule("map of layers.2.down.bias", "layers.2.down"), "layers.2.down.bias map");
  assert.equal(text.nameByModule("map of layers.2.down.bias and 3 more", "layers.2.down"), "layers.2.down.bias map and 3 more");
  assert.equal(text.nameByModule("map of node_gelu_2 and 3 more", "layers.2"), "layers.2 map and 3 more");
  assert.equal(text.nameByModule("layers.10.weight", "layers.1"), "layers.1 layers.10.weight"); // another module's
  assert.equal(text.nameByModule("node_" + "_1".repeat(5e5) + "x", "m").length, 1e6 + 3);
});
