// Matrix products that a generated kernel uses up while their rows are in the cache.
//
//            b                      Every thread takes some tiles of rows. A tile is summed into the
//          |####|                   thread's scratch, in the order of TileProduct.h, and the kernel runs
//     |==|======|  tile -> kernel   over it before the next one is. Sums do not depend on how rows are cut
//   a |  |      |                   into tiles, nor on the number of threads.
//     |  |      |
#pragma once

#include "runtime/device/Device.h"
#include "runtime/host/Library.h"

#include <memory>

namespace stow::host {

/// The fewest columns that the loops take.
inline constexpr int64_t leastRowColumns = 16;

/// The left factor, [rows, depth] or, transposed, [depth, rows], and the right one, [depth, columns]: f32,
/// row-major.
struct RowFactors {
  const float *left, *right;
  bool isTransposed = false;
  int64_t rows = 0, columns = 0, depth = 0;
};

/// The rows [first, first + count) of the product: `tile`, row-major.
void multiplyRows(const RowFactors &factors, int64_t first, int64_t count, float *tile);

/// Scratch of a product that runs by tiles of `tileRows`.
Bytes productRowsScratchBytes(int64_t rows, int64_t columns, int64_t tileRows, int64_t threads);

/// Binds the command "product_map" to `arena`. Its operands are the factors, then what its kernels read and
/// write; its parts the kernel of a tile, over the tile and the rest of the operands as the first tile has
/// them, and, where the last tile has fewer rows, the kernel of that. Ints: transpose_a; rows, of a tile;
/// steps, for each of the kernels' operands but the tile the bytes from one tile's to the next one's.
/// Throws Error(BadInput) for kernels that the image lacks and for too little scratch.
std::unique_ptr<LibraryCall> bindProductRows(const Command &command, const ProgramImage &image,
                                             char *arena, int64_t threads);

} // namespace stow::host
