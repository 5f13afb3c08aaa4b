#include "runtime/base/Quantization.h"

#include "runtime/base/BlockQuantizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace stow {
namespace {

constexpr Bytes kFloatBytes = 4;

int64_t quotientUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

float largest(std::span<const float> values) {
  float most = 0;
  for (float value : values)
    most = std::max(most, std::fabs(value));
  return most;
}

float readFloat(const char *from) {
  float value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float storedScale(const char *stored, const QuantizedParts &parts, int64_t block) {
  const auto code = static_cast<uint8_t>(stored[parts.scales + block]);
  const float outer = readFloat(stored + parts.outerScales + block / kScaleBlock * kFloatBytes);
  const float rest = scaleLevels()[code] * outer;
  return rest + readFloat(stored + parts.mean);
}

void dequantizeNormal(const char *stored, const QuantizedParts &parts, std::span<float> values) {
  const int64_t count = static_cast<int64_t>(values.size()), half = count / 2;
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(stored[i % half]);
    const float level = normalLevels()[i < half ? byte & 15 : byte >> 4];
    values[i] = level * storedScale(stored, parts, i / kQuantizedBlock);
  }
}

void dequantizeInt8(const char *stored, const QuantizedParts &parts, std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int8_t>(stored[i])) *
                readFloat(stored + parts.scales + i / kQuantizedBlock * kFloatBytes);
}

} // namespace

std::string_view nameOf(Quantization scheme) {
  return scheme == Quantization::Nf4 ? "nf4" : "int8";
}

std::optional<Quantization> quantizationNamed(std::string_view name) {
  for (Quantization scheme : {Quantization::Nf4, Quantization::Int8})
    if (nameOf(scheme) == name)
      return scheme;
  return std::nullopt;
}

QuantizedParts partsOf(Quantization scheme, int64_t elements) {
  const int64_t blocks = quotientUp(elements, kQuantizedBlock);
  QuantizedParts parts;
  if (scheme == Quantization::Int8) {
    parts.scales = elements;
    parts.size = parts.scales + blocks * kFloatBytes;
    return parts;
  }
  parts.scales = elements / 2;
  parts.outerScales = quotientUp(parts.scales + blocks, kFloatBytes) * kFloatBytes;
  parts.mean = parts.outerScales + quotientUp(blocks, kScaleBlock) * kFloatBytes;
  parts.size = parts.mean + kFloatBytes;
  return parts;
}

const std::array<float, 16> &normalLevels() {
  // QLoRA, appendix E.
  static const std::array<float, 16> levels = {-1.0f,
                                               -0.6961928009986877f,
                                               -0.5250730514526367f,
                                               -0.39491748809814453f,
                                               -0.28444138169288635f,
                                               -0.18477343022823334f,
                                               -0.09105003625154495f,
                                               0.0f,
                                               0.07958029955625534f,
                                               0.16093020141124725f,
                                               0.24611230194568634f,
                                               0.33791524171829224f,
                                               0.44070982933044434f,
                                               0.5626170039176941f,
                                               0.7229568362236023f,
                                               1.0f};
  return levels;
}

/// For each power of ten from 1e-6 to 1 the middles of equal parts of [0.1, 1], `parts` for the least and twice as many for each
/// further one, with both signs where `isSigned`; and 0 and 1.
static std::array<float, 256> dynamicLevels(int parts, bool isSigned) {
  std::vector<float> list = {0, 1};
  for (int exponent = -6; exponent <= 0; ++exponent, parts *= 2) {
    const double step = (1.0f - 0.1f) / static_cast<float>(parts);
    // Rounded once, and counted from the nearer end, as torch.linspace has them.
    auto boundary = [&](int i) {
      return static_cast<float>(i < (parts + 1) / 2 ? 0.1f + step * i : 1 - step * (parts - i));
    };
    const float power = static_cast<float>(std::pow(10.0, exponent));
    for (int i = 0; i < parts; ++i) {
      list.push_back(power * ((boundary(i) + boundary(i + 1)) / 2));
      if (isSigned)
        list.push_back(-list.back());
    }
  }
  std::sort(list.begin(), list.end());
  std::array<float, 256> sorted;
  std::copy(list.begin(), list.end(), sorted.begin());
  return sorted;
}

const std::array<float, 256> &scaleLevels() {
  static const std::array<float, 256> levels = dynamicLevels(1, true);
  return levels;
}

const std::array<float, 256> &unsignedLevels() {
  static const std::array<float, 256> levels = dynamicLevels(2, false);
  return levels;
}

const StateLevels &StateLevels::of(bool isNonnegative) {
  auto make = [](const std::array<float, 256> &levels, int zero) {
    StateLevels made{levels};
    made.zero = zero;
    made.fewest = zero == 0 ? 2.0f : 1.0f;
    auto middle = [&](int below) { return (levels[zero + below] + levels[zero + below + 1]) / 2; };
    int last = 0; // level of the decade before, counted from 0
    made.nothing = middle(last);
    int count = static_cast<int>(made.fewest);
    for (float &edge : made.edges) {
      last += count;
      count *= 2;
      edge = middle(last);
    }
    made.one = middle(last + count);
    return made;
  };
  static const StateLevels isSigned = make(scaleLevels(), 127),
                           isUnsigned = make(unsignedLevels(), 0);
  return isNonnegative ? isUnsigned : isSigned;
}

/// The same operations, in the same order, as in the kernels.
static uint8_t codeOf(const StateLevels &levels, float x) {
  const float size = std::fabs(x);
  float count = levels.fewest, power = 1e6f;
  for (float edge : levels.edges) {
    count = size > edge ? count * 2 : count;
    power = size > edge ? power / 10 : power;
  }
  const float part = (size * power - 0.1f) * (count * kPartsOfDecade);
  const float place = std::min(std::max(part, 0.0f), count - 1);
  int above =
      static_cast<int>(place) + static_cast<int>(count) - static_cast<int>(levels.fewest) + 1;
  if (size > levels.one && x > 0)
    ++above;
  if (!(size > levels.nothing))
    above = 0;
  return static_cast<uint8_t>(x < 0 ? levels.zero - above : levels.zero + above);
}

void quantizeState(const StateLevels &levels, std::span<const float> values, uint8_t *codes,
                   float *scales) {
  for (size_t begin = 0; begin < values.size(); begin += kStateBlock) {
    const auto block = values.subspan(begin, kStateBlock);
    const float scale = largest(block);
    for (size_t i = 0; i < block.size(); ++i)
      codes[begin + i] = codeOf(levels, scale > 0 ? block[i] / scale : 0);
    scales[begin / kStateBlock] = scale;
  }
}

void dequantizeState(const StateLevels &levels, const uint8_t *codes, const float *scales,
                     std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = levels.levels[codes[i]] * scales[i / kStateBlock];
}

void quantize(Quantization scheme, std::span<const float> values, char *stored) {
  BlockQuantizer quantizer(scheme, static_cast<int64_t>(values.size()));
  quantizer.writeCodes(0, quantizer.codeBytes(), values.data(), stored);
  const std::vector<char> rest = quantizer.rest();
  std::memcpy(stored + quantizer.codeBytes(), rest.data(), rest.size());
}

void dequantize(Quantization scheme, const char *stored, std::span<float> values) {
  const QuantizedParts parts = partsOf(scheme, static_cast<int64_t>(values.size()));
  scheme == Quantization::Nf4 ? dequantizeNormal(stored, parts, values)
                              : dequantizeInt8(stored, parts, values);
}

} // namespace stow
