// Time against memory: the plans found, and below them what is proven not to exist.
import { element, shape } from "./dom";
import { CARD_DASH } from "./inks";
import { cardOf } from "./map";
import type { Frontier, FrontierPoint, Plan } from "./plan";
import { formatBytes, formatPercent, formatSeconds, formatTick, shorten } from "./text";
import { ticks } from "./view";

const LEFT = 66, RIGHT = 24, TOP = 24, BOTTOM = 56;

/// Time beyond that of the first point, which runs everything once: a share of it.
export function extraOf(frontier: Frontier, seconds: number): number {
  const least = frontier.points[0].seconds;
  return least > 0 ? (seconds - least) / least : 0;
}

/// The corners of the bound's step line, from the largest size down: a budget's bound holds for all
/// smaller sizes, and the next budget's may be higher.
export function boundSteps(points: FrontierPoint[]): { bytes: number; seconds: number }[] {
  const corners: { bytes: number; seconds: number }[] = [];
  points.forEach((point, i) => {
    if (i > 0)
      corners.push({ bytes: point.budget, seconds: points[i - 1].bound_seconds });
    corners.push({ bytes: point.budget, seconds: point.bound_seconds });
  });
  return corners;
}

/// About `most` round values over [0, high].
function roundValues(low: number, high: number, most: number): number[] {
  const target = Math.max((high - low) / most, 1e-12);
  const power = 10 ** Math.floor(Math.log10(target));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= target)!;
  const values: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high * 1.0001; ++i)
    values.push(i * step);
  return values;
}

/// What the arena may take on the card that the points are to fit: the least of what their plans leave of it. Null where none is known.
export function cardOfPoints(points: FrontierPoint[], plans: Pick<Plan, "summary">[]): ReturnType<typeof cardOf> {
  const cards = points.map((point) => cardOf(plans[point.plan].summary));
  return cards.reduce((least, card) => least && card && card.bytes < least.bytes ? card : least, cards[0]);
}

export class FrontierView {
  private dots: SVGElement[] = [];
  private chosen = -1; ///< a plan
  private readonly chart = element("div", { class: "canvas" });
  private readonly rows: HTMLElement[] = [];
  private readonly card: ReturnType<typeof cardOf>;

  constructor(private readonly frontier: Frontier, private readonly plans: Pick<Plan, "summary">[], into: HTMLElement, private readonly pick: (plan: number) => void,
    compare: (plan: number) => void) {
    this.card = cardOfPoints(frontier.points, plans);
    into.append(element("section", { class: "chart", "aria-label": "Time against memory" },
      element("h2", {}, "Extra time against memory ", element("span", { class: "hint" },
        `times: ${shorten(frontier.device, 80)}; a point is a plan, pick one to see its map`)), this.chart),
    element("section", { class: "points", "aria-label": "Plans" }, this.table(pick, compare)));
    new ResizeObserver(() => this.draw(this.chart.clientWidth, this.chart.clientHeight)).observe(this.chart);
  }

  mark(plan: number): void {
    this.chosen = plan;
    this.frontier.points.forEach((point, i) => {
      const isChosen = point.plan === plan;
      this.dots[i]?.setAttribute("aria-pressed", String(isChosen));
      this.rows[i].setAttribute("aria-selected", String(isChosen));
    });
  }

  /// The chart, as large as its place.
  private draw(width: number, height: number): void {
    if (width <= LEFT + RIGHT || height <= TOP + BOTTOM)
      return;
    const { frontier, pick } = this;
    const { points } = frontier;
    const most = Math.max(...points.map((point) => extraOf(frontier, point.seconds)), 0.01) * 1.12;
    const fastest = Math.min(...points.map((point) => extraOf(frontier, point.seconds)), 0);
    const card = this.card?.bytes ?? 0;
    const high = Math.max(points[0].arena, card <= 1.5 * points[0].arena ? card : 0) * 1.03, least = Math.min(frontier.lower_bound, ...points.map((point) => point.arena));
    const low = Math.max(least - (high - least) * 0.08, 0);
    const x = (bytes: number) => LEFT + (width - LEFT - RIGHT) * (bytes - low) / (high - low);
    const y = (share: number) => height - BOTTOM - (height - TOP - BOTTOM) * (share - fastest) / (most - fastest);
    const floor = y(fastest), ceiling = y(most);
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Chart of the plans" });
    for (const value of roundValues(fastest, most, height / 90))
      svg.append(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        shape("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, `${+(100 * value).toPrecision(4)} %`));
    for (const bytes of ticks({ low, high }, Math.max(width / 100, 2), true))
      svg.append(shape("line", { class: "tick", x1: x(bytes), x2: x(bytes), y1: floor, y2: floor + 5 }),
        shape("text", { x: x(bytes), y: floor + 20, "text-anchor": "middle" }, formatTick(bytes)));
    svg.append(shape("text", { x: (LEFT + width - RIGHT) / 2, y: height - 8, "text-anchor": "middle" }, "arena"),
      shape("text", { class: "upright", x: 16, y: (floor + ceiling) / 2, "text-anchor": "middle",
        transform: `rotate(-90 16 ${(floor + ceiling) / 2})` }, "extra time"));

    // No plan is under the bound, nor left of the least memory. The bound counts no copies and may be below all plans.
    const corners = boundSteps(points).map(({ bytes, seconds }): [number, number] =>
      [Math.min(Math.max(x(bytes), LEFT), width - RIGHT), Math.min(Math.max(y(extraOf(frontier, seconds)), ceiling), floor)]);
    const wall = x(frontier.lower_bound);
    const last = corners[corners.length - 1];
    const path = `M${width - RIGHT} ${floor} L${width - RIGHT} ${corners[0][1]} ` + corners.map(([cx, cy]) => `L${cx} ${cy}`).join(" ") +
      ` L${wall} ${last[1]} L${wall} ${ceiling} L${LEFT} ${ceiling} L${LEFT} ${floor} Z`;
    svg.append(shape("path", { id: "bound", class: "impossible", d: path }),
      shape("text", { class: "note", x: wall + 8, y: ceiling + 14 }, `no plan below ${formatBytes(frontier.lower_bound)}`),
      shape("text", { class: "note", x: LEFT + 10, y: floor - 10 }, "proven: no plan is in here"));
    const line = points.map((point, i) => {
      const [px, py] = [x(point.arena), y(extraOf(frontier, point.seconds))];
      return i === 0 ? `M${px} ${py}` : `V${py} H${px}`;
    }).join(" ");
    svg.append(shape("path", { class: "plans", d: line }));
    if (this.card)
      svg.append(...cardLine(this.card, x(card), [LEFT, width - RIGHT], [ceiling, floor]));
    this.dots = points.map((point) => {
      const label = describe(frontier, point) + this.fitOf(point);
      const act = (): void => pick(point.plan);
      const dot = shape("circle", { class: "dot", cx: x(point.arena), cy: y(extraOf(frontier, point.seconds)), r: 6, tabindex: 0,
        role: "button", "aria-label": label, onclick: act, onkeydown: (event: KeyboardEvent) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            act();
          }
        } }, shape("title", {}, label));
      svg.append(dot);
      return dot;
    });
    this.chart.replaceChildren(svg);
    this.mark(this.chosen);
  }

  /// Whether it fits the card, where one is known.
  private fitOf(point: FrontierPoint): string {
    const { verdict } = this.plans[point.plan].summary;
    return !verdict ? "" : verdict.fits ? `; fits ${shorten(verdict.card, 24)}, ${formatBytes(verdict.spare_bytes)} to spare`
      : `; ${formatBytes(-verdict.spare_bytes)} too much for ${shorten(verdict.card, 24)}`;
  }

  private table(pick: (plan: number) => void, compare: (plan: number) => void): HTMLElement {
    const { frontier } = this;
    const full = frontier.points[0].arena;
    for (const point of frontier.points)
      this.rows.push(element("tr", { onclick: () => pick(point.plan), class: this.plans[point.plan].summary.verdict?.fits === false ? "over" : "",
        title: describe(frontier, point) + this.fitOf(point) },
        element("td", {}, element("button", { type: "button", class: "link" }, formatBytes(point.arena))),
        element("td", { class: "number" }, formatPercent(point.arena / full)),
        element("td", { class: "number" }, formatSeconds(point.seconds)),
        element("td", { class: "number" }, formatPercent(extraOf(frontier, point.seconds))),
        element("td", { class: "number" }, formatPercent(extraOf(frontier, point.bound_seconds))),
        element("td", {}, shorten(point.method, 24)),
        element("td", {}, point === frontier.points[0] ? null : element("button", { type: "button", class: "link",
          onclick: (event: Event) => {
            event.stopPropagation();
            compare(point.plan);
          } }, "compare"))));
    return element("table", {}, element("thead", {}, element("tr", {}, ...["Arena", "Of full", "A step", "Extra", "At least", "By", ""]
      .map((text, i) => element("th", { scope: "col", class: i > 0 && i < 5 ? "number" : "" }, text)))), element("tbody", {}, ...this.rows));
  }

  state() { return { points: this.dots.length, chosen: this.dots.findIndex((dot) => dot.getAttribute("aria-pressed") === "true") }; }
}

/// Upright where the card ends, its words on the side with more room; an arrow where that is beyond the chart.
function cardLine({ name, bytes }: { name: string; bytes: number }, x: number, [left, right]: [number, number], [top, bottom]: [number, number]): SVGElement[] {
  const isShown = x >= left && x <= right;
  const isLeft = isShown ? x > (left + right) / 2 : x > right;
  const text = `${name}: ${formatBytes(bytes)} for the arena`;
  const at = isShown ? x + (isLeft ? -8 : 8) : isLeft ? right - 4 : left + 4;
  const words = shape("text", { class: "card", x: at, y: top + 32, "text-anchor": isLeft ? "end" : "start" },
    isShown ? text : isLeft ? `${text} \u2192` : `\u2190 ${text}`);
  return [...isShown ? [shape("line", { id: "card", class: "card", x1: x, x2: x, y1: top, y2: bottom, "stroke-dasharray": CARD_DASH.join(" ") })] : [], words];
}

function describe(frontier: Frontier, point: FrontierPoint): string {
  return `${formatBytes(point.arena)}, ${formatPercent(extraOf(frontier, point.seconds))} more time, at least ` +
    `${formatPercent(extraOf(frontier, point.bound_seconds))}`;
}
