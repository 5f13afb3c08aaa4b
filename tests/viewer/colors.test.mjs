// Tests that colours which mean different things are told apart, also by the colour-blind.
import assert from "node:assert/strict";
import test from "node:test";
import { KIND_COLORS, TYPE_COLORS } from "../../viewer/src/colors";

/// What people see who lack one kind of cones, in linear sRGB: G. M. Machado, M. M. Oliveira and L. A. F. Fernandes, "A
/// Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE TVCG 15 (2009), table 1, severity 1.0.
const SIGHTS = {
  "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
};
/// sRGB (IEC 61966-2-1) to XYZ at the white of D65.
const XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]];
const WHITE = [0.95047, 1, 1.08883];

const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, value, i) => sum + value * vector[i], 0));

/// CIELAB of a colour of eight bits per channel as `sight` has it.
function lab(color, sight) {
  const linear = color.map((value) => value / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const seen = times(SIGHTS[sight], linear).map((c) => Math.min(Math.max(c, 0), 1));
  const [x, y, z] = times(XYZ, seen).map((value, i) => value / WHITE[i])
    .map((t) => t > 216 / 24389 ? Math.cbrt(t) : (24389 / 27 * t + 16) / 116);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const sin = (degrees) => Math.sin(degrees * Math.PI / 180), cos = (degrees) => Math.cos(degrees * Math.PI / 180);

/// CIEDE2000, as G. Sharma, W. Wu and E. N. Dalal write it (Color Research and Application 30, 2005).
function difference([l1, a1, b1], [l2, a2, b2]) {
  const share = (c) => Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7));
  const stretch = 1 + 0.5 * (1 - share((Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2));
  const c1 = Math.hypot(stretch * a1, b1), c2 = Math.hypot(stretch * a2, b2);
  const hue = (a, b) => (Math.atan2(b, stretch * a) * 180 / Math.PI + 360) % 360;
  const h1 = hue(a1, b1), h2 = hue(a2, b2), isGrey = c1 * c2 === 0;
  const turn = isGrey ? 0 : (h2 - h1 + 540) % 360 - 180;
  const l = (l1 + l2) / 2, c = (c1 + c2) / 2;
  const h = isGrey ? h1 + h2 : Math.abs(h1 - h2) <= 180 ? (h1 + h2) / 2 : (h1 + h2 + (h1 + h2 < 360 ? 360 : -360)) / 2;
  const t = 1 - 0.17 * cos(h - 30) + 0.24 * cos(2 * h) + 0.32 * cos(3 * h + 6) - 0.2 * cos(4 * h - 63);
  const lightness = (l2 - l1) / (1 + 0.015 * (l - 50) ** 2 / Math.sqrt(20 + (l - 50) ** 2));
  const chroma = (c2 - c1) / (1 + 0.045 * c), tint = 2 * Math.sqrt(c1 * c2) * sin(turn / 2) / (1 + 0.015 * c * t);
  const rotation = -2 * share(c) * sin(60 * Math.exp(-(((h - 275) / 25) ** 2)));
  return Math.sqrt(lightness ** 2 + chroma ** 2 + tint ** 2 + rotation * chroma * tint);
}

test("the difference is that of Sharma, Wu and Dalal's table", () => {
  for (const [first, second, expected] of [
    [[50, 2.6772, -79.7751], [50, 0, -82.7485], 2.0425], [[50, -1.3802, -84.2814], [50, 0, -82.7485], 1.0000],
    [[50, 0, 0], [50, -1, 2], 2.3669], [[50, 2.5, 0], [61, -5, 29], 22.8977], [[2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082],
    [[60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644]])
    assert.ok(Math.abs(difference(first, second) - expected) < 1e-4, `${difference(first, second)}, not ${expected}`);
});

/// One is a just noticeable difference side by side; ten is told at a glance between swatches of a legend.
const LEAST = 10;

function check(colors) {
  for (const sight of Object.keys(SIGHTS))
    for (const [i, [name, color]] of colors.entries())
      for (const [other, another] of colors.slice(i + 1)) {
        const found = difference(lab(color, sight), lab(another, sight));
        assert.ok(found >= LEAST, `${name} and ${other} differ by ${found.toFixed(1)} for ${sight}`);
      }
}

test("kinds are told apart, recomputed from parameter above all", () => {
  assert.ok(["recomputed", "parameter"].every((kind) => KIND_COLORS.some(([name]) => name === kind)));
  check(KIND_COLORS);
});

test("stored types are told apart", () => check(TYPE_COLORS.map((color, i) => [`type ${i}`, color])));

test("the colours that were too near are found", () => {
  assert.throws(() => check([["parameter", [0, 114, 178]], ["recomputed", [38, 132, 196]]]), /parameter and recomputed differ by 6\.9 for all cones/);
});
