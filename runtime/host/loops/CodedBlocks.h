// Blocks of 64 codes (runtime/base/Quantization.h) as vectors of floats, for each instruction set.
//
// A block of nf4 has 16 numbers: where they are rounded, they are so once for the block, as a table of 16 bits each, and looked up as
// what they are, two bytes instead of four. Lookups with AVX2 are of bytes, 32 codes at once, which are then put together; with AVX-512
// of 16 floats.
#pragma once

#include "runtime/host/loops/CodedProduct.h"
#include "runtime/host/loops/Vectors.h"

#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stow::host {

/// Blocks of a row that are read together. What they have once, a scale and a table, is made for all of them first, since nothing of one
/// waits for another there.
struct CodedRun {
  static constexpr int64_t most = 8; ///< blocks

  const uint8_t *codes[most];
  bool isUpper[most]; ///< halves of bytes
  float scales[most];
  alignas(32) uint8_t tables[most][32]; ///< of what rounds nf4 with AVX2
};

/// The blocks of a tensor.
class CodedBlocks {
public:
  CodedBlocks(Quantization scheme, int64_t elements, const char *stored)
      : levels(normalLevels().data()), parts(partsOf(scheme, elements)), stored(stored),
        scaleTable(scaleLevels().data()) {
    for (int plane = 0; plane < 4; ++plane)
      for (int i = 0; i < 16; ++i)
        planes[plane][i] = reinterpret_cast<const uint8_t *>(levels + i)[plane];
  }

  /// `count` blocks, of which the first begins at `element`, but for their tables. A scale that is no number gets no payload, so that
  /// rounding leaves it what it is.
  template <Quantization scheme>
  STOW_INLINE void find(int64_t element, int64_t count, CodedRun &run) const {
    const uint64_t first = static_cast<uint64_t>(element) / kQuantizedBlock;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t block = first + i;
      const int64_t begin = element + i * kQuantizedBlock;
      const bool isUpper = scheme == Quantization::Nf4 && begin >= parts.scales;
      run.codes[i] =
          reinterpret_cast<const uint8_t *>(stored + begin - (isUpper ? parts.scales : 0));
      run.isUpper[i] = isUpper;
      float scale;
      if constexpr (scheme == Quantization::Int8) {
        scale = floatAt(parts.scales, block);
      } else {
        const float level = scaleTable[static_cast<uint8_t>(stored[parts.scales + block])];
        const float rest = level * floatAt(parts.outerScales, block / kScaleBlock);
        scale = rest + floatAt(parts.mean, 0);
      }
      run.scales[i] = scale == scale ? scale : std::numeric_limits<float>::quiet_NaN();
    }
  }

  const float *const levels;
  alignas(16) uint8_t planes[4][16]; ///< of all levels the first bytes, the second ones, ...

private:
  STOW_INLINE float floatAt(Bytes begin, uint64_t index) const {
    float value;
    std::memcpy(&value, stored + begin + index * sizeof(float), sizeof(value));
    return value;
  }

  const QuantizedParts parts;
  const char *stored;
  const float *scaleTable; ///< levels of nf4's scales
};

/// A run of blocks, for each instruction set, and the numbers of its block `at`, in order.
template <Quantization scheme, Rounding>
STOW_INLINE void findPlain(const CodedBlocks &blocks, int64_t element, int64_t count,
                           CodedRun &run) {
  blocks.find<scheme>(element, count, run);
}
template <Quantization scheme, Rounding rounding>
STOW_INLINE void numbersPlain(const CodedBlocks &blocks, const CodedRun &run, int64_t at, F8 *to) {
  for (int64_t i = 0; i < kQuantizedBlock; ++i) {
    const uint8_t byte = run.codes[at][i];
    float number =
        (scheme == Quantization::Int8 ? static_cast<float>(static_cast<int8_t>(byte))
                                      : blocks.levels[run.isUpper[at] ? byte >> 4 : byte & 15]) *
        run.scales[at];
    if constexpr (rounding == Rounding::Bf16)
      number = widenBf16(narrowBf16(number));
    if constexpr (rounding == Rounding::F16)
      number = widenF16(narrowF16(number));
    to[i / lanesOf<F8>][i % lanesOf<F8>] = number;
  }
}

#if defined(__x86_64__)
#define STOW_AVX2 __attribute__((always_inline, target("avx2,fma,f16c"))) inline
#define STOW_AVX512 __attribute__((always_inline, target("avx512f,avx512vl,avx2,fma"))) inline

/// The bits of narrowBf16 in the upper half, anything in the lower one. What is no number has no bit there.
STOW_AVX2 __m256i roundedUp(__m256 numbers) {
  const __m256i bits = _mm256_castps_si256(numbers);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}
STOW_AVX512 __m512i roundedUp(__m512 numbers) {
  const __m512i bits = _mm512_castps_si512(numbers);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
}

template <Rounding rounding> STOW_AVX2 __m256 roundedAvx2(__m256 numbers) {
  if constexpr (rounding == Rounding::Bf16)
    return _mm256_castsi256_ps(
        _mm256_and_si256(roundedUp(numbers), _mm256_set1_epi32(int32_t(0xffff0000))));
  else if constexpr (rounding == Rounding::F16)
    return _mm256_cvtph_ps(_mm256_cvtps_ph(numbers, _MM_FROUND_TO_NEAREST_INT));
  else
    return numbers;
}
template <Rounding rounding> STOW_AVX512 __m512 roundedAvx512(__m512 numbers) {
  if constexpr (rounding == Rounding::Bf16)
    return _mm512_castsi512_ps(
        _mm512_and_si512(roundedUp(numbers), _mm512_set1_epi32(int32_t(0xffff0000))));
  else if constexpr (rounding == Rounding::F16)
    return _mm512_cvtph_ps(_mm512_cvtps_ph(numbers, _MM_FROUND_TO_NEAREST_INT));
  else
    return numbers;
}

/// The 16 numbers of a block of nf4 in 16 bits: their lower bytes, then their upper ones.
template <Rounding rounding>
STOW_AVX2 void writeTable(const float *levels, float blockScale, uint8_t *table) {
  const __m256 scale = _mm256_set1_ps(blockScale);
  const __m256 first = _mm256_mul_ps(_mm256_loadu_ps(levels), scale);
  const __m256 last = _mm256_mul_ps(_mm256_loadu_ps(levels + 8), scale);
  __m256i numbers; // 0..3 8..11 | 4..7 12..15
  if constexpr (rounding == Rounding::Bf16) {
    numbers = _mm256_packus_epi32(_mm256_srli_epi32(roundedUp(first), 16),
                                  _mm256_srli_epi32(roundedUp(last), 16));
  } else {
    numbers = _mm256_permute4x64_epi64(
        _mm256_set_m128i(_mm256_cvtps_ph(last, _MM_FROUND_TO_NEAREST_INT),
                         _mm256_cvtps_ph(first, _MM_FROUND_TO_NEAREST_INT)),
        0b11'01'10'00);
  }
  const __m256i lower = _mm256_and_si256(numbers, _mm256_set1_epi16(0xff));
  const __m256i bytes = _mm256_packus_epi16(lower, _mm256_srli_epi16(numbers, 8));
  _mm256_store_si256(reinterpret_cast<__m256i *>(table),
                     _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

/// 16 bytes to look up, in both halves of a vector.
STOW_AVX2 __m256i twice(const uint8_t *bytes) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i *>(bytes)));
}

/// 32 codes of nf4, a byte each.
STOW_AVX2 __m256i nibblesAvx2(const uint8_t *from, bool isUpper) {
  __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
  if (isUpper)
    codes = _mm256_srli_epi16(codes, 4);
  return _mm256_and_si256(codes, _mm256_set1_epi8(15));
}

/// What is put together lies in halves of vectors: the fours of codes that meet in one come first.
STOW_AVX2 __m256i inFours(__m256i codes) {
  return _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/// 32 numbers of nf4 as they are, of four bytes.
STOW_AVX2 void levelsAvx2(const CodedBlocks &blocks, __m256i plain, __m256 scale, __m256 *to) {
  const __m256i codes = inFours(plain);
  __m256i bytes[4];
  for (int plane = 0; plane < 4; ++plane)
    bytes[plane] = _mm256_shuffle_epi8(twice(blocks.planes[plane]), codes);
  const __m256i low[2] = {_mm256_unpacklo_epi8(bytes[0], bytes[1]),
                          _mm256_unpackhi_epi8(bytes[0], bytes[1])};
  const __m256i high[2] = {_mm256_unpacklo_epi8(bytes[2], bytes[3]),
                           _mm256_unpackhi_epi8(bytes[2], bytes[3])};
  for (int half = 0; half < 2; ++half) {
    const __m256i one = _mm256_unpacklo_epi16(low[half], high[half]);
    const __m256i other = _mm256_unpackhi_epi16(low[half], high[half]);
    to[2 * half] = _mm256_mul_ps(_mm256_castsi256_ps(one), scale);
    to[2 * half + 1] = _mm256_mul_ps(_mm256_castsi256_ps(other), scale);
  }
}

/// 32 numbers of nf4 that a table has.
template <Rounding rounding>
STOW_AVX2 void roundedAvx2(const uint8_t *table, __m256i plain, __m256 *to) {
  const __m256i codes = rounding == Rounding::Bf16 ? inFours(plain) : plain;
  const __m256i low = _mm256_shuffle_epi8(twice(table), codes);
  const __m256i high = _mm256_shuffle_epi8(twice(table + 16), codes);
  const __m256i numbers[2] = {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
  for (int half = 0; half < 2; ++half) {
    if constexpr (rounding == Rounding::Bf16) {
      const __m256i zero = _mm256_setzero_si256();
      to[2 * half] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, numbers[half]));
      to[2 * half + 1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, numbers[half]));
    } else {
      to[half] = _mm256_cvtph_ps(_mm256_castsi256_si128(numbers[half]));
      to[half + 2] = _mm256_cvtph_ps(_mm256_extracti128_si256(numbers[half], 1));
    }
  }
}

template <Quantization scheme, Rounding rounding>
STOW_AVX2 void findAvx2(const CodedBlocks &blocks, int64_t element, int64_t count, CodedRun &run) {
  blocks.find<scheme>(element, count, run);
  if constexpr (scheme == Quantization::Nf4 && rounding != Rounding::None)
    for (int64_t i = 0; i < count; ++i)
      writeTable<rounding>(blocks.levels, run.scales[i], run.tables[i]);
}
template <Quantization scheme, Rounding rounding>
STOW_AVX2 void numbersAvx2(const CodedBlocks &blocks, const CodedRun &run, int64_t at, __m256 *to) {
  const uint8_t *codes = run.codes[at];
  const __m256 scale = _mm256_broadcast_ss(run.scales + at);
  if constexpr (scheme == Quantization::Int8) {
    for (int64_t i = 0; i < kQuantizedBlock; i += 8) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(codes + i));
      const __m256 whole = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
      to[i / 8] = roundedAvx2<rounding>(_mm256_mul_ps(whole, scale));
    }
  } else {
    for (int64_t i = 0; i < kQuantizedBlock; i += 32, to += 4) {
      const __m256i plain = nibblesAvx2(codes + i, run.isUpper[at]);
      if constexpr (rounding == Rounding::None)
        levelsAvx2(blocks, plain, scale, to);
      else
        roundedAvx2<rounding>(run.tables[at], plain, to);
    }
  }
}

template <Quantization scheme, Rounding>
STOW_AVX512 void findAvx512(const CodedBlocks &blocks, int64_t element, int64_t count,
                            CodedRun &run) {
  blocks.find<scheme>(element, count, run);
}
template <Quantization scheme, Rounding rounding>
STOW_AVX512 void numbersAvx512(const CodedBlocks &blocks, const CodedRun &run, int64_t at,
                               __m512 *to) {
  const __m512 scale = _mm512_set1_ps(run.scales[at]);
  const __m512 table =
      roundedAvx512<rounding>(_mm512_mul_ps(_mm512_loadu_ps(blocks.levels), scale));
  for (int64_t i = 0; i < kQuantizedBlock; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(run.codes[at] + i));
    if constexpr (scheme == Quantization::Int8) {
      const __m512 whole = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
      to[i / 16] = roundedAvx512<rounding>(_mm512_mul_ps(whole, scale));
    } else { // lanes are chosen by the lower four bits
      const __m512i code = _mm512_cvtepu8_epi32(bytes);
      to[i / 16] =
          _mm512_permutexvar_ps(run.isUpper[at] ? _mm512_srli_epi32(code, 4) : code, table);
    }
  }
}
#undef STOW_AVX2
#undef STOW_AVX512
#endif

} // namespace stow::host
