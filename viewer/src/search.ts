// Search by regular expression in names, further values, modules and nodes.
import { Graph } from "./plan";

export interface Found {
  matches: Uint8Array | null; ///< 1 per buffer that matches; null without a pattern
  list: number[];             ///< largest first
  problem: string | null;     ///< why the pattern is none
}

/// Names are searched up to this length: an expression may take time that grows faster than they do.
const SEARCHED_CHARACTERS = 4096;

export function findMatches(graph: Graph, pattern: string): Found {
  if (pattern === "")
    return { matches: null, list: [], problem: null };
  let expression: RegExp;
  try {
    expression = new RegExp(pattern, "iu");
  } catch (error) {
    return { matches: null, list: [], problem: `no regular expression: ${(error as Error).message.replace(/^.*?: /, "")}` };
  }
  const known = new Map<string, boolean>();
  const test = (text: string): boolean => {
    let answer = known.get(text);
    if (answer === undefined)
      known.set(text, answer = expression.test(text.slice(0, SEARCHED_CHARACTERS)));
    return answer;
  };
  const matches = new Uint8Array(graph.count);
  const list: number[] = [];
  for (let b = 0; b < graph.count; ++b)
    if (test(graph.bufferName(b)) || test(graph.label(b)) || test(graph.modulePath(b).join(".")) || test(graph.sourceOf(b)) ||
        graph.aliasesOf(b).some(({ name }) => test(name))) {
      matches[b] = 1;
      list.push(b);
    }
  list.sort((a, b) => graph.size[b] - graph.size[a] || a - b);
  return { matches, list, problem: null };
}
