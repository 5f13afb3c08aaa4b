#include "runtime/host/loops/CodedProduct.h"

#include "runtime/base/Parallel.h"
#include "runtime/host/loops/Vectors.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stow::host {
namespace {

constexpr int64_t mostRows = 8;

/// Partial sums of an element.
constexpr int64_t sums = 16;

/// Tiles of w: rows and elements of each, 8 and 16 KiB. Rows of w that are multiplied with a part of x while that is in the first cache.
constexpr int64_t dotRows = 4, dotDepth = 512, dotGroup = 32, stripRows = 8, stripColumns = 512;

//===--- Codes as floats ------------------------------------------------------------------------===//

/// Where the codes of a block lie, and its scale.
struct Block {
  const uint8_t *codes;
  bool isUpper; ///< halves of bytes
  float scale;
};

/// The blocks of a tensor; tables are looked up once.
class Blocks {
public:
  Blocks(Quantization scheme, int64_t elements, const char *stored)
      : scheme(scheme), levels(normalLevels().data()), parts(partsOf(scheme, elements)),
        stored(stored), scaleTable(scaleLevels().data()) {
    for (int plane = 0; plane < 4; ++plane)
      for (int i = 0; i < 16; ++i)
        planes[plane][i] = reinterpret_cast<const uint8_t *>(levels + i)[plane];
  }

  STOW_INLINE Block at(int64_t element) const {
    const int64_t block = element / kQuantizedBlock;
    const bool isUpper = scheme == Quantization::Nf4 && element >= parts.scales;
    const auto *codes =
        reinterpret_cast<const uint8_t *>(stored + element - (isUpper ? parts.scales : 0));
    if (scheme == Quantization::Int8)
      return {codes, false, floatAt(parts.scales, block)};
    const float level = scaleTable[static_cast<uint8_t>(stored[parts.scales + block])];
    const float rest = level * floatAt(parts.outerScales, block / kScaleBlock);
    return {codes, isUpper, rest + floatAt(parts.mean, 0)};
  }

  const Quantization scheme;
  const float *const levels;
  alignas(16) uint8_t planes[4][16]; ///< of all levels the first bytes, the second ones, ...

private:
  STOW_INLINE float floatAt(Bytes begin, int64_t index) const {
    float value;
    std::memcpy(&value, stored + begin + index * static_cast<Bytes>(sizeof(float)), sizeof(value));
    return value;
  }

  const QuantizedParts parts;
  const char *stored;
  const float *scaleTable; ///< levels of nf4's scales
};

void decodePlain(const Blocks &blocks, int64_t first, int64_t count, int64_t, float *to) {
  for (int64_t begin = 0; begin < count; begin += kQuantizedBlock) {
    const Block block = blocks.at(first + begin);
    for (int64_t i = 0; i < kQuantizedBlock; ++i) {
      const uint8_t byte = block.codes[i];
      to[begin + i] = (blocks.scheme == Quantization::Int8
                           ? static_cast<float>(static_cast<int8_t>(byte))
                           : blocks.levels[block.isUpper ? byte >> 4 : byte & 15]) *
                      block.scale;
    }
  }
}

#if defined(__x86_64__)
/// Levels are looked up byte by byte: the first bytes of 32 of them, the second ones, ..., which are then put together.
__attribute__((target("avx2,fma"))) void decodeAvx2(const Blocks &blocks, int64_t first,
                                                    int64_t count, int64_t ahead, float *to) {
  constexpr int64_t lanes = 8;
  __m256i planes[4];
  for (int plane = 0; plane < 4; ++plane)
    planes[plane] = _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i *>(blocks.planes[plane])));
  // What is put together lies in halves of vectors: the fours of elements that meet in one.
  const __m256i fours = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  const __m256i lower = _mm256_set1_epi8(15);
  for (int64_t begin = 0; begin < count; begin += kQuantizedBlock) {
    const Block block = blocks.at(first + begin);
    __builtin_prefetch(block.codes + ahead, 0, 2);
    const __m256 scale = _mm256_set1_ps(block.scale);
    if (blocks.scheme == Quantization::Int8) {
      for (int64_t i = 0; i < kQuantizedBlock; i += lanes) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(block.codes + i));
        const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
        _mm256_storeu_ps(to + begin + i, _mm256_mul_ps(whole, scale));
      }
      continue;
    }
    for (int64_t i = 0; i < kQuantizedBlock; i += 4 * lanes) {
      __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(block.codes + i));
      if (block.isUpper)
        codes = _mm256_srli_epi16(codes, 4);
      codes = _mm256_permutevar8x32_epi32(_mm256_and_si256(codes, lower), fours);
      __m256i bytes[4];
      for (int plane = 0; plane < 4; ++plane)
        bytes[plane] = _mm256_shuffle_epi8(planes[plane], codes);
      const __m256i low[2] = {_mm256_unpacklo_epi8(bytes[0], bytes[1]),
                              _mm256_unpackhi_epi8(bytes[0], bytes[1])};
      const __m256i high[2] = {_mm256_unpacklo_epi8(bytes[2], bytes[3]),
                               _mm256_unpackhi_epi8(bytes[2], bytes[3])};
      for (int half = 0; half < 2; ++half) {
        const __m256i one = _mm256_unpacklo_epi16(low[half], high[half]);
        const __m256i other = _mm256_unpackhi_epi16(low[half], high[half]);
        float *at = to + begin + i + 2 * half * lanes;
        _mm256_storeu_ps(at, _mm256_mul_ps(_mm256_castsi256_ps(one), scale));
        _mm256_storeu_ps(at + lanes, _mm256_mul_ps(_mm256_castsi256_ps(other), scale));
      }
    }
  }
}

__attribute__((target("avx512f,avx512vl,avx2,fma"))) void
decodeAvx512(const Blocks &blocks, int64_t first, int64_t count, int64_t ahead, float *to) {
  constexpr int64_t lanes = 16;
  const __m512 levels = _mm512_loadu_ps(blocks.levels);
  for (int64_t begin = 0; begin < count; begin += kQuantizedBlock) {
    const Block block = blocks.at(first + begin);
    __builtin_prefetch(block.codes + ahead, 0, 2);
    const __m512 scale = _mm512_set1_ps(block.scale);
    for (int64_t i = 0; i < kQuantizedBlock; i += lanes) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(block.codes + i));
      __m512 level;
      if (blocks.scheme == Quantization::Int8) {
        level = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
      } else { // lanes are chosen by the lower four bits
        const __m512i code = _mm512_cvtepu8_epi32(bytes);
        level = _mm512_permutexvar_ps(block.isUpper ? _mm512_srli_epi32(code, 4) : code, levels);
      }
      _mm512_storeu_ps(to + begin + i, _mm512_mul_ps(level, scale));
    }
  }
}
#endif

/// Each number as narrowBf16 has it, in f32 still; `count` is a multiple of a block.
template <typename V> STOW_INLINE void roundAll(float *numbers, int64_t count) {
  using Bits = typename Kind<V>::Bits;
  using Signed = typename Kind<V>::Signed;
  for (int64_t i = 0; i < count; i += lanesOf<V>) {
    const Bits bits = (Bits)at<V>(numbers + i);
    const Signed isNan = (Signed)(bits & 0x7fffffff) > 0x7f800000;
    const Bits rounded = bits + 0x7fff + (bits >> 16 & 1), quiet = bits | 0x400000;
    at<V>(numbers + i) = (V)((isNan ? quiet : rounded) & 0xffff0000);
  }
}

/// The same of narrowF16, there and back by the processor's own conversions where it has them.
void roundF16Plain(float *numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = widenF16(narrowF16(numbers[i]));
}
#if defined(__x86_64__)
__attribute__((target("avx2,f16c"))) void roundF16Avx2(float *numbers, int64_t count) {
  for (int64_t i = 0; i < count; i += 8)
    _mm256_storeu_ps(numbers + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(numbers + i),
                                                                  _MM_FROUND_TO_NEAREST_INT)));
}
#endif

#define STOW_FOR(name, target, V)                                                                  \
  target void round##name(float *numbers, int64_t count) { roundAll<V>(numbers, count); }
STOW_FOR_INSTRUCTION_SETS(STOW_FOR)
#undef STOW_FOR

using RoundFn = void (*)(float *numbers, int64_t count);

/// Null where nothing is rounded.
RoundFn roundFn(Rounding rounding) {
  switch (rounding) {
  case Rounding::None:
    return nullptr;
  case Rounding::Bf16:
    return STOW_FOR_INSTRUCTIONS(round);
  case Rounding::F16:
#if defined(__x86_64__)
    return usesAvx2() ? roundF16Avx2 : roundF16Plain;
#else
    return roundF16Plain;
#endif
  }
  return nullptr;
}

/// Elements [first, first + count). Codes `ahead` elements further are asked for, as they are read soon.
using DecodeFn = void (*)(const Blocks &, int64_t first, int64_t count, int64_t ahead, float *to);

DecodeFn decodeFn() { return STOW_FOR_INSTRUCTIONS(decode); }

/// Rows of w as floats, a tile at a time.
class CodedRows {
public:
  CodedRows(const FewRows &product, Quantization scheme, const char *stored, Rounding rounding)
      : blocks(scheme, product.columns * product.depth, stored), decode(decodeFn()),
        round(roundFn(rounding)), pitch(product.isTransposed ? product.depth : product.columns),
        ahead(product.isTransposed ? dotDepth : stripRows * product.columns) {}

  /// Elements [begin, begin + count) of a row, in `tile`. What is read next is the rest of the row or, of strips, the same part of
  /// later rows.
  const float *load(int64_t row, int64_t begin, int64_t count, float *tile) const {
    decode(blocks, row * pitch + begin, count, ahead, tile);
    if (round)
      round(tile, count);
    return tile;
  }

private:
  const Blocks blocks;
  const DecodeFn decode;
  const RoundFn round; ///< null: numbers multiply as they are
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

template <typename Loops, typename Rows>
void multiply(const FewRows &product, Loops loops, const Rows &w, const float *x, float *y,
              int64_t threads) {
  const int64_t unit = product.isTransposed ? dotRows : kQuantizedBlock;
  const int64_t units = (product.columns + unit - 1) / unit;
  parallelFor(units, threads, [&](int64_t begin, int64_t end) {
    loops(product, w, x, y, begin * unit, std::min(end * unit, product.columns));
  });
}

} // namespace

bool takesCodes(const FewRows &product) {
  const int64_t row = product.isTransposed ? product.depth : product.columns;
  return product.rows >= 1 && product.rows <= mostRows && row % kQuantizedBlock == 0;
}

void multiplyCodes(const FewRows &product, Quantization scheme, const float *x, const char *stored,
                   float *y, int64_t threads, Rounding rounding) {
  multiply(product, STOW_FOR_INSTRUCTIONS(codes), CodedRows(product, scheme, stored, rounding), x,
           y, threads);
}

void multiplyFloats(const FewRows &product, const float *x, const float *w, float *y,
                    int64_t threads) {
  multiply(product, STOW_FOR_INSTRUCTIONS(floats), FloatRows(product, w), x, y, threads);
}

void decode(Quantization scheme, int64_t elements, const char *stored, int64_t first, int64_t count,
            float *to) {
  decodeFn()(Blocks(scheme, elements, stored), first, count, count, to);
}

} // namespace stow::host
