// Batch normalization and local response normalization against a naive double reference.
#include "runtime/host/loops/BatchNormLoops.h"
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace stow::host::test {
namespace {

constexpr double epsilon = 1e-5;

struct Moments {
  Tensor mean, variance;
};

/// Position of the channel of element i of an [N, C, ...] tensor.
int64_t channelOf(const Tensor &tensor, size_t i) {
  int64_t inner = elementCount(tensor.shape) / (tensor.shape[0] * tensor.shape[1]);
  return static_cast<int64_t>(i) / inner % tensor.shape[1];
}

Moments momentsOf(const Tensor &src) {
  int64_t channels = src.shape[1];
  double count = static_cast<double>(elementCount(src.shape) / channels);
  Moments m{Tensor({channels}), Tensor({channels})};
  for (size_t i = 0; i < src.data.size(); ++i)
    m.mean.data[channelOf(src, i)] += src.data[i] / count;
  for (size_t i = 0; i < src.data.size(); ++i) {
    double d = src.data[i] - m.mean.data[channelOf(src, i)];
    m.variance.data[channelOf(src, i)] += d * d / count;
  }
  return m;
}

Tensor normalize(const Tensor &src, const Moments &m, const Tensor &scale, const Tensor &shift) {
  Tensor dst(src.shape);
  for (size_t i = 0; i < src.data.size(); ++i) {
    int64_t c = channelOf(src, i);
    dst.data[i] =
        (src.data[i] - m.mean.data[c]) / std::sqrt(m.variance.data[c] + epsilon) * scale.data[c] +
        shift.data[c];
  }
  return dst;
}

struct Setting {
  Shape shape;
  Layout layout;
};
const Setting settings[] = {{{4, 19, 6, 5}, channelsLast()},
                            {{4, 19, 6, 5}, {}},
                            {{2, 32, 7, 7}, blocked16()},
                            {{1, 16, 1, 9}, channelsLast()},
                            {{8, 10}, {}},
                            {{3, 20, 5, 4}, {1, {0, 1, 2, 3}, {{1, 8}}}},
                            {{3, 5, 41}, {}},
                            {{2, 3, 4, 6}, {1, {0, 2, 1, 3}, {}}}};

TEST(BatchNorm, TrainingForward) {
  for (const Setting &s : settings) {
    Tensor src = sample(s.shape, 1), scale = sample({s.shape[1]}, 2),
           shift = sample({s.shape[1]}, 3);
    Moments m = momentsOf(src);
    CallResult result = runCall(CommandOp::DnnlBatchNorm,
                                {in(src, s.layout), in(scale), in(shift), outAny(s.shape),
                                 out({s.shape[1]}), out({s.shape[1]})},
                                {}, {{"epsilon", epsilon}});
    EXPECT_LT(relativeError(result.tensors[3], normalize(src, m, scale, shift)), 5e-6);
    EXPECT_LT(relativeError(result.tensors[4], m.mean), 5e-6);
    EXPECT_LT(relativeError(result.tensors[5], m.variance), 5e-6);
    EXPECT_EQ(result.requirements.layouts[3], s.layout);
    TestOperand data = in(src, s.layout);
    CallResult inPlace = runCall(
        CommandOp::DnnlBatchNorm,
        {data, in(scale), in(shift), outOver(0, data), out({s.shape[1]}), out({s.shape[1]})}, {},
        {{"epsilon", epsilon}});
    for (size_t i : {3, 4, 5})
      EXPECT_EQ(inPlace.tensors[i].data, result.tensors[i].data);
  }
}

// The statistics alone are those of the whole normalization, whose elements follow from them bit for bit.
TEST(BatchNorm, Statistics) {
  for (const Setting &s : settings) {
    const Shape c = {s.shape[1]};
    const Tensor src = sample(s.shape, 1), scale = sample(c, 2), shift = sample(c, 3);
    const CallResult whole =
        runCall(CommandOp::DnnlBatchNorm,
                {in(src, s.layout), in(scale), in(shift), outAny(s.shape), out(c), out(c)}, {},
                {{"epsilon", epsilon}});
    const CallResult result =
        runCall(CommandOp::DnnlBatchNormStatistics,
                {in(src, s.layout), in(scale), out(c), out(c), out(c)}, {}, {{"epsilon", epsilon}});
    EXPECT_EQ(result.tensors[2].data, whole.tensors[4].data);
    EXPECT_EQ(result.tensors[3].data, whole.tensors[5].data);
    const bool hasFma = batchNormInstructions() == std::string("avx2");
    for (size_t i = 0; i < src.data.size(); ++i) {
      const int64_t channel = channelOf(src, i);
      const auto centred =
          static_cast<float>(src.data[i]) - static_cast<float>(result.tensors[2].data[channel]);
      const float y = std::fma(centred, static_cast<float>(result.tensors[4].data[channel]),
                               static_cast<float>(shift.data[channel]));
      if (hasFma)
        ASSERT_EQ(y, whole.tensors[3].data[i]) << "element " << i;
      else // a product rounded before the sum
        ASSERT_NEAR(y, whole.tensors[3].data[i], 1e-6) << "element " << i;
    }
  }
}

TEST(BatchNorm, Inference) {
  for (const Setting &s : settings) {
    Shape c = {s.shape[1]};
    Tensor src = sample(s.shape, 1), scale = sample(c, 2), shift = sample(c, 3);
    Moments m{sample(c, 4), sample(c, 5)};
    for (double &v : m.variance.data)
      v = v * v + 0.5;
    CallResult result = runCall(
        CommandOp::DnnlBatchNormInference,
        {in(src, s.layout), in(scale), in(shift), in(m.mean), in(m.variance), outAny(s.shape)}, {},
        {{"epsilon", epsilon}});
    EXPECT_LT(relativeError(result.tensors[5], normalize(src, m, scale, shift)), 5e-6);
    TestOperand data = in(src, s.layout);
    CallResult inPlace =
        runCall(CommandOp::DnnlBatchNormInference,
                {data, in(scale), in(shift), in(m.mean), in(m.variance), outOver(0, data)}, {},
                {{"epsilon", epsilon}});
    EXPECT_EQ(inPlace.tensors[5].data, result.tensors[5].data);
  }
}

TEST(BatchNorm, Grad) {
  for (const Setting &s : settings) {
    Shape c = {s.shape[1]};
    Tensor src = sample(s.shape, 1), scale = sample(c, 2), diffDst = sample(s.shape, 3);
    Moments m = momentsOf(src);
    double count = static_cast<double>(elementCount(s.shape) / s.shape[1]);
    Tensor diffScale(c), diffShift(c), diffSrc(s.shape);
    auto normal = [&](size_t i) {
      int64_t ch = channelOf(src, i);
      return (src.data[i] - m.mean.data[ch]) / std::sqrt(m.variance.data[ch] + epsilon);
    };
    for (size_t i = 0; i < src.data.size(); ++i) {
      diffScale.data[channelOf(src, i)] += diffDst.data[i] * normal(i);
      diffShift.data[channelOf(src, i)] += diffDst.data[i];
    }
    for (size_t i = 0; i < src.data.size(); ++i) {
      int64_t ch = channelOf(src, i);
      diffSrc.data[i] =
          scale.data[ch] / std::sqrt(m.variance.data[ch] + epsilon) *
          (diffDst.data[i] - diffShift.data[ch] / count - normal(i) * diffScale.data[ch] / count);
    }
    CallResult result = runCall(CommandOp::DnnlBatchNormGrad,
                                {in(src, s.layout), in(m.mean), in(m.variance), in(scale),
                                 in(diffDst, s.layout), outAny(s.shape), out(c), out(c)},
                                {}, {{"epsilon", epsilon}});
    EXPECT_LT(relativeError(result.tensors[5], diffSrc), 1e-5);
    EXPECT_LT(relativeError(result.tensors[6], diffScale), 1e-5);
    EXPECT_LT(relativeError(result.tensors[7], diffShift), 1e-5);
    TestOperand data = in(src, s.layout), gradient = in(diffDst, s.layout);
    for (const TestOperand &over : {outOver(0, data), outOver(4, gradient)}) {
      CallResult inPlace =
          runCall(CommandOp::DnnlBatchNormGrad,
                  {data, in(m.mean), in(m.variance), in(scale), gradient, over, out(c), out(c)}, {},
                  {{"epsilon", epsilon}});
      for (size_t i : {5, 6, 7})
        EXPECT_EQ(inPlace.tensors[i].data, result.tensors[i].data);
    }
  }
}

/// Values without short sums, around `centre`.
Tensor uneven(const Shape &shape, int seed, double centre) {
  Tensor tensor = sample(shape, seed);
  for (size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = static_cast<float>(centre + tensor.data[i] * 1.7 +
                                        0.3 * std::sin(static_cast<double>(i) * 0.7));
  return tensor;
}

// Tests that long sums are as accurate as short ones. Added up in one float, 12,500 elements around
// 2 give a mean and a variance that are wrong by 1e-6.
TEST(BatchNorm, LongSumsLoseNoAccuracy) {
  const Shape shape = {1, 16, 112, 112}, c = {16};
  const Layout blocked8 = {1, {0, 1, 2, 3}, {{1, 8}}};
  Tensor src = uneven(shape, 1, 2), diffDst = uneven(shape, 2, 0.5), one(c), zero(c);
  std::ranges::fill(one.data, 1.0);
  Moments m = momentsOf(src), rounded = m;
  for (double &mean : rounded.mean.data)
    mean = static_cast<float>(mean);
  for (double &variance : rounded.variance.data)
    variance = static_cast<float>(variance);
  Tensor diffScale(c), diffShift(c);
  for (size_t i = 0; i < src.data.size(); ++i) {
    int64_t ch = channelOf(src, i);
    diffScale.data[ch] += diffDst.data[i] * (src.data[i] - rounded.mean.data[ch]) /
                          std::sqrt(rounded.variance.data[ch] + epsilon);
    diffShift.data[ch] += diffDst.data[i];
  }
  for (const Layout &layout : {Layout{}, channelsLast(), blocked8, blocked16()}) {
    CallResult forward =
        runCall(CommandOp::DnnlBatchNorm,
                {in(src, layout), in(one), in(zero), out(shape, layout), out(c), out(c)}, {},
                {{"epsilon", epsilon}});
    EXPECT_LT(relativeError(forward.tensors[3], normalize(src, m, one, zero)), 3e-7);
    EXPECT_LT(relativeError(forward.tensors[4], m.mean), 1e-7);
    EXPECT_LT(relativeError(forward.tensors[5], m.variance), 1e-7);
    CallResult backward = runCall(CommandOp::DnnlBatchNormGrad,
                                  {in(src, layout), in(rounded.mean), in(rounded.variance), in(one),
                                   in(diffDst, layout), out(shape, layout), out(c), out(c)},
                                  {}, {{"epsilon", epsilon}});
    EXPECT_LT(relativeError(backward.tensors[6], diffScale), 3e-7);
    EXPECT_LT(relativeError(backward.tensors[7], diffShift), 1e-7);
  }
}

// Tests that the number of threads changes no bit of the results.
TEST(BatchNorm, ThreadsChangeNothing) {
  const Shape shape = {2, 24, 40, 41}, c = {24};
  Tensor src = uneven(shape, 1, 1), diffDst = uneven(shape, 2, 0), scale = sample(c, 3),
         shift = sample(c, 4);
  Moments m = momentsOf(src);
  for (const Layout &layout : {Layout{}, channelsLast(), Layout{1, {0, 1, 2, 3}, {{1, 8}}}}) {
    std::vector<CallResult> forward, backward;
    for (int64_t threads : {1, 3}) {
      forward.push_back(
          runCall(CommandOp::DnnlBatchNorm,
                  {in(src, layout), in(scale), in(shift), out(shape, layout), out(c), out(c)}, {},
                  {{"epsilon", epsilon}}, threads));
      backward.push_back(runCall(CommandOp::DnnlBatchNormGrad,
                                 {in(src, layout), in(m.mean), in(m.variance), in(scale),
                                  in(diffDst, layout), out(shape, layout), out(c), out(c)},
                                 {}, {{"epsilon", epsilon}}, threads));
    }
    for (size_t i : {3, 4, 5})
      EXPECT_EQ(forward[0].tensors[i].data, forward[1].tensors[i].data);
    for (size_t i : {5, 6, 7})
      EXPECT_EQ(backward[0].tensors[i].data, backward[1].tensors[i].data);
  }
}

/// Half of the last place of the type, beside the sums' rounding.
double toleranceOf(DType type) {
  return 1e-5 + (type == DType::BF16 ? 1.0 / 256 : type == DType::F16 ? 1.0 / 2048 : 0);
}

/// Every mix of f32 and a 16-bit type in `count` operands, but not all in f32.
std::vector<std::vector<DType>> mixes(size_t count) {
  std::vector<std::vector<DType>> found;
  for (DType low : {DType::BF16, DType::F16})
    for (size_t mask = 1; mask < size_t{1} << count; ++mask) {
      found.emplace_back();
      for (size_t i = 0; i < count; ++i)
        found.back().push_back(mask >> i & 1 ? low : DType::F32);
    }
  return found;
}

// Tests that 16-bit data, which the loops convert element by element, give the very statistics and
// gradients of scale and shift that f32 data of the same values give.
TEST(MixedBatchNorm, StatisticsAreThoseOfF32) {
  for (const Setting &s : settings) {
    const Shape c = {s.shape[1]};
    const Tensor src = sample(s.shape, 1), scale = sample(c, 2), shift = sample(c, 3),
                 diffDst = sample(s.shape, 4);
    const Moments m = momentsOf(src);
    auto forward = [&](DType x, DType y, int64_t threads) {
      return runCall(
          CommandOp::DnnlBatchNorm,
          {in(src, s.layout, x), in(scale), in(shift), outAny(s.shape, y), out(c), out(c)}, {},
          {{"epsilon", epsilon}}, threads);
    };
    auto backward = [&](DType x, DType dy, DType dx, int64_t threads) {
      return runCall(CommandOp::DnnlBatchNormGrad,
                     {in(src, s.layout, x), in(m.mean), in(m.variance), in(scale),
                      in(diffDst, s.layout, dy), outAny(s.shape, dx), out(c), out(c)},
                     {}, {{"epsilon", epsilon}}, threads);
    };
    const CallResult plain = forward(DType::F32, DType::F32, 1),
                     plainGrad = backward(DType::F32, DType::F32, DType::F32, 1);
    for (int64_t threads : {1, 4}) {
      for (const std::vector<DType> &types : mixes(2)) {
        const CallResult result = forward(types[0], types[1], threads);
        EXPECT_LT(relativeError(result.tensors[3], plain.tensors[3]), toleranceOf(types[1]));
        for (size_t i : {4, 5})
          EXPECT_EQ(result.tensors[i].data, plain.tensors[i].data);
      }
      for (const std::vector<DType> &types : mixes(3)) {
        const CallResult result = backward(types[0], types[1], types[2], threads);
        EXPECT_LT(relativeError(result.tensors[5], plainGrad.tensors[5]), toleranceOf(types[2]));
        for (size_t i : {6, 7})
          EXPECT_EQ(result.tensors[i].data, plainGrad.tensors[i].data);
      }
    }
  }
}

TEST(MixedBatchNorm, InPlace) {
  for (DType type : {DType::BF16, DType::F16})
    for (const Setting &s : settings) {
      const Shape c = {s.shape[1]};
      const Tensor src = sample(s.shape, 1), scale = sample(c, 2), shift = sample(c, 3);
      const Moments m = momentsOf(src);
      const TestOperand data = in(src, s.layout, type);
      CallResult apart =
          runCall(CommandOp::DnnlBatchNorm,
                  {data, in(scale), in(shift), outAny(s.shape, type), out(c), out(c)}, {},
                  {{"epsilon", epsilon}});
      CallResult inPlace = runCall(CommandOp::DnnlBatchNorm,
                                   {data, in(scale), in(shift), outOver(0, data), out(c), out(c)},
                                   {}, {{"epsilon", epsilon}});
      EXPECT_EQ(inPlace.tensors[3].data, apart.tensors[3].data);
      EXPECT_LT(relativeError(apart.tensors[3], normalize(src, m, scale, shift)),
                toleranceOf(type));
      auto grad = [&](const TestOperand &diffSrc) {
        return runCall(CommandOp::DnnlBatchNormGrad,
                       {in(src, s.layout, type), in(m.mean), in(m.variance), in(scale), data,
                        diffSrc, out(c), out(c)},
                       {}, {{"epsilon", epsilon}});
      };
      EXPECT_EQ(grad(outOver(4, data)).tensors[5].data,
                grad(outAny(s.shape, type)).tensors[5].data);
    }
}

// Tests normalization with given statistics, which runs in pieces, in place too.
TEST(MixedBatchNorm, Inference) {
  for (const Setting &s : settings) {
    const Shape c = {s.shape[1]};
    const Tensor src = sample(s.shape, 1), scale = sample(c, 2), shift = sample(c, 3);
    Moments m{sample(c, 4), sample(c, 5)};
    for (double &v : m.variance.data)
      v = v * v + 0.5;
    const Tensor expected = normalize(src, m, scale, shift);
    for (const std::vector<DType> &types : mixes(2))
      for (int64_t threads : {1, 4}) {
        const TestOperand data = in(src, s.layout, types[0]);
        CallResult result = runCall(
            CommandOp::DnnlBatchNormInference,
            {data, in(scale), in(shift), in(m.mean), in(m.variance), outAny(s.shape, types[1])}, {},
            {{"epsilon", epsilon}}, threads);
        EXPECT_LT(relativeError(result.tensors[5], expected), toleranceOf(types[1]))
            << result.requirements.implementation;
        EXPECT_EQ(result.requirements.layouts[5], s.layout);
        if (types[0] != types[1])
          continue;
        CallResult inPlace =
            runCall(CommandOp::DnnlBatchNormInference,
                    {data, in(scale), in(shift), in(m.mean), in(m.variance), outOver(0, data)}, {},
                    {{"epsilon", epsilon}}, threads);
        EXPECT_EQ(inPlace.tensors[5].data, result.tensors[5].data);
      }
  }
}

} // namespace
} // namespace stow::host::test
