// Quantized weights as numbers, against the loops of runtime/base.
#include "runtime/base/Quantization.h"
#include "tests/codegen/Kernels.h"

#include <bit>
#include <cmath>

using namespace stow;

namespace {

struct QuantizedCase {
  Quantization scheme;
  int64_t elements;
};

class Dequantize : public testing::TestWithParam<QuantizedCase> {};

std::string graphOf(const QuantizedCase &test, const std::string &element) {
  const std::string bytes =
      "tensor<" + std::to_string(partsOf(test.scheme, test.elements).size) + "xi8>";
  return "func.func @g(%x: " + bytes + ") { %y = stow.dequantize %x {scheme = \"" +
         std::string(nameOf(test.scheme)) + "\", reading = 0 : i64} : (" + bytes + ") -> tensor<" +
         std::to_string(test.elements) + "x" + element + "> return }";
}

/// Numbers of all magnitudes with a block of zeros, quantized.
std::vector<char> quantized(const QuantizedCase &test) {
  std::vector<float> values = someFloats(test.elements);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] *= static_cast<float>(1 + i / 64 % 7);
  std::fill(values.begin(), values.begin() + kQuantizedBlock, 0.0f);
  std::vector<char> stored(partsOf(test.scheme, test.elements).size);
  quantize(test.scheme, values, stored.data());
  return stored;
}

// Tests every element, in f32 to the bit and rounded to bf16: one pair of blocks, several tasks, and more blocks than share a scale
// of scales.
TEST_P(Dequantize, AgreesWithLoops) {
  const QuantizedCase test = GetParam();
  std::vector<char> stored = quantized(test);
  std::vector<float> expected(test.elements), found(test.elements, -9);
  dequantize(test.scheme, stored.data(), expected);
  LoadedKernels wide(graphOf(test, "f32"));
  wide.run(0, {stored.data(), found.data()});
  EXPECT_EQ(found, expected);

  std::vector<uint16_t> low(test.elements), rounded(test.elements);
  for (int64_t i = 0; i < test.elements; ++i) {
    const auto bits = std::bit_cast<uint32_t>(expected[i]);
    rounded[i] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  LoadedKernels narrow(graphOf(test, "bf16"));
  narrow.run(0, {stored.data(), low.data()});
  EXPECT_EQ(low, rounded);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Dequantize,
                         testing::Values(QuantizedCase{Quantization::Nf4, 128},
                                         QuantizedCase{Quantization::Nf4, 33 * 1024},
                                         QuantizedCase{Quantization::Nf4, 9 * 128},
                                         QuantizedCase{Quantization::Int8, 128},
                                         QuantizedCase{Quantization::Int8, 33 * 1024}));

class State : public testing::TestWithParam<bool> {};

// Tests codes and scales of numbers of all magnitudes, with a block of zeros, and what they stand for, to the bit; a few tasks at a time.
TEST_P(State, AgreesWithLoops) {
  const bool isNonnegative = GetParam();
  const StateLevels &levels = StateLevels::of(isNonnegative);
  const int64_t count = 37 * 1024;
  const std::string flag = isNonnegative ? " {nonnegative}" : "";
  LoadedKernels kernels(
      "func.func @g(%x: tensor<37x1024xf32>, %c: tensor<37x1024xi8>, %s: tensor<148xf32>) {"
      "%c1, %s1 = stow.quantize_state %x, %c, %s" +
      flag +
      " : (tensor<37x1024xf32>, tensor<37x1024xi8>, tensor<148xf32>) -> (tensor<37x1024xi8>, "
      "tensor<148xf32>) "
      "%y = stow.dequantize_state %c1, %s1" +
      flag + " : (tensor<37x1024xi8>, tensor<148xf32>) -> tensor<37x1024xf32> return }");
  std::vector<float> x = someFloats(count), y(count, -9), read(count);
  for (int64_t i = 0; i < count; ++i) {
    x[i] *= std::pow(10.0f, static_cast<float>(i % 11) - 9);
    x[i] = isNonnegative ? std::fabs(x[i]) : x[i];
  }
  std::fill(x.begin() + 512, x.begin() + 768, 0.0f);
  std::vector<uint8_t> codes(count), found(count, 9);
  std::vector<float> scales(count / kStateBlock), foundScales(count / kStateBlock, -9);
  quantizeState(levels, x, codes.data(), scales.data());
  dequantizeState(levels, codes.data(), scales.data(), read);
  kernels.run(0, {x.data(), found.data(), foundScales.data(), found.data(), foundScales.data()});
  EXPECT_EQ(found, codes);
  EXPECT_EQ(foundScales, scales);
  kernels.run(1, {found.data(), foundScales.data(), y.data()});
  EXPECT_EQ(y, read);
  for (int64_t i = 0; i < count; ++i) // the widest gap between levels
    ASSERT_LE(std::fabs(y[i] - x[i]), 0.008f * scales[i / kStateBlock]) << i;
}

INSTANTIATE_TEST_SUITE_P(Signs, State, testing::Bool());

} // namespace
