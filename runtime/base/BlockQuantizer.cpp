#include "runtime/base/BlockQuantizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stow {
namespace {

constexpr Bytes kFloatBytes = 4;

float largest(std::span<const float> values) {
  float most = 0;
  for (float value : values)
    most = std::max(most, std::fabs(value));
  return most;
}

/// The middles between neighbouring levels: a number is at the level whose number is that of the middles below it.
const std::array<float, 15> &normalMiddles() {
  static const std::array<float, 15> middles = [] {
    std::array<float, 15> result;
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = (normalLevels()[i] + normalLevels()[i + 1]) / 2;
    return result;
  }();
  return middles;
}

/// Of the two levels around `scaled` the nearer one, the lower of two that are as near.
uint8_t scaleCode(float scaled) {
  const std::array<float, 256> &levels = scaleLevels();
  size_t upper = std::lower_bound(levels.begin(), levels.end(), scaled) - levels.begin();
  if (upper == 0)
    return 0;
  if (upper == levels.size() || scaled - levels[upper - 1] <= levels[upper] - scaled)
    --upper;
  return static_cast<uint8_t>(upper);
}

void writeFloat(float value, char *to) { std::memcpy(to, &value, sizeof(value)); }

/// The scales of nf4's blocks, in 8 bits. `behind` is where the bytes behind the codes lie.
void storeScales(std::span<const float> scales, const QuantizedParts &parts, char *behind) {
  double sum = 0;
  for (float scale : scales)
    sum += scale;
  const float mean = static_cast<float>(sum / static_cast<double>(scales.size()));
  std::array<float, kScaleBlock> rest;
  for (size_t begin = 0, block = 0; begin < scales.size(); begin += kScaleBlock, ++block) {
    const size_t count = std::min<size_t>(kScaleBlock, scales.size() - begin);
    for (size_t i = 0; i < count; ++i)
      rest[i] = scales[begin + i] - mean;
    const float outer = largest(std::span(rest).first(count));
    writeFloat(outer, behind + parts.outerScales - parts.scales + block * kFloatBytes);
    for (size_t i = 0; i < count; ++i)
      behind[begin + i] = static_cast<char>(scaleCode(outer > 0 ? rest[i] / outer : 0));
  }
  writeFloat(mean, behind + parts.mean - parts.scales);
}

/// Adds the codes of a block to `codes`, in the upper halves of bytes or in the lower ones, which are then 0 above. Returns its scale.
float addNormalCodes(const float *block, bool isUpper, char *codes) {
  const float scale = largest({block, kQuantizedBlock});
  constexpr float leastScale = 1e-38f; // as bitsandbytes has it: a block of zeros is at level 0
  const float inverse = 1 / std::max(scale, leastScale);
  std::array<float, kQuantizedBlock> scaled;
  for (int64_t i = 0; i < kQuantizedBlock; ++i)
    scaled[i] = block[i] * inverse;
  std::array<uint8_t, kQuantizedBlock> found{};
  for (const float middle : normalMiddles())
    for (int64_t i = 0; i < kQuantizedBlock; ++i)
      found[i] += middle < scaled[i];
  for (int64_t i = 0; i < kQuantizedBlock; ++i)
    codes[i] = static_cast<char>(isUpper ? codes[i] | found[i] << 4 : found[i]);
  return scale;
}

constexpr float kMostInt8 = 127;

/// The same for int8, one code a byte.
float writeInt8Codes(const float *block, char *codes) {
  const float scale = largest({block, kQuantizedBlock}) / kMostInt8;
  for (int64_t i = 0; i < kQuantizedBlock; ++i) {
    const float code = scale > 0 ? std::nearbyint(block[i] / scale) : 0;
    codes[i] = static_cast<char>(std::clamp(code, -kMostInt8, kMostInt8));
  }
  return scale;
}

} // namespace

BlockQuantizer::BlockQuantizer(Quantization scheme, int64_t elements)
    : scheme(scheme), elements(elements), parts(partsOf(scheme, elements)),
      scales(static_cast<size_t>(elements / kQuantizedBlock)) {}

void BlockQuantizer::writeCodes(int64_t begin, int64_t count, const float *values, char *codes) {
  for (int64_t run = 0; run < runs(); ++run)
    for (int64_t at = 0; at < count; at += kQuantizedBlock) {
      const float *block = values + run * count + at;
      const float scale = scheme == Quantization::Nf4 ? addNormalCodes(block, run > 0, codes + at)
                                                      : writeInt8Codes(block, codes + at);
      scales[static_cast<size_t>((run * codeBytes() + begin + at) / kQuantizedBlock)] = scale;
    }
}

std::vector<char> BlockQuantizer::rest() const {
  std::vector<char> behind(static_cast<size_t>(parts.size - parts.scales));
  if (scheme == Quantization::Nf4)
    storeScales(scales, parts, behind.data());
  else
    std::memcpy(behind.data(), scales.data(), behind.size());
  return behind;
}

} // namespace stow
