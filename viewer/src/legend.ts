// What the map's colours and marks mean: all that it draws.
import { Category, Coloring, css, Mode, Rgb } from "./colors";
import { element, shape } from "./dom";
import { BOUND_DASH, CARD_DASH, Inks, inksOf } from "./inks";
import { MARK_PATHS, MarkKind, MARKS } from "./marks";
import { Graph } from "./plan";
import { formatBytes, groupDigits, shorten } from "./text";

const MOST_ENTRIES = 14, MOST_RANKED = 70;

/// An entry stands for one category, or for several that are next to each other or few bytes.
export interface LegendEntry {
  label: string;
  members: number[]; ///< categories
  colors: Rgb[];
  bytes: number;
}

/// Live bytes at a step.
export function bytesByCategory(graph: Graph, { categories, of }: Coloring, step: number): Float64Array {
  const bytes = new Float64Array(categories.length);
  for (const b of graph.liveAt(step))
    bytes[of[b]] += graph.size[b];
  return bytes;
}

/// Every category is in one entry. Of some dozens of modules those with the most bytes have entries of their own and the rest
/// has one together; hundreds, which are a scale, are cut into stretches.
export function legendOf({ categories }: Pick<Coloring, "categories">, mode: Mode, bytes: Float64Array): LegendEntry[] {
  const entryOf = (members: number[], label: string): LegendEntry => ({ label, members,
    colors: members.map((i) => categories[i].color), bytes: members.reduce((sum, i) => sum + bytes[i], 0) });
  const all = categories.map((_: Category, i: number) => i);
  const single = (i: number): LegendEntry => entryOf([i], shorten(categories[i].label, 28));
  if (mode !== "module" || all.length <= MOST_ENTRIES)
    return all.map(single);
  if (all.length < MOST_RANKED) {
    const fullest = new Set([...all].sort((a, b) => bytes[b] - bytes[a] || a - b).slice(0, MOST_ENTRIES));
    const rest = all.filter((i) => !fullest.has(i));
    return [...all.filter((i) => fullest.has(i)).map(single), entryOf(rest, `${groupDigits(rest.length)} other modules`)];
  }
  const length = Math.ceil(all.length / MOST_ENTRIES);
  const stretches = Array.from({ length: Math.ceil(all.length / length) }, (_, i) => all.slice(i * length, (i + 1) * length));
  return stretches.map((members) => members.length === 1 ? single(members[0])
    : entryOf(members, `${shorten(categories[members[0]].label, 20)} to ${shorten(categories[members[members.length - 1]].label, 20)}`));
}

export function showLegend(into: HTMLElement, entries: LegendEntry[], hidden: Set<number> | null, toggle: (members: number[]) => void): void {
  into.replaceChildren(...entries.map(({ label, members, colors, bytes }) => {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colors.length === 1 ? css(colors[0]) : `linear-gradient(to right, ${colors.map((color) => css(color)).join()})`;
    const isOff = members.every((i) => hidden?.has(i));
    const title = members.length === 1 ? "show or dim" : `${groupDigits(members.length)} modules, in the order in which the step reaches them; show or dim`;
    return element("li", {}, element("button", { type: "button", "aria-pressed": String(!isOff), title, onclick: () => toggle(members) },
      swatch, label, element("span", { class: "hint" }, bytes ? formatBytes(bytes) : "\u2013")));
  }));
}

export interface KeyEntry {
  sign: "hatch" | "link" | "arena" | "bound" | "card" | "instant" | "pointer" | "chosen" | "pointed" | "dim" | "copy" | "wait" | "phase" | MarkKind;
  text: string;
}

/// Everything that is drawn beside rectangles of the categories' colours, as far as this graph and its card have it.
export function keyOf(graph: Graph, card: { name: string } | null): KeyEntry[] {
  const isAgain = graph.hasRecomputed();
  const optional = (isThere: boolean, sign: KeyEntry["sign"], text: string): KeyEntry[] => isThere ? [{ sign, text }] : [];
  return [
    ...optional(isAgain, "hatch", "computed a second time"),
    ...optional(graph.firstRun.some((first) => first >= 0), "link", "from the first run to the second"),
    ...graph.aliasKinds().map((kind): KeyEntry => ({ sign: kind, text: MARKS[kind] })),
    { sign: "arena", text: "the arena" },
    { sign: "bound", text: "no placement takes less" },
    ...optional(card !== null, "card", `what ${card?.name} has for the arena`),
    { sign: "instant", text: "the command that is looked at" },
    { sign: "pointer", text: "under the pointer" },
    { sign: "chosen", text: "chosen" },
    { sign: "pointed", text: "pointed at in the table or treemap" },
    { sign: "dim", text: "not searched for, or off" },
    ...optional(graph.copies.length > 0, "copy", "a copy, when it is predicted to pass; it may from its start to its await"),
    ...optional(graph.copies.some(({ waited }) => waited > 0), "wait", "a command waits for it"),
    ...[...new Set(graph.phases().map(({ name }) => name))].filter((name) => name).map((name): KeyEntry => ({ sign: "phase", text: name })),
  ];
}

/// The key with a sample of each sign, drawn as the map draws it.
export function drawKey(entries: KeyEntry[], isDark: boolean): HTMLElement[] {
  const inks = inksOf(isDark);
  return entries.map(({ sign, text }) => {
    const sample = shape("svg", { class: "sample", viewBox: "0 0 22 12", width: 22, height: 12, "aria-hidden": "true" });
    sample.append(...sampleOf(sign, text, inks));
    return element("span", { "data-sign": sign }, sample, text);
  });
}

function sampleOf(sign: KeyEntry["sign"], text: string, inks: Inks): SVGElement[] {
  const box = (fill: string, more: Record<string, string | number> = {}): SVGElement => shape("rect", { x: 1, y: 1, width: 20, height: 10, fill, ...more });
  const rule = (stroke: string, dash: number[] = []): SVGElement =>
    shape("line", { x1: 0, y1: 6, x2: 22, y2: 6, stroke, "stroke-width": 1.25, "stroke-dasharray": dash.join(" ") });
  const outline = (stroke: string): SVGElement => box("none", { stroke, "stroke-width": 2 });
  switch (sign) {
  case "hatch":
    return [box(inks.faint), ...[0, 6, 12].map((x) => shape("line", { x1: x, y1: 11, x2: x + 10, y2: 1, stroke: "rgb(255 255 255 / 0.7)" }))];
  case "link":
    return [shape("path", { d: "M1 10 C 8 10 8 3 15 3", fill: "none", stroke: inks.faint }), shape("path", { d: "M21 3 L14 -0.5 L14 6.5 Z", fill: inks.faint })];
  case "arena":
    return [rule(inks.text)];
  case "bound":
    return [rule(inks.bound, BOUND_DASH)];
  case "card":
    return [rule(inks.card, CARD_DASH)];
  case "instant":
  case "pointer": {
    const ink = sign === "instant" ? inks.accent : inks.faint;
    return [shape("path", { d: "M7 0 L15 0 L11 6 Z", fill: ink }), shape("line", { x1: 11, y1: 5, x2: 11, y2: 12, stroke: ink })];
  }
  case "chosen":
    return [outline(inks.strong)];
  case "pointed":
    return [outline(inks.accent)];
  case "dim":
    return [box(inks.faint, { opacity: 0.25 })];
  case "copy":
    return [shape("rect", { x: 6, y: 1, width: 8, height: 10, fill: inks.faint }), shape("line", { x1: 0, y1: 10.5, x2: 22, y2: 10.5, stroke: inks.faint })];
  case "wait":
    return [shape("line", { x1: 3, y1: 6, x2: 19, y2: 6, stroke: inks.bound, "stroke-width": 1.5, "stroke-dasharray": "2 2" }),
      ...[3, 19].map((x) => shape("line", { x1: x, y1: 1, x2: x, y2: 11, stroke: inks.bound, "stroke-width": 1.5 }))];
  case "phase":
    return [box(inks.phases[text] ?? inks.grid)];
  default:
    return [shape("path", { d: MARK_PATHS[sign], transform: `translate(11 ${sign === "view" ? 15 : 9})`, ...sign === "view" ? { fill: "none", stroke: inks.text, "stroke-width": 1.25 } : { fill: inks.text } })];
  }
}
