// Products of small tiles in caches, inlined into loops that are compiled for one instruction set.
//
//   c [rows, columns] = a b, or c += a b
//
// a is read element by element, at any strides; b in panels of 16 columns, whose rows may lie at any
// distance; c in rows. A block of c, 6 rows for AVX2 and 12 for AVX-512, stays in registers over the
// whole depth:
//
//               b   |--16--|              12 accumulators, 2 vectors of b (or 1) and an element
//         depth     |      |              of a: all there is room for, and enough independent
//                   |      |              sums to hide the latency of multiply-add (K. Goto,
//   a  ======    c  |======|  rows        R. van de Geijn, "Anatomy of high-performance matrix
//                                         multiplication", 2008)
//
// A sum runs over the depth in order, whatever the block: results do not depend on how tiles are cut.
#pragma once

#include "runtime/host/loops/Vectors.h"

namespace stow::host {

/// Columns of a panel of b.
inline constexpr int64_t panelColumns = 16;

/// Elements from one to the next row of a tile with `columns`: whole panels, an odd number of them, so that the
/// rows spread over the lines of the cache.
constexpr int64_t tilePitch(int64_t columns) {
  return ((columns + panelColumns - 1) / panelColumns | 1) * panelColumns;
}

/// Eight rows of eight floats, `pitch` apart, as columns, sixteen apart.
STOW_INLINE void transpose8(const float *from, int64_t pitch, float *to) {
  F8 r[8], a[8], b[8];
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i)
    r[i] = at<F8>(from + i * pitch);
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; i += 4)
#pragma clang loop unroll(full)
    for (int half = 0; half < 2; ++half) {
      const F8 &low = a[i + half], &high = a[i + 2 + half];
      b[i + 2 * half] = __builtin_shufflevector(low, high, 0, 1, 8, 9, 4, 5, 12, 13);
      b[i + 2 * half + 1] = __builtin_shufflevector(low, high, 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    at<F8>(to + i * panelColumns) =
        __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    at<F8>(to + (i + 4) * panelColumns) =
        __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// The left factor: element (row, k) is at `address[row * pitch + k]`, or, transposed, at `address[k * pitch
/// + row]`.
enum class Stored { AsItIs, Transposed };
template <Stored stored> struct LeftTile {
  const float *address;
  int64_t pitch;
  STOW_INLINE const float *row(int64_t row) const {
    return stored == Stored::AsItIs ? address + row * pitch : address + row;
  }
  STOW_INLINE float at(int64_t row, int64_t k) const {
    return stored == Stored::AsItIs ? address[row * pitch + k] : address[k * pitch + row];
  }
};
using Left = LeftTile<Stored::AsItIs>;
using LeftTransposed = LeftTile<Stored::Transposed>;

/// The right factor: columns [16 p, 16 p + 16) of row k are at `address + p * panelStride + k *
/// depthStride`.
struct RightTile {
  const float *address;
  int64_t panelStride, depthStride;
};

/// The product: rows are `pitch` elements apart.
struct ProductTile {
  float *address;
  int64_t pitch;
};

enum class Writes { Assigns, Adds };

/// `rows` rows of one panel; V is a vector of 8 or 16 floats.
template <typename V, int rows, Stored stored>
STOW_INLINE void multiplyBlock(LeftTile<stored> a, const float *b, int64_t depthStride,
                               int64_t depth, ProductTile c, Writes writes) {
  constexpr int vectors = panelColumns / lanesOf<V>;
  V sums[rows][vectors];
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i) {
      if (writes == Writes::Adds)
        sums[row][i] = at<V>(c.address + row * c.pitch + i * lanesOf<V>);
      else
        sums[row][i] = V{};
    }
  // Unrolled for AVX2, the compiler gathers the elements of several k of each row first, and spills most of the sums.
#pragma clang loop unroll_count(lanesOf<V> == panelColumns ? 4 : 1)
  for (int64_t k = 0; k < depth; ++k) {
    V right[vectors];
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      right[i] = at<V>(b + k * depthStride + i * lanesOf<V>);
#pragma clang loop unroll(full)
    for (int row = 0; row < rows; ++row) {
      const float left = a.at(row, k);
#pragma clang loop unroll(full)
      for (int i = 0; i < vectors; ++i)
        sums[row][i] += left * right[i];
    }
  }
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      at<V>(c.address + row * c.pitch + i * lanesOf<V>) = sums[row][i];
}

/// The last `rows` of a product, fewer than a block.
template <typename V, int most, Stored stored>
STOW_INLINE void multiplyRest(LeftTile<stored> a, const float *b, int64_t depthStride,
                              int64_t depth, ProductTile c, Writes writes, int64_t rows) {
  if constexpr (most > 0) {
    if (rows == most)
      multiplyBlock<V, most>(a, b, depthStride, depth, c, writes);
    else
      multiplyRest<V, most - 1>(a, b, depthStride, depth, c, writes, rows);
  }
}

/// c = a b or c += a b with `panels` panels of columns.
template <typename V, Stored stored>
STOW_INLINE void multiplyTiles(LeftTile<stored> a, RightTile b, ProductTile c, int64_t rows,
                               int64_t panels, int64_t depth, Writes writes) {
  constexpr int block = lanesOf<V> == panelColumns ? 12 : 6;
  for (int64_t panel = 0; panel < panels; ++panel) {
    const float *right = b.address + panel * b.panelStride;
    for (int64_t row = 0; row < rows; row += block) {
      const LeftTile<stored> left = {a.row(row), a.pitch};
      const ProductTile to = {c.address + row * c.pitch + panel * panelColumns, c.pitch};
      if (rows - row >= block)
        multiplyBlock<V, block>(left, right, b.depthStride, depth, to, writes);
      else
        multiplyRest<V, block - 1>(left, right, b.depthStride, depth, to, writes, rows - row);
    }
  }
}

/// e to the power of x, to 1e-7 of it (two units in the last place): 2^n times the Taylor-like
/// polynomial of S. Moshier's Cephes library. 0 below -87.3, where float would be subnormal.
template <typename V> STOW_INLINE void exponential(const V &x, V &result) {
  using Signed = typename Kind<V>::Signed;
  const V low = V{} - 87.3f, high = V{} + 88.7f;
  const Signed vanishes = x < low;
  V bounded = x < low ? low : x;
  bounded = bounded > high ? high : bounded;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const V shifted = bounded * 1.44269504088896341f + 12582912.0f;
  const V n = shifted - 12582912.0f;
  const V r = bounded - n * 0.693359375f - n * -2.12194440e-4f;
  V p = V{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const V power = (V)(((Signed)shifted << 23) + 0x3f800000);
  p *= power;
  result = vanishes ? V{} : p;
}

} // namespace stow::host
