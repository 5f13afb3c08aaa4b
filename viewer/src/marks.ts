// What lies in a buffer beside its first value: a mark per further value, at the command that writes it.
import { Alias, AliasKind } from "./plan";

export type MarkKind = Exclude<AliasKind, "">;

export interface Mark {
  kind: MarkKind; step: number;
}

/// What the marks mean.
export const MARKS: Record<MarkKind, string> = {
  in_place: "written over what was there",
  part: "a part, written where it is joined",
  view: "a view, read where it lies",
};

/// Each around the point that it stands on: a triangle, a square, or a ring over where those would be.
export const MARK_PATHS: Record<MarkKind, string> = {
  in_place: "M-3 0 L0 -5 L3 0 Z",
  part: "M-2.5 -5.5 H2.5 V-0.5 H-2.5 Z",
  view: "M2.5 -9 A2.5 2.5 0 1 1 -2.5 -9 A2.5 2.5 0 1 1 2.5 -9 Z",
};
const paths = new Map<MarkKind, Path2D>();

/// Draws a mark that stands on the point, in the colour to fill with.
export function drawMark(context: CanvasRenderingContext2D, kind: MarkKind, x: number, y: number): void {
  let path = paths.get(kind);
  if (!path)
    paths.set(kind, path = new Path2D(MARK_PATHS[kind]));
  context.translate(x, y);
  if (kind === "view") {
    context.lineWidth = 1.25;
    context.strokeStyle = context.fillStyle;
    context.stroke(path);
  } else {
    context.fill(path);
  }
  context.translate(-x, -y);
}

/// The marks of a buffer: one per kind and command. A plan that does not say what a value is has none.
export function marksOf(aliases: Alias[]): Mark[] {
  const seen = new Set<string>();
  const marks: Mark[] = [];
  for (const { kind, step } of aliases) {
    const key = `${kind} ${step}`;
    if (!kind || step < 0 || seen.has(key))
      continue;
    seen.add(key);
    marks.push({ kind, step });
  }
  return marks;
}
