// What is looked at, as the part of the page's address behind "#": a link to a buffer at a step.

export interface Place {
  plan: number;
  graph: string | null;  ///< by name; null: the one that is shown first
  step: number | null;   ///< null: the peak
  buffer: number | null; ///< null: none
  color: string | null;  ///< null: by kind
}

/// "graph=eval&step=3"; what is as in a page that was just opened is left out.
export function formatPlace(place: Place): string {
  const words = new URLSearchParams();
  if (place.plan > 0)
    words.set("plan", String(place.plan));
  for (const key of ["graph", "step", "buffer", "color"] as const)
    if (place[key] !== null)
      words.set(key, String(place[key]));
  return words.toString();
}

/// The place of such a text; what it does not say, or says in no number, is as in formatPlace left out.
export function parsePlace(text: string): Place {
  const words = new URLSearchParams(text.replace(/^#/, ""));
  const number = (key: string): number | null => /^\d{1,9}$/.test(words.get(key) ?? "") ? Number(words.get(key)) : null;
  return { plan: number("plan") ?? 0, graph: words.get("graph"), step: number("step"), buffer: number("buffer"), color: words.get("color") };
}
