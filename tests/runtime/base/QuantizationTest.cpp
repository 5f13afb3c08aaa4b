// Blocks of few bits against what bitsandbytes makes of the same numbers (python/references/make_quantized.py).
#include "runtime/base/BlockQuantizer.h"
#include "runtime/data/ArrayFile.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

using namespace stow;

namespace {

template <typename Element> std::vector<Element> arrayOf(const ArrayFile &file, const char *name) {
  const Array array = file.load(name);
  std::vector<Element> result(array.bytes.size() / sizeof(Element));
  std::memcpy(result.data(), array.bytes.data(), array.bytes.size());
  return result;
}

class Reference : public testing::Test {
protected:
  Reference()
      : file(std::string(STOWAGE_SOURCE_DIR) + "/tests/data/quantized/nf4.npz"),
        codes(arrayOf<uint8_t>(file, "codes")), count(static_cast<int64_t>(codes.size())),
        parts(partsOf(Quantization::Nf4, count)) {}

  std::vector<float> numbers() const {
    std::vector<float> values;
    for (uint64_t i = 0; i < codes.size(); ++i) {
      const double spread =
          static_cast<double>(static_cast<uint32_t>(i * 2654435761u)) / 2147483648.0 - 1;
      values.push_back(static_cast<float>(0.05 * (spread * spread * spread)));
    }
    return values;
  }

  ArrayFile file;
  std::vector<uint8_t> codes;
  int64_t count;
  QuantizedParts parts;
};

// Tests that what bitsandbytes has stored stands for the same numbers, to the bit.
TEST_F(Reference, IsReadAlike) {
  std::vector<char> stored(parts.size);
  for (int64_t i = 0; i < count / 2; ++i)
    stored[i] = static_cast<char>(codes[i] | codes[i + count / 2] << 4);
  auto copy = [&](const auto &array, Bytes to) {
    std::memcpy(stored.data() + to, array.data(), array.size() * sizeof(array[0]));
  };
  copy(arrayOf<uint8_t>(file, "scale_codes"), parts.scales);
  copy(arrayOf<float>(file, "outer_scales"), parts.outerScales);
  copy(arrayOf<float>(file, "mean"), parts.mean);
  std::vector<float> values(codes.size());
  dequantize(Quantization::Nf4, stored.data(), values);
  EXPECT_EQ(values, arrayOf<float>(file, "values"));
}

// Tests that pieces in any order are the same bytes as the whole.
TEST_F(Reference, PiecesAreTheWhole) {
  const std::vector<float> values = numbers();
  for (Quantization scheme : {Quantization::Nf4, Quantization::Int8}) {
    std::vector<char> whole(partsOf(scheme, count).size), stored(whole.size());
    quantize(scheme, values, whole.data());
    BlockQuantizer quantizer(scheme, count);
    const int64_t bytes = quantizer.codeBytes(), piece = 3 * kQuantizedBlock;
    for (int64_t begin = (bytes - 1) / piece * piece; begin >= 0; begin -= piece) {
      const int64_t size = std::min(piece, bytes - begin);
      std::vector<float> part;
      for (int64_t run = 0; run < quantizer.runs(); ++run)
        part.insert(part.end(), values.begin() + run * bytes + begin,
                    values.begin() + run * bytes + begin + size);
      quantizer.writeCodes(begin, size, part.data(), stored.data() + begin);
    }
    const std::vector<char> rest = quantizer.rest();
    std::memcpy(stored.data() + bytes, rest.data(), rest.size());
    EXPECT_EQ(stored, whole) << nameOf(scheme);
  }
}

// Tests the levels of scales and every code. bitsandbytes looks scales' codes up in a table of 16-bit numbers: between two levels it may take
// the other one.
TEST_F(Reference, IsMadeAlike) {
  EXPECT_THAT(arrayOf<float>(file, "scale_levels"), testing::ElementsAreArray(scaleLevels()));
  EXPECT_THAT(arrayOf<float>(file, "unsigned_levels"), testing::ElementsAreArray(unsignedLevels()));
  std::vector<char> stored(parts.size);
  quantize(Quantization::Nf4, numbers(), stored.data());
  for (int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(stored[i % (count / 2)]);
    ASSERT_EQ(i < count / 2 ? byte & 15 : byte >> 4, codes[i]) << i;
  }
  const auto scales = arrayOf<uint8_t>(file, "scale_codes");
  for (size_t i = 0; i < scales.size(); ++i)
    EXPECT_NEAR(static_cast<uint8_t>(stored[parts.scales + i]), scales[i], 1) << i;
  float mean = 0;
  std::memcpy(&mean, stored.data() + parts.mean, sizeof(mean));
  EXPECT_FLOAT_EQ(mean, arrayOf<float>(file, "mean").front());
}

// Tests that a number is at most half a step from what is read, and what int8's largest and a block of zeros become.
TEST(Int8, IsNear) {
  std::vector<float> values(256), found(256);
  for (int i = 0; i < 192; ++i)
    values[i] = static_cast<float>(std::sin(i)) * static_cast<float>(1 + i / 64);
  values[70] = -3;
  std::vector<char> stored(partsOf(Quantization::Int8, 256).size);
  quantize(Quantization::Int8, values, stored.data());
  dequantize(Quantization::Int8, stored.data(), found);
  for (int block = 0; block < 4; ++block) {
    float most = 0;
    for (int i = 0; i < 64; ++i)
      most = std::max(most, std::fabs(values[block * 64 + i]));
    for (int i = 0; i < 64; ++i)
      EXPECT_LE(std::fabs(values[block * 64 + i] - found[block * 64 + i]), most / 127 * 0.5001f);
  }
  EXPECT_FLOAT_EQ(found[70], -3);
  EXPECT_EQ(found[200], 0);
}

// Tests that the code of every number is that of the nearest level, but for what rounding leaves: near all levels and middles, and elsewhere.
TEST(State, HasNearestLevels) {
  for (bool isNonnegative : {false, true}) {
    const StateLevels &state = StateLevels::of(isNonnegative);
    std::vector<float> values; // each block begins with 1: its scale
    auto add = [&](float value) {
      if (values.size() % kStateBlock == 0)
        values.push_back(1);
      values.push_back(value);
    };
    for (float value : {1.0f, -0.0f, 1e-9f, isNonnegative ? 0.5f : -1.0f})
      add(value);
    for (size_t i = 0; i + 1 < state.levels.size(); ++i)
      for (float place : {0.0f, 0.25f, 0.499f, 0.5f, 0.501f, 0.75f})
        add(state.levels[i] + place * (state.levels[i + 1] - state.levels[i]));
    values.resize((values.size() + kStateBlock - 1) / kStateBlock * kStateBlock);
    std::vector<uint8_t> codes(values.size());
    std::vector<float> scales(values.size() / kStateBlock), found(values.size());
    quantizeState(state, values, codes.data(), scales.data());
    dequantizeState(state, codes.data(), scales.data(), found);
    EXPECT_THAT(scales, testing::Each(1));
    for (size_t i = 0; i < values.size(); ++i) {
      float nearest = 2;
      for (float level : state.levels)
        nearest = std::min(nearest, std::fabs(level - values[i]));
      EXPECT_LE(std::fabs(found[i] - values[i]), nearest * (1 + 1e-4f)) << values[i];
    }
  }
}

} // namespace
