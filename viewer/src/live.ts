// The buffers that are live at an instant, as a table whose columns sort it.
import { Coloring, css } from "./colors";
import { element } from "./dom";
import { Graph } from "./plan";
import { TreeNode } from "./tree";
import { formatBytes, formatPercent, formatSeconds, groupDigits, shorten, splitName } from "./text";

type Column = "name" | "kind" | "size" | "begin" | "price";
const COLUMNS: [Column, string, boolean, string][] = [
  ["name", "Buffer", false, "sort by name"], ["kind", "Kind", false, "sort by kind"], ["size", "Bytes", true, "sort by bytes"],
  ["begin", "Commands", true, "sort by first command"], ["price", "Again", true, "sort by the time of computing it again"],
];
const PAGE = 150;
const TAIL = 12; ///< characters of a name that are always shown

/// Kinds as the map of `--format=text` has them: names need the room.
const LETTERS: Record<string, string> = { parameter: "P", statistic: "S", optimizer: "O", accumulator: "U", input: "I", output: "L",
  activation: "A", gradient: "G", workspace: "W", frozen: "F", fetched_weight: "f", fetched_optimizer: "o", data_set: "D" };

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
  private marked: [HTMLTableRowElement, number[]][] = [];
  private selected = -1;
  rows = 0;
  private readonly opened = new Set<string>(); ///< folded rows whose buffers are listed

  constructor(into: HTMLElement, private readonly select: (buffer: number) => void,
    private readonly hover: (buffers: number[]) => void) {
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

  /// A row for each leaf. One of several buffers opens to a row for each.
  show(graph: Graph, leaves: TreeNode[], coloring: Coloring, selected: number): void {
    this.limit = PAGE;
    this.selected = selected;
    const hasPrice = leaves.some(({ buffers }) => priceOf(graph, buffers) !== null);
    this.refresh = () => this.fill(graph, leaves, coloring, hasPrice);
    this.refresh();
  }

  /// Marks the row without building the table again.
  mark(selected: number): void {
    this.selected = selected;
    for (const [row, buffers] of this.marked)
      row.setAttribute("aria-selected", String(buffers.includes(selected)));
  }

  private fill(graph: Graph, leaves: TreeNode[], coloring: Coloring, hasPrice: boolean): void {
    for (const [column, header] of this.headers)
      header.setAttribute("aria-sort", column !== this.column ? "none" : this.isDescending ? "descending" : "ascending");
    this.headers.get("price")!.hidden = !hasPrice;
    this.headers.get("begin")!.classList.toggle("wide", graph.stepCount > 1000);
    const sorted = this.sort(graph, leaves);
    this.marked = [];
    const rows = sorted.slice(0, this.limit).flatMap((leaf) => {
      if (leaf.buffers.length === 1)
        return [this.row(graph, leaf.buffers[0], coloring, hasPrice)];
      return [this.foldedRow(graph, leaf, coloring, hasPrice),
        ...this.opened.has(keyOf(graph, leaf)) ? leaf.buffers.map((b) => this.row(graph, b, coloring, hasPrice, "part")) : []];
    });
    this.body.replaceChildren(...rows);
    this.rows = rows.length;
    this.mark(this.selected);
    this.more.hidden = sorted.length <= this.limit;
    this.more.textContent = `${groupDigits(sorted.length - this.limit)} more`;
  }

  private sort(graph: Graph, leaves: TreeNode[]): TreeNode[] {
    const sign = this.isDescending ? -1 : 1;
    const keys: Record<Column, (leaf: TreeNode) => number | string> = {
      name: (leaf) => leaf.name, kind: ({ buffers }) => graph.kindOf(buffers[0]), size: (leaf) => leaf.bytes,
      begin: ({ buffers }) => graph.begin[buffers[0]], price: ({ buffers }) => priceOf(graph, buffers) ?? -1,
    };
    const keyed = leaves.map((leaf): [number | string, TreeNode] => [keys[this.column](leaf), leaf]);
    keyed.sort(([x, a], [y, b]) => (x < y ? -sign : x > y ? sign : a.buffers[0] - b.buffers[0]));
    return keyed.map(([, leaf]) => leaf);
  }

  private row(graph: Graph, b: number, coloring: Coloring, hasPrice: boolean, look = ""): HTMLTableRowElement {
    const share = graph.livePeak > 0 ? graph.size[b] / graph.livePeak : 0;
    const label = nameOf(graph.label(b));
    return this.line(graph, [b], coloring, hasPrice, { class: look, onclick: () => this.select(b) },
      [shorten(graph.bufferName(b), 300), element("button", { type: "button", class: "link name", "aria-label": shorten(graph.label(b), 300) }, ...label)],
      `${groupDigits(graph.size[b])} bytes, ${formatPercent(share)} of the peak`);
  }

  private foldedRow(graph: Graph, leaf: TreeNode, coloring: Coloring, hasPrice: boolean): HTMLTableRowElement {
    const { name, bytes, buffers } = leaf;
    const key = keyOf(graph, leaf), isOpen = this.opened.has(key);
    const toggle = (): void => {
      if (!this.opened.delete(key))
        this.opened.add(key);
      this.refresh();
    };
    const count = groupDigits(buffers.length);
    return this.line(graph, buffers, coloring, hasPrice, { class: "folded", onclick: toggle },
      [`${count} buffers of layers that are alike: ${shorten(name, 300)}`, element("button", { type: "button", class: "link name", "aria-expanded": String(isOpen),
        "aria-label": `${count} times ${shorten(name, 300)}` }, element("span", { class: "count" }, `${isOpen ? "\u25be" : "\u25b8"} ${count}\u00a0\u00d7\u00a0`), ...nameOf(name))],
      `${groupDigits(bytes)} bytes, ${count} \u00d7 ${groupDigits(graph.size[buffers[0]])}`);
  }

  /// The cells of a row about buffers of one kind and size.
  private line(graph: Graph, buffers: number[], coloring: Coloring, hasPrice: boolean, attributes: { class: string; onclick: () => void },
    [title, button]: [string, HTMLElement], size: string): HTMLTableRowElement {
    const first = buffers[0], kind = graph.sortOf(first), seconds = priceOf(graph, buffers);
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = css(coloring.categories[coloring.of[first]].color);
    const begin = Math.min(...buffers.map((b) => graph.begin[b])), end = Math.max(...buffers.map((b) => graph.end[b]));
    const row = element("tr", { "data-buffer": first, "data-count": buffers.length, ...attributes, onmouseenter: () => this.hover(buffers),
      onmouseleave: () => this.hover([]) },
    element("td", { title }, element("span", { class: "cell" }, swatch, button)),
    element("td", {}, element("abbr", { title: kind }, kind === "recomputed" ? "a" : LETTERS[kind] ?? "")),
    element("td", { class: "number", title: size }, formatBytes(buffers.length * graph.size[first])),
    element("td", { class: "number" }, `${groupDigits(begin)}\u2013${groupDigits(end - 1)}`));
    if (hasPrice)
      row.append(element("td", { class: "number" }, seconds === null ? "" : formatSeconds(seconds)));
    this.marked.push([row, buffers]);
    return row;
  }
}

/// Tells folded rows apart, from step to step.
function keyOf(graph: Graph, { name, buffers }: TreeNode): string { return `${graph.sortOf(buffers[0])} ${name}`; }

/// A name in two parts, of which a narrow column cuts the first one off.
function nameOf(label: string): HTMLElement[] {
  const [head, tail] = splitName(label, 120, TAIL);
  return [element("span", { class: "head" }, head), element("span", { class: "tail" }, tail)];
}

/// What computing all of them again costs; null where that is not known.
function priceOf(graph: Graph, buffers: number[]): number | null {
  const prices = buffers.map((b) => graph.recomputeSeconds(b));
  return prices.some((price) => price === null) ? null : prices.reduce((sum: number, price) => sum + price!, 0);
}
