// Areas by size, grouped by module: the squarified treemap of Bruls, Huizing and van Wijk (2000).
import { Coloring, css, inkOn } from "./colors";
import { Graph } from "./plan";
import { element } from "./dom";
import { formatBytes, shorten } from "./text";
import { fold, follow, isLeaf, TreeNode } from "./tree";

export interface Area {
  node: TreeNode;
  depth: number;
  x: number; y: number; width: number; height: number;
}

const HEADER = 15;

/// The areas of a tree, groups before what is in them.
export function layOut(root: TreeNode, width: number, height: number): Area[] {
  const areas: Area[] = [];
  const place = (node: TreeNode, depth: number, x: number, y: number, w: number, h: number): void => {
    areas.push({ node, depth, x, y, width: w, height: h });
    if (!node.children.length)
      return;
    const hasHeader = depth > 0 && w > 44 && h > 34;
    const rim = depth > 0 && w > 12 && h > 12 ? 2 : 0;
    const top = hasHeader ? HEADER : rim;
    squarify(node.children, x + rim, y + top, Math.max(w - 2 * rim, 0), Math.max(h - top - rim, 0),
      (child, cx, cy, cw, ch) => {
        if (cw >= 0.5 && ch >= 0.5)
          place(child, depth + 1, cx, cy, cw, ch);
      });
  };
  place(root, 0, 0, 0, width, height);
  return areas;
}

/// Rows along the shorter side, each filled as long as its worst aspect ratio gets better.
function squarify(nodes: TreeNode[], x: number, y: number, w: number, h: number,
  place: (node: TreeNode, x: number, y: number, w: number, h: number) => void): void {
  let total = nodes.reduce((sum, node) => sum + node.bytes, 0);
  let from = 0;
  while (from < nodes.length && total > 0 && w > 0 && h > 0) {
    const short = Math.min(w, h);
    const perByte = w * h / total;
    let row = 0, worst = Infinity, to = from, largest = 0, smallest = Infinity;
    for (; to < nodes.length; ++to) {
      const sum = row + nodes[to].bytes;
      const thick = sum * perByte / short;
      largest = Math.max(largest, nodes[to].bytes);
      smallest = Math.min(smallest, nodes[to].bytes);
      const ratio = Math.max(largest * perByte / thick / thick, thick * thick / Math.max(smallest * perByte, 1e-12));
      if (ratio > worst)
        break;
      worst = ratio;
      row = sum;
    }
    const thick = row * perByte / short;
    let along = 0;
    for (let i = from; i < to; ++i) {
      const length = row > 0 ? nodes[i].bytes / row * short : 0;
      if (w >= h)
        place(nodes[i], x, y + along, thick, length);
      else
        place(nodes[i], x + along, y, length, thick);
      along += length;
    }
    if (w >= h) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      h -= thick;
    }
    total -= row;
    from = to;
  }
}

/// What is drawn, and how.
interface Content {
  graph: Graph;
  root: TreeNode;
  coloring: Coloring;
  selected: number;
  isDark: boolean;
  matches: Uint8Array | null; ///< of a search: 1 where it matches
}

const FONT = "10.5px system-ui, 'DejaVu Sans', sans-serif";

export class TreemapView {
  private areas: Area[] = [];
  private dimmed = 0; ///< leaves that a search does not match
  private content: Content | null = null;
  private shown: TreeNode = { name: "", bytes: 0, buffers: [], children: [], layers: [] };
  private path: string[] = []; ///< parts of the module that is shown alone
  private isOpen = false;      ///< its layers are shown one by one

  constructor(private readonly canvas: HTMLCanvasElement, private readonly trail: HTMLElement, select: (buffer: number) => void,
    hover: (leaf: TreeNode | null, x: number, y: number) => void) {
    new ResizeObserver(() => this.paint()).observe(canvas);
    canvas.addEventListener("click", (event) => {
      const under = this.areasAt(event.offsetX, event.offsetY);
      const folded = under.find((area) => area.node.layers.length);
      const area = under[under.length - 1];
      if (folded)
        this.enter([...this.path, ...this.partsTo(folded.node).slice(0, -1)], true);
      else if (area && isLeaf(area.node))
        select(area.node.buffers[0]);
      else if (area && area.depth > 0)
        this.enter([...this.path, ...this.partsTo(area.node)]);
    });
    canvas.addEventListener("pointermove", (event) => {
      const node = this.areasAt(event.offsetX, event.offsetY).pop()?.node;
      hover(node && isLeaf(node) ? node : null, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerleave", () => hover(null, 0, 0));
  }

  show(content: Content): void {
    this.content = content;
    this.refresh();
  }

  /// Shows what is in the module alone, as far as it is live; an empty path shows everything. `isOpen`: its layers one by one.
  enter(path: string[], isOpen = false): void {
    this.path = path;
    this.isOpen = isOpen;
    this.refresh();
  }

  private refresh(): void {
    if (!this.content)
      return;
    const { graph, root } = this.content;
    const { node, names } = follow(root, this.path);
    this.shown = fold(node, (b) => graph.sortOf(b), this.isOpen);
    this.showTrail(names);
    this.paint();
  }

  /// The modules around what is shown, each a way back.
  private showTrail(names: string[]): void {
    const step = (name: string, depth: number): HTMLElement => element("button", { type: "button", class: "link name",
      onclick: () => this.enter(names.slice(0, depth).flatMap((each) => each.split("."))) }, shorten(name, 30));
    this.trail.replaceChildren(...(names.length ? [step("all", 0), ...names.flatMap((name, i) =>
      [" / ", i + 1 < names.length ? step(name, i + 1) : element("strong", { class: "name" }, shorten(name, 30))])] : []),
    ...(this.isOpen ? [names.length ? " " : "", element("button", { type: "button", class: "link", onclick: () => this.enter(this.path) }, "fold layers")] : []));
  }

  /// The parts of the path from what is shown to a group inside of it; those of a folded group are one part, its name.
  private partsTo(wanted: TreeNode): string[] {
    const search = (node: TreeNode): string[] | null => {
      if (node === wanted)
        return [];
      for (const child of node.children) {
        const below = isLeaf(child) ? null : search(child);
        if (below)
          return [...(child.layers.length ? [child.name] : child.name.split(".")), ...below];
      }
      return null;
    };
    return search(this.shown) ?? [];
  }

  /// Where a buffer is drawn, for tests; null where it is too small.
  placeOf(buffer: number): { x: number; y: number } | null {
    const area = this.areas.find((a) => a.node.buffers.includes(buffer));
    return area ? { x: area.x + area.width / 2, y: area.y + area.height / 2 } : null;
  }

  /// Folded layers and their middle are told by their names, for tests.
  state() {
    return { path: this.content ? follow(this.content.root, this.path).names : [], isOpen: this.isOpen,
      leaves: this.areas.filter((area) => isLeaf(area.node)).length, groups: this.areas.filter((area) => !isLeaf(area.node)).length - 1,
      dimmed: this.dimmed, folded: this.areas.filter((area) => area.node.layers.length).map(({ node, x, y, width, height }) =>
        ({ name: node.name, bytes: node.bytes, x: x + width / 2, y: y + height / 2 })) };
  }

  /// What lies over a point, the outermost first.
  private areasAt(x: number, y: number): Area[] {
    return this.areas.filter((a) => x >= a.x && x < a.x + a.width && y >= a.y && y < a.y + a.height);
  }

  private paint(): void {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!this.content || !width || !height)
      return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    this.areas = layOut(this.shown, width, height);
    this.dimmed = 0;
    for (const area of this.areas)
      if (isLeaf(area.node))
        this.paintLeaf(context, area, this.content);
      else if (area.depth > 0)
        paintGroup(context, area, this.content.isDark);
  }

  private paintLeaf(context: CanvasRenderingContext2D, area: Area, { coloring, selected, isDark, matches }: Content): void {
    const { node, x, y, width: w, height: h } = area;
    const isDim = matches !== null && !node.buffers.some((b) => matches[b]);
    this.dimmed += isDim ? 1 : 0;
    const rim = w > 3 && h > 3 ? 0.5 : 0;
    // Those of several layers are bands of their own where they differ in colour.
    const looks = node.buffers.map((b) => css(coloring.categories[coloring.of[b]].color, matches !== null && !matches[b] ? 0.14 : 1));
    const bands = looks.every((look) => look === looks[0]) ? [looks[0]] : looks;
    const band = (w - 2 * rim) / bands.length;
    bands.forEach((look, i) => {
      context.fillStyle = look;
      context.fillRect(x + rim + i * band, y + rim, band, h - 2 * rim);
    });
    if (w > 44 && h > 14 && !isDim) {
      context.fillStyle = css(inkOn(coloring.categories[coloring.of[node.buffers[0]]].color), 0.9);
      context.font = FONT;
      context.fillText(shorten(node.name, Math.max(Math.floor((w - 8) / 6), 4)), x + 5, y + Math.min(h / 2, 11), w - 9);
      if (h > 28)
        context.fillText(formatBytes(node.bytes), x + 5, y + 24, w - 9);
    }
    if (node.buffers.includes(selected)) {
      context.strokeStyle = isDark ? "#fff" : "#0a0c10";
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
  }
}

function paintGroup(context: CanvasRenderingContext2D, { node, depth, x, y, width: w, height: h }: Area, isDark: boolean): void {
  const shade = Math.min(depth, 5) * (isDark ? 7 : 8);
  context.fillStyle = isDark ? `rgb(${22 + shade} ${27 + shade} ${34 + shade})` : `rgb(${244 - shade} ${245 - shade} ${247 - shade})`;
  context.fillRect(x + 0.5, y + 0.5, w - 1, h - 1);
  if (w <= 44 || h <= 34)
    return;
  context.fillStyle = isDark ? "#c4cad2" : "#3d444d";
  context.font = `600 ${FONT}`;
  const bytes = w <= 150 ? "" : node.layers.length ? `, ${formatBytes(node.layers[0].bytes)} each` : `  ${formatBytes(node.bytes)}`;
  context.fillText(shorten(node.name, Math.floor((w - 8) / 6.4) - bytes.length) + bytes, x + 5, y + HEADER / 2 + 1, w - 9);
}
