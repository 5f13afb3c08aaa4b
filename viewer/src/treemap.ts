// Areas by size, grouped by module: the squarified treemap of Bruls, Huizing and van Wijk (2000).
import { Coloring, css, inkOn } from "./colors";
import { Graph } from "./plan";
import { element } from "./dom";
import { formatBytes, shorten } from "./text";

export interface TreeNode {
  name: string;
  bytes: number;
  buffer: number;          ///< of a leaf; -1 for a group
  children: TreeNode[];
}

export interface Area {
  node: TreeNode;
  depth: number;
  x: number; y: number; width: number; height: number;
}

/// Buffers by the parts of their modules. A group with one child is merged with it.
export function groupByModule(buffers: number[], pathOf: (b: number) => string[], bytesOf: (b: number) => number,
  nameOf: (b: number) => string): TreeNode {
  interface Group { node: TreeNode; groups: Map<string, Group>; }
  const make = (name: string): Group => ({ node: { name, bytes: 0, buffer: -1, children: [] }, groups: new Map() });
  const root = make("");
  for (const b of buffers) {
    let group = root;
    for (const part of pathOf(b)) {
      let next = group.groups.get(part);
      if (!next) {
        next = make(part);
        group.groups.set(part, next);
        group.node.children.push(next.node);
      }
      group = next;
    }
    group.node.children.push({ name: nameOf(b), bytes: bytesOf(b), buffer: b, children: [] });
  }
  const finish = (node: TreeNode): void => {
    for (const child of node.children)
      finish(child);
    while (node.children.length === 1 && node.children[0].buffer < 0 && node !== root.node) {
      node.name += "." + node.children[0].name;
      node.children = node.children[0].children;
    }
    if (node.buffer < 0)
      node.bytes = node.children.reduce((sum, child) => sum + child.bytes, 0);
    node.children.sort((a, b) => b.bytes - a.bytes);
    layersInOrder(node.children);
  };
  finish(root.node);
  return root.node;
}

/// The number of a repeated layer, of "3" or "3.mlp"; -1 for others.
function layerNumber({ name, buffer }: TreeNode): number {
  const number = /^\d+(?=$|\.)/.exec(name);
  return buffer < 0 && number ? Number(number[0]) : -1;
}

/// Repeated layers lie in their order, before what is beside them: neighbours in the model are neighbours on the map.
function layersInOrder(nodes: TreeNode[]): void {
  const layers = nodes.filter((node) => layerNumber(node) >= 0).sort((a, b) => layerNumber(a) - layerNumber(b));
  if (layers.length < 2)
    return;
  const others = nodes.filter((node) => layerNumber(node) < 0);
  nodes.splice(0, nodes.length, ...layers, ...others);
}

/// The group at the end of a path, as far as the tree has it, and the names of the groups on the way.
export function follow(root: TreeNode, path: string[]): { node: TreeNode; names: string[] } {
  let node = root;
  const names: string[] = [];
  for (let at = 0; at < path.length;) {
    const next = node.children.find((child) => child.buffer < 0 &&
      child.name.split(".").every((part, i) => at + i >= path.length || part === path[at + i]));
    if (!next)
      break;
    at += next.name.split(".").length;
    names.push(next.name);
    node = next;
  }
  return { node, names };
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

export class TreemapView {
  private areas: Area[] = [];
  private dimmed = 0; ///< leaves that a search does not match
  private draw: () => void = () => {};
  private root: TreeNode = { name: "", bytes: 0, buffer: -1, children: [] };
  private path: string[] = []; ///< parts of the module that is shown alone

  constructor(private readonly canvas: HTMLCanvasElement, private readonly trail: HTMLElement, select: (buffer: number) => void,
    hover: (buffer: number, x: number, y: number) => void) {
    new ResizeObserver(() => this.draw()).observe(canvas);
    canvas.addEventListener("click", (event) => {
      const area = this.areaAt(event.offsetX, event.offsetY);
      if (area && area.node.buffer >= 0)
        select(area.node.buffer);
      else if (area && area.depth > 0)
        this.enter([...this.path, ...this.pathTo(area.node)]);
    });
    canvas.addEventListener("pointermove", (event) =>
      hover(this.areaAt(event.offsetX, event.offsetY)?.node.buffer ?? -1, event.clientX, event.clientY));
    canvas.addEventListener("pointerleave", () => hover(-1, 0, 0));
  }

  show(graph: Graph, live: number[], coloring: Coloring, selected: number, isDark: boolean, matches: Uint8Array | null): void {
    this.root = groupByModule(live, (b) => graph.modulePath(b), (b) => graph.size[b], (b) => graph.label(b));
    this.draw = () => this.paint(graph, follow(this.root, this.path).node, coloring, selected, isDark, matches);
    this.showTrail();
    this.draw();
  }

  /// Shows what is in the module alone, as far as it is live; an empty path shows everything.
  enter(path: string[]): void {
    this.path = path;
    this.showTrail();
    this.draw();
  }

  /// The modules around what is shown, each a way back.
  private showTrail(): void {
    const { names } = follow(this.root, this.path);
    const step = (name: string, depth: number): HTMLElement => element("button", { type: "button", class: "link name",
      onclick: () => this.enter(names.slice(0, depth).flatMap((each) => each.split("."))) }, shorten(name, 30));
    this.trail.replaceChildren(...(names.length ? [step("all", 0), ...names.flatMap((name, i) =>
      [" / ", i + 1 < names.length ? step(name, i + 1) : element("strong", { class: "name" }, shorten(name, 30))])] : []));
  }

  /// The parts of the path from what is shown to a group inside of it.
  private pathTo(wanted: TreeNode): string[] {
    const search = (node: TreeNode): string[] | null => {
      if (node === wanted)
        return [];
      for (const child of node.children) {
        const below = child.buffer < 0 ? search(child) : null;
        if (below)
          return [...child.name.split("."), ...below];
      }
      return null;
    };
    return search(follow(this.root, this.path).node) ?? [];
  }

  /// Where a buffer is drawn, for tests; null where it is too small.
  placeOf(buffer: number): { x: number; y: number } | null {
    const area = this.areas.find((a) => a.node.buffer === buffer);
    return area ? { x: area.x + area.width / 2, y: area.y + area.height / 2 } : null;
  }

  state() {
    return { path: follow(this.root, this.path).names, leaves: this.areas.filter((area) => area.node.buffer >= 0).length,
      groups: this.areas.filter((area) => area.node.buffer < 0).length - 1, dimmed: this.dimmed };
  }

  private areaAt(x: number, y: number): Area | undefined {
    for (let i = this.areas.length - 1; i >= 0; --i) {
      const a = this.areas[i];
      if (x >= a.x && x < a.x + a.width && y >= a.y && y < a.y + a.height)
        return a;
    }
    return undefined;
  }

  private paint(graph: Graph, root: TreeNode, coloring: Coloring, selected: number, isDark: boolean,
    matches: Uint8Array | null): void {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (!width || !height)
      return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    this.areas = layOut(root, width, height);
    this.dimmed = 0;
    for (const area of this.areas) {
      const { node, x, y, width: w, height: h } = area;
      if (area.depth === 0)
        continue;
      if (node.buffer < 0) {
        const shade = Math.min(area.depth, 5) * (isDark ? 7 : 8);
        context.fillStyle = isDark ? `rgb(${22 + shade} ${27 + shade} ${34 + shade})`
          : `rgb(${244 - shade} ${245 - shade} ${247 - shade})`;
        context.fillRect(x + 0.5, y + 0.5, w - 1, h - 1);
        if (w > 44 && h > 34) {
          context.fillStyle = isDark ? "#c4cad2" : "#3d444d";
          context.font = "600 10.5px system-ui, 'DejaVu Sans', sans-serif";
          const bytes = w > 150 ? `  ${formatBytes(node.bytes)}` : "";
          context.fillText(shorten(node.name, Math.floor((w - 8) / 6.4) - bytes.length) + bytes, x + 5, y + HEADER / 2 + 1, w - 9);
        }
        continue;
      }
      const color = coloring.categories[coloring.of[node.buffer]].color;
      const isDim = matches !== null && !matches[node.buffer];
      this.dimmed += isDim ? 1 : 0;
      context.fillStyle = css(color, isDim ? 0.14 : 1);
      const rim = w > 3 && h > 3 ? 0.5 : 0;
      context.fillRect(x + rim, y + rim, w - 2 * rim, h - 2 * rim);
      if (w > 44 && h > 14 && !isDim) {
        context.fillStyle = css(inkOn(color), 0.9);
        context.font = "10.5px system-ui, 'DejaVu Sans', sans-serif";
        context.fillText(shorten(node.name, Math.max(Math.floor((w - 8) / 6), 4)), x + 5, y + Math.min(h / 2, 11), w - 9);
        if (h > 28)
          context.fillText(formatBytes(node.bytes), x + 5, y + 24, w - 9);
      }
      if (node.buffer === selected) {
        context.strokeStyle = isDark ? "#fff" : "#0a0c10";
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, w - 2, h - 2);
      }
    }
  }
}
