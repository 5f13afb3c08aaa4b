// Everything that a plan says about one buffer.
import { element } from "./dom";
import { Copy, Graph, Summary } from "./plan";
import { formatBytesExact, formatPercent, formatSeconds, groupDigits, shorten, visible } from "./text";

export interface DetailsEvents {
  select(buffer: number): void;
  pin(step: number): void;
  reveal(buffer: number): void;
  close(): void;
  enter(module: string[]): void; ///< shows a module alone in the treemap
}

const SHOWN_CHARACTERS = 300;
const LISTED = 12;

const ALIAS_WORDS = { in_place: "written over it at", view: "a view of it, first read at", part: "a part of it, written at" };

/// Text of any length: its ends, and all of it on demand.
export function longText(text: string, limit = SHOWN_CHARACTERS): HTMLElement {
  const made = element("span", { class: "name" }, shorten(text, limit));
  if (text.length <= limit)
    return made;
  const all = element("button", { type: "button", class: "link", onclick: () => made.replaceChildren(visible(text)) },
    `show all ${groupDigits(text.length)} characters`);
  made.append(" ", all);
  return made;
}

/// Buttons for the first of them, the rest on demand.
function listed(count: number, make: (i: number) => HTMLElement): HTMLElement {
  const list = element("ul", { class: "plain" });
  const add = (from: number, to: number): void => {
    for (let i = from; i < to; ++i)
      list.append(element("li", {}, make(i)));
  };
  add(0, Math.min(count, LISTED));
  if (count > LISTED) {
    const more = element("li", {}, element("button", {
      type: "button", class: "link", onclick: () => {
        more.remove();
        add(LISTED, Math.min(count, 2000));
      },
    }, `${groupDigits(count - LISTED)} more`));
    list.append(more);
  }
  return list;
}

/// `instant` is the step that is looked at.
export function showDetails(into: HTMLElement, graph: Graph, summary: Summary, b: number, instant: number, events: DetailsEvents): void {
  const list = element("dl", {});
  const row = (term: string, ...value: (Node | string)[]): void => {
    if (value.length && value[0] !== "")
      list.append(element("dt", {}, term), element("dd", {}, ...value));
  };
  const step = (t: number): HTMLElement => element("button",
    { type: "button", class: "link", onclick: () => events.pin(t), title: "look at this command" },
    `${groupDigits(t)}  ${shorten(graph.stepLabel(t), 70)}${graph.implementationOf(t) ? `, by ${shorten(graph.implementationOf(t), 60)}` : ""}`);
  const buffer = (other: number): HTMLElement => element("button",
    { type: "button", class: "link", onclick: () => events.select(other) }, shorten(graph.label(other), 60));

  if (graph.label(b) !== graph.bufferName(b))
    row("In the plan", longText(graph.bufferName(b), 120));
  row("Kind", graph.isRecomputed(b) ? `${graph.kindOf(b)}, computed a second time` : graph.kindOf(b));
  row("Why", graph.reasonOf(b));
  row("Shape", `${graph.shapeOf(b) || "scalar"}  ${graph.dtypeOf(b)}`);
  row("Layout", graph.layoutOf(b));
  const padding = graph.size[b] - graph.logicalSize[b];
  row("Size", formatBytesExact(graph.size[b]) + (padding > 0 ? `, of them ${formatBytesExact(padding)} padding of its layout` : ""));
  row("Offset", formatBytesExact(graph.offset[b]));
  row("Lives", `commands ${groupDigits(graph.begin[b])} to ${groupDigits(graph.end[b] - 1)} of ${groupDigits(graph.stepCount)}` +
    (graph.isLive(b, graph.peakStep) ? ", also at the peak" : ""));
  const now = instant === graph.peakStep ? "at the peak" : `at command ${groupDigits(instant)}`;
  const waits = graph.waitAt(b, instant);
  if (waits === "used")
    row("In use", `by the command ${now}`);
  else if (typeof waits === "number")
    row("Waits", `${now}, for `, step(waits));
  priceOf(row, graph, summary, b);
  if (graph.modulePath(b).length)
    row("Module", element("button", { type: "button", class: "link name", title: "show it alone in the treemap",
      onclick: () => events.enter(graph.modulePath(b)) }, shorten(graph.modulePath(b).join("."), SHOWN_CHARACTERS)));
  row("Made by", longText(graph.sourceOf(b)));
  if (graph.firstRun[b] >= 0)
    row("First run", buffer(graph.firstRun[b]));
  const clones = graph.clonesOf(b);
  if (clones.length)
    row("Run again", listed(clones.length, (i) => buffer(clones[i])));
  if (graph.writers.of(b).length)
    row("Written at", listed(graph.writers.of(b).length, (i) => step(graph.writers.of(b)[i])));
  if (graph.readers.of(b).length)
    row("Read at", listed(graph.readers.of(b).length, (i) => step(graph.readers.of(b)[i])));
  const copies = graph.copies.filter(({ buffer: of }) => of === b);
  if (copies.length)
    row("Travels", listed(copies.length, (i) => element("span", {}, copyText(copies[i]), ", from ", step(copies[i].start), " to ", step(copies[i].await))));
  const aliases = graph.aliasesOf(b);
  if (aliases.length)
    row("Also here", listed(aliases.length, (i) => {
      const { name, kind, step: at } = aliases[i];
      return element("span", {}, longText(name, 80), kind ? `, ${ALIAS_WORDS[kind]} ` : "", at < 0 ? "" : step(at));
    }));

  const title = element("h3", { tabindex: -1 }, longText(graph.label(b) || "(no name)", 120));
  const go = element("button", { type: "button", onclick: () => events.reveal(b) }, "Show on the map");
  const close = element("button", { type: "button", title: "Escape", onclick: () => events.close() }, "Back to the plan");
  into.replaceChildren(title, element("p", { class: "actions" }, go, " ", close), list);
}

/// What travels, how long that is predicted to take and to hold the step.
function copyText({ name, isOut, bytes, seconds, waited }: Copy): string {
  const takes = seconds > 0 ? ` in ${formatSeconds(seconds)}, ${waited > 0 ? `${formatSeconds(waited)} of it waited for` : "all of it hidden"}` : "";
  return `${shorten(name, 60)} ${isOut ? "to slow memory" : "from slow memory"}, ${formatBytesExact(bytes)}${takes}`;
}

/// What it would cost not to keep it.
function priceOf(row: (term: string, ...value: (Node | string)[]) => void, graph: Graph, summary: Summary, b: number): void {
  const seconds = graph.recomputeSeconds(b);
  if (seconds === null)
    return;
  const share = summary.step_seconds > 0 ? `, ${formatPercent(seconds / summary.step_seconds)} of the step` : "";
  const price = `${formatSeconds(seconds)}${share}`;
  if (graph.isRecomputed(b))
    row("Costs", `${price} to compute it here again`);
  else
    row("Price", graph.isLive(b, graph.peakStep)
      ? `computing it again instead of keeping it takes ${price} and frees its bytes at the peak, if what it is made from is there`
      : `computing it again takes ${price}; it is not live at the peak`);
}
