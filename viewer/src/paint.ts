// Draws the map: curve, rectangles, cells, labels, axes. Reads the map's content, changes nothing of it.
import { css, inkOn, Rgb } from "./colors";
import { BOUND_DASH, CARD_DASH, Inks, inksOf } from "./inks";
import { Cells, divide, Layers, noLayers } from "./layers";
import type { MapContent } from "./map";
import { drawMark, Mark, MarkKind, marksOf } from "./marks";
import { formatBytes, formatTick, groupDigits, shorten } from "./text";
import { Axis, ticks } from "./view";

/// Where the parts of the map lie on the canvas, in pixels.
export interface Regions {
  left: number; width: number;
  curveTop: number; curveHeight: number;
  upperTop: number; upperHeight: number;
  stateTop: number; stateHeight: number;
  lanesTop: number; lanesHeight: number; ///< of two rows, or 0 where nothing travels
  axisTop: number;
}

const LEFT = 70, RIGHT = 10, GAP = 17, AXIS = 34, CURVE = 74, LANE = 15, LANES = 2 * LANE + 4;

export function regionsOf(width: number, height: number, content: MapContent): Regions {
  const curveTop = 6;
  const curveHeight = height > 260 ? CURVE : 0;
  const upperTop = curveTop + (curveHeight ? curveHeight + GAP : 0);
  const lanesHeight = content.graph.copies.length ? LANES : 0;
  const rest = Math.max(height - upperTop - AXIS - lanesHeight, 20);
  const share = content.ceilingBytes > 0 ? content.persistentBytes / content.ceilingBytes : 0;
  const stateHeight = share >= 1 ? rest : share > 0 ? Math.min(Math.max(share * rest, 26), rest / 4) : 0;
  const between = stateHeight && share < 1 ? 3 : 0;
  const upperHeight = Math.max(rest - stateHeight - between, 1);
  const stateTop = upperTop + upperHeight + between;
  return { left: LEFT, width: Math.max(width - LEFT - RIGHT, 10), curveTop, curveHeight, upperTop, upperHeight, stateTop,
    stateHeight, lanesTop: stateTop + stateHeight, lanesHeight, axisTop: stateTop + stateHeight + lanesHeight };
}

/// Where the lane of a copy begins.
export function laneTop(regions: Regions, isOut: boolean): number { return regions.lanesTop + 3 + (isOut ? 0 : LANE); }

const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

export interface FrameReport {
  rectangles: number;  ///< buffers drawn as rectangles of their own
  aggregated: number;  ///< buffers summed in pixels
  labels: number;
  links: number;       ///< arcs from first runs to clones
  marks: Record<MarkKind, number>; ///< of further values in a buffer
  copies: string[];    ///< drawn on their lanes, those with their names in it
  waits: number;       ///< gaps of commands that wait for copies
  card: { y: number; text: string } | null; ///< the card's line; above the canvas where y is negative
  frameMs: number;
}

function emptyReport(): FrameReport {
  return { rectangles: 0, aggregated: 0, labels: 0, links: 0, marks: { in_place: 0, view: 0, part: 0 }, copies: [], waits: 0, card: null, frameMs: 0 };
}

export class MapPainter {
  private readonly context: CanvasRenderingContext2D;
  private readonly cells = new Cells();
  private readonly cellCanvas = document.createElement("canvas");
  private readonly layers: Layers = noLayers();
  private upper = new Int32Array(0);
  private state = new Int32Array(0);
  private votes: Float32Array | null = null;
  private content!: MapContent;
  private inks: Inks = inksOf(false);
  private splitFor: MapContent["graph"] | null = null;
  private bands: { key: object | null; live: Float64Array[]; order: number[] } = { key: null, live: [], order: [] };
  private marks: Mark[][] = [];
  private phases: ReturnType<MapContent["graph"]["phases"]> = [];
  lastFrame: FrameReport = emptyReport();

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d")!;
  }

  paint(content: MapContent, steps: Axis, addresses: Axis): void {
    const started = performance.now();
    this.content = content;
    this.inks = inksOf(content.isDark);
    this.split();
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, width, height);
    const regions = regionsOf(width, height, content);
    const report: FrameReport = emptyReport();
    if (regions.curveHeight)
      this.drawCurve(regions, steps);
    this.drawBoxes(this.upper, regions, steps, addresses, regions.upperTop, regions.upperHeight, report);
    if (regions.stateHeight)
      this.drawBoxes(this.state, regions, steps, { low: 0, high: content.persistentBytes }, regions.stateTop,
        regions.stateHeight, report);
    this.drawLimits(regions, addresses);
    report.card = this.drawCard(regions, addresses);
    if (content.showLinks || content.selected >= 0)
      this.drawLinks(regions, steps, addresses, report);
    for (const b of content.pointed)
      if (b !== content.selected)
        this.drawOutline(b, this.inks.accent, regions, steps, addresses);
    if (content.selected >= 0)
      this.drawOutline(content.selected, this.inks.strong, regions, steps, addresses);
    if (regions.lanesHeight)
      this.drawLanes(regions, steps, report);
    this.drawAxes(regions, steps, addresses);
    this.drawInstant(regions, steps, content.instant, this.inks.accent);
    if (content.hoverStep >= 0 && content.hoverStep !== content.instant)
      this.drawInstant(regions, steps, content.hoverStep, this.inks.faint);
    report.frameMs = performance.now() - started;
    this.lastFrame = report;
  }

  /// What lies in the state and what above it, marks and phases, once per graph; votes per search.
  private split(): void {
    const { graph, persistentBytes, matches } = this.content;
    if (this.splitFor !== graph) {
      const all = Array.from({ length: graph.count }, (_, b) => b).filter((b) => graph.size[b] > 0);
      this.upper = Int32Array.from(all.filter((b) => graph.offset[b] >= persistentBytes));
      this.state = Int32Array.from(all.filter((b) => graph.offset[b] < persistentBytes));
      this.phases = graph.phases();
      this.marks = Array.from({ length: graph.count }, (_, b) => marksOf(graph.aliasesOf(b)));
      this.splitFor = graph;
    }
    this.votes = matches ? Float32Array.from(matches, (isMatch) => isMatch ? 1e6 : 1) : null;
  }

  private drawBoxes(which: Int32Array, regions: Regions, steps: Axis, addresses: Axis, top: number, height: number,
    report: FrameReport): void {
    const { graph, coloring, matches } = this.content;
    const context = this.context;
    context.save();
    context.translate(regions.left, top);
    context.beginPath();
    context.rect(0, 0, regions.width, height);
    context.clip();
    context.fillStyle = this.inks.area;
    context.fillRect(0, 0, regions.width, height);
    const count = coloring.categories.length;
    // Categories above `count` stand for buffers that a search does not match.
    const categories = matches ? coloring.of.map((category, b) => matches[b] ? category : category + count) : coloring.of;
    divide(graph, which, { t0: steps.low, t1: steps.high, a0: addresses.low, a1: addresses.high, width: regions.width,
      height }, categories, this.votes, this.cells, this.layers);
    if (this.cells.isUsed)
      this.drawCells();
    this.drawRectangles(categories, count);
    report.labels += this.drawLabels(regions.width, height, report);
    report.rectangles += this.layers.count;
    report.aggregated += this.layers.aggregated;
    context.restore();
  }

  private drawCells(): void {
    const { cells, cellCanvas } = this;
    const { categories } = this.content.coloring;
    if (cellCanvas.width !== cells.width || cellCanvas.height !== cells.height) {
      cellCanvas.width = cells.width;
      cellCanvas.height = cells.height;
    }
    const context = cellCanvas.getContext("2d")!;
    const image = context.createImageData(cells.width, cells.height);
    const pixels = new Uint32Array(image.data.buffer);
    const colors = categories.map(({ color }) => (color[2] << 16) | (color[1] << 8) | color[0]);
    for (let row = 0, i = 0; row < cells.height; ++row)
      for (let column = 0; column < cells.width; ++column, ++i) {
        const covered = cells.coverAt(row, column);
        if (covered === 0)
          continue;
        const category = cells.categoryAt(row, column);
        const isDim = category >= colors.length;
        const alpha = Math.min(covered, 1) * (isDim ? 0.14 : 1);
        pixels[i] = ((Math.max(Math.round(255 * alpha), 1) << 24) | colors[isDim ? category - colors.length : category]) >>> 0;
      }
    context.putImageData(image, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(cellCanvas, 0, 0);
  }

  private drawRectangles(categories: Uint16Array, count: number): void {
    const { layers, context } = this;
    const { graph, coloring } = this.content;
    const groups: number[][] = Array.from({ length: 2 * count }, () => []);
    for (let i = 0; i < layers.count; ++i)
      groups[categories[layers.buffers[i]]].push(i);
    const hatched: number[] = [];
    groups.forEach((group, category) => {
      if (!group.length)
        return;
      const isDim = category >= count;
      context.fillStyle = css(coloring.categories[category % count].color, isDim ? 0.14 : 1);
      for (const i of group) {
        const [x, y, w, h] = this.place(i);
        const rim = w > 4 && h > 4 ? 0.5 : 0;
        context.fillRect(x + rim, y + rim, w - 2 * rim, h - 2 * rim);
        if (!isDim && w > 8 && h > 6 && graph.isRecomputed(layers.buffers[i]))
          hatched.push(i);
      }
    });
    this.drawHatches(hatched);
  }

  /// Recomputed values are hatched, whatever the colours say.
  private drawHatches(hatched: number[]): void {
    const context = this.context;
    context.strokeStyle = "rgb(255 255 255 / 0.38)";
    context.lineWidth = 1;
    for (const i of hatched) {
      let [x, y, w, h] = this.place(i);
      const right = Math.min(x + w, this.canvas.clientWidth), bottom = Math.min(y + h, this.canvas.clientHeight);
      x = Math.max(x, 0);
      y = Math.max(y, 0);
      w = right - x;
      h = bottom - y;
      context.save();
      context.beginPath();
      context.rect(x, y, w, h);
      context.clip();
      context.beginPath();
      for (let at = 6 * Math.ceil((x - h) / 6); at < x + w; at += 6) {
        context.moveTo(at, y + h);
        context.lineTo(at + h, y);
      }
      context.stroke();
      context.restore();
    }
  }

  /// Names where they fit, and marks of the further values.
  private drawLabels(width: number, height: number, report: FrameReport): number {
    const { layers, context } = this;
    const { graph, coloring, matches } = this.content;
    let labels = 0;
    context.textBaseline = "middle";
    for (let i = 0; i < layers.count; ++i) {
      const [x, y, w, h] = this.place(i);
      const left = Math.max(x, 0), right = Math.min(x + w, width);
      if (w < 8 || h < 9)
        continue;
      const b = layers.buffers[i];
      const ink: Rgb = inkOn(coloring.categories[coloring.of[b]].color);
      const isDim = matches !== null && !matches[b];
      context.fillStyle = css(ink, isDim ? 0.3 : 0.55);
      const perStep = w / (graph.end[b] - graph.begin[b]);
      if (perStep > 3)
        for (const { kind, step } of this.marks[b]) {
          drawMark(context, kind, x + (step - graph.begin[b] + 0.5) * perStep, y + h);
          ++report.marks[kind];
        }
      if (right - left < 46 || Math.min(y + h, height) - Math.max(y, 0) < 13 || isDim)
        continue;
      const room = Math.floor((right - left - 8) / 6.2);
      const top = Math.max(y, 0), bottom = Math.min(y + h, height);
      const middle = (top + bottom) / 2;
      context.fillStyle = css(ink, 0.92);
      context.font = `11px ${FONT}`;
      const twoLines = bottom - top > 30;
      context.fillText(shorten(graph.label(b), Math.max(room, 4)), left + 5, twoLines ? middle - 7 : middle,
        right - left - 9);
      if (twoLines) {
        context.fillStyle = css(ink, 0.7);
        context.fillText(formatBytes(graph.size[b]), left + 5, middle + 7, right - left - 9);
      }
      ++labels;
    }
    return labels;
  }

  private place(i: number): [number, number, number, number] {
    const places = this.layers.places;
    return [places[4 * i], places[4 * i + 1], places[4 * i + 2], places[4 * i + 3]];
  }

  /// Pixels of a buffer on the canvas, cut off at its region.
  private placed(b: number, regions: Regions, steps: Axis, addresses: Axis): [number, number, number, number] {
    const { graph, persistentBytes } = this.content;
    const inState = graph.offset[b] < persistentBytes;
    const axis = inState ? { low: 0, high: persistentBytes } : addresses;
    const top = inState ? regions.stateTop : regions.upperTop;
    const height = inState ? regions.stateHeight : regions.upperHeight;
    const xOf = (step: number) => regions.left + (step - steps.low) / (steps.high - steps.low) * regions.width;
    const yOf = (address: number) => top + height * (1 - (address - axis.low) / (axis.high - axis.low));
    return [xOf(graph.begin[b]), yOf(graph.offset[b] + graph.size[b]), xOf(graph.end[b]), yOf(graph.offset[b])];
  }

  private drawOutline(b: number, ink: string, regions: Regions, steps: Axis, addresses: Axis): void {
    const { graph, persistentBytes } = this.content;
    const [left, top, right, bottom] = this.placed(b, regions, steps, addresses);
    const context = this.context;
    const inState = graph.offset[b] < persistentBytes;
    context.save();
    context.beginPath();
    context.rect(regions.left - 2, (inState ? regions.stateTop : regions.upperTop) - 2, regions.width + 4,
      (inState ? regions.stateHeight : regions.upperHeight) + 4);
    context.clip();
    for (const [color, width, out] of [[this.content.isDark ? "#000" : "#fff", 5, 1.5], [ink, 2, 1.5]] as const) {
      context.strokeStyle = color;
      context.lineWidth = width;
      context.strokeRect(left - out, top - out, Math.max(right - left, 1) + 2 * out, Math.max(bottom - top, 1) + 2 * out);
    }
    context.restore();
  }

  /// Arcs from what is computed first to what is computed again.
  private drawLinks(regions: Regions, steps: Axis, addresses: Axis, report: FrameReport): void {
    const { graph, selected } = this.content;
    const context = this.context;
    context.save();
    context.beginPath();
    context.rect(regions.left, regions.upperTop, regions.width, regions.upperHeight);
    context.clip();
    for (let clone = 0; clone < graph.count && report.links < 2000; ++clone) {
      const first = graph.firstRun[clone];
      const isChosen = clone === selected || (first >= 0 && first === selected);
      if (first < 0 || (!this.content.showLinks && !isChosen))
        continue;
      const [, t0, x0, b0] = this.placed(first, regions, steps, addresses);
      const [x1, t1, , b1] = this.placed(clone, regions, steps, addresses);
      const y0 = (t0 + b0) / 2, y1 = (t1 + b1) / 2;
      context.strokeStyle = isChosen ? this.inks.strong : this.inks.faint;
      context.globalAlpha = isChosen ? 1 : 0.45;
      context.lineWidth = isChosen ? 2 : 1;
      context.beginPath();
      context.moveTo(x0, y0);
      const bend = Math.max((x1 - x0) / 3, 12);
      context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      context.stroke();
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x1 - 7, y1 - 3.5);
      context.lineTo(x1 - 7, y1 + 3.5);
      context.fillStyle = context.strokeStyle;
      context.fill();
      ++report.links;
    }
    context.restore();
  }

  /// The live bytes of every category, stacked; per pixel, the fullest of its steps.
  private drawCurve(regions: Regions, steps: Axis): void {
    const { graph, coloring, arenaBytes, ceilingBytes, card } = this.content;
    const context = this.context;
    if (this.bands.key !== coloring.of) {
      const live = coloring.categories.map((_, c) => graph.sumLive((b) => coloring.of[b] === c));
      const least = live.map(minimum);
      // State lies at the bottom, as on the map.
      this.bands = { key: coloring.of, live, order: [...live.keys()].sort((a, b) => least[b] - least[a] || a - b) };
    }
    const { left, width, curveTop, curveHeight } = regions;
    const top = Math.max(arenaBytes, ceilingBytes) * 1.08;
    const yOf = (bytes: number) => curveTop + curveHeight * (1 - bytes / top);
    context.fillStyle = this.inks.area;
    context.fillRect(left, curveTop, width, curveHeight);
    const columns = Math.ceil(width);
    const fullest = new Int32Array(columns);
    for (let x = 0; x < columns; ++x) {
      const from = Math.floor(steps.low + x / width * (steps.high - steps.low));
      const to = Math.max(Math.ceil(steps.low + (x + 1) / width * (steps.high - steps.low)), from + 1);
      let best = Math.min(from, graph.stepCount - 1);
      for (let t = best; t < Math.min(to, graph.stepCount); ++t)
        if (graph.live[t] > graph.live[best])
          best = t;
      fullest[x] = best;
    }
    const base = new Float64Array(columns);
    for (const category of this.bands.order) {
      const live = this.bands.live[category];
      context.fillStyle = css(coloring.categories[category].color, 0.85);
      context.beginPath();
      for (let x = 0; x < columns; ++x)
        context.lineTo(left + x, yOf(base[x] + live[fullest[x]]));
      for (let x = columns - 1; x >= 0; --x)
        context.lineTo(left + x, yOf(base[x]));
      context.fill();
      for (let x = 0; x < columns; ++x)
        base[x] += live[fullest[x]];
    }
    this.rule(left, yOf(graph.lowerBound), width, this.inks.bound, BOUND_DASH);
    this.rule(left, yOf(arenaBytes), width, this.inks.text, []);
    if (card && card.bytes < top)
      this.rule(left, yOf(card.bytes), width, this.inks.card, CARD_DASH);
    context.font = `10.5px ${FONT}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = this.inks.text;
    context.fillText("live bytes", left - 8, curveTop + curveHeight - 8);
    context.fillText(formatBytes(arenaBytes), left - 8, yOf(arenaBytes) + 2);
    context.textAlign = "left";
  }

  private rule(x: number, y: number, width: number, color: string, dash: number[]): void {
    const context = this.context;
    context.strokeStyle = color;
    context.lineWidth = 1.25;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + width, y);
    context.stroke();
    context.setLineDash([]);
  }

  /// The arena's end and the lower bound, over the map.
  private drawLimits(regions: Regions, addresses: Axis): void {
    const { arenaBytes, lowerBoundBytes } = this.content;
    const context = this.context;
    const yOf = (address: number) =>
      regions.upperTop + regions.upperHeight * (1 - (address - addresses.low) / (addresses.high - addresses.low));
    const isShown = (address: number) => address >= addresses.low && address <= addresses.high;
    context.font = `10.5px ${FONT}`;
    context.textAlign = "right";
    context.textBaseline = "bottom";
    const right = regions.left + regions.width - 6;
    const same = arenaBytes === lowerBoundBytes;
    if (isShown(arenaBytes)) {
      this.rule(regions.left, yOf(arenaBytes), regions.width, this.inks.text, []);
      this.outlined(`arena ${formatBytes(arenaBytes)}${same ? ", equal to the lower bound" : ""}`, right, yOf(arenaBytes) - 1,
        this.inks.text);
    }
    if (isShown(lowerBoundBytes)) {
      this.rule(regions.left, yOf(lowerBoundBytes), regions.width, this.inks.bound, BOUND_DASH);
      if (!same) {
        context.textBaseline = "top";
        this.outlined(`no placement takes less than ${formatBytes(lowerBoundBytes)}`, right, yOf(lowerBoundBytes) + 2,
          this.inks.bound);
      }
    }
    context.textAlign = "left";
  }

  /// What the arena may take on the card: a line, or where that is far above the arena, words.
  private drawCard(regions: Regions, addresses: Axis): FrameReport["card"] {
    const { card, persistentBytes, arenaBytes } = this.content;
    if (!card)
      return null;
    const isInState = card.bytes < persistentBytes;
    const axis = isInState ? { low: 0, high: persistentBytes } : addresses;
    const [top, height] = isInState ? [regions.stateTop, regions.stateHeight] : [regions.upperTop, regions.upperHeight];
    const y = top + height * (1 - (card.bytes - axis.low) / (axis.high - axis.low));
    const isShown = y >= top && y <= top + height;
    if (!isShown && card.bytes < addresses.high)
      return null; // below what is zoomed to
    const times = arenaBytes > 0 ? card.bytes / arenaBytes : 1;
    const text = `${card.name}: ${formatBytes(card.bytes)} for the arena${isShown || times < 1.5 ? "" : `, ${times < 10 ? times.toFixed(1) : groupDigits(times)} times as much as it takes`}`;
    const context = this.context;
    context.font = `10.5px ${FONT}`;
    context.textAlign = "left";
    context.textBaseline = isShown && y > top + 14 ? "bottom" : "top";
    if (isShown)
      this.rule(regions.left, y, regions.width, this.inks.card, CARD_DASH);
    this.outlined(isShown ? text : `\u2191 ${text}`, regions.left + 6, isShown ? y + (y > top + 14 ? -1 : 2) : top + 2, this.inks.card);
    return { y: isShown ? y : -1, text };
  }

  private outlined(text: string, x: number, y: number, color: string): void {
    this.context.strokeStyle = this.inks.area;
    this.context.lineWidth = 3;
    this.context.strokeText(text, x, y);
    this.context.fillStyle = color;
    this.context.fillText(text, x, y);
  }

  private drawAxes(regions: Regions, steps: Axis, addresses: Axis): void {
    const context = this.context;
    const xOf = (step: number) => regions.left + (step - steps.low) / (steps.high - steps.low) * regions.width;
    context.font = `10.5px ${FONT}`;
    context.fillStyle = this.inks.faint;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const address of ticks(addresses, Math.max(regions.upperHeight / 42, 2), true)) {
      const y = regions.upperTop + regions.upperHeight * (1 - (address - addresses.low) / (addresses.high - addresses.low));
      if (y < regions.upperTop + 4 || y > regions.upperTop + regions.upperHeight - 2)
        continue;
      context.fillText(formatTick(address), regions.left - 8, y);
      context.fillRect(regions.left - 5, y - 0.5, 4, 1);
    }
    const middle = regions.stateTop + regions.stateHeight / 2, hasTwoLines = regions.stateHeight >= 26;
    if (regions.stateHeight >= 14)
      context.fillText("state", regions.left - 8, hasTwoLines ? middle - 6 : middle);
    if (hasTwoLines)
      context.fillText(formatBytes(this.content.persistentBytes), regions.left - 8, middle + 7);
    this.drawPhases(regions, xOf);
    context.fillStyle = this.inks.faint;
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const step of ticks(steps, regions.width / 90, false))
      context.fillText(groupDigits(step), Math.min(Math.max(xOf(step), regions.left + 4), regions.left + regions.width - 14),
        regions.axisTop + 18);
    context.textAlign = "right";
    context.fillText("command", regions.left - 8, regions.axisTop + 18);
    context.textAlign = "left";
  }

  /// Forward, backward, update: a strip under the map.
  private drawPhases(regions: Regions, xOf: (step: number) => number): void {
    const context = this.context;
    for (const { name: phase, begin, end } of this.phases) {
      const left = Math.max(xOf(begin), regions.left), right = Math.min(xOf(end), regions.left + regions.width);
      if (!phase || left >= right)
        continue;
      context.fillStyle = this.inks.phases[phase] ?? this.inks.grid;
      context.fillRect(left, regions.axisTop + 3, right - left, 12);
      if (right - left > 56) {
        context.fillStyle = this.inks.text;
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillText(phase, (left + right) / 2, regions.axisTop + 9.5);
      }
    }
  }

  /// Copies as bars where they are predicted to pass, each on a line from its start to its await, and the gaps of commands that
  /// wait for them.
  private drawLanes(regions: Regions, steps: Axis, report: FrameReport): void {
    const { graph, coloring, matches, selected, pointed } = this.content;
    const context = this.context;
    const xOf = (step: number) => regions.left + (step - steps.low) / (steps.high - steps.low) * regions.width;
    const height = LANE - 3;
    context.save();
    context.font = `10.5px ${FONT}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const isOut of [true, false]) {
      const top = laneTop(regions, isOut);
      context.fillStyle = this.inks.area;
      context.fillRect(regions.left, top, regions.width, height);
      context.fillStyle = this.inks.faint;
      context.fillText(isOut ? "copies out" : "copies in", regions.left - 8, top + height / 2);
    }
    context.beginPath();
    context.rect(regions.left, regions.lanesTop, regions.width, regions.lanesHeight);
    context.clip();
    context.textAlign = "left";
    for (const copy of graph.copies) {
      if (copy.await + 1 <= steps.low || copy.start >= steps.high)
        continue;
      const top = laneTop(regions, copy.isOut);
      const isDim = matches !== null && !matches[copy.buffer];
      const color = coloring.categories[coloring.of[copy.buffer]].color;
      context.globalAlpha = isDim ? 0.14 : 1;
      context.fillStyle = this.inks.faint;
      context.fillRect(xOf(copy.start), top + height - 1, xOf(copy.await + 1) - xOf(copy.start), 1);
      const left = xOf(copy.from), width = Math.max(xOf(copy.to) - left, 1);
      context.fillStyle = css(color);
      context.fillRect(left, top, width, height);
      if (copy.waited > 0) {
        this.drawWait(xOf(copy.await), top, xOf(copy.await + 1) - xOf(copy.await), height);
        ++report.waits;
      }
      if (copy.buffer === selected || pointed.includes(copy.buffer)) {
        context.strokeStyle = copy.buffer === selected ? this.inks.strong : this.inks.accent;
        context.lineWidth = 2;
        context.strokeRect(left + 1, top + 1, Math.max(width - 2, 1), height - 2);
      }
      const from = Math.max(left, regions.left), room = Math.min(left + width, regions.left + regions.width) - from;
      if (room >= 34 && !isDim) {
        context.fillStyle = css(inkOn(color), 0.92);
        context.fillText(shorten(copy.name, Math.max(Math.floor((room - 6) / 6.2), 4)), from + 3, top + height / 2, room - 5);
      }
      report.copies.push(copy.name);
    }
    context.restore();
  }

  /// A gap: nothing runs in this column for as long as the copy still takes.
  private drawWait(x: number, y: number, width: number, height: number): void {
    const context = this.context;
    context.fillStyle = this.inks.bound;
    context.fillRect(x, y, 1.5, height);
    context.fillRect(x + width - 1.5, y, 1.5, height);
    for (let at = x; at < x + width; at += 4)
      context.fillRect(at, y + height / 2 - 0.75, 2, 1.5);
  }

  private drawInstant(regions: Regions, steps: Axis, step: number, color: string): void {
    const x = regions.left + (step + 0.5 - steps.low) / (steps.high - steps.low) * regions.width;
    if (x < regions.left || x > regions.left + regions.width)
      return;
    const context = this.context;
    context.strokeStyle = color;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, regions.curveTop);
    context.lineTo(x, regions.axisTop + 2);
    context.stroke();
    context.fillStyle = color;
    context.beginPath();
    context.moveTo(x - 4, regions.curveTop - 5);
    context.lineTo(x + 4, regions.curveTop - 5);
    context.lineTo(x, regions.curveTop + 1);
    context.fill();
  }
}

function minimum(values: Float64Array): number {
  let least = Infinity;
  for (const value of values)
    if (value < least)
      least = value;
  return least;
}
