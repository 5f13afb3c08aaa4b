// Weights in blocks of 64 elements with a scale each: how they lie in memory, and what they stand for.
//
//   nf4    codes, n/2 bytes | scales' codes, n/64 | to 4 bytes | scales of scales, f32, one per 256 | mean of scales, f32
//   int8   codes, n bytes   | scales, f32, n/64
//
// nf4 is the rule of QLoRA (Dettmers et al., arXiv:2305.14314): 16 levels that hold equally many numbers of a normal distribution, and
// scales that are themselves stored in 8 bits, as distances from their mean, at levels that lie closer near 0 (arXiv:2110.02861). Byte
// i of its codes has element i in the lower half and element i + n/2 in the upper one, so that vectors of bytes give vectors of
// elements. int8 is the linear rule: code / 127 of the largest magnitude of the block.
#pragma once

#include "runtime/base/DType.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stow {

enum class Quantization : uint8_t { Nf4, Int8 };

inline constexpr int64_t kQuantizedBlock = 64; ///< elements that share a scale
inline constexpr int64_t kScaleBlock = 256;    ///< scales that share a scale

/// "nf4", "int8".
std::string_view nameOf(Quantization scheme);
std::optional<Quantization> quantizationNamed(std::string_view name);

/// Two vectors of elements that come of one of bytes have scales of their own.
constexpr bool isQuantizable(int64_t elements) {
  return elements > 0 && elements % (2 * kQuantizedBlock) == 0;
}

/// Where the parts of a quantized tensor begin, in bytes from its own beginning.
struct QuantizedParts {
  Bytes scales = 0;      ///< codes of nf4's scales; int8: scales
  Bytes outerScales = 0; ///< nf4: scales of scales
  Bytes mean = 0;        ///< nf4: mean of the scales
  Bytes size = 0;
};

QuantizedParts partsOf(Quantization scheme, int64_t elements);

/// A tensor that is stored quantized: `shape` is that of its elements, row-major.
struct QuantizedTensor {
  Quantization scheme = Quantization::Nf4;
  std::vector<int64_t> shape;
};

/// The levels that nf4's codes stand for, rising from -1 to 1, and those of its scales.
const std::array<float, 16> &normalLevels();
const std::array<float, 256> &scaleLevels();

/// What an optimizer keeps, in blocks of 256 numbers with a scale each: a code for each number, and the largest magnitude of each block.
/// Levels lie closer near 0 (Dettmers et al., 8-bit optimizers via block-wise quantization, arXiv:2110.02861): `scaleLevels`, or, of what is
/// never negative, `unsignedLevels`. The code of a number divided by its block's scale is that of the nearest level:
///
///   magnitude   0 | decade of 1e-6, `fewest` levels | 1e-5, twice as many | ... | 1 | 1, which is a level of its own
///               ^ nothing                           ^ edges[0]            ^ ... edges[5]  ^ one
///
/// Within a decade levels are the middles of equal parts of [0.1, 1], so that the part which holds a number says its level.
struct StateLevels {
  const std::array<float, 256> &levels;
  float fewest = 1;           ///< levels of the least decade
  float nothing = 0, one = 1; ///< magnitudes up to which a number is 0, from which on it is 1
  std::array<float, 6> edges; ///< between decades
  int zero = 0;               ///< code of 0; those of negative numbers are below it

  static const StateLevels &of(bool isNonnegative);
};

inline constexpr int64_t kStateBlock = 256;
/// Small tensors cost little in f32; the least size is that of the rule's authors.
constexpr bool isWorthEightBits(int64_t elements) {
  return elements >= 4096 && elements % kStateBlock == 0;
}
inline constexpr float kPartsOfDecade = 1 / 0.9f; ///< a decade is [0.1, 1] of its power of ten
const std::array<float, 256> &unsignedLevels();

/// Writes a code for each value, and a scale for each block; the number of values is a multiple of 256.
void quantizeState(const StateLevels &levels, std::span<const float> values, uint8_t *codes,
                   float *scales);
void dequantizeState(const StateLevels &levels, const uint8_t *codes, const float *scales,
                     std::span<float> values);

/// Writes partsOf(scheme, values.size()).size bytes to `stored`, which lies at a multiple of 4. The number of values is quantizable.
void quantize(Quantization scheme, std::span<const float> values, char *stored);
/// What the bytes stand for.
void dequantize(Quantization scheme, const char *stored, std::span<float> values);

} // namespace stow
