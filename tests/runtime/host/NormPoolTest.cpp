// Tests that batch normalization and max pooling in one call, and the gradients of both in one, give
// the bits of the calls that they stand for.
#include "tests/runtime/host/PoolingCase.h"

#include <gmock/gmock.h>

#include <cmath>

namespace stow::host::test {
namespace {

struct Case : PoolingCase {
  Layout layout() const { return channelsLastLayout(src.size()); }
};

const Case cases[] = {
    {"Stem", {2, 64, 28, 28}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {"TwoByTwo", {3, 24, 12, 10}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
    {"OddChannels", {2, 43, 9, 11}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {"SidesOfTheirOwn", {2, 37, 8, 7}, {3, 2}, {2, 1}, {0, 1, 1, 0}, {1, 1}},
    {"EveryPoint", {2, 32, 10, 10}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
    {"Dilated", {2, 32, 10, 10}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}},
    {"Gaps", {2, 16, 13, 13}, {2, 2}, {4, 4}, {0, 0, 0, 0}, {1, 1}},
    {"LargeWindows", {2, 32, 12, 11}, {5, 5}, {2, 2}, {2, 2, 2, 2}, {1, 1}},
    {"Line", {3, 40, 37}, {3}, {2}, {1, 1}, {1}},
    {"Volume", {2, 24, 6, 6, 5}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
};

constexpr double epsilon = 1e-5;

class NormPool : public testing::TestWithParam<Case> {
protected:
  const Case &c = GetParam();
  const Shape vector = {c.src[1]};
  const Layout layout = c.layout();
  const std::map<std::string, double> floats = {{"epsilon", epsilon}};

  /// src, scale, shift to y, its positions, mean and variance.
  CallResult forward(const Tensor &src, const Tensor &scale, const Tensor &shift, DType type,
                     int64_t threads) {
    return runCall(CommandOp::DnnlBatchNormMaxPool,
                   {in(src, layout, type), in(scale), in(shift), out(c.dst(), layout, type),
                    opaqueOut(), out(vector), out(vector)},
                   c.ints(), floats, threads);
  }

  void check(const Tensor &src, const Tensor &dy, DType type, int64_t threads) {
    const Tensor scale = sample(vector, 2), shift = sample(vector, 3);
    const CallResult norm = runCall(CommandOp::DnnlBatchNorm,
                                    {in(src, layout, type), in(scale), in(shift),
                                     out(c.src, layout, type), out(vector), out(vector)},
                                    {}, floats, threads);
    const CallResult pool =
        runCall(CommandOp::DnnlMaxPool,
                {in(norm.tensors[3], layout, type), out(c.dst(), layout, type), opaqueOut()},
                c.ints(), {}, threads);
    const CallResult both = forward(src, scale, shift, type, threads);
    EXPECT_EQ(both.tensors[3].data, pool.tensors[1].data);
    EXPECT_EQ(both.tensors[5].data, norm.tensors[4].data);
    EXPECT_EQ(both.tensors[6].data, norm.tensors[5].data);

    const CallResult poolGrad =
        runCall(CommandOp::DnnlMaxPoolGrad,
                {in(dy, layout, type), opaqueIn(pool.bytes[2]), out(c.src, layout, type)}, c.ints(),
                {}, threads);
    const Tensor &mean = norm.tensors[4], &variance = norm.tensors[5];
    const TestOperand over = in(poolGrad.tensors[2], layout, type);
    const CallResult normGrad = runCall(CommandOp::DnnlBatchNormGrad,
                                        {in(src, layout, type), in(mean), in(variance), in(scale),
                                         over, outOver(4, over), out(vector), out(vector)},
                                        {}, floats, threads);
    const TestOperand x = in(src, layout, type);
    for (const TestOperand &dx : {out(c.src, layout, type), outOver(0, x)}) {
      const CallResult grad = runCall(CommandOp::DnnlBatchNormMaxPoolGrad,
                                      {x, in(mean), in(variance), in(scale), in(dy, layout, type),
                                       opaqueIn(both.bytes[4]), dx, out(vector), out(vector)},
                                      c.ints(), floats, threads);
      for (size_t i : {0, 1, 2})
        EXPECT_EQ(grad.tensors[6 + i].data, normGrad.tensors[5 + i].data) << i;
    }
  }
};

TEST_P(NormPool, GivesTheBitsOfBothCalls) {
  for (int64_t threads : {1, 4})
    check(sample(c.src, 1), sample(c.dst(), 4), DType::F32, threads);
}

// Tests the choice among equal elements: there are 17 different ones.
TEST_P(NormPool, ChoosesTheFirst) {
  Tensor src(c.src);
  for (size_t i = 0; i < src.data.size(); ++i)
    src.data[i] = static_cast<double>(i * 7919 % 17);
  check(src, sample(c.dst(), 4), DType::F32, 2);
}

TEST_P(NormPool, GivesTheBitsOfBothCallsIn16Bits) {
  for (DType type : {DType::BF16, DType::F16})
    check(sample(c.src, 1), sample(c.dst(), 4), type, 2);
}

// Tests sums that depend on their order, with as many channels as make oneDNN add window by window.
using WideNormPool = NormPool;
TEST_P(WideNormPool, AddsInTheOrderOfWindows) {
  Tensor dy(c.dst());
  for (size_t i = 0; i < dy.data.size(); ++i)
    dy.data[i] = std::sin(static_cast<double>(i));
  check(sample(c.src, 1), dy, DType::F32, 2);
}

const Case wide[] = {
    {"Stem", {2, 64, 28, 28}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {"EveryPoint", {2, 64, 10, 10}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
};
INSTANTIATE_TEST_SUITE_P(Cases, WideNormPool, testing::ValuesIn(wide),
                         [](const auto &info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Cases, NormPool, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

TEST(NormPoolErrors, NameTheOperand) {
  const Tensor src = sample({2, 8, 4, 4}, 1), vector = sample({8}, 2);
  auto call = [&](const Layout &layout, int64_t window) {
    runCall(CommandOp::DnnlBatchNormMaxPool,
            {in(src, layout), in(vector), in(vector), out({2, 8, 2, 2}, layout), opaqueOut(),
             out({8}), out({8})},
            {{"kernel", {window, window}},
             {"strides", {2, 2}},
             {"pads", {0, 0, window - 2, window - 2}},
             {"dilations", {1, 1}}},
            {{"epsilon", epsilon}});
  };
  auto failureOf = [&](const Layout &layout, int64_t window) -> std::string {
    try {
      call(layout, window);
    } catch (const std::exception &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(failureOf(channelsLast(), 2), "");
  EXPECT_THAT(failureOf({}, 2), testing::HasSubstr("operand 0 (src, f32 2x8x4x4, layout row-major) "
                                                   "must be f32 or 16 bits, channels-last"));
  EXPECT_THAT(failureOf(channelsLast(), 16),
              testing::HasSubstr("windows have up to 3 dimensions and 255 elements, found 2 "
                                 "dimensions and 256 elements"));
}

} // namespace
} // namespace stow::host::test
