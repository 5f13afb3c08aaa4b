// The plan as a whole, where no buffer is chosen: what fills the arena, what lies outside of it, what
// is computed twice and what that buys, and the ways to less.
import { colorOfKind, css } from "./colors";
import { element } from "./dom";
import type { Plan, Remedy } from "./plan";
import { formatBytes, formatBytesExact, formatPercent, formatSeconds, groupDigits, shorten } from "./text";

export interface OverviewEvents {
  /// A buffer of a graph of the plan.
  select(graph: number, buffer: number): void;
  /// A command of a graph of the plan.
  pin(graph: number, step: number): void;
}

const LISTED = 5;

/// The parts of the sum that closes: the key of `breakdown`, how it is called, and the kind whose colour it has.
const PARTS: [string, string, string][] = [
  ["parameters", "parameters", "parameter"], ["frozen", "frozen weights", "frozen"], ["statistics", "statistics", "statistic"],
  ["optimizer", "optimizer", "optimizer"],
  ["fetched_weight", "weights, fetched", "fetched_weight"], ["fetched_optimizer", "optimizer, fetched", "fetched_optimizer"], ["data_set", "data set", "data_set"],
  ["accumulators", "sums of gradients", "accumulator"], ["gradients", "gradients", "gradient"],
  ["activations", "activations", "activation"], ["workspace", "workspace of library calls", "workspace"],
  ["inputs", "inputs", "input"], ["outputs", "outputs", "output"],
  ["layout_padding", "padding of layouts", ""], ["padding", "alignment and gaps", ""],
];

export interface Part {
  name: string; kind: string; bytes: number;
}

/// What the arena holds at its fullest moment, without what is not there. Adds up to the arena.
export function partsOf(plan: Plan): Part[] {
  return PARTS.map(([key, name, kind]) => ({ name, kind, bytes: plan.summary.breakdown[key] ?? 0 })).filter(({ bytes }) => bytes > 0);
}

function bytesCell(bytes: number): HTMLElement {
  return element("td", { class: "number", title: formatBytesExact(bytes) }, formatBytes(bytes));
}

/// Rows of a table, the first of them at once and the others on demand.
function rowsOf(count: number, columns: number, make: (i: number) => HTMLElement): HTMLElement {
  const body = element("tbody");
  const add = (from: number, to: number): void => {
    for (let i = from; i < to; ++i)
      body.append(make(i));
  };
  const atOnce = count <= LISTED + 1 ? count : LISTED;
  add(0, atOnce);
  if (count > atOnce) {
    const more = element("tr", {}, element("td", { colspan: columns }, element("button", { type: "button", class: "link",
      onclick: () => {
        more.remove();
        add(atOnce, Math.min(count, 2000));
      } }, `${groupDigits(count - atOnce)} more`)));
    body.append(more);
  }
  return body;
}

/// Headings, of numbers all but the last.
function heads(...texts: string[]): HTMLElement {
  return element("thead", {}, element("tr", {}, ...texts.map((text, i) =>
    element("th", { scope: "col", class: i + 1 < texts.length ? "number" : "" }, text))));
}

function fold(title: string, isOpen: boolean, ...content: (HTMLElement | null)[]): HTMLElement {
  return element("details", { open: isOpen }, element("summary", {}, title), ...content);
}

function sums(plan: Plan, events: OverviewEvents): HTMLElement {
  const { summary, advice } = plan;
  const arena = summary.arena_bytes;
  const row = (name: string, bytes: number, kind: string, isTotal = false): HTMLElement => {
    const share = bytes / Math.max(arena, 1);
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(share * 100, 1)}%`;
    bar.style.background = kind ? css(colorOfKind(kind)) : "";
    return element("tr", { class: isTotal ? "total" : "" }, element("th", { scope: "row" }, name), bytesCell(bytes),
      element("td", { class: "number" }, isTotal ? "" : share < 5e-4 ? "< 0.1 %" : formatPercent(share)),
      element("td", { class: "share" }, isTotal ? null : bar));
  };
  const rows = partsOf(plan).map(({ name, bytes, kind }) => row(name, bytes, kind));
  rows.push(row("the arena", arena, "", true));
  if (summary.outside_arena_bytes > 0) {
    rows.push(row("outside of it", summary.outside_arena_bytes, "", true));
    if (summary.outside_note)
      rows.push(row("the process", arena + summary.outside_arena_bytes, "", true));
  }
  const graph = advice && plan.graphs[advice.graph];
  // Whoever lowers the peak has to lower these, too.
  const near = graph ? graph.live.filter((bytes) => bytes >= 0.95 * graph.livePeak).length - 1 : 0;
  const peak = advice && graph && element("p", {}, `Fullest in ${shorten(graph.name, 30)} at `, element("button",
    { type: "button", class: "link", onclick: () => events.pin(advice.graph, graph.peakStep) },
    `command ${groupDigits(graph.peakStep)} of ${groupDigits(graph.stepCount)}`), near > 0 ?
    `; ${groupDigits(near)} more come${near === 1 ? "s" : ""} within 5\u00a0%.` : "; no other comes within 5\u00a0%.");
  return fold("What fills the arena at its fullest", true, peak ?? null, element("table", { id: "sums" }, element("tbody", {}, ...rows)));
}

/// How it was packed, what lies outside, and what else is to be said: read once.
function notes({ summary }: Plan): HTMLElement {
  return fold("Notes", true, element("p", { class: "hint" }, `Packing: ${shorten(summary.status || "unknown", 60)}` +
      (summary.lower_bound_bytes === summary.arena_bytes ? ", equal to the lower bound" : `; the lower bound is ${formatBytesExact(summary.lower_bound_bytes)}`)),
    summary.outside_note ? element("p", { class: "hint" }, `Outside the arena: ${shorten(summary.outside_note, 1000)}`) : null,
    ...(summary.notes ?? []).map((note) => element("p", { class: "hint" }, shorten(note, 1000))));
}

function repeated(plan: Plan, events: OverviewEvents): HTMLElement {
  const { summary, advice } = plan;
  const runs = advice!.repeated, graph = plan.graphs[advice!.graph];
  const count = runs.first.length;
  if (!count)
    return fold("Computed twice", false, element("p", {}, "Nothing is: every activation is kept until its last reader."));
  const again = runs.again.reduce((sum, steps) => sum + steps.length, 0);
  const seconds = runs.seconds.reduce((sum, each) => sum + each, 0);
  const share = `${formatPercent(summary.extra_time_fraction)} more time`;
  const bound = summary.extra_time_bound_fraction > 0 ?
    ` (no plan in this memory takes less than ${formatPercent(summary.extra_time_bound_fraction)})` : "";
  const bought = summary.without_recompute_bytes - summary.arena_bytes;
  const row = (i: number): HTMLElement => {
    const [last] = runs.again[i].slice(-1);
    // What is made again inside another buffer, a concat's for example, is no buffer of its own.
    const written = graph.writesOf(last);
    const made = written.find((b) => graph.isRecomputed(b)) ?? written.find((b) => graph.kindOf(b) !== "workspace") ?? -1;
    return element("tr", {}, bytesCell(runs.saved[i]), element("td", { class: "number" }, runs.seconds[i] > 0 ? formatSeconds(runs.seconds[i]) : ""),
      element("td", { class: "number" }, groupDigits(1 + runs.again[i].length)),
      element("td", { title: shorten(graph.stepName(runs.first[i]), 300) }, element("button", { type: "button", class: "link name", onclick: () =>
        made >= 0 ? events.select(advice!.graph, made) : events.pin(advice!.graph, last) }, shorten(graph.stepLabel(runs.first[i]), 70))));
  };
  return fold(`Computed twice: ${groupDigits(again)} of ${groupDigits(graph.stepCount)} commands`, true,
    element("p", {}, seconds > 0 ? `${formatSeconds(seconds)}, ${share}${bound}. ` : "",
      bought > 0 ? `That buys ${formatBytes(bought)}: ${formatBytes(summary.arena_bytes)} instead of ${formatBytes(summary.without_recompute_bytes)}.` : ""),
    element("table", { id: "repeated" }, heads("Off the peak", "Time", "Runs", "What"), rowsOf(count, 4, row)));
}

/// What commands, library calls above all, need for themselves alone, and how they run.
function scratch(plan: Plan, events: OverviewEvents): HTMLElement | null {
  const { advice } = plan, graph = plan.graphs[advice!.graph];
  const found = Array.from({ length: graph.count }, (_, b) => b).filter((b) => graph.kindOf(b) === "workspace" && graph.size[b] > 0)
    .sort((a, b) => graph.size[b] - graph.size[a] || a - b);
  if (!found.length)
    return null;
  const row = (i: number): HTMLElement => {
    const b = found[i], step = graph.begin[b], how = graph.implementationOf(step);
    const what = `${graph.stepLabel(step)}${how ? `, ${how}` : ""}`;
    return element("tr", {}, bytesCell(graph.size[b]), element("td", { class: "number" }, groupDigits(step)),
      element("td", { title: shorten(what, 300) }, element("button", { type: "button", class: "link name",
        onclick: () => events.select(advice!.graph, b) }, shorten(what, 90))));
  };
  return fold(`Workspace of ${groupDigits(found.length)} commands`, false,
    element("table", { id: "scratch" }, heads("Bytes", "Step", "What"), rowsOf(found.length, 3, row)));
}

function less(plan: Plan, events: OverviewEvents): HTMLElement {
  const advice = plan.advice!, graph = plan.graphs[advice.graph];
  const row = (i: number): HTMLElement => {
    const b = advice.savings[i], seconds = graph.recomputeSeconds(b) ?? 0;
    return element("tr", {}, bytesCell(graph.size[b]), element("td", { class: "number" }, formatSeconds(seconds)),
      element("td", { title: shorten(graph.bufferName(b), 300) }, element("button", { type: "button", class: "link name", onclick: () => events.select(advice.graph, b) },
        shorten(graph.label(b), 70))));
  };
  const rest = advice.savings_count - advice.savings.length;
  const cheapest = advice.savings.length ?
    [element("p", {}, "Kept over the peak and cheapest per byte to compute again after it; --memory-budget decides which:"),
      element("table", { id: "savings" }, heads("Bytes", "Time", "What"), rowsOf(advice.savings.length, 3, row)),
      element("p", { class: "hint" }, rest > 0 ? `${groupDigits(rest)} dearer ones are not listed. ` : "",
        "An estimate: the peak moves when it is lowered, and what is computed again needs its operands.")] :
    [element("p", {}, "Nothing that is live at the peak could be computed again later: it is state, in use then, or of unknown price.")];
  const changes = (answer: string): string => answer === "no" ? "" : answer === "yes" ? "; changes results" : `; changes results ${answer}`;
  const other = (remedy: Remedy): HTMLElement => element("li", {}, element("strong", { title: formatBytesExact(remedy.gain) },
    formatBytes(remedy.gain)), ` ${shorten(remedy.text, 1200)}${changes(remedy.changes)}`);
  return fold("Where it could be smaller", true, ...cheapest,
    advice.remedies.length ? element("p", {}, "Other ways, by what they gain:") : null,
    element("ul", { id: "remedies" }, ...advice.remedies.map(other)));
}

/// Made once per plan, so that what a reader has opened stays open.
const made = new WeakMap<Plan, HTMLElement>();

export function showOverview(into: HTMLElement, plan: Plan, events: OverviewEvents): void {
  let overview = made.get(plan);
  if (!overview)
    made.set(plan, overview = element("div", { class: "overview" }, sums(plan, events),
      ...(plan.advice ? [less(plan, events), repeated(plan, events), scratch(plan, events)].filter((part) => part !== null) : []), notes(plan)));
  if (into.firstChild !== overview || into.childNodes.length !== 1)
    into.replaceChildren(overview);
}
