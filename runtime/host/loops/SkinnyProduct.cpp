#include "runtime/host/loops/SkinnyProduct.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/TileProduct.h"

#include <algorithm>
#include <cstring>

namespace stow::host {
namespace {

/// Rows of a product that has few: with fewer than half a vector of them transposed factors are multiplied
/// with zeros for the most part, with more the time goes into operations.
constexpr int64_t leastRows = 4, mostRows = 16;

/// Contracted elements of a product that has few, and of one that is added where panels would add it.
constexpr int64_t mostDepth = 16, mostAddedDepth = 64;

/// Elements of what is large: half of the second cache.
constexpr int64_t leastElements = 1 << 17;

/// Columns of the right factor that are walked down at a time: their sums stay in the first cache. Rows of it
/// that are added to them at a time.
constexpr int64_t stripColumns = 512, stripDepth = 24;

/// Rows of a transposed right factor that are multiplied at a time.
constexpr int dotRows = 12;

/// Most contracted elements that are summed before they are added to those before.
constexpr int64_t mostBlock = 1024;

/// Tiles in registers, of the sums over few rows and over few contracted elements: rows and vectors.
template <typename V> constexpr int stripRows = lanesOf<V> == 16 ? 8 : 4;
constexpr int stripVectors = 3;
template <typename V> constexpr int tileRows = lanesOf<V> == 16 ? 8 : 6;
template <typename V> constexpr int tileVectors = lanesOf<V> == 16 ? 3 : 2;

struct Addresses {
  const float *left, *right, *bias;
  float *result;
};

/// How the sums of a block of contracted elements join those before it, and, at last, the bias. V: a float or
/// a vector of them.
struct Finish {
  bool adds = false;
  const float *bias = nullptr; ///< none before the last block

  template <typename V> STOW_INLINE void operator()(float *to, V sum, int64_t column) const {
    if (adds)
      sum += at<V>(to);
    if (bias)
      sum += at<V>(bias + column);
    at<V>(to) = sum;
  }
};

/// Of the contracted elements [begin, end) of `depth`.
STOW_INLINE Finish finishOf(const Addresses &addresses, Becomes becomes, int64_t depth,
                            int64_t begin, int64_t end) {
  return {begin > 0 || becomes == Becomes::Added, end == depth ? addresses.bias : nullptr};
}

/// tile[row] += left[row * leftPitch] right for all rows.
template <typename V, int rows, int vectors>
STOW_INLINE void addOuterProduct(V (&tile)[rows][vectors], const float *left, int64_t leftPitch,
                                 const V (&right)[vectors]) {
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row) {
    const float a = left[row * leftPitch];
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      tile[row][i] += a * right[i];
  }
}

/// Rows and columns of both factors that meet in a part of the result.
struct Factors {
  const float *left;
  int64_t leftPitch;
  const float *right;
  int64_t rightPitch;
  int64_t depth; ///< contracted elements

  /// The same from column `column` of the right one on.
  Factors from(int64_t column) const {
    return {left, leftPitch, right + column, rightPitch, depth};
  }
};

//===--- Few rows -----------------------------------------------------------------------------===//

/// sums[row][i] += left[row, k] right[k, i] for `depth` rows of the right factor.
template <typename V, int rows, int vectors>
STOW_INLINE void addTile(const Factors &factors, float *sums, int64_t pitch) {
  const auto [left, leftPitch, right, rightPitch, depth] = factors;
  V tile[rows][vectors];
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      tile[row][i] = at<V>(sums + row * pitch + i * lanesOf<V>);
  for (int64_t k = 0; k < depth; ++k) {
    const float *address = right + k * rightPitch;
    V b[vectors];
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i) {
      b[i] = at<V>(address + i * lanesOf<V>);
      __builtin_prefetch(address + stripDepth * rightPitch + i * lanesOf<V>, 0, 2);
    }
    addOuterProduct(tile, left + k, leftPitch, b);
  }
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      at<V>(sums + row * pitch + i * lanesOf<V>) = tile[row][i];
}

/// Columns of a strip: whole vectors, and one that ends where the strip does.
template <typename V, int rows>
STOW_INLINE void addStrip(const Factors &factors, int64_t width, float *sums, int64_t pitch) {
  constexpr int64_t lanes = lanesOf<V>;
  int64_t i = 0;
  for (; i + stripVectors * lanes <= width; i += stripVectors * lanes)
    addTile<V, rows, stripVectors>(factors.from(i), sums + i, pitch);
  for (; i < width; i += lanes)
    addTile<V, rows, 1>(factors.from(std::min(i, width - lanes)), sums + i, pitch);
}

/// `rows` rows, `most` at most.
template <typename V, int most>
STOW_INLINE void addRestOfRows(const Factors &factors, int64_t width, float *sums, int64_t pitch,
                               int64_t rows) {
  if constexpr (most > 0) {
    if (rows == most)
      addStrip<V, most>(factors, width, sums, pitch);
    else
      addRestOfRows<V, most - 1>(factors, width, sums, pitch, rows);
  }
}

/// Columns [begin, end) of the product.
template <typename V>
STOW_INLINE void multiplyColumns(const PanelProduct &product, const Addresses &addresses,
                                 Becomes becomes, int64_t begin, int64_t end) {
  constexpr int64_t lanes = lanesOf<V>;
  const int64_t columns = product.columns, block = summedBlock(product.depth);
  alignas(64) float sums[mostRows * stripColumns];
  for (int64_t first = begin; first < end; first += stripColumns) {
    const int64_t width = std::min(stripColumns, end - first);
    const int64_t pitch = (width + lanes - 1) / lanes * lanes;
    for (int64_t k = 0; k < product.depth; k += block) {
      const int64_t last = std::min(k + block, product.depth);
      std::fill(sums, sums + product.rows * pitch, 0.0f);
      for (int64_t part = k; part < last; part += stripDepth) {
        const int64_t depth = std::min(stripDepth, last - part);
        const float *right = addresses.right + part * columns + first;
        for (int64_t row = 0; row < product.rows; row += stripRows<V>) {
          const float *left = addresses.left + row * product.depth + part;
          addRestOfRows<V, stripRows<V>>({left, product.depth, right, columns, depth}, width,
                                         sums + row * pitch, pitch,
                                         std::min<int64_t>(stripRows<V>, product.rows - row));
        }
      }
      const Finish finish = finishOf(addresses, becomes, product.depth, k, last);
      const int64_t whole = width / lanes * lanes;
      for (int64_t row = 0; row < product.rows; ++row) {
        float *to = addresses.result + row * columns + first;
        const float *from = sums + row * pitch;
        for (int64_t i = 0; i < whole; i += lanes)
          finish(to + i, V(at<V>(from + i)), first + i);
        for (int64_t i = whole; i < width; ++i)
          finish(to + i, from[i + pitch - width], first + i);
      }
    }
  }
}

//===--- Few rows, transposed -----------------------------------------------------------------===//

/// Contracted elements that are multiplied at a time: a line of the cache of each row.
constexpr int64_t dotDepth = 16;

/// How these are read: rows a multiple of 4 KiB apart fall into one place of the first cache, which has no
/// room for all of them, and are copied first.
enum class Reads { InPlace, Copies };

/// `count` of them, of `dots` rows of the right factor.
template <typename V, int vectors, int dots, Reads reads>
STOW_INLINE void addDots(const float *left, const float *right, int64_t depth, int64_t count,
                         V (&sums)[dots][vectors]) {
  constexpr int64_t pitch = vectors * lanesOf<V>;
  alignas(64) float copied[dots * dotDepth];
#pragma clang loop unroll(full)
  for (int row = 0; row < dots; ++row) {
    __builtin_prefetch(right + (dots + row) * depth, 0, 2);
    if constexpr (reads == Reads::Copies)
      std::memcpy(copied + row * dotDepth, right + row * depth,
                  static_cast<size_t>(count) * sizeof(float));
  }
  const float *from = reads == Reads::Copies ? copied : right;
  const int64_t fromPitch = reads == Reads::Copies ? dotDepth : depth;
#pragma clang loop unroll_count(4)
  for (int64_t i = 0; i < count; ++i) {
    V a[vectors];
#pragma clang loop unroll(full)
    for (int v = 0; v < vectors; ++v)
      a[v] = at<V>(left + i * pitch + v * lanesOf<V>);
#pragma clang loop unroll(full)
    for (int row = 0; row < dots; ++row) {
      const float b = from[row * fromPitch + i];
#pragma clang loop unroll(full)
      for (int v = 0; v < vectors; ++v)
        sums[row][v] += b * a[v];
    }
  }
}

/// Rows [begin, end) of the right factor, `dots` at a time; all rows of the left one are in `vectors`.
template <typename V, int vectors, int dots, Reads reads>
STOW_INLINE void multiplyTransposedBy(const PanelProduct &product, const Addresses &addresses,
                                      Becomes becomes, int64_t begin, int64_t end) {
  constexpr int64_t lanes = lanesOf<V>, pitch = vectors * lanes;
  const int64_t depth = product.depth, block = summedBlock(depth);
  alignas(64) float left[mostBlock * pitch];
  for (int64_t k = 0; k < depth; k += block) {
    const int64_t count = std::min(block, depth - k);
    for (int64_t row = 0; row < pitch; ++row)
      for (int64_t i = 0; i < count; ++i)
        left[i * pitch + row] = row < product.rows ? addresses.left[row * depth + k + i] : 0.0f;
    const Finish finish = finishOf(addresses, becomes, depth, k, k + count);
    for (int64_t column = begin; column < end; column += dots) {
      // The last rows are multiplied with some before them.
      const int64_t first = std::min(column, product.columns - dots);
      const float *right = addresses.right + first * depth + k;
      V tile[dots][vectors] = {};
      int64_t i = 0;
      for (; i + dotDepth <= count; i += dotDepth)
        addDots<V, vectors, dots, reads>(left + i * pitch, right + i, depth, dotDepth, tile);
      if (i < count)
        addDots<V, vectors, dots, reads>(left + i * pitch, right + i, depth, count - i, tile);
      alignas(64) float sums[dots * pitch];
#pragma clang loop unroll(full)
      for (int row = 0; row < dots; ++row)
#pragma clang loop unroll(full)
        for (int v = 0; v < vectors; ++v)
          at<V>(sums + row * pitch + v * lanes) = tile[row][v];
      const int64_t stop = std::min(column + dots, end);
      for (int64_t row = 0; row < product.rows; ++row) {
        float *to = addresses.result + row * product.columns;
        for (int64_t i = column; i < stop; ++i)
          finish(to + i, sums[(i - first) * pitch + row], i);
      }
    }
  }
}

template <typename V, int vectors, int dots>
STOW_INLINE void multiplyTransposed(const PanelProduct &product, const Addresses &addresses,
                                    Becomes becomes, int64_t begin, int64_t end) {
  if (product.depth % 1024 == 0)
    multiplyTransposedBy<V, vectors, dots, Reads::Copies>(product, addresses, becomes, begin, end);
  else
    multiplyTransposedBy<V, vectors, dots, Reads::InPlace>(product, addresses, becomes, begin, end);
}

//===--- Few contracted elements --------------------------------------------------------------===//

/// A tile of the result, left [depth, rows], right [depth, columns].
template <typename V, int rows, int vectors>
STOW_INLINE void sumTile(const Factors &factors, float *result, int64_t pitch, Finish finish,
                         int64_t column) {
  const auto [left, leftPitch, right, rightPitch, depth] = factors;
  V tile[rows][vectors] = {};
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      __builtin_prefetch(result + (tileRows<V> + row) * pitch + i * lanesOf<V>, 1, 2);
  for (int64_t k = 0; k < depth; ++k) {
    V b[vectors];
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      b[i] = at<V>(right + k * rightPitch + i * lanesOf<V>);
    addOuterProduct(tile, left + k * leftPitch, 1, b);
  }
#pragma clang loop unroll(full)
  for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
    for (int i = 0; i < vectors; ++i)
      finish(result + row * pitch + i * lanesOf<V>, tile[row][i], column + i * lanesOf<V>);
}

/// Rows [row, row + rows) of the result.
template <typename V, int rows>
STOW_INLINE void sumRows(const PanelProduct &product, const Addresses &addresses, Finish finish,
                         int64_t row) {
  constexpr int64_t lanes = lanesOf<V>;
  const int64_t columns = product.columns;
  const Factors factors{addresses.left + row, product.rows, addresses.right, columns,
                        product.depth};
  float *to = addresses.result + row * columns;
  int64_t i = 0;
  for (; i + tileVectors<V> * lanes <= columns; i += tileVectors<V> * lanes)
    sumTile<V, rows, tileVectors<V>>(factors.from(i), to + i, columns, finish, i);
  for (; i + lanes <= columns; i += lanes)
    sumTile<V, rows, 1>(factors.from(i), to + i, columns, finish, i);
  if (i == columns)
    return;
  // The last columns are summed with some before them.
  alignas(64) float last[rows * lanes];
  const int64_t first = columns - lanes;
  sumTile<V, rows, 1>(factors.from(first), last, lanes, {}, 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t column = i; column < columns; ++column)
      finish(to + r * columns + column, last[r * lanes + column - first], column);
}

/// The same for a number that is not known here, `most` at most.
template <typename V, int most>
STOW_INLINE void sumRestOfRows(const PanelProduct &product, const Addresses &addresses,
                               Finish finish, int64_t row, int64_t rows) {
  if constexpr (most > 0) {
    if (rows == most)
      sumRows<V, most>(product, addresses, finish, row);
    else
      sumRestOfRows<V, most - 1>(product, addresses, finish, row, rows);
  }
}

/// Rows [begin, end) of the result.
template <typename V>
STOW_INLINE void multiplyShallow(const PanelProduct &product, const Addresses &addresses,
                                 Becomes becomes, int64_t begin, int64_t end) {
  const Finish finish = finishOf(addresses, becomes, product.depth, 0, product.depth);
  for (int64_t row = begin; row < end; row += tileRows<V>)
    sumRestOfRows<V, tileRows<V>>(product, addresses, finish, row,
                                  std::min<int64_t>(tileRows<V>, end - row));
}

template <typename V>
STOW_INLINE void runLoops(const PanelProduct &product, const Addresses &addresses, Becomes becomes,
                          int64_t begin, int64_t end) {
  if (product.isLeftTransposed)
    multiplyShallow<V>(product, addresses, becomes, begin, end);
  else if (!product.isRightTransposed)
    multiplyColumns<V>(product, addresses, becomes, begin, end);
  else if (product.rows <= lanesOf<F8>)
    multiplyTransposed<F8, 1, dotRows>(product, addresses, becomes, begin, end);
  else if constexpr (lanesOf<V> == 16)
    multiplyTransposed<F16, 1, dotRows>(product, addresses, becomes, begin, end);
  else
    multiplyTransposed<F8, 2, dotRows / 2>(product, addresses, becomes, begin, end);
}

#define STOW_FOR(name, target, V)                                                                  \
  target void run##name(const PanelProduct &product, const Addresses &addresses, Becomes becomes,  \
                        int64_t begin, int64_t end) {                                              \
    runLoops<V>(product, addresses, becomes, begin, end);                                          \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

/// True for factors that lie as sums of few contracted elements have them, with a large result.
bool isForRows(const PanelProduct &product) {
  return product.count == 1 && !product.isRightTransposed && product.columns >= panelColumns &&
         product.rows * product.columns >= leastElements;
}

} // namespace

bool isSkinny(const PanelProduct &product) {
  if (product.isLeftTransposed)
    return product.depth <= mostDepth && isForRows(product);
  return product.count == 1 && product.rows >= leastRows && product.rows <= mostRows &&
         product.columns >= panelColumns && product.columns * product.depth >= leastElements;
}

bool addsByRows(const PanelProduct &product) {
  return product.isLeftTransposed && product.depth <= mostAddedDepth && isForRows(product);
}

void multiplySkinny(const PanelProduct &product, const float *left, const float *right,
                    const float *bias, float *result, Becomes becomes, int64_t threads) {
  const auto loops = STOW_FOR_INSTRUCTIONS(run);
  const int64_t extent = product.isLeftTransposed ? product.rows : product.columns;
  const int64_t unit = product.isRightTransposed && !product.isLeftTransposed ? dotRows : 16;
  const int64_t units = (extent + unit - 1) / unit;
  parallelFor(units, threads, [&](int64_t begin, int64_t end) {
    loops(product, {left, right, bias, result}, becomes, begin * unit,
          std::min(end * unit, extent));
  });
}

} // namespace stow::host
