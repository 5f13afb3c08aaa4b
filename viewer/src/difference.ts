// Which buffers make the difference between the peaks of two plans.
import { Graph, Plan } from "./plan";

export interface Difference {
  name: string;
  kind: string;
  before: number; ///< bytes live at the step of the first plan
  after: number;  ///< at the second's
  buffersBefore: number[];
  buffersAfter: number[];
}

/// The first graph with the largest live peak.
export function fullestGraph(plan: Plan): Graph {
  let fullest = plan.graphs[0];
  for (const graph of plan.graphs)
    if (graph.livePeak > fullest.livePeak)
      fullest = graph;
  return fullest;
}

/// Buffers of both, matched by name and kind: what a plan stores several times under one name is added
/// up, as by `stowage diff`. Those that differ at a step of each, its peak unless another is given, by falling
/// difference, then by name.
export function compareGraphs(before: Graph, after: Graph, stepBefore = before.peakStep, stepAfter = after.peakStep): Difference[] {
  const entries = new Map<string, Difference>();
  const collect = (graph: Graph, step: number, side: "before" | "after"): void => {
    for (let b = 0; b < graph.count; ++b) {
      const name = graph.bufferName(b), kind = graph.kindOf(b);
      const key = `${kind}\n${name}`;
      let entry = entries.get(key);
      if (!entry)
        entries.set(key, entry = { name, kind, before: 0, after: 0, buffersBefore: [], buffersAfter: [] });
      entry[side === "before" ? "buffersBefore" : "buffersAfter"].push(b);
      if (graph.isLive(b, step))
        entry[side] += graph.size[b];
    }
  };
  collect(before, stepBefore, "before");
  collect(after, stepAfter, "after");
  const size = (entry: Difference) => Math.abs(entry.after - entry.before);
  return [...entries.values()].filter((entry) => entry.before !== entry.after)
    .sort((a, b) => size(b) - size(a) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
