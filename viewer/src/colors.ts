// What colours say. Categories are few and told apart by people who are colour-blind, as the tests of this folder simulate it:
// Okabe and Ito's for kinds and types, with three dark ones where they are too few, viridis for everything that has an order.
import { Graph } from "./plan";
import { formatSeconds } from "./text";

export type Mode = "kind" | "module" | "dtype" | "cost" | "measured";
export type Rgb = [number, number, number];

export interface Category {
  label: string;
  color: Rgb;
}

export interface Coloring {
  categories: Category[];
  of: Uint16Array;       ///< category per buffer
  isOrdered: boolean;    ///< a scale: the legend shows its ends
}

const OKABE_ITO: Record<string, Rgb> = {
  blue: [0, 114, 178], sky: [86, 180, 233], green: [0, 158, 115], orange: [230, 159, 0],
  vermilion: [213, 94, 0], purple: [204, 121, 167], yellow: [240, 228, 66], grey: [60, 63, 68],
};

const KINDS: [string, Rgb][] = [
  ["activation", OKABE_ITO.sky], ["gradient", OKABE_ITO.orange], ["workspace", OKABE_ITO.vermilion],
  ["input", OKABE_ITO.purple], ["output", OKABE_ITO.yellow], ["parameter", OKABE_ITO.blue],
  ["optimizer", OKABE_ITO.green], ["statistic", OKABE_ITO.grey],
  ["accumulator", [90, 60, 20]], ["frozen", [170, 200, 190]],
  ["fetched_weight", [153, 255, 187]], ["fetched_optimizer", [102, 102, 119]],
  ["data_set", [0, 0, 210]],
];
const RECOMPUTED: Rgb = [30, 30, 90];

/// What colours of kinds mean, all that a legend may show beside each other.
export const KIND_COLORS: [string, Rgb][] = [KINDS[0], ["recomputed", RECOMPUTED], ...KINDS.slice(1)];

export function colorOfKind(kind: string): Rgb { return KINDS.find(([name]) => name === kind)?.[1] ?? OKABE_ITO.grey; }

// Matplotlib's viridis at nine places, by Smith and van der Walt; public domain (CC0).
const VIRIDIS: Rgb[] = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121],
  [110, 206, 88], [181, 222, 43],
];
const NEUTRAL: Rgb = [150, 153, 158];

/// Viridis at `share`, from 0 to 1.
export function viridis(share: number): Rgb {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const part = place - low;
  return VIRIDIS[low].map((value, i) => Math.round(value + part * (VIRIDIS[low + 1][i] - value))) as Rgb;
}

export function css(color: Rgb, alpha = 1): string {
  return `rgb(${color[0]} ${color[1]} ${color[2]} / ${alpha})`;
}

/// Black or white, whichever reads better on the color (relative luminance of WCAG).
export function inkOn(color: Rgb): Rgb {
  const [r, g, b] = color.map((value) => {
    const c = value / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? [10, 12, 16] : [255, 255, 255];
}

export function colorBy(graph: Graph, mode: Mode): Coloring {
  if (mode === "kind")
    return byKind(graph);
  if (mode === "dtype")
    return byType(graph);
  if (mode === "module")
    return byModule(graph);
  return mode === "cost" ? byTime(graph, (b) => graph.recomputeSeconds(b) ?? 0, "not recomputable, or free")
    : byTime(graph, (b) => graph.makingSeconds(b), "not made by a command");
}

/// Categories in the order of `keys`; those without buffers are left out.
function categorized(graph: Graph, keys: [string, Rgb][], keyOf: (b: number) => string): Coloring {
  const present = new Set<string>();
  for (let b = 0; b < graph.count; ++b)
    present.add(keyOf(b));
  const used = keys.filter(([key]) => present.has(key));
  const number = new Map(used.map(([key], i) => [key, i]));
  const of = new Uint16Array(graph.count);
  for (let b = 0; b < graph.count; ++b)
    of[b] = number.get(keyOf(b)) ?? 0;
  return { categories: used.map(([label, color]) => ({ label, color })), of, isOrdered: false };
}

function byKind(graph: Graph): Coloring {
  return categorized(graph, KIND_COLORS, (b) => graph.sortOf(b));
}

export const TYPE_COLORS: Rgb[] = [OKABE_ITO.sky, OKABE_ITO.orange, OKABE_ITO.green, OKABE_ITO.purple, OKABE_ITO.blue,
  OKABE_ITO.vermilion, OKABE_ITO.yellow, OKABE_ITO.grey];

function byType(graph: Graph): Coloring {
  const names = [...new Set(Array.from({ length: graph.count }, (_, b) => graph.dtypeOf(b)))].sort();
  return categorized(graph, names.map((name, i) => [name, TYPE_COLORS[i % TYPE_COLORS.length]]), (b) => graph.dtypeOf(b));
}

/// A module with more of the map than this is shown by its parts: the repeated block of a language model, say.
const LARGEST_SHARE = 0.4, MOST_MODULES = 64;

/// How deep the name of each buffer's module is read: `depth`, deeper below modules that cover most of the map.
function deepened(graph: Graph, paths: string[][], depth: number): (b: number) => string {
  const split = new Set<string>();
  const at = (b: number): string => {
    let taken = depth;
    while (split.has(paths[b].slice(0, taken).join(".")) && taken < paths[b].length)
      ++taken;
    return paths[b].slice(0, taken).join(".");
  };
  for (;;) {
    const areas = new Map<string, number>();
    let whole = 0;
    for (let b = 0; b < graph.count; ++b) {
      const area = graph.size[b] * (graph.end[b] - graph.begin[b]);
      areas.set(at(b), (areas.get(at(b)) ?? 0) + area);
      whole += area;
    }
    const largest = [...areas].filter(([name, area]) => name && !split.has(name) && area > LARGEST_SHARE * whole)
      .sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0]?.[0];
    if (largest === undefined)
      return at;
    split.add(largest);
    if (new Set(paths.map((_, b) => at(b))).size > MOST_MODULES) {
      split.delete(largest);
      return at;
    }
  }
}

/// Modules at the first depth with at least four of them, the largest by their parts, in the order in
/// which the step reaches them.
function byModule(graph: Graph): Coloring {
  const paths = Array.from({ length: graph.count }, (_, b) => graph.modulePath(b));
  const deepest = paths.reduce((most, path) => Math.max(most, path.length), 1);
  let depth = 1;
  const distinct = () => new Set(paths.map((path) => path.slice(0, depth).join("."))).size;
  while (depth < Math.min(deepest, 6) && distinct() < 5)
    ++depth;
  const at = deepened(graph, paths, depth);
  // Where the bytes of the first runs of its activations begin on average: state and gradients say
  // nothing about the order, and the odd small value is made long before its module.
  const sums = new Map<string, { bytes: number; moments: number }>();
  for (let b = 0; b < graph.count; ++b) {
    const sum = sums.get(at(b)) ?? { bytes: 0, moments: 0 };
    sums.set(at(b), sum);
    if (graph.kindOf(b) !== "activation" || graph.isRecomputed(b))
      continue;
    sum.bytes += graph.size[b];
    sum.moments += graph.size[b] * graph.begin[b];
  }
  const ordered = [...sums].filter(([name]) => name !== "")
    .map(([name, { bytes, moments }]): [string, number] => [name, bytes ? moments / bytes : graph.stepCount])
    .sort((a, b) => a[1] - b[1]).map(([name]) => name);
  const last = Math.max(ordered.length - 1, 1);
  const keys = ordered.map((name, i): [string, Rgb] => [name, viridis(i / last)]);
  keys.push(["", NEUTRAL]);
  const coloring = categorized(graph, keys, at);
  for (const category of coloring.categories)
    category.label ||= "no module";
  return { ...coloring, isOrdered: ordered.length > 12 };
}

/// By the logarithm of a time: twelve classes, and one, named `none`, for what takes none.
function byTime(graph: Graph, secondsOf: (b: number) => number, none: string): Coloring {
  const classes = 12;
  const seconds = Array.from({ length: graph.count }, (_, b) => secondsOf(b));
  const logs = seconds.filter((s) => s > 0).map(Math.log);
  const low = logs.reduce((a, b) => Math.min(a, b), Infinity);
  const high = logs.reduce((a, b) => Math.max(a, b), -Infinity);
  const categories: Category[] = [];
  const of = new Uint16Array(graph.count);
  if (logs.length)
    for (let i = 0; i < classes; ++i)
      categories.push({ label: formatSeconds(Math.exp(low + (high - low) * i / (classes - 1))), color: viridis(i / (classes - 1)) });
  categories.push({ label: none, color: NEUTRAL });
  for (let b = 0; b < graph.count; ++b)
    of[b] = seconds[b] > 0 && high > low ? Math.round((Math.log(seconds[b]) - low) / (high - low) * (classes - 1))
      : seconds[b] > 0 ? 0 : categories.length - 1;
  return { categories, of, isOrdered: true };
}
