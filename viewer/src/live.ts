// The buffers that are live at an instant, as a table whose columns sort it.
import { Coloring, css } from "./colors";
import { element } from "./dom";
import { Graph } from "./plan";
import { formatBytes, formatPercent, formatSeconds, groupDigits, shorten, splitName } from "./text";

type Column = "name" | "kind" | "size" | "begin" | "price";
const COLUMNS: [Column, string, boolean, string][] = [
  ["name", "Buffer", false, "sort by name"], ["kind", "Kind", false, "sort by kind"], ["size", "Bytes", true, "sort by bytes"],
  ["begin", "Steps", true, "sort by first step"], ["price", "Again", true, "sort by the time of computing it again"],
];
const PAGE = 150;
const TAIL = 12; ///< characters of a name that are always shown

/// Kinds as the map of `--format=text` has them: names need the room.
const LETTERS: Record<string, string> = { parameter: "P", statistic: "S", optimizer: "O", accumulator: "U", input: "I", output: "L",
  activation: "A", gradient: "G", workspace: "W" };

export class LiveTable {
  private column: Column = "size";
  private isDescending = true;
  private limit = PAGE;
  private refresh: () => void = () => {};
  private readonly body = element("tbody");
  private readonly headers = new Map<Column, HTMLElement>();
  private readonly more = element("button", { type: "button", class: "link", onclick: () => {
    this.limit += 1000;
    this.refresh();
  } });
  private readonly head = element("tr");
  rows = 0;

  constructor(into: HTMLElement, private readonly select: (buffer: number) => void,
    private readonly hover: (buffer: number) => void) {
    for (const [column, label, isNumber, title] of COLUMNS) {
      const header = element("th", { scope: "col", class: isNumber ? "number" : "" }, element("button", { type: "button", title,
        onclick: () => {
          this.isDescending = this.column === column ? !this.isDescending : isNumber;
          this.column = column;
          this.refresh();
        } }, label));
      this.headers.set(column, header);
      this.head.append(header);
    }
    into.append(element("table", {}, element("thead", {}, this.head), this.body), this.more);
  }

  show(graph: Graph, live: number[], coloring: Coloring, selected: number): void {
    this.limit = PAGE;
    const hasPrice = live.some((b) => graph.recomputeSeconds(b) !== null);
    this.refresh = () => this.fill(graph, live, coloring, selected, hasPrice);
    this.refresh();
  }

  /// Marks the row without building the table again.
  mark(selected: number): void {
    for (const row of this.body.rows)
      row.setAttribute("aria-selected", String(Number(row.dataset.buffer) === selected));
  }

  private fill(graph: Graph, live: number[], coloring: Coloring, selected: number, hasPrice: boolean): void {
    for (const [column, header] of this.headers)
      header.setAttribute("aria-sort", column !== this.column ? "none" : this.isDescending ? "descending" : "ascending");
    this.headers.get("price")!.hidden = !hasPrice;
    this.headers.get("begin")!.classList.toggle("wide", graph.stepCount > 1000);
    const sorted = this.sort(graph, live);
    const rows = sorted.slice(0, this.limit).map((b) => this.row(graph, b, coloring, selected, hasPrice));
    this.body.replaceChildren(...rows);
    this.rows = rows.length;
    this.more.hidden = sorted.length <= this.limit;
    this.more.textContent = `${groupDigits(sorted.length - this.limit)} more`;
  }

  private sort(graph: Graph, live: number[]): number[] {
    const sign = this.isDescending ? -1 : 1;
    const keys: Record<Column, (b: number) => number | string> = {
      name: (b) => graph.label(b), kind: (b) => graph.kindOf(b), size: (b) => graph.size[b],
      begin: (b) => graph.begin[b], price: (b) => graph.recomputeSeconds(b) ?? -1,
    };
    const keyed = live.map((b): [number | string, number] => [keys[this.column](b), b]);
    keyed.sort(([x, a], [y, b]) => (x < y ? -sign : x > y ? sign : a - b));
    return keyed.map(([, b]) => b);
  }

  private row(graph: Graph, b: number, coloring: Coloring, selected: number, hasPrice: boolean): HTMLTableRowElement {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = css(coloring.categories[coloring.of[b]].color);
    const share = graph.livePeak > 0 ? graph.size[b] / graph.livePeak : 0;
    const seconds = graph.recomputeSeconds(b);
    const [head, tail] = splitName(graph.label(b), 120, TAIL);
    const row = element("tr", { "data-buffer": b, "aria-selected": String(b === selected),
      onclick: () => this.select(b), onmouseenter: () => this.hover(b), onmouseleave: () => this.hover(-1) },
    element("td", { title: shorten(graph.bufferName(b), 300) }, element("span", { class: "cell" }, swatch,
      element("button", { type: "button", class: "link name", "aria-label": shorten(graph.label(b), 300) },
        element("span", { class: "head" }, head), element("span", { class: "tail" }, tail)))),
    element("td", {}, element("abbr", { title: graph.isRecomputed(b) ? "recomputed" : graph.kindOf(b) },
      graph.isRecomputed(b) ? "a" : LETTERS[graph.kindOf(b)] ?? "")),
    element("td", { class: "number", title: `${groupDigits(graph.size[b])} bytes, ${formatPercent(share)} of the peak` },
      formatBytes(graph.size[b])),
    element("td", { class: "number" }, `${groupDigits(graph.begin[b])}\u2013${groupDigits(graph.end[b] - 1)}`));
    if (hasPrice)
      row.append(element("td", { class: "number" }, seconds === null ? "" : formatSeconds(seconds)));
    return row;
  }
}
