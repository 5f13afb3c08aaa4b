// The data of the page: plans as columns of numbers and one table of strings.
//
// compiler/PictureData.cpp writes them; README.md describes them. A buffer is its number in its
// graph. What a plan does not know is null or an empty string, and left out of the page.
import { nameByModule } from "./text";

/// What the arena may take on the card that the step is to fit.
export interface Verdict {
  text: string; ///< "Stowage: 20.04 GiB; rtx4090: 23.65 GiB (22.65 GiB usable): fits, 2.61 GiB to spare"
  fits: boolean; spare_bytes: number; ///< negative: what is missing
  card: string; card_bytes: number; usable_bytes: number;
}

export interface Summary {
  model: string;
  arena_bytes: number;
  live_peak_bytes: number;
  lower_bound_bytes: number;
  status: string;
  extra_time_fraction: number;
  extra_time_bound_fraction: number;
  step_seconds: number;
  cost_source: string;
  persistent_bytes: number;
  without_recompute_bytes: number;
  outside_arena_bytes: number; ///< 0: not known
  outside_note?: string;
  verdict?: Verdict; ///< absent where no card is known
  alignment: number;
  notes: string[];
  breakdown: Record<string, number>;
}

/// Columns; those of names hold numbers of strings.
interface RawBuffers {
  name: number[]; kind: number[]; dtype: number[]; shape: number[]; source: number[]; module: number[]; layout: number[];
  reason: number[];
  offset: number[]; size: number[]; logical_size: number[]; begin: number[]; end: number[];
  aliases: number[][]; alias_kinds: number[][]; alias_steps: number[][]; recomputed: number[]; recompute_seconds: (number | null)[];
}

interface RawSteps {
  name: number[]; source: number[]; module: number[]; phase: number[];
  seconds: number[]; ///< 0: not known
  reads: number[][]; writes: number[][]; ///< buffers
  recomputes: (number | null)[];
  implementation: number[]; ///< of a library call that can run in several ways
}

/// What a run took, in seconds per step; lists by command.
export interface Measured {
  threads: number;
  steps: number; ///< the times are means of so many
  input_seconds: number; rest_seconds: number; ///< before and after the commands
  seconds: number[]; least_seconds: number[]; processor_seconds: number[];
}

/// Copies between the arena and slow memory, by their start; seconds as predicted, from the graph's start.
interface RawCopies {
  name: number[]; is_out: number[]; buffer: number[]; bytes: number[]; start: number[]; await: number[];
  begin_seconds: number[]; seconds: number[]; ///< 0: not known
}

interface RawGraph {
  name: string; step_count: number; live_peak_bytes: number; peak_step: number; lower_bound_bytes: number;
  steps: RawSteps; buffers: RawBuffers;
  copies?: RawCopies; ///< absent where nothing travels
  measured?: Measured;
}

export interface FrontierPoint {
  budget: number; arena: number; live_peak: number; seconds: number; bound_seconds: number; method: string;
  plan: number; ///< number in Picture.plans
}

export interface Frontier {
  lower_bound: number; device: string; points: FrontierPoint[];
}

/// What is no recomputation and takes less.
export interface Remedy {
  text: string; gain: number;
  changes: string; ///< whether results change: "no", "yes" or how
}

/// What `stowage explain` says of the fullest graph.
export interface Advice {
  graph: number;
  repeated: { first: number[]; again: number[][]; seconds: number[]; saved: number[] }; ///< columns, by falling savings
  savings: number[]; ///< buffers, cheapest per byte first
  savings_count: number; ///< with those that are not listed
  remedies: Remedy[];
}

export interface RawPicture {
  version: number;
  strings: string[];
  plans: { label: string; summary: Summary; graphs: RawGraph[]; advice?: Advice }[];
  frontier?: Frontier;
  compare?: boolean;
}

/// How a further value comes to lie in a buffer; empty: the plan does not say it.
export type AliasKind = "in_place" | "view" | "part" | "";

export interface Alias {
  name: string; kind: AliasKind;
  step: number; ///< that writes it, or reads a view first; -1: none
}

/// One copy. On the map's axis it is predicted to pass from `from` to `to`, parts of commands included.
export interface Copy {
  name: string; isOut: boolean; buffer: number; bytes: number;
  start: number; await: number; ///< commands: what stands between them runs meanwhile
  seconds: number; ///< on its lane; 0: not known
  from: number; to: number;
  waited: number; ///< seconds that its await is predicted to wait for it
}

/// Lists of numbers, one per item: those of item i are values[starts[i]] to values[starts[i + 1] - 1].
export class Lists {
  constructor(readonly starts: Int32Array, readonly values: Int32Array) {}

  static invert(lists: number[][], count: number): Lists {
    const starts = new Int32Array(count + 1);
    for (const list of lists)
      for (const value of list)
        ++starts[value + 1];
    for (let i = 0; i < count; ++i)
      starts[i + 1] += starts[i];
    const next = starts.slice();
    const values = new Int32Array(starts[count]);
    lists.forEach((list, i) => list.forEach((value) => { values[next[value]++] = i; }));
    return new Lists(starts, values);
  }

  of(i: number): Int32Array { return this.values.subarray(this.starts[i], this.starts[i + 1]); }
}

/// The command that runs at a time, and how much of it has passed, between two commands; `clock` says when each begins. Times are
/// whole nanoseconds, which sums of them miss by less than `rounding`.
function placeOn(clock: Float64Array, seconds: number, low: number, high: number): number {
  const rounding = 1e-10;
  let step = low;
  while (step < high && clock[step + 1] <= seconds + rounding)
    ++step;
  return step === high ? high : step + Math.max(seconds - clock[step], 0) / (clock[step + 1] - Math.min(clock[step], seconds));
}

/// One graph of a plan.
export class Graph {
  readonly name: string;
  readonly stepCount: number;
  readonly livePeak: number;
  readonly peakStep: number;
  readonly lowerBound: number;
  readonly count: number; ///< buffers
  readonly offset: Float64Array;
  readonly size: Float64Array;
  readonly logicalSize: Float64Array;
  readonly begin: Int32Array;
  readonly end: Int32Array;
  readonly live: Float64Array; ///< bytes per step
  readonly firstRun: Int32Array; ///< the buffer that a recomputed one repeats, or -1
  readonly writers: Lists; ///< steps per buffer
  readonly readers: Lists;
  readonly measured: Measured | null;
  readonly copies: Copy[];
  private kinds: Exclude<AliasKind, "">[] | null = null;

  constructor(private readonly raw: RawGraph, private readonly strings: string[]) {
    const buffers = raw.buffers;
    this.name = raw.name;
    this.stepCount = raw.step_count;
    this.livePeak = raw.live_peak_bytes;
    this.peakStep = raw.peak_step;
    this.lowerBound = raw.lower_bound_bytes;
    this.count = buffers.name.length;
    this.offset = Float64Array.from(buffers.offset);
    this.size = Float64Array.from(buffers.size);
    this.logicalSize = Float64Array.from(buffers.logical_size);
    this.begin = Int32Array.from(buffers.begin);
    this.end = Int32Array.from(buffers.end);
    this.live = this.sumLive(() => true);
    this.writers = Lists.invert(raw.steps.writes, this.count);
    this.readers = Lists.invert(raw.steps.reads, this.count);
    this.firstRun = this.findFirstRuns();
    this.measured = raw.measured ?? null;
    this.copies = this.placeCopies();
  }

  /// Where the commands' times are not known, a copy passes at some time between its two commands.
  private placeCopies(): Copy[] {
    const { copies } = this.raw;
    if (!copies)
      return [];
    const clock = new Float64Array(this.stepCount + 1);
    for (let t = 0; t < this.stepCount; ++t)
      clock[t + 1] = clock[t] + this.stepSeconds(t);
    return copies.name.map((id, i): Copy => {
      const start = copies.start[i], end = copies.await[i] + 1, begin = copies.begin_seconds[i], seconds = copies.seconds[i];
      const isKnown = seconds > 0 && clock[this.stepCount] > 0;
      return { name: this.strings[id], isOut: copies.is_out[i] !== 0, buffer: copies.buffer[i], bytes: copies.bytes[i], start, await: end - 1, seconds,
        from: isKnown ? placeOn(clock, begin, start, end) : start, to: isKnown ? placeOn(clock, begin + seconds, start, end) : end,
        waited: this.stepSeconds(end - 1) };
    });
  }

  /// Bytes per step of the buffers that `counts`.
  sumLive(counts: (buffer: number) => boolean): Float64Array {
    const sums = new Float64Array(this.stepCount + 1);
    for (let b = 0; b < this.count; ++b) {
      if (!counts(b))
        continue;
      sums[this.begin[b]] += this.size[b];
      sums[this.end[b]] -= this.size[b];
    }
    for (let t = 0; t < this.stepCount; ++t)
      sums[t + 1] += sums[t];
    return sums.subarray(0, this.stepCount);
  }

  private findFirstRuns(): Int32Array {
    const first = new Int32Array(this.count).fill(-1);
    const { writes, recomputes } = this.raw.steps;
    recomputes.forEach((origin, step) => {
      if (origin === null)
        return;
      for (const clone of writes[step]) {
        if (!this.isRecomputed(clone) || first[clone] >= 0)
          continue;
        const name = this.raw.buffers.name[clone];
        const same = writes[origin].find((b) => this.raw.buffers.name[b] === name && b !== clone);
        const alike = writes[origin].find((b) => b !== clone && this.size[b] === this.size[clone]);
        first[clone] = same ?? alike ?? -1;
      }
    });
    return first;
  }

  bufferName(b: number): string { return this.strings[this.raw.buffers.name[b]]; }
  kindOf(b: number): string { return this.strings[this.raw.buffers.kind[b]]; }
  dtypeOf(b: number): string { return this.strings[this.raw.buffers.dtype[b]]; }
  shapeOf(b: number): string { return this.strings[this.raw.buffers.shape[b]]; }
  sourceOf(b: number): string { return this.strings[this.raw.buffers.source[b]]; }
  layoutOf(b: number): string { return this.strings[this.raw.buffers.layout[b]]; }
  reasonOf(b: number): string { return this.strings[this.raw.buffers.reason[b]]; }
  isRecomputed(b: number): boolean { return this.raw.buffers.recomputed[b] !== 0; }
  aliasesOf(b: number): Alias[] {
    const { aliases, alias_kinds, alias_steps } = this.raw.buffers;
    return aliases[b].map((id, i) => ({
      name: this.strings[id], kind: this.strings[alias_kinds[b][i]] as AliasKind, step: alias_steps[b][i],
    }));
  }
  /// The kinds that occur, in a fixed order.
  aliasKinds(): Exclude<AliasKind, "">[] {
    this.kinds ??= (["in_place", "part", "view"] as const).filter((kind) =>
      this.raw.buffers.alias_kinds.some((list) => list.some((id) => this.strings[id] === kind)));
    return this.kinds;
  }
  hasRecomputed(): boolean { return this.raw.buffers.recomputed.some((flag) => flag !== 0); }
  /// Its kind; computed a second time is one of its own, fetched again is not.
  sortOf(b: number): string { return this.isRecomputed(b) && this.kindOf(b) !== "fetched_weight" ? "recomputed" : this.kindOf(b); }
  recomputeSeconds(b: number): number | null { return this.raw.buffers.recompute_seconds[b]; }
  isLive(b: number, step: number): boolean { return this.begin[b] <= step && step < this.end[b]; }
  /// What an activation or a gradient that is live at a step is there for: used by it, or waiting for a
  /// later reader; null where neither is so, or where it is state.
  waitAt(b: number, step: number): number | "used" | null {
    if (!this.isLive(b, step) || (this.begin[b] === 0 && this.end[b] === this.stepCount))
      return null;
    const readers = this.readers.of(b);
    if (readers.includes(step) || this.writers.of(b).includes(step))
      return "used";
    return readers.find((reader) => reader > step) ?? null;
  }
  clonesOf(b: number): number[] {
    const clones: number[] = [];
    this.firstRun.forEach((first, clone) => { if (first === b) clones.push(clone); });
    return clones;
  }

  /// The user's module, by its parts: ["layer1", "0", "conv1"].
  modulePath(b: number): string[] {
    const module = this.strings[this.raw.buffers.module[b]];
    return module ? module.split(".") : [];
  }

  /// How a person finds it: by its module, where that is known.
  label(b: number): string { return nameByModule(this.bufferName(b), this.strings[this.raw.buffers.module[b]] ?? ""); }
  stepLabel(step: number): string { return nameByModule(this.stepName(step), this.stepModule(step)); }

  stepName(step: number): string { return this.strings[this.raw.steps.name[step]] ?? ""; }
  stepModule(step: number): string { return this.strings[this.raw.steps.module[step]] ?? ""; }
  writesOf(step: number): number[] { return this.raw.steps.writes[step] ?? []; }
  phaseOf(step: number): string { return this.strings[this.raw.steps.phase[step]] ?? ""; }
  /// Stretches of steps of one phase.
  phases(): { name: string; begin: number; end: number }[] {
    const phases: { name: string; begin: number; end: number }[] = [];
    for (let t = 0; t < this.stepCount; ++t) {
      const last = phases[phases.length - 1];
      if (last?.name === this.phaseOf(t))
        last.end = t + 1;
      else
        phases.push({ name: this.phaseOf(t), begin: t, end: t + 1 });
    }
    return phases;
  }
  implementationOf(step: number): string { return this.strings[this.raw.steps.implementation?.[step]] ?? ""; }
  stepSeconds(step: number): number { return this.raw.steps.seconds[step] ?? 0; }

  /// What the command took that makes the buffer, the first that writes it; 0 where that is not known.
  makingSeconds(b: number): number {
    const writers = this.writers.of(b);
    return this.measured && writers.length ? this.measured.seconds[writers[0]] : 0;
  }

  /// Buffers live at `step`, largest first, ties in the plan's order.
  liveAt(step: number): number[] {
    const found: number[] = [];
    for (let b = 0; b < this.count; ++b)
      if (this.isLive(b, step))
        found.push(b);
    return found.sort((a, b) => this.size[b] - this.size[a] || a - b);
  }
}

export interface Plan {
  label: string;
  summary: Summary;
  graphs: Graph[];
  measuredGraph: number; ///< the one whose commands' times a run has measured, or -1
  advice: Advice | null; ///< null for a plan without steps
}

export interface Picture {
  plans: Plan[];
  frontier: Frontier | null;
  compare: boolean;
}

/// The compiler's library of types does not know it yet.
declare class DecompressionStream implements GenericTransformStream {
  constructor(format: "deflate");
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

/// The page's data as text: base64 of zlib's format of JSON in UTF-8.
export async function unpack(text: string): Promise<RawPicture> {
  const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/// Graphs are made when they are looked at first: a frontier's file has many.
export function openPicture(raw: RawPicture): Picture {
  if (raw.version !== 1)
    throw new Error(`this page reads pictures of version 1, found ${raw.version}`);
  const plans = raw.plans.map((plan): Plan => {
    const made: (Graph | undefined)[] = [];
    const graphs: Graph[] = [];
    plan.graphs.forEach((graph, i) => Object.defineProperty(graphs, i, {
      enumerable: true, get: () => made[i] ??= new Graph(graph, raw.strings),
    }));
    return { label: plan.label, summary: plan.summary, graphs, advice: plan.advice ?? null,
      measuredGraph: plan.graphs.findIndex((graph) => graph.measured) };
  });
  return { plans, frontier: raw.frontier ?? null, compare: raw.compare ?? false };
}
