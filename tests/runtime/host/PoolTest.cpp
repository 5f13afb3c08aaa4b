// Pooling and its gradients against a naive double reference.
#include "tests/runtime/host/PoolingCase.h"

#include <gmock/gmock.h>

#include <cmath>

namespace stow::host::test {
namespace {

struct Case : PoolingCase {
  /// Calls visit(n, c, y, x, sy, sx) for every window element inside the image.
  template <typename Visit> void forEach(const Visit &visit) const {
    Shape d = dst();
    for (int64_t n = 0; n < d[0]; ++n)
      for (int64_t c = 0; c < d[1]; ++c)
        for (int64_t y = 0; y < d[2]; ++y)
          for (int64_t x = 0; x < d[3]; ++x)
            for (int64_t i = 0; i < kernel[0]; ++i)
              for (int64_t j = 0; j < kernel[1]; ++j) {
                int64_t sy = y * strides[0] - pads[0] + i * dilations[0];
                int64_t sx = x * strides[1] - pads[1] + j * dilations[1];
                if (sy >= 0 && sy < src[2] && sx >= 0 && sx < src[3])
                  visit(n, c, y, x, sy, sx);
              }
  }
};

const Case cases[] = {
    {"TwoByTwo", {2, 16, 8, 8}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
    {"Overlapping", {2, 19, 9, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {"AsymmetricPads", {1, 5, 8, 7}, {3, 2}, {2, 1}, {0, 1, 1, 0}, {1, 1}},
    {"Dilated", {1, 4, 10, 10}, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}},
    {"Global", {3, 33, 7, 7}, {7, 7}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
    {"SevenImages", {7, 24, 12, 12}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
};

class PoolTest : public testing::TestWithParam<Case> {
protected:
  const Case &c = GetParam();
  Tensor src = distinct(c.src);
  Tensor diffDst = sample(c.dst(), 2);

  /// All values different, so that the maximum has one place.
  static Tensor distinct(const Shape &shape) {
    Tensor tensor(shape);
    int64_t count = elementCount(shape);
    int64_t step = 7919;
    for (int64_t i = 0; i < count; ++i)
      tensor.data[i] = static_cast<double>(i * step % 10007) / 5000.0 - 1.0;
    return tensor;
  }
};

TEST_P(PoolTest, MaxAndGrad) {
  Tensor expected(c.dst()), winner(c.dst()), grad(c.src);
  std::fill(expected.data.begin(), expected.data.end(), -INFINITY);
  c.forEach([&](auto n, auto ch, auto y, auto x, auto sy, auto sx) {
    if (src.at({n, ch, sy, sx}) > expected.at({n, ch, y, x})) {
      expected.at({n, ch, y, x}) = src.at({n, ch, sy, sx});
      winner.at({n, ch, y, x}) = static_cast<double>(sy * c.src[3] + sx);
    }
  });
  for (size_t i = 0; i < diffDst.data.size(); ++i) {
    int64_t plane = static_cast<int64_t>(i) / (diffDst.shape[2] * diffDst.shape[3]);
    grad.data[plane * c.src[2] * c.src[3] + static_cast<int64_t>(winner.data[i])] +=
        diffDst.data[i];
  }
  for (const Layout &layout : {channelsLast(), Layout(), blocked16()}) {
    CallResult forward =
        runCall(CommandOp::DnnlMaxPool, {in(src, layout), outAny(c.dst()), opaqueOut()}, c.ints());
    EXPECT_LT(relativeError(forward.tensors[1], expected), 1e-6);
    EXPECT_EQ(forward.requirements.layouts[1], layout);
    EXPECT_LE(forward.requirements.opaqueBytes[2],
              storedBytes(layout, c.dst(), DType::U8) * (c.kernel[0] * c.kernel[1] < 256 ? 1 : 4));
    CallResult backward =
        runCall(CommandOp::DnnlMaxPoolGrad,
                {in(diffDst, layout), opaqueIn(forward.bytes[2]), outAny(c.src)}, c.ints());
    EXPECT_LT(relativeError(backward.tensors[2], grad), 1e-6);
    CallResult inference =
        runCall(CommandOp::DnnlMaxPoolInference, {in(src, layout), outAny(c.dst())}, c.ints());
    EXPECT_LT(relativeError(inference.tensors[1], expected), 1e-6);
  }
}

TEST_P(PoolTest, AverageAndGrad) {
  for (bool countPads : {false, true}) {
    Tensor expected(c.dst()), weight(c.dst()), grad(c.src);
    c.forEach([&](auto n, auto ch, auto y, auto x, auto sy, auto sx) {
      expected.at({n, ch, y, x}) += src.at({n, ch, sy, sx});
      weight.at({n, ch, y, x}) += 1;
    });
    for (size_t i = 0; i < weight.data.size(); ++i) {
      weight.data[i] =
          1 / (countPads ? static_cast<double>(c.kernel[0] * c.kernel[1]) : weight.data[i]);
      expected.data[i] *= weight.data[i];
    }
    c.forEach([&](auto n, auto ch, auto y, auto x, auto sy, auto sx) {
      grad.at({n, ch, sy, sx}) += diffDst.at({n, ch, y, x}) * weight.at({n, ch, y, x});
    });
    auto ints = c.ints();
    ints["count_include_pad"] = {countPads};
    CallResult forward =
        runCall(CommandOp::DnnlAvgPool, {in(src, channelsLast()), outAny(c.dst())}, ints);
    EXPECT_LT(relativeError(forward.tensors[1], expected), 2e-6) << countPads;
    CallResult backward =
        runCall(CommandOp::DnnlAvgPoolGrad, {in(diffDst, channelsLast()), outAny(c.src)}, ints);
    EXPECT_LT(relativeError(backward.tensors[1], grad), 2e-6) << countPads;
  }
}

/// bf16 and f16 alone, and each beside f32.
const std::pair<DType, DType> mixes[] = {{DType::BF16, DType::BF16}, {DType::BF16, DType::F32},
                                         {DType::F32, DType::BF16},  {DType::F16, DType::F16},
                                         {DType::F16, DType::F32},   {DType::F32, DType::F16}};

double toleranceOf(DType type) {
  return 2e-6 + (type == DType::BF16 ? 1.0 / 256 : type == DType::F16 ? 1.0 / 2048 : 0);
}

// Tests that maxima of 16-bit elements are exact, and that indices are the bytes that f32 elements
// of the same values give, in the same place: gradients in any type find the winner.
TEST_P(PoolTest, MixedMax) {
  const Tensor exact = sample(c.src, 5);
  for (const Layout &layout : {channelsLast(), blocked16()}) {
    const CallResult plain = runCall(CommandOp::DnnlMaxPool,
                                     {in(exact, layout), outAny(c.dst()), opaqueOut()}, c.ints());
    const CallResult plainGrad =
        runCall(CommandOp::DnnlMaxPoolGrad,
                {in(diffDst, layout), opaqueIn(plain.bytes[2]), outAny(c.src)}, c.ints());
    for (auto [from, to] : mixes)
      for (int64_t threads : {1, 4}) {
        const CallResult forward = runCall(
            CommandOp::DnnlMaxPool, {in(exact, layout, from), outAny(c.dst(), to), opaqueOut()},
            c.ints(), {}, threads);
        EXPECT_EQ(forward.tensors[1].data, plain.tensors[1].data);
        EXPECT_EQ(forward.bytes[2], plain.bytes[2]);
        EXPECT_EQ(forward.requirements.opaqueBytes, plain.requirements.opaqueBytes);
        const CallResult backward =
            runCall(CommandOp::DnnlMaxPoolGrad,
                    {in(diffDst, layout, from), opaqueIn(forward.bytes[2]), outAny(c.src, to)},
                    c.ints(), {}, threads);
        EXPECT_LT(relativeError(backward.tensors[2], plainGrad.tensors[2]), toleranceOf(to));
        const CallResult inference =
            runCall(CommandOp::DnnlMaxPoolInference, {in(exact, layout, from), outAny(c.dst(), to)},
                    c.ints(), {}, threads);
        EXPECT_EQ(inference.tensors[1].data, plain.tensors[1].data);
      }
  }
}

TEST_P(PoolTest, MixedAverage) {
  const Tensor exact = sample(c.src, 5);
  for (bool countPads : {false, true}) {
    auto ints = c.ints();
    ints["count_include_pad"] = {countPads};
    const CallResult plain =
        runCall(CommandOp::DnnlAvgPool, {in(exact, channelsLast()), outAny(c.dst())}, ints);
    const CallResult plainGrad =
        runCall(CommandOp::DnnlAvgPoolGrad, {in(diffDst, channelsLast()), outAny(c.src)}, ints);
    for (auto [from, to] : mixes)
      for (int64_t threads : {1, 4}) {
        const CallResult forward =
            runCall(CommandOp::DnnlAvgPool, {in(exact, channelsLast(), from), outAny(c.dst(), to)},
                    ints, {}, threads);
        EXPECT_LT(relativeError(forward.tensors[1], plain.tensors[1]), toleranceOf(to));
        const CallResult backward =
            runCall(CommandOp::DnnlAvgPoolGrad,
                    {in(diffDst, channelsLast(), from), outAny(c.src, to)}, ints, {}, threads);
        EXPECT_LT(relativeError(backward.tensors[1], plainGrad.tensors[1]), toleranceOf(to));
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PoolTest, testing::ValuesIn(cases),
                         [](const auto &info) { return info.param.name; });

} // namespace
} // namespace stow::host::test
