// The page: what is chosen, and which parts show it.
import { CompareView, labelOf } from "./compare";
import { colorBy, Coloring, Mode } from "./colors";
import { showDetails } from "./details";
import { byId, element } from "./dom";
import { FrontierView } from "./frontier";
import { inksOf } from "./inks";
import { bytesByCategory, drawKey, keyOf, legendOf, showLegend } from "./legend";
import { LiveTable } from "./live";
import { cardOf, ceilingOf, MapView } from "./map";
import { showOverview } from "./overview";
import { formatPlace, parsePlace } from "./place";
import { Graph, Picture, Plan } from "./plan";
import { findMatches } from "./search";
import { formatBytes, formatBytesExact, formatPercent, formatSeconds, groupDigits, shorten } from "./text";
import { measuredStep, TimesView, timesOf } from "./times";
import { fold, groupByModule, leavesOf, TreeNode } from "./tree";
import { TreemapView } from "./treemap";

type View = "map" | "times" | "frontier" | "compare";
const VIEWS: View[] = ["map", "times", "frontier", "compare"];

export class App {
  private plan = 0;
  private graphNumber = 0;
  private instant = 0;
  private hoverStep = -1;
  private selected = -1;
  private pointed: number[] = []; ///< the pointer is over them in the table or the treemap
  private mode: Mode = "kind";
  private coloring!: Coloring;
  private matches: Uint8Array | null = null;
  private matchList: number[] = [];
  private hidden: Set<number> | null = null;
  private isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  private readonly map: MapView;
  private readonly treemap: TreemapView;
  private readonly table: LiveTable;
  private tree: { graph: Graph | null; step: number; root: TreeNode } = { graph: null, step: -1, root: groupByModule([], () => [], () => 0, String) };
  private liveTimer = 0;
  private placeTimer = 0;
  private knownPlace = ""; ///< as the address had it when it was read or written last
  private view: View = "map";
  private readonly compare: CompareView | null = null;
  private readonly frontier: FrontierView | null = null;
  private readonly times: TimesView | null = null;

  constructor(readonly picture: Picture) {
    this.map = new MapView(byId<HTMLCanvasElement>("map"), {
      hover: (buffer, step, x, y) => this.hover(buffer, step, x, y),
      select: (buffer) => this.select(buffer),
      pin: (step) => this.pin(step),
    });
    this.treemap = new TreemapView(byId<HTMLCanvasElement>("treemap"), byId("tree-path"), (buffer) => this.select(buffer, true),
      (leaf, x, y) => {
        this.showTip(leaf?.buffers[0] ?? -1, -1, x, y, this.graph, leaf);
        this.point(leaf?.buffers ?? []);
      });
    this.table = new LiveTable(byId("live"), (buffer) => this.select(buffer, true), (buffers) => this.point(buffers));
    const { plans, frontier } = picture;
    if (plans.length > 1)
      this.compare = new CompareView(plans, byId("view-compare"),
        (graph, buffer, step, x, y) => this.showTip(buffer, step, x, y, graph));
    if (frontier)
      this.frontier = new FrontierView(frontier, plans, byId("view-frontier"), (plan) => {
        this.choosePlan(plan);
        this.showView("map");
      }, (plan) => this.openComparison(frontier.points[0].plan, plan));
    const { measuredGraph, graphs, summary } = plans[0];
    if (measuredGraph >= 0)
      this.times = new TimesView(graphs[measuredGraph], summary.cost_source, byId("view-times"), (step) => this.showCommand(measuredGraph, step));
    byId("tab-times").hidden = !this.times;
    byId("tab-compare").hidden = !this.compare;
    byId("tab-frontier").hidden = !this.frontier;
    byId("plan").replaceChildren(...plans.map((plan, i) => element("option", { value: i }, labelOf(plan))));
    byId("plan-choice").hidden = plans.length < 2;
    this.listen();
    byId("tabs").hidden = false;
    this.setTheme(this.isDark);
    this.choosePlan(0);
    if (picture.compare)
      this.openComparison(0, 1);
    else
      this.showView(this.frontier ? "frontier" : this.times ? "times" : "map");
    this.goToPlace();
    addEventListener("hashchange", () => this.goToPlace());
  }

  /// The address leads to what is looked at on the map. Written when it rests: browsers limit how often.
  /// A page inside another one has no address of its own.
  private keepPlace(): void {
    clearTimeout(this.placeTimer);
    if (!["file:", "http:", "https:"].includes(location.protocol))
      return;
    this.placeTimer = window.setTimeout(() => {
      const text = formatPlace({
        plan: this.plan, graph: this.graphNumber > 0 ? this.graph.name : null,
        step: this.instant === this.graph.peakStep ? null : this.instant,
        buffer: this.selected >= 0 ? this.selected : null, color: this.mode === "kind" ? null : this.mode,
      });
      // Where a reader has changed it meanwhile, that place is about to be shown.
      if (text === this.knownPlace || location.hash.slice(1) !== this.knownPlace)
        return;
      this.knownPlace = text;
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    }, 300);
  }

  /// Shows what the address says, as far as there is such a thing.
  private goToPlace(): void {
    this.knownPlace = location.hash.slice(1);
    if (location.hash.length < 2)
      return;
    const place = parsePlace(location.hash);
    this.showView("map");
    this.choosePlan(place.plan < this.picture.plans.length ? place.plan : 0);
    this.chooseGraph(Math.max(this.currentPlan.graphs.findIndex((graph) => graph.name === place.graph), 0));
    const modes = byId<HTMLSelectElement>("mode");
    const mode = [...modes.options].find((option) => option.value === place.color && !option.hidden)?.value ?? "kind";
    modes.value = mode;
    this.chooseMode(mode as Mode);
    this.pin(place.step ?? this.graph.peakStep);
    if (place.buffer !== null && place.buffer < this.graph.count)
      this.select(place.buffer, true);
  }

  showView(view: View): void {
    this.view = view;
    for (const each of VIEWS) {
      byId(`view-${each}`).hidden = each !== view;
      byId(`tab-${each}`).setAttribute("aria-selected", String(each === view));
      byId(`tab-${each}`).tabIndex = each === view ? 0 : -1;
    }
    byId("choices").hidden = view !== "map";
    byId("figures").hidden = byId("subtitle").hidden = view === "compare";
    byId("tip").hidden = true;
    if (view === "compare") {
      this.compare?.setLook(this.mode, this.isDark);
      this.compare?.show();
    }
  }

  private openComparison(before: number, after: number): void {
    this.compare?.open(before, after);
    this.showView("compare");
  }

  private showGraph(graph: number): void {
    if (this.graphNumber !== graph)
      this.chooseGraph(graph);
  }

  /// A command of the first plan on the map: its step, and what it writes.
  private showCommand(graph: number, step: number): void {
    this.showView("map");
    if (this.plan !== 0)
      this.choosePlan(0);
    this.showGraph(graph);
    this.pin(step);
    const [written = -1] = this.graph.writesOf(step);
    this.map.revealStep(step);
    this.select(written, true);
  }

  get graph(): Graph { return this.currentPlan.graphs[this.graphNumber]; }
  get currentPlan(): Plan { return this.picture.plans[this.plan]; }
  get usesDark(): boolean { return this.isDark; }

  choosePlan(number: number): void {
    this.plan = number;
    const { summary, label, graphs } = this.currentPlan;
    document.title = `${shorten(summary.model, 60)}: memory plan`;
    byId("title").textContent = shorten(summary.model, 80);
    byId("subtitle").textContent = label ? shorten(label, 120) : "every byte of a training step";
    this.fillFigures();
    const choice = byId<HTMLSelectElement>("graph");
    choice.replaceChildren(...this.picture.plans[number].graphs.map((graph, i) => element("option", { value: i }, shorten(graph.name, 30))));
    byId("graph-choice").hidden = graphs.length < 2;
    byId<HTMLSelectElement>("plan").value = String(number);
    this.frontier?.mark(number);
    this.chooseGraph(Math.min(this.graphNumber, graphs.length - 1));
  }

  chooseGraph(number: number): void {
    this.graphNumber = number;
    byId<HTMLSelectElement>("graph").value = String(number);
    this.selected = -1;
    this.pointed = [];
    this.hoverStep = -1;
    this.instant = this.graph.peakStep;
    byId("links-choice").hidden = !this.graph.firstRun.some((first) => first >= 0);
    byId("mode-measured").hidden = !this.graph.measured;
    if (this.mode === "measured" && !this.graph.measured)
      byId<HTMLSelectElement>("mode").value = this.mode = "kind";
    this.chooseMode(this.mode);
  }

  private chooseMode(mode: Mode): void {
    this.mode = mode;
    this.coloring = colorBy(this.graph, mode);
    this.hidden = null;
    this.search(byId<HTMLInputElement>("search").value);
    this.showInstant(this.instant);
    this.showSelection();
  }

  select(buffer: number, reveal = false): void {
    this.selected = buffer;
    if (reveal && buffer >= 0 && !this.map.shows(buffer))
      this.map.reveal(buffer);
    this.showSelection();
    if (buffer >= 0)
      this.say(`${shorten(this.graph.label(buffer), 80)}, ${formatBytes(this.graph.size[buffer])}`);
  }

  /// Outlines buffers on the map.
  private point(buffers: number[]): void {
    if (buffers.join() === this.pointed.join())
      return;
    this.pointed = buffers;
    this.redraw();
  }

  /// The step from a key or a button: it may lie outside of what the map shows.
  private goToStep(step: number): void {
    this.pin(step);
    this.map.revealStep(this.instant);
  }

  pin(step: number): void {
    this.instant = Math.min(Math.max(step, 0), this.graph.stepCount - 1);
    this.showInstant(this.instant);
    this.showSelection();
  }

  private showSelection(): void {
    if (this.selected < 0)
      showOverview(byId("details"), this.currentPlan, {
        select: (graph, buffer) => {
          this.showGraph(graph);
          this.select(buffer, true);
        },
        pin: (graph, step) => {
          this.showGraph(graph);
          this.goToStep(step);
        },
      });
    else
      showDetails(byId("details"), this.graph, this.currentPlan.summary, this.selected, this.instant, {
        select: (buffer) => this.select(buffer, true),
        pin: (step) => this.goToStep(step),
        reveal: (buffer) => this.map.reveal(buffer),
        close: () => this.select(-1),
        enter: (module) => this.treemap.enter(module),
      });
    this.table.mark(this.selected);
    this.showTree(this.hoverStep >= 0 ? this.hoverStep : this.instant);
    this.redraw();
  }

  /// The table, the treemap and the legend of a step.
  private showInstant(step: number): void {
    const graph = this.graph;
    const live = graph.liveAt(step);
    const isPeak = step === graph.peakStep;
    byId("live-title").textContent = isPeak ? "Live at the peak" : `Live at command ${groupDigits(step)}`;
    byId("live-step").textContent =
      `${isPeak ? `command ${groupDigits(step)} of ${groupDigits(graph.stepCount)}, ` : ""}${shorten(graph.stepLabel(step), 90)}: ` +
      `${formatBytes(graph.live[step] ?? 0)} in ${groupDigits(live.length)} buffers` + (graph.measured ? `; ${timesOf(graph, step)}` : "");
    this.table.show(graph, leavesOf(fold(this.liveTree(step), (b) => graph.sortOf(b))), this.coloring, this.selected);
    this.showTree(step);
    this.showLegend(step);
  }

  private showTree(step: number): void {
    byId("tree-instant").textContent = step === this.graph.peakStep ? "at the peak" : `at command ${groupDigits(step)}`;
    this.treemap.show({ graph: this.graph, root: this.liveTree(step), coloring: this.coloring, selected: this.selected, isDark: this.isDark,
      matches: this.shown() });
  }

  /// What is live at a step, by module. The last one is kept.
  private liveTree(step: number): TreeNode {
    const graph = this.graph;
    if (this.tree.graph !== graph || this.tree.step !== step)
      this.tree = { graph, step, root: groupByModule(graph.liveAt(step), (b) => graph.modulePath(b), (b) => graph.size[b], (b) => graph.label(b)) };
    return this.tree.root;
  }

  private showLegend(step: number): void {
    const { graph, coloring } = this;
    showLegend(byId("legend"), legendOf(coloring, this.mode, bytesByCategory(graph, coloring, step)), this.hidden, (members) => this.toggle(members));
    byId("marks").replaceChildren(...drawKey(keyOf(graph, cardOf(this.currentPlan.summary)), this.isDark));
  }

  /// Dims categories, or shows them where all of them are dim.
  private toggle(members: number[]): void {
    const hidden = this.hidden ?? new Set<number>();
    const areHidden = members.every((category) => hidden.has(category));
    for (const category of members)
      if (areHidden)
        hidden.delete(category);
      else
        hidden.add(category);
    this.hidden = hidden.size ? hidden : null;
    this.showLegend(this.instant);
    this.showTree(this.instant);
    this.redraw();
  }

  private fillFigures(): void {
    const s = this.currentPlan.summary;
    const figures: [string, string, string][] = [
      ["arena", formatBytes(s.arena_bytes), formatBytesExact(s.arena_bytes)],
      ["lower bound", formatBytes(s.lower_bound_bytes), `${formatBytesExact(s.lower_bound_bytes)}; packing: ${s.status}`],
    ];
    if (s.verdict)
      figures.push([shorten(s.verdict.card, 24), s.verdict.fits ? `fits, ${formatBytes(s.verdict.spare_bytes)} to spare`
        : `${formatBytes(-s.verdict.spare_bytes)} too much`, shorten(s.verdict.text, 300)]);
    if (s.without_recompute_bytes > s.arena_bytes)
      figures.push(["everything kept", formatBytes(s.without_recompute_bytes), formatBytesExact(s.without_recompute_bytes)]);
    if (s.extra_time_fraction > 0)
      figures.push(["extra time", formatPercent(s.extra_time_fraction),
        `computing again and waiting for copies; no schedule within the budget adds less than ${formatPercent(s.extra_time_bound_fraction)}`]);
    if (s.outside_arena_bytes > 0 && s.outside_note)
      figures.push(["of the process", formatBytes(s.arena_bytes + s.outside_arena_bytes),
        `${formatBytesExact(s.outside_arena_bytes)} outside the arena: ${shorten(s.outside_note, 200)}`]);
    if (s.step_seconds > 0)
      figures.push([this.times ? "a step, planned" : "a step", formatSeconds(s.step_seconds), s.cost_source]);
    const { graphs, measuredGraph } = this.currentPlan;
    if (measuredGraph >= 0) {
      const graph = graphs[measuredGraph];
      figures.push([graph.name === "train" ? "a step, measured" : `${shorten(graph.name, 20)}, measured`,
        formatSeconds(measuredStep(graph)), "commands, batch, loss and the rest"]);
    }
    byId("figures").replaceChildren(...figures.map(([term, value, title]) =>
      element("div", { title }, element("dt", {}, term), element("dd", {}, value))));
  }

  private hover(buffer: number, step: number, x: number, y: number): void {
    this.showTip(buffer, step, x, y);
    if (step === this.hoverStep)
      return;
    this.hoverStep = step;
    this.redraw();
    // The table and the treemap follow when the pointer rests on the curve.
    clearTimeout(this.liveTimer);
    this.liveTimer = window.setTimeout(() => this.showInstant(step >= 0 && buffer < 0 ? step : this.instant), 60);
  }

  private showTip(buffer: number, step: number, x: number, y: number, graph = this.graph, leaf: TreeNode | null = null): void {
    const tip = byId("tip");
    tip.hidden = buffer < 0 && step < 0;
    if (tip.hidden)
      return;
    const lines: HTMLElement[] = [];
    if (buffer >= 0)
      lines.push(element("strong", { class: "name" }, shorten(graph.label(buffer), 80)),
        element("div", {}, `${graph.isRecomputed(buffer) ? "recomputed " : ""}${graph.kindOf(buffer)}, ${formatBytes(graph.size[buffer])}, ` +
          `${shorten(graph.shapeOf(buffer), 60)} ${graph.dtypeOf(buffer)}`),
        element("div", {}, `commands ${groupDigits(graph.begin[buffer])} to ${groupDigits(graph.end[buffer] - 1)}`));
    if (buffer >= 0 && graph.label(buffer) !== graph.bufferName(buffer))
      lines.push(element("div", { class: "hint name" }, shorten(graph.bufferName(buffer), 80)));
    if (leaf && leaf.buffers.length > 1)
      lines.splice(0, lines.length, element("strong", { class: "name" }, shorten(leaf.name, 80)),
        element("div", {}, `${groupDigits(leaf.buffers.length)} \u00d7 ${formatBytes(graph.size[buffer])}, ${formatBytes(leaf.bytes)} together; a click shows the layers one by one`));
    if (buffer >= 0 && graph.reasonOf(buffer))
      lines.push(element("div", {}, shorten(graph.reasonOf(buffer), 160)));
    if (step >= 0)
      lines.push(element("div", { class: "hint" },
        `command ${groupDigits(step)}: ${shorten(graph.stepLabel(step), 70)}, ${formatBytes(graph.live[step])} live` +
        (graph.implementationOf(step) ? `; ${shorten(graph.implementationOf(step), 60)}` : "") + (graph.measured ? `; ${timesOf(graph, step)}` : "")));
    tip.replaceChildren(...lines);
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(x + 14, innerWidth - box.width - 8), 4)}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
  }

  search(pattern: string): void {
    const found = byId("found");
    const result = findMatches(this.graph, pattern);
    this.matches = result.matches;
    this.matchList = result.list;
    found.textContent = result.problem ?? (result.matches ?
      `${groupDigits(result.list.length)} of ${groupDigits(this.graph.count)}, ${formatBytes(result.list.reduce((sum, b) => sum + this.graph.size[b], 0))}` : "");
    byId("search").setAttribute("aria-invalid", String(result.problem !== null));
    byId<HTMLButtonElement>("next").disabled = byId<HTMLButtonElement>("previous").disabled = !result.list.length;
    this.showTree(this.instant);
    this.redraw();
  }

  private nextMatch(by: number): void {
    if (!this.matchList.length)
      return;
    const at = this.matchList.indexOf(this.selected);
    const count = this.matchList.length;
    this.select(this.matchList[at < 0 ? (by > 0 ? 0 : count - 1) : (at + by + count) % count], true);
  }

  private nextLive(by: number): void {
    const live = this.graph.liveAt(this.instant);
    const at = live.indexOf(this.selected);
    if (live.length)
      this.select(live[at < 0 ? 0 : (at + by + live.length) % live.length], true);
  }

  private redraw(): void {
    const { summary } = this.currentPlan;
    this.keepPlace();
    this.map.show({
      graph: this.graph, coloring: this.coloring, persistentBytes: summary.persistent_bytes, arenaBytes: summary.arena_bytes,
      ceilingBytes: ceilingOf(summary), card: cardOf(summary), lowerBoundBytes: this.graph.lowerBound, matches: this.shown(), selected: this.selected, pointed: this.pointed,
      instant: this.instant, hoverStep: this.hoverStep, isDark: this.isDark,
      showLinks: byId<HTMLInputElement>("links").checked,
    });
  }

  /// What is not dimmed: matches of the search in categories that are on.
  private shown(): Uint8Array | null {
    if (!this.hidden)
      return this.matches;
    return Uint8Array.from({ length: this.graph.count } as ArrayLike<number>, (_: number, b: number) =>
      !this.hidden!.has(this.coloring.of[b]) && (this.matches === null || this.matches[b]) ? 1 : 0);
  }

  setTheme(isDark: boolean): void {
    this.isDark = isDark;
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    document.documentElement.style.setProperty("--card", inksOf(isDark).card);
    byId("theme").textContent = isDark ? "Light" : "Dark";
  }

  private say(text: string): void { byId("said").textContent = text; }

  private listen(): void {
    const on = (id: string, type: string, action: (event: any) => void) => byId(id).addEventListener(type, action);
    addEventListener("scroll", () => { byId("tip").hidden = true; }, { passive: true });
    on("theme", "click", () => {
      this.setTheme(!this.isDark);
      this.showLegend(this.instant);
      this.showSelection();
      this.showView(this.view);
    });
    on("mode", "change", (event) => this.chooseMode(event.target.value));
    on("graph", "change", (event) => this.chooseGraph(Number(event.target.value)));
    on("plan", "change", (event) => this.choosePlan(Number(event.target.value)));
    for (const change of ["input", "change"])
      on("search", change, (event) => this.search(event.target.value));
    on("search", "keydown", (event: KeyboardEvent) => {
      if (event.key === "Enter")
        this.nextMatch(event.shiftKey ? -1 : 1);
    });
    on("next", "click", () => this.nextMatch(1));
    on("previous", "click", () => this.nextMatch(-1));
    on("links", "change", () => this.redraw());
    on("zoom-in", "click", () => this.map.zoom(0.7));
    on("zoom-out", "click", () => this.map.zoom(1 / 0.7));
    on("zoom-reset", "click", () => this.map.reset());
    on("peak", "click", () => this.goToStep(this.graph.peakStep));
    on("step-back", "click", () => this.goToStep(this.instant - 1));
    on("step-on", "click", () => this.goToStep(this.instant + 1));
    on("help-open", "click", () => byId<HTMLDialogElement>("help").showModal());
    for (const view of VIEWS)
      on(`tab-${view}`, "click", () => this.showView(view));
    on("tabs", "keydown", (event: KeyboardEvent) => this.moveTab(event));
    document.addEventListener("keydown", (event) => this.onKey(event));
  }

  /// Arrow keys go from tab to tab.
  private moveTab(event: KeyboardEvent): void {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by || (event.target as HTMLElement).getAttribute("role") !== "tab")
      return;
    const shown = VIEWS.filter((view) => !byId(`tab-${view}`).hidden);
    const next = shown[(shown.indexOf(this.view) + by + shown.length) % shown.length];
    this.showView(next);
    byId(`tab-${next}`).focus();
  }

  private onKey(event: KeyboardEvent): void {
    if (this.view === "compare" && event.key === "Escape")
      this.compare?.clear();
    if (this.view === "compare" && event.key === "p" && !(event.target instanceof HTMLSelectElement))
      this.compare?.toThePeaks();
    if (this.view !== "map")
      return;
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape" && !byId<HTMLDialogElement>("help").open) {
      if (isTyping)
        byId("map").focus();
      else
        this.select(-1);
      return;
    }
    if ((event.ctrlKey || event.metaKey) && event.key === "f") {
      byId("search").focus();
      event.preventDefault();
      return;
    }
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey)
      return;
    const actions: Record<string, () => void> = {
      "/": () => byId("search").focus(), p: () => this.goToStep(this.graph.peakStep), n: () => this.nextLive(1),
      N: () => this.nextLive(-1), "[": () => this.goToStep(this.instant - 1), "]": () => this.goToStep(this.instant + 1),
      "?": () => byId<HTMLDialogElement>("help").showModal(),
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  }

  /// What is on the screen, for tests and the curious.
  state() {
    return {
      plan: this.plan, graph: this.graph.name, buffers: this.graph.count, steps: this.graph.stepCount, instant: this.instant,
      selected: this.selected, pointed: this.pointed, selectedName: this.selected >= 0 ? this.graph.bufferName(this.selected) : null,
      mode: this.mode, matches: this.matches ? this.matchList.length : null, rows: this.table.rows, map: this.map.state(),
      treemap: this.treemap.state(), theme: this.isDark ? "dark" : "light",
      categories: this.coloring.categories.map((category) => category.label), view: this.view,
      compare: this.view === "compare" ? this.compare?.state() : null, frontier: this.frontier?.state() ?? null,
      times: this.times?.state() ?? null,
    };
  }

  /// Client coordinates of a buffer on the map, and of a step on the curve.
  placeOf(buffer: number) {
    const box = byId("map").getBoundingClientRect();
    const place = this.map.placeOf(buffer);
    return { x: box.x + place.x, y: box.y + place.y };
  }
  placeOfStep(step: number) {
    const box = byId("map").getBoundingClientRect();
    const place = this.map.placeOfStep(step);
    return { x: box.x + place.x, y: box.y + place.y };
  }
  placeOfCopy(copy: number) {
    const box = byId("map").getBoundingClientRect();
    const place = this.map.placeOfCopy(copy);
    return { x: box.x + place.x, y: box.y + place.y };
  }
  find(name: string): number {
    for (let b = 0; b < this.graph.count; ++b)
      if (this.graph.bufferName(b) === name)
        return b;
    return -1;
  }
}
