#include "runtime/host/loops/CodedProduct.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/CodedBlocks.h"

#include <algorithm>

namespace stow::host {
namespace {

constexpr int64_t mostRows = 8;

/// Partial sums of an element.
constexpr int64_t sums = 16;

/// Tiles of w: rows and elements of each, 8 and 16 KiB. Rows of w that are multiplied with a part of x while that is in the first cache.
constexpr int64_t dotRows = 4, dotDepth = 512, dotGroup = 32, stripRows = 8, stripColumns = 512;

//===--- Codes as floats ------------------------------------------------------------------------===//

/// Elements [first, first + count). Codes `ahead` elements further are asked for, as they are read soon.
using DecodeFn = void (*)(const CodedBlocks &, int64_t first, int64_t count, int64_t ahead,
                          float *to);

#define STOW_FOR(name, target, V)                                                                  \
  template <Quantization scheme, Rounding rounding>                                                \
  target void decode##name(const CodedBlocks &blocks, int64_t first, int64_t count, int64_t ahead, \
                           float *to) {                                                            \
    constexpr int64_t most = CodedRun::most * kQuantizedBlock;                                     \
    CodedRun run;                                                                                  \
    for (int64_t part = 0; part < count; part += most) {                                           \
      const int64_t size = std::min(most, count - part) / kQuantizedBlock;                         \
      find##name<scheme, rounding>(blocks, first + part, size, run);                               \
      for (int64_t i = 0; i < size; ++i, to += kQuantizedBlock) {                                  \
        __builtin_prefetch(run.codes[i] + ahead, 0, 2);                                            \
        V numbers[kQuantizedBlock / lanesOf<V>];                                                   \
        numbers##name<scheme, rounding>(blocks, run, i, numbers);                                  \
        for (int64_t lane = 0; lane < kQuantizedBlock; lane += lanesOf<V>)                         \
          at<V>(to + lane) = numbers[lane / lanesOf<V>];                                           \
      }                                                                                            \
    }                                                                                              \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

/// What `function` gives for the scheme and the rounding, which are arguments of its call operator's template.
template <typename Function>
auto forScheme(Quantization scheme, Rounding rounding, const Function &function) {
  auto forRounding = [&]<Quantization known>() {
    switch (rounding) {
    case Rounding::Bf16:
      return function.template operator()<known, Rounding::Bf16>();
    case Rounding::F16:
      return function.template operator()<known, Rounding::F16>();
    case Rounding::None:
      break;
    }
    return function.template operator()<known, Rounding::None>();
  };
  return scheme == Quantization::Nf4 ? forRounding.template operator()<Quantization::Nf4>()
                                     : forRounding.template operator()<Quantization::Int8>();
}

DecodeFn decodeFn(Quantization scheme, Rounding rounding) {
  return forScheme(scheme, rounding, []<Quantization known, Rounding how>() -> DecodeFn {
    return usesAvx512() ? decodeAvx512<known, how>
           : usesAvx2() ? decodeAvx2<known, how>
                        : decodePlain<known, how>;
  });
}

/// Rows of w as floats, a tile at a time.
class CodedRows {
public:
  CodedRows(const FewRows &product, Quantization scheme, const char *stored, Rounding rounding)
      : blocks(scheme, product.columns * product.depth, stored), decode(decodeFn(scheme, rounding)),
        pitch(product.isTransposed ? product.depth : product.columns),
        ahead(product.isTransposed ? dotDepth : stripRows * product.columns) {}

  /// Elements [begin, begin + count) of a row, in `tile`. What is read next is the rest of the row or, of strips, the same part of
  /// later rows.
  const float *load(int64_t row, int64_t begin, int64_t count, float *tile) const {
    decode(blocks, row * pitch + begin, count, ahead, tile);
    return tile;
  }

private:
  const CodedBlocks blocks;
  const DecodeFn decode;
  const int64_t pitch, ahead;
};

class FloatRows {
public:
  FloatRows(const FewRows &product, const float *w)
      : w(w), pitch(product.isTransposed ? product.depth : product.columns) {}

  const float *load(int64_t row, int64_t begin, int64_t, float *) const {
    return w + row * pitch + begin;
  }

private:
  const float *w;
  const int64_t pitch;
};

//===--- Transposed -----------------------------------------------------------------------------===//

using Partial = float (*)[dotRows][sums];

/// partial[row][n] += x[row, k] w[n][k] for k in [0, depth), in `sums` lanes each, of which a vector has all or half.
template <typename V, int rows, int columns>
STOW_INLINE void addDots(const float *x, int64_t xPitch, const float *const *w, int64_t depth,
                         Partial partial, int64_t firstRow, int64_t firstColumn) {
  for (int64_t lane = 0; lane < sums; lane += lanesOf<V>) {
    V tile[rows][columns];
#pragma clang loop unroll(full)
    for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
      for (int n = 0; n < columns; ++n)
        tile[row][n] = at<V>(partial[firstRow + row][firstColumn + n] + lane);
    for (int64_t k = lane; k < depth; k += sums) {
      V right[columns];
#pragma clang loop unroll(full)
      for (int n = 0; n < columns; ++n)
        right[n] = at<V>(w[firstColumn + n] + k);
#pragma clang loop unroll(full)
      for (int row = 0; row < rows; ++row) {
        const V left = at<V>(x + (firstRow + row) * xPitch + k);
#pragma clang loop unroll(full)
        for (int n = 0; n < columns; ++n)
          tile[row][n] += left * right[n];
      }
    }
#pragma clang loop unroll(full)
    for (int row = 0; row < rows; ++row)
#pragma clang loop unroll(full)
      for (int n = 0; n < columns; ++n)
        at<V>(partial[firstRow + row][firstColumn + n] + lane) = tile[row][n];
  }
}

/// The partial sums of an element, added up in halves.
inline float joined(const float *partial) {
  float values[sums];
  std::copy_n(partial, sums, values);
  for (int64_t half = sums / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      values[i] += values[i + half];
  return values[0];
}

/// Adds the products of all rows of x with up to `dotRows` rows of w, over contracted elements [k, k + depth).
template <typename V, typename Rows>
STOW_INLINE void addTile(const FewRows &product, const Rows &w, const float *x, int64_t column,
                         int64_t count, int64_t k, int64_t depth, Partial partial) {
  constexpr int block = 4,
                columns = lanesOf<V> == sums ? dotRows : 2; // whose sums stay in registers
  alignas(64) float tile[dotRows][dotDepth];
  const float *right[dotRows];
  for (int64_t n = 0; n < dotRows; ++n) // the last row stands for those that are not there
    right[n] = n < count ? w.load(column + n, k, depth, tile[n]) : right[n - 1];
  int64_t row = 0;
  for (; row + block <= product.rows; row += block)
    for (int64_t n = 0; n < dotRows; n += columns)
      addDots<V, block, columns>(x + k, product.depth, right, depth, partial, row, n);
  for (; row + 2 <= product.rows; row += 2)
    addDots<V, 2, dotRows>(x + k, product.depth, right, depth, partial, row, 0);
  for (; row < product.rows; ++row)
    addDots<V, 1, dotRows>(x + k, product.depth, right, depth, partial, row, 0);
}

/// Columns [begin, end) of y, whose elements are products of rows.
template <typename V, typename Rows>
STOW_INLINE void multiplyDots(const FewRows &product, const Rows &w, const float *x, float *y,
                              int64_t begin, int64_t end) {
  alignas(64) float partial[dotGroup / dotRows][mostRows][dotRows][sums];
  for (int64_t group = begin; group < end; group += dotGroup) {
    const int64_t last = std::min(group + dotGroup, end);
    std::memset(partial, 0, sizeof(partial));
    for (int64_t k = 0; k < product.depth; k += dotDepth)
      for (int64_t column = group; column < last; column += dotRows)
        addTile<V>(product, w, x, column, std::min(dotRows, last - column), k,
                   std::min(dotDepth, product.depth - k), partial[(column - group) / dotRows]);
    for (int64_t row = 0; row < product.rows; ++row)
      for (int64_t column = group; column < last; ++column)
        y[row * product.columns + column] =
            joined(partial[(column - group) / dotRows][row][(column - group) % dotRows]);
  }
}

//===--- Transposed, one row --------------------------------------------------------------------===//

/// Columns of one row that are computed beside each other: one's sums wait while the others' are added.
constexpr int64_t rowColumns = 2;

/// sum += x[i] numbers[i] for a block, in `sums` lanes: the order of addDots.
template <typename V> STOW_INLINE void addBlock(const float *x, const V *numbers, V *sum) {
#pragma clang loop unroll(full)
  for (int64_t i = 0; i < kQuantizedBlock / lanesOf<V>; ++i)
    sum[i % (sums / lanesOf<V>)] += at<V>(x + i * lanesOf<V>) * numbers[i];
}

/// y[column] for [begin, end): numbers multiply where they are decoded, in registers. Behind the end the last column stands for those
/// that are not there.
#define STOW_FOR(name, target, V)                                                                  \
  template <Quantization scheme, Rounding rounding>                                                \
  target void row##name(const FewRows &product, const CodedBlocks &blocks, const float *x,         \
                        float *y, int64_t begin, int64_t end) {                                    \
    constexpr int64_t most = CodedRun::most * kQuantizedBlock;                                     \
    CodedRun runs[rowColumns];                                                                     \
    for (int64_t column = begin; column < end; column += rowColumns) {                             \
      alignas(64) V sum[rowColumns][sums / lanesOf<V>] = {};                                       \
      for (int64_t part = 0; part < product.depth; part += most) {                                 \
        const int64_t size = std::min(most, product.depth - part) / kQuantizedBlock;               \
        for (int64_t n = 0; n < rowColumns; ++n)                                                   \
          find##name<scheme, rounding>(                                                            \
              blocks, std::min(column + n, end - 1) * product.depth + part, size, runs[n]);        \
        for (int64_t i = 0; i < size; ++i)                                                         \
          _Pragma("clang loop unroll(full)") for (int64_t n = 0; n < rowColumns; ++n) {            \
            __builtin_prefetch(runs[n].codes[i] + dotDepth, 0, 2);                                 \
            V numbers[kQuantizedBlock / lanesOf<V>];                                               \
            numbers##name<scheme, rounding>(blocks, runs[n], i, numbers);                          \
            addBlock<V>(x + part + i * kQuantizedBlock, numbers, sum[n]);                          \
          }                                                                                        \
      }                                                                                            \
      for (int64_t n = 0; n < std::min(rowColumns, end - column); ++n)                             \
        y[column + n] = joined(reinterpret_cast<const float *>(sum[n]));                           \
    }                                                                                              \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

using RowFn = void (*)(const FewRows &, const CodedBlocks &, const float *x, float *y,
                       int64_t begin, int64_t end);

RowFn rowFn(Quantization scheme, Rounding rounding) {
  return forScheme(scheme, rounding, []<Quantization known, Rounding how>() -> RowFn {
    return usesAvx512() ? rowAvx512<known, how>
           : usesAvx2() ? rowAvx2<known, how>
                        : rowPlain<known, how>;
  });
}

//===--- As it lies -----------------------------------------------------------------------------===//

/// to[row, i] += x[row, k] w[k][i] for k in [0, depth).
template <typename V, int rows>
STOW_INLINE void addScaled(const float *x, int64_t xPitch, const float *const *w, int64_t depth,
                           int64_t width, float *to, int64_t pitch) {
  for (int64_t i = 0; i < width; i += lanesOf<V>) {
    V tile[rows];
#pragma clang loop unroll(full)
    for (int row = 0; row < rows; ++row)
      tile[row] = at<V>(to + row * pitch + i);
    for (int64_t k = 0; k < depth; ++k) {
      const V right = at<V>(w[k] + i);
#pragma clang loop unroll(full)
      for (int row = 0; row < rows; ++row)
        tile[row] += x[row * xPitch + k] * right;
    }
#pragma clang loop unroll(full)
    for (int row = 0; row < rows; ++row)
      at<V>(to + row * pitch + i) = tile[row];
  }
}

/// Columns [begin, end) of y, which are multiples of a block.
template <typename V, typename Rows>
STOW_INLINE void multiplyStrips(const FewRows &product, const Rows &w, const float *x, float *y,
                                int64_t begin, int64_t end) {
  alignas(64) float tile[stripRows][stripColumns];
  for (int64_t column = begin; column < end; column += stripColumns) {
    const int64_t width = std::min(stripColumns, end - column);
    for (int64_t row = 0; row < product.rows; ++row)
      std::fill_n(y + row * product.columns + column, width, 0.0f);
    for (int64_t k = 0; k < product.depth; k += stripRows) {
      const int64_t depth = std::min(stripRows, product.depth - k);
      const float *right[stripRows];
      for (int64_t i = 0; i < depth; ++i)
        right[i] = w.load(k + i, column, width, tile[i]);
      int64_t row = 0;
      for (; row + 4 <= product.rows; row += 4)
        addScaled<V, 4>(x + row * product.depth + k, product.depth, right, depth, width,
                        y + row * product.columns + column, product.columns);
      for (; row < product.rows; ++row)
        addScaled<V, 1>(x + row * product.depth + k, product.depth, right, depth, width,
                        y + row * product.columns + column, product.columns);
    }
  }
}

//===--- Both -----------------------------------------------------------------------------------===//

template <typename V, typename Rows>
STOW_INLINE void runLoops(const FewRows &product, const Rows &w, const float *x, float *y,
                          int64_t begin, int64_t end) {
  if (product.isTransposed)
    multiplyDots<V>(product, w, x, y, begin, end);
  else
    multiplyStrips<V>(product, w, x, y, begin, end);
}

#define STOW_FOR(name, target, V)                                                                  \
  target void codes##name(const FewRows &product, const CodedRows &w, const float *x, float *y,    \
                          int64_t begin, int64_t end) {                                            \
    runLoops<V>(product, w, x, y, begin, end);                                                     \
  }                                                                                                \
  target void floats##name(const FewRows &product, const FloatRows &w, const float *x, float *y,   \
                           int64_t begin, int64_t end) {                                           \
    runLoops<V>(product, w, x, y, begin, end);                                                     \
  }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

/// run(begin, end) for columns of y, in tasks that begin where tiles do.
template <typename Run> void forColumns(const FewRows &product, int64_t threads, const Run &run) {
  const int64_t unit = product.isTransposed ? dotRows : kQuantizedBlock;
  const int64_t units = (product.columns + unit - 1) / unit;
  parallelFor(units, threads, [&](int64_t begin, int64_t end) {
    run(begin * unit, std::min(end * unit, product.columns));
  });
}

} // namespace

bool takesCodes(const FewRows &product) {
  const int64_t row = product.isTransposed ? product.depth : product.columns;
  return product.rows >= 1 && product.rows <= mostRows && row % kQuantizedBlock == 0;
}

void multiplyCodes(const FewRows &product, Quantization scheme, const float *x, const char *stored,
                   float *y, int64_t threads, Rounding rounding) {
  if (product.rows == 1 && product.isTransposed) {
    const CodedBlocks blocks(scheme, product.columns * product.depth, stored);
    const RowFn row = rowFn(scheme, rounding);
    forColumns(product, threads,
               [&](int64_t begin, int64_t end) { row(product, blocks, x, y, begin, end); });
    return;
  }
  const CodedRows w(product, scheme, stored, rounding);
  const auto loops = STOW_FOR_INSTRUCTIONS(codes);
  forColumns(product, threads,
             [&](int64_t begin, int64_t end) { loops(product, w, x, y, begin, end); });
}

void multiplyFloats(const FewRows &product, const float *x, const float *w, float *y,
                    int64_t threads) {
  const FloatRows rows(product, w);
  const auto loops = STOW_FOR_INSTRUCTIONS(floats);
  forColumns(product, threads,
             [&](int64_t begin, int64_t end) { loops(product, rows, x, y, begin, end); });
}

void decode(Quantization scheme, int64_t elements, const char *stored, int64_t first, int64_t count,
            float *to) {
  decodeFn(scheme, Rounding::None)(CodedBlocks(scheme, elements, stored), first, count, count, to);
}

} // namespace stow::host
