// Convolution and its gradients against a naive double reference.
#include "runtime/base/Error.h"
#include "runtime/host/Float16.h"
#include "tests/runtime/host/CallHarness.h"
#include "tests/runtime/host/Draw.h"

#include <gmock/gmock.h>

namespace stow::host::test {
namespace {

struct Case {
  const char *name;
  Shape src;     ///< N, C, H, W
  Shape weights; ///< O, C/g, kh, kw
  std::vector<int64_t> strides, pads, dilations;
  int64_t groups;

  std::map<std::string, std::vector<int64_t>> ints() const {
    return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"groups", {groups}}};
  }
  Shape dst() const {
    Shape shape = {src[0], weights[0], 0, 0};
    for (int i = 0; i < 2; ++i)
      shape[i + 2] =
          (src[i + 2] + pads[i] + pads[i + 2] - (weights[i + 2] - 1) * dilations[i] - 1) /
              strides[i] +
          1;
    return shape;
  }
  /// Visits every product src * weights -> dst.
  template <typename Visit> void forEach(const Visit &visit) const {
    Shape d = dst();
    int64_t perGroup = weights[0] / groups;
    for (int64_t n = 0; n < d[0]; ++n)
      for (int64_t o = 0; o < d[1]; ++o)
        for (int64_t y = 0; y < d[2]; ++y)
          for (int64_t x = 0; x < d[3]; ++x)
            for (int64_t c = 0; c < weights[1]; ++c)
              for (int64_t i = 0; i < weights[2]; ++i)
                for (int64_t j = 0; j < weights[3]; ++j) {
                  int64_t sy = y * strides[0] - pads[0] + i * dilations[0];
                  int64_t sx = x * strides[1] - pads[1] + j * dilations[1];
                  if (sy >= 0 && sy < src[2] && sx >= 0 && sx < src[3])
                    visit(std::initializer_list<int64_t>{n, o / perGroup * weights[1] + c, sy, sx},
                          std::initializer_list<int64_t>{o, c, i, j},
                          std::initializer_list<int64_t>{n, o, y, x});
                }
  }
};

void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }

const Case cases[] = {
    {"Plain3x3", {2, 16, 9, 8}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {"OddChannels", {2, 3, 11, 10}, {7, 3, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
    {"AsymmetricPads", {1, 5, 8, 9}, {6, 5, 3, 2}, {1, 2}, {0, 1, 2, 0}, {1, 1}, 1},
    {"Dilated", {2, 8, 12, 12}, {16, 8, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 1},
    {"DilatedStrided", {1, 4, 13, 11}, {4, 4, 3, 3}, {2, 1}, {2, 3, 1, 3}, {2, 3}, 1},
    {"OneByOne", {2, 64, 6, 6}, {32, 64, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {"OneByOneStrided", {2, 32, 7, 7}, {64, 32, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
    {"OneByOneStem", {2, 3, 64, 64}, {48, 3, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
    {"OneByOneSmallStem", {2, 3, 10, 10}, {16, 3, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
    {"OneByOneStridedOdd", {2, 12, 14, 14}, {24, 12, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
    {"OneByOneOdd", {2, 12, 14, 14}, {20, 12, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
    {"Grouped", {2, 12, 7, 7}, {18, 4, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 3},
    {"GroupedWide", {2, 32, 7, 7}, {64, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 2},
    {"Depthwise", {2, 24, 9, 9}, {24, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 24},
    {"DepthwiseOdd", {1, 5, 9, 9}, {5, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 5},
    {"DepthwiseMultiplier", {1, 8, 6, 6}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 8},
    {"OnePixel", {3, 32, 1, 1}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {"FourPixels", {5, 32, 2, 2}, {48, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {"FourPixelsDeep", {1, 144, 2, 2}, {144, 144, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {"FourPixelsStrided", {3, 16, 2, 2}, {32, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
    {"FourPixelsDilated", {3, 16, 2, 2}, {16, 16, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 1},
    {"SixPixels", {3, 16, 3, 2}, {32, 16, 5, 3}, {1, 1}, {2, 1, 2, 1}, {1, 1}, 1},
    {"UnevenBorders", {3, 16, 2, 2}, {32, 16, 4, 5}, {1, 2}, {3, 1, 2, 3}, {1, 1}, 1},
    {"Stem7x7", {1, 3, 30, 30}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, 1},
};

class ConvolutionTest : public testing::TestWithParam<Case> {
protected:
  const Case &c = GetParam();
  Tensor src = sample(c.src, 1), weights = sample(c.weights, 2), bias = sample({c.weights[0]}, 3);
  Tensor diffDst = sample(c.dst(), 4);
};

// Tests that a forward convolution agrees with the definition, for channels-last activations with
// row-major and with library-chosen weights.
TEST_P(ConvolutionTest, Forward) {
  Tensor expected(c.dst());
  c.forEach([&](auto s, auto w, auto d) { expected.at(d) += src.at(s) * weights.at(w); });
  CallResult plain =
      runCall(CommandOp::DnnlConvolution,
              {in(src, channelsLast()), in(weights), out(c.dst(), channelsLast())}, c.ints());
  EXPECT_LT(relativeError(plain.tensors[2], expected), 2e-6) << plain.requirements.implementation;
  CallResult chosen =
      runCall(CommandOp::DnnlConvolution,
              {in(src, channelsLast()), inAny(weights), out(c.dst(), channelsLast())}, c.ints());
  EXPECT_LT(relativeError(chosen.tensors[2], expected), 2e-6) << chosen.requirements.implementation;
  CallResult free =
      runCall(CommandOp::DnnlConvolution, {inAny(src), inAny(weights), outAny(c.dst())}, c.ints());
  EXPECT_LT(relativeError(free.tensors[2], expected), 2e-6) << free.requirements.implementation;
}

TEST_P(ConvolutionTest, ForwardWithBias) {
  Tensor expected(c.dst());
  for (size_t i = 0; i < expected.data.size(); ++i)
    expected.data[i] = bias.data[i / (expected.shape[2] * expected.shape[3]) % expected.shape[1]];
  c.forEach([&](auto s, auto w, auto d) { expected.at(d) += src.at(s) * weights.at(w); });
  auto ints = c.ints();
  ints["has_bias"] = {1};
  CallResult result = runCall(
      CommandOp::DnnlConvolution,
      {in(src, channelsLast()), inAny(weights), in(bias), out(c.dst(), channelsLast())}, ints);
  EXPECT_LT(relativeError(result.tensors[3], expected), 2e-6);
}

TEST_P(ConvolutionTest, GradInput) {
  Tensor expected(c.src);
  c.forEach([&](auto s, auto w, auto d) { expected.at(s) += diffDst.at(d) * weights.at(w); });
  for (const TestOperand &w : {in(weights), inAny(weights)}) {
    CallResult result =
        runCall(CommandOp::DnnlConvolutionGradInput,
                {in(diffDst, channelsLast()), w, out(c.src, channelsLast())}, c.ints());
    EXPECT_LT(relativeError(result.tensors[2], expected), 2e-6)
        << result.requirements.implementation;
  }
}

TEST_P(ConvolutionTest, GradWeight) {
  Tensor expected(c.weights);
  c.forEach([&](auto s, auto w, auto d) { expected.at(w) += diffDst.at(d) * src.at(s); });
  for (const TestOperand &w : {out(c.weights), outAny(c.weights)}) {
    CallResult result =
        runCall(CommandOp::DnnlConvolutionGradWeight,
                {in(src, channelsLast()), in(diffDst, channelsLast()), w}, c.ints());
    EXPECT_LT(relativeError(result.tensors[2], expected), 2e-6)
        << result.requirements.implementation;
  }
}

// Tests that blocked activations, whose channels are padded to 16, give the same numbers.
TEST_P(ConvolutionTest, BlockedActivations) {
  Tensor expected(c.dst());
  c.forEach([&](auto s, auto w, auto d) { expected.at(d) += src.at(s) * weights.at(w); });
  CallResult result =
      runCall(CommandOp::DnnlConvolution,
              {in(src, blocked16()), inAny(weights), out(c.dst(), blocked16())}, c.ints());
  EXPECT_LT(relativeError(result.tensors[2], expected), 2e-6);
}

// Tests bf16 storage: inputs are exact in bf16, so only the result is rounded (8 bits).
TEST_P(ConvolutionTest, Bf16) {
  Tensor expected(c.dst());
  c.forEach([&](auto s, auto w, auto d) { expected.at(d) += src.at(s) * weights.at(w); });
  CallResult result = runCall(CommandOp::DnnlConvolution,
                              {in(src, channelsLast(), DType::BF16), inAny(weights, DType::BF16),
                               out(c.dst(), channelsLast(), DType::BF16)},
                              c.ints());
  EXPECT_LT(relativeError(result.tensors[2], expected), 1.0 / 256);
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvolutionTest, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

// Tests that one-dimensional convolution works: the spatial rank follows the operands.
TEST(Convolution1d, Forward) {
  Tensor src = sample({2, 3, 10}, 1), weights = sample({4, 3, 3}, 2), expected({2, 4, 10});
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t o = 0; o < 4; ++o)
      for (int64_t x = 0; x < 10; ++x)
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t k = 0; k < 3; ++k)
            if (x + k >= 1 && x + k <= 10)
              expected.at({n, o, x}) += src.at({n, c, x + k - 1}) * weights.at({o, c, k});
  CallResult result =
      runCall(CommandOp::DnnlConvolution, {in(src), inAny(weights), out({2, 4, 10})},
              {{"strides", {1}}, {"pads", {1, 1}}, {"dilations", {1}}, {"groups", {1}}});
  EXPECT_LT(relativeError(result.tensors[2], expected), 2e-6);
}

/// The three calls of a 3 x 3 convolution on images of 2 x 2 pixels, with free weights.
struct SmallImages {
  Tensor x = sample({4, 64, 2, 2}, 1), w = sample({96, 64, 3, 3}, 2), dy = sample({4, 96, 2, 2}, 3);

  std::vector<CallResult> run(DType weights, int64_t threads, DType images = DType::F32) const {
    const std::map<std::string, std::vector<int64_t>> ints = {
        {"strides", {1, 1}}, {"pads", {1, 1, 1, 1}}, {"dilations", {1, 1}}, {"groups", {1}}};
    auto call = [&](CommandOp op, const std::vector<TestOperand> &operands) {
      return runCall(op, operands, ints, {}, threads);
    };
    auto image = [&](const Tensor &value) { return in(value, channelsLast(), images); };
    return {call(CommandOp::DnnlConvolution,
                 {image(x), inAny(w, weights), out(dy.shape, channelsLast(), images)}),
            call(CommandOp::DnnlConvolutionGradInput,
                 {image(dy), inAny(w, weights), out(x.shape, channelsLast(), images)}),
            call(CommandOp::DnnlConvolutionGradWeight,
                 {image(x), image(dy), outAny(w.shape, weights)})};
  }
};

// Tests that images smaller than their windows run as taps, all three calls with weights in one
// layout, and without a copy of what the window sees or of the gradient.
TEST(ConvolutionTaps, TakeOneLayoutAndLittleScratch) {
  const std::vector<CallResult> results = SmallImages().run(DType::F32, 2);
  const size_t weights[] = {1, 1, 2};
  const Layout expected{1, {0, 1, 2, 3}, {{1, 8}, {0, 8}}};
  for (size_t i = 0; i < results.size(); ++i) {
    const LibraryRequirements &found = results[i].requirements;
    EXPECT_THAT(found.implementation, testing::StartsWith("stow_taps:"));
    EXPECT_EQ(found.layouts[weights[i]], expected);
    EXPECT_FALSE(found.reference);
    EXPECT_EQ(found.heapBytes, 0);
  }
  EXPECT_EQ(results[0].requirements.workspaceBytes, 0);
  EXPECT_LE(results[2].requirements.workspaceBytes, Bytes{2} * (16 + 16) * 16 * 4);
}

// Tests that results have the same bits whatever the number of threads: more than there are panels,
// and numbers that do not divide them.
TEST(ConvolutionTaps, GiveTheSameBitsWithAnyThreads) {
  const SmallImages images;
  const std::vector<CallResult> one = images.run(DType::F32, 1);
  for (int64_t threads : {3, 4, 16}) {
    const std::vector<CallResult> many = images.run(DType::F32, threads);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_EQ(many[i].tensors[2].data, one[i].tensors[2].data) << threads << " threads";
  }
}

// Tests that 16-bit images beside f32 weights give what f32 images give, rounded: all values are
// exact in 16 bits.
TEST(ConvolutionTaps, RoundImagesOf16Bits) {
  const SmallImages images;
  const std::vector<CallResult> full = images.run(DType::F32, 2);
  for (DType type : {DType::BF16, DType::F16}) {
    const std::vector<CallResult> low = images.run(DType::F32, 2, type);
    // The library takes bf16 images where it has code for them; only their gradient has no f32 operand.
    const size_t taps = type == DType::BF16 && supportsBf16() ? 2 : full.size();
    for (size_t i = 0; i < taps; ++i) {
      EXPECT_THAT(low[i].requirements.implementation, testing::StartsWith("stow_taps:"));
      std::vector<double> rounded;
      for (double value : full[i].tensors[2].data) {
        const auto single = static_cast<float>(value);
        rounded.push_back(i == 2                ? single
                          : type == DType::BF16 ? widenBf16(narrowBf16(single))
                                                : widenF16(narrowF16(single)));
      }
      EXPECT_EQ(low[i].tensors[2].data, rounded) << nameOf(type) << " call " << i;
    }
  }
}

// Tests that calls which the loops do not take are the library's: 16-bit weights, and images whose
// windows lie inside for the most part.
TEST(ConvolutionTaps, LeaveOtherCallsToTheLibrary) {
  for (const CallResult &result : SmallImages().run(DType::BF16, 2))
    EXPECT_THAT(result.requirements.implementation, testing::Not(testing::HasSubstr("stow_taps")));
  SmallImages larger;
  larger.x = sample({2, 64, 4, 4}, 1), larger.dy = sample({2, 96, 4, 4}, 3);
  for (const CallResult &result : larger.run(DType::F32, 2))
    EXPECT_THAT(result.requirements.implementation, testing::Not(testing::HasSubstr("stow_taps")));
}

/// Numbers with all bits of f32: sums of shorter ones are exact in any order.
Tensor drawn(const Shape &shape, uint64_t seed) {
  Tensor tensor(shape);
  std::ranges::copy(draw(elementCount(shape), seed), tensor.data.begin());
  return tensor;
}

// Tests that weight gradients have the bits of one thread on any number of them: blocks for all threads, for some, parts of
// images and of pixels, with scratch of the library's own and without, and its own matrix product. All but the first had others as
// the library without AVX-512 cuts them.
TEST(ConvolutionGradWeight, AnyNumberOfThreads) {
  const Case drawnCases[] = {
      {"ManyBlocks", {2, 64, 9, 9}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
      {"SomeBlocks", {11, 72, 7, 7}, {24, 72, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
      {"FewBlocks", {14, 4, 20, 20}, {16, 4, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}, 1},
      {"Images", {20, 16, 30, 30}, {16, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1},
      {"Pixels", {7, 48, 33, 33}, {24, 48, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {"FewPixels", {6, 72, 17, 17}, {48, 72, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1},
      {"Strides", {9, 64, 20, 20}, {40, 64, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
      {"Groups", {11, 16, 9, 9}, {16, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}, 16},
      {"OddStem", {12, 3, 33, 33}, {20, 3, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
      {"Windows", {5, 3, 64, 64}, {24, 3, 16, 16}, {16, 16}, {0, 0, 0, 0}, {1, 1}, 1},
  };
  for (const Case &c : drawnCases) {
    const Tensor src = drawn(c.src, 1), diffDst = drawn(c.dst(), 2);
    auto run = [&](int64_t threads) {
      return runCall(CommandOp::DnnlConvolutionGradWeight,
                     {in(src, channelsLast()), in(diffDst, channelsLast()), outAny(c.weights)},
                     c.ints(), {}, threads);
    };
    Tensor expected(c.weights);
    c.forEach([&](auto s, auto w, auto d) { expected.at(w) += diffDst.at(d) * src.at(s); });
    const CallResult one = run(1);
    EXPECT_LT(relativeError(one.tensors[2], expected), 1e-5) << c.name;
    for (int64_t threads : {2, 3, 16}) {
      const CallResult many = run(threads);
      EXPECT_EQ(many.tensors[2].data, one.tensors[2].data) << c.name << " on " << threads;
      EXPECT_EQ(many.requirements.layouts[2], one.requirements.layouts[2]) << c.name;
    }
  }
}

} // namespace
} // namespace stow::host::test
