// The map: time to the right, addresses upwards, on one canvas.
//
//   +--------------------------------------+
//   |  live bytes by category, arena line  |  curve
//   +--------------------------------------+
//   |  transient buffers                   |  upper: zoomed in both directions
//   +--------------------------------------+
//   |  parameters and other state          |  state: a height of its own, all of it
//   +--------------------------------------+
//   |  copies out, copies in               |  lanes: where something travels to slow memory
//   +--------------------------------------+
//   |  phases of the step, steps           |  axis
//   +--------------------------------------+
//
// State lives all the time and is often either most of the arena or hardly any of it; its own scale
// lets a large model still show its activations.
import { Coloring } from "./colors";
import { Graph, Summary } from "./plan";
import { shorten } from "./text";
import { Axis, around, held, moved, zoomed } from "./view";
import { laneTop, MapPainter, Regions, regionsOf } from "./paint";

export interface MapEvents {
  /// The pointer is over a buffer, or over none (-1), at a step (-1: outside).
  hover(buffer: number, step: number, x: number, y: number): void;
  select(buffer: number): void;
  pin(step: number): void;
}

export interface MapContent {
  graph: Graph;
  coloring: Coloring;
  persistentBytes: number;
  arenaBytes: number;
  lowerBoundBytes: number;
  ceilingBytes: number;            ///< top of the addresses: ceilingOf the plan, or the larger one of two
  card: { name: string; bytes: number } | null; ///< what the arena may take on it
  matches: Uint8Array | null;      ///< of a search: 1 where it matches
  selected: number;
  pointed: number[]; ///< outlined
  instant: number;
  hoverStep: number;
  isDark: boolean;
  showLinks: boolean;
}

/// What a plan says of its card, for the map.
export function cardOf({ verdict }: Summary): MapContent["card"] {
  return verdict ? { name: shorten(verdict.card, 30), bytes: verdict.usable_bytes } : null;
}

/// The map reaches up to the card's line, unless most of it would be empty.
export function ceilingOf(summary: Summary): number {
  const usable = summary.verdict?.usable_bytes ?? 0;
  return usable <= 1.5 * summary.arena_bytes ? Math.max(summary.arena_bytes, usable) : summary.arena_bytes;
}

const LEAST_STEPS = 4;
const LEAST_BYTES = 256;

export class MapView {
  private content: MapContent | null = null;
  private steps: Axis = { low: 0, high: 1 };
  private addresses: Axis = { low: 0, high: 1 };
  private frame = 0;
  private readonly painter: MapPainter;
  private readonly pointers = new Map<number, PointerEvent>();
  private dragged = 0;
  /// A second map whose time moves with this one's.
  companion: MapView | null = null;

  constructor(readonly canvas: HTMLCanvasElement, private readonly events: MapEvents) {
    this.painter = new MapPainter(canvas);
    new ResizeObserver(() => this.redraw()).observe(canvas);
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    // A finger leaves when it is lifted: what it has touched stays named until the next touch.
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch")
        this.events.hover(-1, -1, 0, 0);
    });
    canvas.addEventListener("dblclick", (event) => {
      const b = this.bufferAt(event.offsetX, event.offsetY);
      if (b >= 0)
        this.reveal(b);
      else
        this.reset();
    });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  /// What is drawn from now on. The part that is shown stays, unless the graph is another.
  show(content: MapContent): void {
    const isNew = this.content?.graph !== content.graph || this.content.ceilingBytes !== content.ceilingBytes;
    this.content = content;
    if (isNew)
      this.reset();
    this.redraw();
  }

  reset(): void {
    this.steps = { ...this.stepLimits() };
    this.addresses = { ...this.addressLimits() };
    this.changed();
  }

  /// Zooms by `factor` (below 1: closer) around the middle, or a point of the canvas.
  zoom(factor: number, x?: number, y?: number, both: "both" | "time" | "address" = "both"): void {
    const regions = this.regions();
    const step = this.stepAtPixel(x ?? regions.left + regions.width / 2);
    const address = this.addressAtPixel(y ?? regions.upperTop + regions.upperHeight / 2);
    if (both !== "address")
      this.steps = zoomed(this.steps, step, factor, this.stepLimits(), LEAST_STEPS);
    if (both !== "time")
      this.addresses = zoomed(this.addresses, address, factor, this.addressLimits(), LEAST_BYTES);
    this.changed();
  }

  /// Moves by shares of what is shown: 1 is a whole screen.
  pan(right: number, up: number): void {
    this.steps = moved(this.steps, right * (this.steps.high - this.steps.low), this.stepLimits());
    this.addresses = moved(this.addresses, up * (this.addresses.high - this.addresses.low), this.addressLimits());
    this.changed();
  }

  /// Shows the buffer with what is around it.
  reveal(b: number): void {
    const graph = this.content!.graph;
    this.steps = around(graph.begin[b], graph.end[b], 1, this.stepLimits());
    if (graph.offset[b] >= this.content!.persistentBytes)
      this.addresses = around(graph.offset[b], graph.offset[b] + graph.size[b], 1.5, this.addressLimits());
    this.changed();
  }

  /// Brings the step onto the screen where it is not, at the same zoom.
  revealStep(step: number): void {
    if (step < this.steps.low || step + 1 > this.steps.high)
      this.steps = moved(this.steps, step + 0.5 - (this.steps.low + this.steps.high) / 2, this.stepLimits());
    this.changed();
  }

  /// Whether the buffer is on the screen, at least in part.
  shows(b: number): boolean {
    const { graph, persistentBytes } = this.content!;
    const inTime = graph.begin[b] < this.steps.high && graph.end[b] > this.steps.low;
    return inTime && (graph.offset[b] < persistentBytes ||
      (graph.offset[b] < this.addresses.high && graph.offset[b] + graph.size[b] > this.addresses.low));
  }

  /// Pixels of the canvas in which the buffer's middle lies; tests move the pointer there.
  placeOf(b: number): { x: number; y: number } {
    const graph = this.content!.graph;
    const regions = this.regions();
    const middleStep = (Math.max(graph.begin[b], this.steps.low) + Math.min(graph.end[b], this.steps.high)) / 2;
    const x = regions.left + (middleStep - this.steps.low) / (this.steps.high - this.steps.low) * regions.width;
    const middle = graph.offset[b] + graph.size[b] / 2;
    const y = graph.offset[b] < this.content!.persistentBytes
      ? regions.stateTop + regions.stateHeight * (1 - middle / this.content!.persistentBytes)
      : regions.upperTop + regions.upperHeight * (1 - (middle - this.addresses.low) / (this.addresses.high - this.addresses.low));
    return { x, y };
  }

  placeOfStep(step: number): { x: number; y: number } {
    const regions = this.regions();
    const share = (step + 0.5 - this.steps.low) / (this.steps.high - this.steps.low);
    return { x: regions.left + share * regions.width, y: regions.curveTop + regions.curveHeight / 2 };
  }

  /// For tests and the curious.
  state() {
    return { ...this.painter.lastFrame, steps: { ...this.steps }, addresses: { ...this.addresses } };
  }

  redraw(): void {
    if (this.frame || !this.content)
      return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.content && this.canvas.clientWidth > 0)
        this.painter.paint(this.content, this.steps, this.addresses);
    });
  }

  private changed(): void {
    this.redraw();
    if (this.companion?.content) {
      const limits = this.companion.stepLimits();
      const scale = (limits.high - limits.low) / (this.stepLimits().high - this.stepLimits().low);
      this.companion.steps = held({ low: this.steps.low * scale, high: this.steps.high * scale }, limits);
      this.companion.addresses = held({ ...this.addresses }, this.companion.addressLimits());
      this.companion.redraw();
    }
  }

  private stepLimits(): Axis { return { low: 0, high: Math.max(this.content?.graph.stepCount ?? 1, 1) }; }
  private addressLimits(): Axis {
    const top = this.content?.ceilingBytes ?? 1;
    const bottom = Math.min(this.content?.persistentBytes ?? 0, top);
    return top > bottom ? { low: bottom, high: top + (top - bottom) * 0.03 } : { low: bottom, high: bottom + 1 };
  }
  private regions(): Regions {
    return regionsOf(this.canvas.clientWidth, this.canvas.clientHeight, this.content!);
  }
  private stepAtPixel(x: number): number {
    const regions = this.regions();
    return this.steps.low + (x - regions.left) / regions.width * (this.steps.high - this.steps.low);
  }
  private addressAtPixel(y: number): number {
    const regions = this.regions();
    const share = 1 - (y - regions.upperTop) / regions.upperHeight;
    return this.addresses.low + share * (this.addresses.high - this.addresses.low);
  }

  /// Pixels of the canvas in which a copy's bar begins; tests move the pointer there.
  placeOfCopy(number: number): { x: number; y: number } {
    const regions = this.regions(), { from, to, isOut } = this.content!.graph.copies[number];
    const middle = ((from + to) / 2 - this.steps.low) / (this.steps.high - this.steps.low);
    return { x: regions.left + middle * regions.width, y: laneTop(regions, isOut) + 4 };
  }

  /// The copy whose bar, or line from start to await, is under a point of the canvas; -1: none.
  copyAt(x: number, y: number): number {
    const regions = this.regions();
    if (y < regions.lanesTop || y >= regions.lanesTop + regions.lanesHeight || x < regions.left || x > regions.left + regions.width)
      return -1;
    const { copies } = this.content!.graph;
    const isOut = y < laneTop(regions, false), step = this.stepAtPixel(x);
    const slack = 3 * (this.steps.high - this.steps.low) / regions.width;
    const on = copies.findIndex((copy) => copy.isOut === isOut && copy.from - slack <= step && step <= copy.to + slack);
    return on >= 0 ? on : copies.findIndex((copy) => copy.isOut === isOut && copy.start <= step && step < copy.await + 1);
  }

  /// The buffer under a point of the canvas, or of the copy there; of those too thin to hit, one at most 3 pixels away.
  bufferAt(x: number, y: number): number {
    const regions = this.regions();
    const { graph, persistentBytes } = this.content!;
    const copy = this.copyAt(x, y);
    if (copy >= 0)
      return graph.copies[copy].buffer;
    const inState = y >= regions.stateTop && y < regions.stateTop + regions.stateHeight;
    const inUpper = y >= regions.upperTop && y < regions.upperTop + regions.upperHeight;
    if ((!inState && !inUpper) || x < regions.left || x > regions.left + regions.width)
      return -1;
    const step = this.stepAtPixel(x);
    const address = inState ? (1 - (y - regions.stateTop) / regions.stateHeight) * persistentBytes : this.addressAtPixel(y);
    const perStep = regions.width / (this.steps.high - this.steps.low);
    const perByte = inState ? regions.stateHeight / persistentBytes
      : regions.upperHeight / (this.addresses.high - this.addresses.low);
    let best = -1, bestDistance = 3;
    for (let b = 0; b < graph.count; ++b) {
      if ((graph.offset[b] < persistentBytes) !== inState || graph.size[b] === 0)
        continue;
      const dx = Math.max(graph.begin[b] - step, step - graph.end[b], 0) * perStep;
      const dy = Math.max(graph.offset[b] - address, address - graph.offset[b] - graph.size[b], 0) * perByte;
      const distance = Math.max(dx, dy);
      if (distance < bestDistance) {
        best = b;
        bestDistance = distance;
      }
    }
    return best;
  }

  private onWheel(event: WheelEvent): void {
    if (!this.content)
      return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan(event.deltaX * unit / this.regions().width, 0);
      return;
    }
    const factor = Math.exp(Math.max(Math.min(event.deltaY * unit, 200), -200) * 0.002);
    this.zoom(factor, event.offsetX, event.offsetY, event.shiftKey ? "time" : event.altKey ? "address" : "both");
  }

  private onDown(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event);
    this.dragged = 0;
    if (event.pointerType === "touch")
      this.events.hover(-1, -1, 0, 0);
  }

  private onMove(event: PointerEvent): void {
    if (!this.content)
      return;
    const before = this.pointers.get(event.pointerId);
    const regions = this.regions();
    if (!before) {
      const isInside = event.offsetX >= regions.left && event.offsetX <= regions.left + regions.width;
      const step = isInside ? this.stepNear(event.offsetX) : -1;
      this.events.hover(this.bufferAt(event.offsetX, event.offsetY), step, event.clientX, event.clientY);
      return;
    }
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    if (this.pointers.size === 2) {
      const other = [...this.pointers.values()].find((p) => p.pointerId !== event.pointerId)!;
      const apart = (p: PointerEvent) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY);
      const bounds = this.canvas.getBoundingClientRect();
      this.zoom(apart(before) / Math.max(apart(event), 1), (event.clientX + other.clientX) / 2 - bounds.left,
        (event.clientY + other.clientY) / 2 - bounds.top);
    }
    this.dragged += Math.abs(dx) + Math.abs(dy);
    if (this.dragged > 3)
      this.pan(-dx / regions.width, dy / regions.upperHeight);
    this.pointers.set(event.pointerId, event);
  }

  private onUp(event: PointerEvent): void {
    const wasDown = this.pointers.delete(event.pointerId);
    if (!wasDown || this.dragged > 3 || !this.content)
      return;
    const regions = this.regions();
    if (event.offsetY < regions.upperTop || event.offsetY >= regions.lanesTop + regions.lanesHeight)
      this.events.pin(this.stepNear(event.offsetX));
    else {
      const buffer = this.bufferAt(event.offsetX, event.offsetY);
      this.events.select(buffer);
      if (event.pointerType === "touch")
        this.events.hover(buffer, -1, event.clientX, event.clientY);
    }
  }

  private stepNear(x: number): number {
    return Math.min(Math.max(Math.floor(this.stepAtPixel(x)), 0), this.content!.graph.stepCount - 1);
  }

  private onKey(event: KeyboardEvent): void {
    const part = event.shiftKey ? 0.5 : 0.1;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.pan(-part, 0), ArrowRight: () => this.pan(part, 0),
      ArrowUp: () => this.pan(0, part), ArrowDown: () => this.pan(0, -part),
      "+": () => this.zoom(0.8), "=": () => this.zoom(0.8), "-": () => this.zoom(1.25), "0": () => this.reset(),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (!action)
      return;
    event.preventDefault();
    action();
  }
}
