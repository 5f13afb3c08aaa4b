// Levels of detail: which buffers are rectangles of their own, and what the others add up to.
//
// A buffer thinner than a pixel in either direction is not drawn. What such buffers cover is summed
// per pixel: a pixel takes the category that covers most of it, as the majority vote of Boyer and
// Moore finds it in one pass, and is as opaque as it is covered. A frame costs O(buffers + pixels)
// at any zoom.

/// A rectangle of the plan over a rectangle of pixels, addresses upwards.
export interface Window {
  t0: number; t1: number; ///< steps
  a0: number; a1: number; ///< bytes
  width: number; height: number; ///< pixels
}

/// Columns of the buffers that are drawn.
export interface Boxes {
  begin: Int32Array; end: Int32Array; offset: Float64Array; size: Float64Array;
}

export interface Layers {
  buffers: Int32Array;    ///< of the rectangles, `count` of them
  places: Float32Array;   ///< x, y, width, height of each, in pixels from the window's top left
  count: number;
  aggregated: number;     ///< buffers that went into the cells
}

/// Cells in a row that long and thin buffers fill together.
const BLOCK = 16;

/// One grid: coverage, and the category that leads the vote.
class Grid {
  weight = new Float32Array(0);   ///< votes for `category`
  covered = new Float32Array(0);  ///< share of the cell, may exceed 1 by rounding
  category = new Uint16Array(0);

  constructor(readonly size: number) {
    this.weight = new Float32Array(size);
    this.covered = new Float32Array(size);
    this.category = new Uint16Array(size);
  }

  clear(): void {
    this.weight.fill(0);
    this.covered.fill(0);
  }

  add(cell: number, share: number, category: number, vote: number): void {
    this.covered[cell] += share;
    const votes = share * vote;
    if (this.weight[cell] === 0 || this.category[cell] === category) {
      this.category[cell] = category;
      this.weight[cell] += votes;
    } else if (this.weight[cell] >= votes) {
      this.weight[cell] -= votes;
    } else {
      this.category[cell] = category;
      this.weight[cell] = votes - this.weight[cell];
    }
  }
}

/// Coverage and category per pixel. One is kept per view, so that frames allocate nothing.
///
/// A buffer that lives long crosses hundreds of pixels of a row. Its inner part goes into cells of
/// BLOCK pixels, so that thousands of such buffers stay cheap; readers add both grids up.
export class Cells {
  width = 0;
  height = 0;
  isUsed = false;
  private blocks = 0; ///< per row
  private fine = new Grid(0);
  private coarse = new Grid(0);

  reset(width: number, height: number): void {
    if (width !== this.width || height !== this.height) {
      this.width = width;
      this.height = height;
      this.blocks = Math.ceil(width / BLOCK);
      this.fine = new Grid(width * height);
      this.coarse = new Grid(this.blocks * height);
    } else if (this.isUsed) {
      this.fine.clear();
      this.coarse.clear();
    }
    this.isUsed = false;
  }

  /// Adds a rectangle in pixels; `vote` weighs it against others in the same pixel.
  add(x: number, y: number, w: number, h: number, category: number, vote: number): void {
    this.isUsed = true;
    const left = Math.max(Math.floor(x), 0), right = Math.min(Math.ceil(x + w), this.width);
    const top = Math.max(Math.floor(y), 0), bottom = Math.min(Math.ceil(y + h), this.height);
    // Blocks that it fills from end to end.
    const firstBlock = Math.max(Math.ceil(x / BLOCK), 0), endBlock = Math.min(Math.floor((x + w) / BLOCK), this.blocks);
    const hasBlocks = endBlock > firstBlock;
    const leftEnd = hasBlocks ? firstBlock * BLOCK : right, rightBegin = hasBlocks ? endBlock * BLOCK : right;
    for (let row = top; row < bottom; ++row) {
      const high = Math.min(y + h, row + 1) - Math.max(y, row);
      const at = row * this.width;
      for (let column = left; column < leftEnd; ++column)
        this.fine.add(at + column, high * (Math.min(x + w, column + 1) - Math.max(x, column)), category, vote);
      for (let block = firstBlock; block < endBlock; ++block)
        this.coarse.add(row * this.blocks + block, high, category, vote);
      for (let column = rightBegin; column < right; ++column)
        this.fine.add(at + column, high * (Math.min(x + w, column + 1) - Math.max(x, column)), category, vote);
    }
  }

  /// How much of a pixel is covered; `categoryAt` says by what.
  coverAt(row: number, column: number): number {
    return this.fine.covered[row * this.width + column] + this.coarse.covered[row * this.blocks + (column / BLOCK | 0)];
  }
  categoryAt(row: number, column: number): number {
    const cell = row * this.width + column, block = row * this.blocks + (column / BLOCK | 0);
    return this.fine.weight[cell] > this.coarse.weight[block] ? this.fine.category[cell] : this.coarse.category[block];
  }
}

/// Sorts `which` into rectangles and cells. `votes` says how much a buffer counts in a shared pixel.
export function divide(boxes: Boxes, which: Int32Array, window: Window, categories: Uint16Array,
  votes: Float32Array | null, cells: Cells, into: Layers): void {
  cells.reset(Math.max(Math.ceil(window.width), 1), Math.max(Math.ceil(window.height), 1));
  const perStep = window.width / (window.t1 - window.t0);
  const perByte = window.height / (window.a1 - window.a0);
  into.count = 0;
  into.aggregated = 0;
  if (into.buffers.length < which.length) {
    into.buffers = new Int32Array(which.length);
    into.places = new Float32Array(4 * which.length);
  }
  for (let i = 0; i < which.length; ++i) {
    const b = which[i];
    if (boxes.end[b] <= window.t0 || boxes.begin[b] >= window.t1 || boxes.offset[b] >= window.a1 ||
        boxes.offset[b] + boxes.size[b] <= window.a0)
      continue;
    const x = (boxes.begin[b] - window.t0) * perStep;
    const w = (boxes.end[b] - boxes.begin[b]) * perStep;
    const h = boxes.size[b] * perByte;
    const y = window.height - (boxes.offset[b] - window.a0) * perByte - h;
    if (w < 1 || h < 1) {
      ++into.aggregated;
      cells.add(x, y, w, h, categories[b], votes ? votes[b] : 1);
      continue;
    }
    const at = into.count++;
    into.buffers[at] = b;
    into.places[4 * at] = x;
    into.places[4 * at + 1] = y;
    into.places[4 * at + 2] = w;
    into.places[4 * at + 3] = h;
  }
}

export function noLayers(): Layers {
  return { buffers: new Int32Array(0), places: new Float32Array(0), count: 0, aggregated: 0 };
}
