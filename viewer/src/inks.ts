// What the map is drawn with beside the colours of buffers. The legend draws its samples with the same.

export interface Inks {
  text: string; faint: string; grid: string; area: string; accent: string; bound: string; card: string; strong: string;
  phases: Record<string, string>; ///< of the strip under the map
}

const LIGHT: Inks = { text: "#3d444d", faint: "#6e7781", grid: "#e3e6ea", area: "#f4f5f7", accent: "#0b57d0",
  bound: "#b3261e", card: "#8430c8", strong: "#0a0c10", phases: { forward: "#cfe6f7", backward: "#f8e3b8", update: "#c5e8dc" } };
const DARK: Inks = { text: "#c4cad2", faint: "#8b949e", grid: "#272d35", area: "#12161c", accent: "#8ab4f8",
  bound: "#ff8a80", card: "#c9a0ff", strong: "#ffffff", phases: { forward: "#26435f", backward: "#5a4118", update: "#1d4d3c" } };

export function inksOf(isDark: boolean): Inks { return isDark ? DARK : LIGHT; }

export const CARD_DASH = [10, 3, 2, 3], BOUND_DASH = [5, 3];
