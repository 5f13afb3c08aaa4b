// Two plans side by side: maps on one scale that move together, and what differs at their peaks.
import { colorBy, Coloring, css, Mode } from "./colors";
import { compareGraphs, Difference, fullestGraph } from "./difference";
import { element } from "./dom";
import { drawKey, keyOf } from "./legend";
import { cardOf, ceilingOf, MapView } from "./map";
import { Graph, Plan } from "./plan";
import { formatBytes, formatChange, formatPercent, formatSeconds, groupDigits, shorten } from "./text";

const PAGE = 200;
const UNUSED = ["link", "pointer", "pointed", "dim"]; ///< signs that these maps do not draw

interface Side {
  plan: number;
  map: MapView;
  selected: number;
  instant: number;
  choice: HTMLSelectElement;
  key: HTMLElement;
}

export class CompareView {
  private readonly sides: [Side, Side];
  private readonly table = element("tbody");
  private readonly totals = element("tbody");
  private readonly categories = element("tbody", { id: "categories" });
  private readonly more = element("p", { class: "hint" });
  private readonly moments = element("span", { class: "hint" });
  private readonly toPeaks = element("button", { type: "button", class: "link", onclick: () => this.toThePeaks() }, "to the peaks");
  private rows: Difference[] = [];
  private colorings = new WeakMap<Graph, Coloring>();
  private mode: Mode = "kind";
  private isDark = false;

  constructor(private readonly plans: Plan[], into: HTMLElement,
    private readonly tip: (graph: Graph, buffer: number, step: number, x: number, y: number) => void) {
    const make = (plan: number, name: string): Side => {
      const canvas = element("canvas", { tabindex: 0, role: "application", "aria-roledescription": "map of memory over time",
        "aria-label": `Map of plan ${name}`, "aria-describedby": "map-help" });
      const choice: HTMLSelectElement = element("select", { onchange: () => this.choose(side, Number(choice.value)) },
        ...plans.map((each, i) => element("option", { value: i }, labelOf(each))));
      const side: Side = { plan, selected: -1, instant: 0, choice, key: element("p", { class: "marks hint" }), map: new MapView(canvas, {
        hover: (buffer, step, x, y) => this.tip(this.graphOf(side), buffer, step, x, y),
        select: (buffer) => this.selectIn(side, buffer),
        pin: (step) => this.pin(side, step),
      }) };
      return side;
    };
    this.sides = [make(0, "A"), make(Math.min(1, plans.length - 1), "B")];
    this.sides[0].map.companion = this.sides[1].map;
    this.sides[1].map.companion = this.sides[0].map;
    const heads = ["Plan", "A", "B", "Difference"].map((text, i) => element("th", { scope: "col", class: i ? "number" : "" }, text));
    const columns = [["Buffer", ""], ["Kind", ""], ["A", "number"], ["B", "number"], ["Difference", "number"]] as const;
    into.append(
      ...this.sides.map((side, i) => element("section", { class: "map", "aria-label": `Plan ${"AB"[i]}` },
        element("div", { class: "toolbar" }, element("label", {}, element("strong", {}, "AB"[i]), " ", side.choice)), side.map.canvas, side.key)),
      element("section", { class: "differences", "aria-label": "Differences" },
        element("div", { class: "scroll" }, element("table", { class: "totals" }, element("thead", {}, element("tr", {}, ...heads)),
          this.totals, this.categories)),
        element("div", { class: "changes" }, element("h2", {}, "Differences by buffer ", this.moments, " ", this.toPeaks),
          element("div", { class: "scroll" }, element("table", { id: "changes" }, element("thead", {}, element("tr", {},
            ...columns.map(([text, name]) => element("th", { scope: "col", class: name }, text)))), this.table), this.more))));
  }

  /// Which two plans.
  open(before: number, after: number): void {
    this.sides[0].plan = before;
    this.sides[1].plan = after;
    this.show();
  }

  setLook(mode: Mode, isDark: boolean): void {
    if (mode !== this.mode)
      this.colorings = new WeakMap();
    this.mode = mode;
    this.isDark = isDark;
  }

  private choose(side: Side, plan: number): void {
    side.plan = plan;
    this.show();
  }

  private graphOf(side: Side): Graph { return fullestGraph(this.plans[side.plan]); }

  private coloringOf(graph: Graph): Coloring {
    let coloring = this.colorings.get(graph);
    if (!coloring)
      this.colorings.set(graph, coloring = colorBy(graph, this.mode));
    return coloring;
  }

  show(): void {
    for (const side of this.sides) {
      side.selected = -1;
      side.instant = this.graphOf(side).peakStep;
      side.choice.value = String(side.plan);
    }
    this.fillTotals();
    this.showInstants();
  }

  private pin(side: Side, step: number): void {
    side.instant = step;
    this.showInstants();
  }

  toThePeaks(): void {
    for (const side of this.sides)
      side.instant = this.graphOf(side).peakStep;
    this.showInstants();
  }

  /// What differs between the two steps that are looked at, at first the peaks.
  private showInstants(): void {
    const [a, b] = this.sides;
    this.rows = compareGraphs(this.graphOf(a), this.graphOf(b), a.instant, b.instant);
    const arePeaks = this.sides.every((side) => side.instant === this.graphOf(side).peakStep);
    this.moments.textContent = arePeaks ? "at the peaks; a click on a curve takes another command" :
      `command ${groupDigits(a.instant)} of A beside command ${groupDigits(b.instant)} of B`;
    this.toPeaks.hidden = arePeaks;
    this.fillCategories();
    this.fillTable();
    this.redraw();
  }

  private selectIn(side: Side, buffer: number): void {
    const graph = this.graphOf(side);
    if (buffer < 0) {
      this.select(undefined);
      return;
    }
    const name = graph.bufferName(buffer), kind = graph.kindOf(buffer);
    for (const each of this.sides) {
      const own = this.graphOf(each);
      each.selected = each === side ? buffer : findBuffer(own, name, kind);
    }
    this.redraw();
  }

  clear(): void { this.select(undefined); }

  private select(row: Difference | undefined): void {
    this.sides[0].selected = row?.buffersBefore[0] ?? -1;
    this.sides[1].selected = row?.buffersAfter[0] ?? -1;
    for (const side of this.sides)
      if (side.selected >= 0 && !side.map.shows(side.selected))
        side.map.reveal(side.selected);
    this.redraw();
  }

  private redraw(): void {
    const ceiling = Math.max(...this.sides.map((side) => ceilingOf(this.plans[side.plan].summary)));
    for (const side of this.sides) {
      const graph = this.graphOf(side);
      const { summary } = this.plans[side.plan];
      side.key.replaceChildren(...drawKey(keyOf(graph, cardOf(summary)).filter(({ sign }) => !UNUSED.includes(sign)), this.isDark));
      side.map.show({ graph, coloring: this.coloringOf(graph), persistentBytes: summary.persistent_bytes,
        arenaBytes: summary.arena_bytes, ceilingBytes: ceiling, card: cardOf(summary), lowerBoundBytes: graph.lowerBound, matches: null,
        selected: side.selected, pointed: [], instant: side.instant, hoverStep: -1, isDark: this.isDark, showLinks: false });
    }
  }

  private fillTotals(): void {
    const [a, b] = this.sides.map((side) => this.plans[side.plan].summary);
    const bytes = (name: string, before: number, after: number): HTMLElement => totalsRow(name, formatBytes(before),
      formatBytes(after), before === after ? "none" : `${formatChange(after - before)}${before > 0 ? `, ${signed(after / before - 1)}` : ""}`);
    const rows = [bytes("Arena", a.arena_bytes, b.arena_bytes), bytes("Live peak", a.live_peak_bytes, b.live_peak_bytes),
      bytes("Lower bound", a.lower_bound_bytes, b.lower_bound_bytes), bytes("State", a.persistent_bytes, b.persistent_bytes)];
    if (a.step_seconds > 0 && b.step_seconds > 0)
      rows.push(totalsRow("Time of a step", formatSeconds(a.step_seconds), formatSeconds(b.step_seconds),
        signed(b.step_seconds / a.step_seconds - 1)));
    rows.push(totalsRow("Extra time", formatPercent(a.extra_time_fraction), formatPercent(b.extra_time_fraction), ""));
    if (a.outside_arena_bytes > 0 && b.outside_arena_bytes > 0)
      rows.splice(1, 0, bytes("Outside of it", a.outside_arena_bytes, b.outside_arena_bytes));
    this.totals.replaceChildren(...rows);
  }

  /// What is live at each step by category: at once the maps' legend. Scales of two plans have no common legend.
  private fillCategories(): void {
    const sums = new Map<string, { color: string; bytes: [number, number] }>();
    this.sides.forEach((side, i) => {
      const graph = this.graphOf(side), { categories, of, isOrdered } = this.coloringOf(graph);
      if (isOrdered)
        return;
      categories.forEach(({ label, color }) => sums.has(label) || sums.set(label, { color: css(color), bytes: [0, 0] }));
      for (const b of graph.liveAt(side.instant))
        sums.get(categories[of[b]].label)!.bytes[i] += graph.size[b];
    });
    this.categories.replaceChildren(...[...sums].map(([label, { color, bytes: [a, b] }]) => {
      const row = totalsRow("", a ? formatBytes(a) : "\u2013", b ? formatBytes(b) : "\u2013", a === b ? "" : formatChange(b - a));
      row.firstElementChild!.append(swatchOf(color), shorten(label, 28));
      row.lastElementChild!.setAttribute("title", `${groupDigits(b - a)} bytes`);
      return row;
    }));
  }

  private fillTable(): void {
    const most = Math.max(1, ...this.rows.map((row) => Math.abs(row.after - row.before)));
    this.table.replaceChildren(...this.rows.slice(0, PAGE).map((row) => {
      const change = row.after - row.before;
      const bar = element("span", { class: change > 0 ? "bar more" : "bar less", "aria-hidden": "true" });
      bar.style.width = `${Math.max(Math.abs(change) / most * 96, 1)}px`;
      return element("tr", { onclick: () => this.select(row) },
        element("td", {}, element("span", { class: "row" }, swatchOf(this.coloringOfRow(row)),
          element("button", { type: "button", class: "link name", title: shorten(row.name, 300) }, shorten(this.labelOfRow(row), 60)))),
        element("td", {}, row.kind),
        element("td", { class: "number" }, row.before ? formatBytes(row.before) : "\u2013"),
        element("td", { class: "number" }, row.after ? formatBytes(row.after) : "\u2013"),
        element("td", { class: "number change", title: `${groupDigits(change)} bytes` }, bar, formatChange(change)));
    }));
    this.more.textContent = this.rows.length === 0 ? "No buffer differs."
      : this.rows.length > PAGE ? `${groupDigits(this.rows.length - PAGE)} smaller differences are not listed.` : "";
  }

  /// A buffer that it is about, and its graph.
  private exampleOf(row: Difference): [Graph, number] {
    const [side, buffers] = row.buffersBefore.length ? [this.sides[0], row.buffersBefore] : [this.sides[1], row.buffersAfter];
    return [this.graphOf(side), buffers[0]];
  }

  private labelOfRow(row: Difference): string {
    const [graph, b] = this.exampleOf(row);
    return graph.label(b);
  }

  private coloringOfRow(row: Difference): string {
    const [graph, b] = this.exampleOf(row);
    const coloring = this.coloringOf(graph);
    return css(coloring.categories[coloring.of[b]].color);
  }

  state() {
    return { instants: this.sides.map((side) => side.instant), plans: this.sides.map((side) => side.plan), selected: this.sides.map((side) => side.selected),
      differences: this.rows.length, sum: this.rows.reduce((sum, row) => sum + row.after - row.before, 0),
      first: this.rows.length ? this.rows[0].name : null, maps: this.sides.map((side) => side.map.state()) };
  }
}

export function labelOf(plan: Plan): string { return shorten(plan.label || plan.summary.model, 60); }

function signed(share: number): string { return `${share > 0 ? "+" : ""}${formatPercent(share)}`; }

function totalsRow(name: string, before: string, after: string, difference: string): HTMLElement {
  return element("tr", {}, element("th", { scope: "row" }, name), ...[before, after, difference].map((text) =>
    element("td", { class: "number" }, text)));
}

function swatchOf(color: string): HTMLElement {
  const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = color;
  return swatch;
}

function findBuffer(graph: Graph, name: string, kind: string): number {
  for (let b = 0; b < graph.count; ++b)
    if (graph.kindOf(b) === kind && graph.bufferName(b) === name)
      return b;
  return -1;
}
