// Which steps and addresses are on the screen, and how they map to pixels.

/// A stretch of numbers over a stretch of pixels; `flipped` ones rise upwards.
export interface Axis {
  low: number;
  high: number;
}

/// 1, 2 or 5 times a power of ten (of two for bytes): the least such step with at most `most` parts.
export function niceStep(range: number, most: number, isBytes: boolean): number {
  const target = range / Math.max(most, 1);
  if (isBytes)
    return 2 ** Math.max(Math.ceil(Math.log2(target)), 0);
  let step = 10 ** Math.floor(Math.log10(target));
  for (const factor of [1, 2, 5])
    if (factor * step >= target)
      return Math.max(factor * step, 1);
  return Math.max(10 * step, 1);
}

/// Multiples of niceStep in [low, high].
export function ticks(axis: Axis, most: number, isBytes: boolean): number[] {
  const step = niceStep(axis.high - axis.low, most, isBytes);
  const found: number[] = [];
  for (let value = Math.ceil(axis.low / step) * step; value <= axis.high; value += step)
    found.push(value);
  return found;
}

/// The axis around `center` (a value), `factor` times as long, kept within `limits` and above `least`.
export function zoomed(axis: Axis, center: number, factor: number, limits: Axis, least: number): Axis {
  const whole = limits.high - limits.low;
  const length = Math.min(Math.max((axis.high - axis.low) * factor, Math.min(least, whole)), whole);
  const share = (center - axis.low) / (axis.high - axis.low);
  return held({ low: center - share * length, high: center + (1 - share) * length }, limits);
}

/// The axis moved by as little as possible so that it lies within `limits`.
export function held(axis: Axis, limits: Axis): Axis {
  const length = Math.min(axis.high - axis.low, limits.high - limits.low);
  const low = Math.min(Math.max(axis.low, limits.low), limits.high - length);
  return { low, high: low + length };
}

/// `axis` moved by `by` within `limits`.
export function moved(axis: Axis, by: number, limits: Axis): Axis {
  return held({ low: axis.low + by, high: axis.high + by }, limits);
}

/// A stretch around [from, to] that shows it with room on both sides, within `limits`.
export function around(from: number, to: number, room: number, limits: Axis): Axis {
  const length = Math.max(to - from, 1e-9);
  return held({ low: from - room * length, high: to + room * length }, limits);
}
