// What a run took: every command's measured time beside the planned one, slowest first.
import { element } from "./dom";
import { Graph } from "./plan";
import { formatPercent, formatSeconds, groupDigits, shorten } from "./text";

export type Column = "command" | "name" | "module" | "measured" | "planned" | "ratio" | "share";
const COLUMNS: [Column, string, boolean, string][] = [
  ["command", "Command", true, "sort by place in the step"], ["name", "What it does", false, "sort by name"],
  ["module", "Module", false, "sort by module"], ["measured", "Measured, ms", true, "sort by measured time"],
  ["planned", "Planned, ms", true, "sort by planned time"], ["ratio", "Measured / planned", true, "sort by ratio"],
  ["share", "Of the step", true, "sort by measured time"],
];
const PAGE = 200;

/// A step as it ran: its commands, and what lies before and after them.
export function measuredStep(graph: Graph): number {
  const { measured } = graph;
  return measured ? measured.seconds.reduce((sum, seconds) => sum + seconds, measured.input_seconds + measured.rest_seconds) : 0;
}

/// Measured over planned time; null where either is not known.
export function ratioOf(graph: Graph, step: number): number | null {
  const planned = graph.stepSeconds(step);
  return graph.measured && planned > 0 ? graph.measured.seconds[step] / planned : null;
}

/// "2.82 x" with the sign for times.
export function formatRatio(ratio: number): string {
  return `${ratio < 100 ? ratio.toFixed(2) : groupDigits(ratio)} \u00d7`;
}

/// "79.6 \u00b5s measured, 28.2 \u00b5s planned"; empty without a measurement.
export function timesOf(graph: Graph, step: number): string {
  if (!graph.measured)
    return "";
  const planned = graph.stepSeconds(step);
  return `${formatSeconds(graph.measured.seconds[step] ?? 0)} measured${planned > 0 ? `, ${formatSeconds(planned)} planned` : ""}`;
}

/// The commands in the order of a column, ties in the order of the step. A ratio that is not known
/// comes last in falling order.
export function sortSteps(graph: Graph, column: Column, isDescending: boolean): number[] {
  const measured = graph.measured?.seconds ?? [];
  const keys: Record<Column, (step: number) => number | string> = {
    command: (t) => t, name: (t) => graph.stepLabel(t), module: (t) => graph.stepModule(t), measured: (t) => measured[t],
    planned: (t) => graph.stepSeconds(t), ratio: (t) => ratioOf(graph, t) ?? -1, share: (t) => measured[t],
  };
  const sign = isDescending ? -1 : 1;
  const keyed = measured.map((_, t): [number | string, number] => [keys[column](t), t]);
  keyed.sort(([x, a], [y, b]) => (x < y ? -sign : x > y ? sign : a - b));
  return keyed.map(([, t]) => t);
}

function formatMilliseconds(seconds: number): string { return (1e3 * seconds).toFixed(4); }

export class TimesView {
  private column: Column = "measured";
  private isDescending = true;
  private limit = PAGE;
  private readonly body = element("tbody");
  private readonly headers = new Map<Column, HTMLElement>();
  private readonly more = element("button", { type: "button", class: "link", onclick: () => {
    this.limit += 1000;
    this.fill();
  } });
  private order: number[] = [];
  private readonly total: number;
  private readonly most: number;

  constructor(private readonly graph: Graph, costSource: string, into: HTMLElement, private readonly pick: (step: number) => void) {
    this.total = measuredStep(graph);
    this.most = graph.measured!.seconds.reduce((most, seconds) => Math.max(most, seconds), 0);
    const head = element("tr");
    for (const [column, label, isNumber, title] of COLUMNS) {
      const header = element("th", { scope: "col", class: isNumber ? "number" : "" }, element("button", { type: "button", title,
        onclick: () => {
          this.isDescending = this.column === column ? !this.isDescending : isNumber && column !== "command";
          this.column = column;
          this.fill();
        } }, label));
      this.headers.set(column, header);
      head.append(header);
    }
    into.append(element("h2", {}, "Measured and planned time by command ",
      element("span", { class: "hint" }, "a click shows the command on the map")),
    element("p", { id: "times-summary", class: "hint" }, this.summary(costSource)),
    element("div", { class: "scroll" }, element("table", { id: "times" }, element("thead", {}, head), this.body), this.more));
    this.fill();
  }

  private summary(costSource: string): string {
    const measured = this.graph.measured!;
    let planned = 0;
    for (let t = 0; t < this.graph.stepCount; ++t)
      planned += this.graph.stepSeconds(t);
    const count = (number: number, what: string) => `${groupDigits(number)} ${what}${number === 1 ? "" : "s"}`;
    return `${shorten(this.graph.name, 30)}: ${formatSeconds(this.total)} per step, the mean of ${count(measured.steps, "step")} ` +
      `with ${count(measured.threads, "thread")}; ` +
      (planned > 0 ? `its commands were planned with ${formatSeconds(planned)} (${shorten(costSource, 80)}). ` : "") +
      `Before them the batch takes ${formatSeconds(measured.input_seconds)}, after them loss and the rest ` +
      `${formatSeconds(measured.rest_seconds)}.`;
  }

  private fill(): void {
    for (const [column, header] of this.headers)
      header.setAttribute("aria-sort", column !== this.column ? "none" : this.isDescending ? "descending" : "ascending");
    this.order = sortSteps(this.graph, this.column, this.isDescending);
    this.body.replaceChildren(...this.order.slice(0, this.limit).map((step) => this.row(step)));
    this.more.hidden = this.order.length <= this.limit;
    this.more.textContent = `${groupDigits(this.order.length - this.limit)} more`;
  }

  private row(step: number): HTMLElement {
    const { graph } = this;
    const { seconds, least_seconds, processor_seconds } = graph.measured!;
    const planned = graph.stepSeconds(step), ratio = ratioOf(graph, step);
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${this.most > 0 ? Math.max(seconds[step] / this.most * 96, 1) : 0}px`;
    const number = (text: string, title = "") => element("td", { class: "number", title }, text);
    return element("tr", { "data-step": step, onclick: () => this.pick(step) },
      number(groupDigits(step)),
      element("td", { title: shorten(graph.stepName(step), 300) },
        element("button", { type: "button", class: "link name" }, shorten(graph.stepLabel(step), 70)),
        graph.phaseOf(step) ? element("span", { class: "hint" }, ` ${shorten(graph.phaseOf(step), 20)}`) : null),
      element("td", { title: shorten(graph.stepModule(step), 300) }, element("span", { class: "name" }, shorten(graph.stepModule(step), 40))),
      number(formatMilliseconds(seconds[step]), `least of any step ${formatMilliseconds(least_seconds[step])} ms; ` +
        `processor time of all threads ${formatMilliseconds(processor_seconds[step])} ms`),
      number(planned > 0 ? formatMilliseconds(planned) : "\u2013"),
      number(ratio === null ? "\u2013" : formatRatio(ratio)),
      element("td", { class: "number change" }, bar, formatPercent(this.total > 0 ? seconds[step] / this.total : 0)));
  }

  state() {
    return { graph: this.graph.name, commands: this.order.length, rows: this.body.rows.length, sorted: this.column,
      seconds: this.total, slowest: this.order.length ? this.graph.stepName(this.order[0]) : null };
  }
}
