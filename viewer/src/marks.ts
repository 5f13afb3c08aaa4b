// What lies in a buffer beside its first value: a mark per further value, at the command that writes it.
import { Alias, AliasKind } from "./plan";

export type MarkKind = Exclude<AliasKind, "">;

export interface Mark {
  kind: MarkKind; step: number;
}

/// The key of the marks, as text.
export const MARKS: Record<MarkKind, string> = {
  in_place: "\u25B2 written over what was there",
  part: "\u25A0 a part, written where it is joined",
  view: "\u25CB a view, read where it lies",
};

/// Draws a mark that stands on the point: a triangle, a square, or a ring over where those would be.
export function drawMark(context: CanvasRenderingContext2D, kind: MarkKind, x: number, y: number): void {
  context.beginPath();
  if (kind === "in_place") {
    context.moveTo(x - 3, y);
    context.lineTo(x, y - 5);
    context.lineTo(x + 3, y);
  } else if (kind === "part") {
    context.rect(x - 2.5, y - 5.5, 5, 5);
  } else {
    context.arc(x, y - 9, 2.5, 0, 2 * Math.PI);
    context.lineWidth = 1.25;
    context.strokeStyle = context.fillStyle;
    context.stroke();
    return;
  }
  context.fill();
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
