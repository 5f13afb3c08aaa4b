// Library calls on 16-bit operands and on mixes of them with f32, against double references.
//
// Inputs are exact in every type, so results of f32 differ from the reference by the sums' rounding
// alone, and those of 16 bits by that of the result: half of the last of 8 (bf16) or 11 (f16) bits.
// The calls are large enough to be cut into several pieces, of which the last is smaller.
#include "runtime/base/Error.h"
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

#include <cmath>

namespace stow::host::test {
namespace {

double toleranceOf(DType type) {
  constexpr double sums = 4e-6;
  return type == DType::BF16 ? 1.0 / 256 + sums : type == DType::F16 ? 1.0 / 2048 + sums : sums;
}

using Ints = std::map<std::string, std::vector<int64_t>>;

/// Calls `body(types)` for every mix of f32 and a 16-bit type in `count` operands, but not for all
/// in f32.
template <typename Body> void forMixes(size_t count, const Body &body) {
  for (DType low : {DType::BF16, DType::F16})
    for (size_t mask = 1; mask < size_t{1} << count; ++mask) {
      std::vector<DType> types;
      for (size_t i = 0; i < count; ++i)
        types.push_back(mask >> i & 1 ? low : DType::F32);
      body(types);
    }
}

std::string say(const std::vector<DType> &types) {
  std::string text;
  for (DType type : types)
    text += std::string(nameOf(type)) + " ";
  return text;
}

/// Runs with one thread and with four; results must be those of the reference within the type's
/// tolerance. Returns the call of four threads.
CallResult check(CommandOp op, const std::vector<TestOperand> &operands, const Ints &ints,
                 const std::map<size_t, const Tensor *> &expected) {
  CallResult result;
  for (int64_t threads : {1, 4}) {
    result = runCall(op, operands, ints, {}, threads);
    for (auto [index, tensor] : expected)
      EXPECT_LT(relativeError(result.tensors[index], *tensor), toleranceOf(operands[index].dtype))
          << nameOf(op) << " operand " << index << " with " << threads << " threads, "
          << result.requirements.implementation;
    EXPECT_FALSE(result.requirements.reference) << result.requirements.implementation;
  }
  return result;
}

struct Convolution {
  const char *name;
  Shape src, weights;
  int64_t stride, pad, groups;

  Ints ints() const {
    return {{"strides", {stride, stride}},
            {"pads", {pad, pad, pad, pad}},
            {"dilations", {1, 1}},
            {"groups", {groups}}};
  }
  Shape dst() const {
    auto extent = [&](size_t i) { return (src[i] + 2 * pad - weights[i]) / stride + 1; };
    return {src[0], weights[0], extent(2), extent(3)};
  }
  template <typename Visit> void forEach(const Visit &visit) const {
    const Shape d = dst();
    for (int64_t n = 0; n < d[0]; ++n)
      for (int64_t o = 0; o < d[1]; ++o)
        for (int64_t y = 0; y < d[2]; ++y)
          for (int64_t x = 0; x < d[3]; ++x)
            for (int64_t c = 0; c < weights[1]; ++c)
              for (int64_t i = 0; i < weights[2]; ++i)
                for (int64_t j = 0; j < weights[3]; ++j) {
                  const int64_t sy = y * stride - pad + i, sx = x * stride - pad + j;
                  const int64_t sc = o / (weights[0] / groups) * weights[1] + c;
                  if (sy >= 0 && sy < src[2] && sx >= 0 && sx < src[3])
                    visit(((n * src[1] + sc) * src[2] + sy) * src[3] + sx,
                          ((o * weights[1] + c) * weights[2] + i) * weights[3] + j,
                          ((n * d[1] + o) * d[2] + y) * d[3] + x);
                }
  }
};

const Convolution convolutions[] = {
    {"Batch7", {7, 16, 12, 12}, {32, 16, 3, 3}, 1, 1, 1},
    {"OneByOne", {9, 32, 8, 8}, {16, 32, 1, 1}, 1, 0, 1},
    {"OneByOneStrided", {5, 16, 8, 8}, {32, 16, 1, 1}, 2, 0, 1},
    {"StemOdd", {5, 3, 15, 13}, {16, 3, 7, 7}, 2, 3, 1},
    {"Grouped", {5, 32, 8, 8}, {32, 16, 3, 3}, 1, 1, 2},
    {"OneImage", {1, 16, 40, 9}, {16, 16, 3, 3}, 1, 1, 1},
    {"OneImageStrided", {1, 16, 41, 11}, {16, 16, 3, 3}, 2, 1, 1},
    {"OneImageStem", {1, 3, 64, 24}, {16, 3, 7, 7}, 2, 3, 1},
    {"OneImageOneByOne", {2, 16, 24, 9}, {32, 16, 1, 1}, 2, 0, 1},
    {"OneImageFewRows", {1, 16, 4, 4}, {16, 16, 1, 1}, 2, 0, 1}, // strips of the stride's rows
    {"OneImageGrouped", {1, 32, 40, 8}, {32, 16, 3, 3}, 1, 1, 2},
    {"WeightsOutweigh", {3, 64, 3, 3}, {64, 64, 3, 3}, 1, 1, 1},
    {"ManySmallImages", {19, 16, 4, 4}, {72, 16, 3, 3}, 1, 1, 1},
};

class MixedConvolution : public testing::TestWithParam<Convolution> {
protected:
  const Convolution &c = GetParam();
  Tensor src = sample(c.src, 1), weights = sample(c.weights, 2), bias = sample({c.weights[0]}, 3),
         diffDst = sample(c.dst(), 4);
};

// Tests forward convolutions with and without bias, in channels-last and in blocks.
TEST_P(MixedConvolution, Forward) {
  Tensor product(c.dst()), sum(c.dst());
  c.forEach([&](auto s, auto w, auto d) { product.data[d] += src.data[s] * weights.data[w]; });
  const int64_t points = sum.shape[2] * sum.shape[3];
  for (size_t i = 0; i < sum.data.size(); ++i)
    sum.data[i] = product.data[i] + bias.data[static_cast<int64_t>(i) / points % sum.shape[1]];
  forMixes(3, [&](const std::vector<DType> &types) {
    SCOPED_TRACE(say(types));
    check(CommandOp::DnnlConvolution,
          {in(src, channelsLast(), types[0]), inAny(weights, types[1]),
           out(c.dst(), channelsLast(), types[2])},
          c.ints(), {{2, &product}});
    check(CommandOp::DnnlConvolution,
          {in(src, channelsLast(), types[0]), inAny(weights, types[1]), in(bias, {}, types[1]),
           out(c.dst(), channelsLast(), types[2])},
          c.ints(), {{3, &sum}});
    CallResult free =
        check(CommandOp::DnnlConvolution,
              {inAny(src, types[0]), inAny(weights, types[1]), in(bias), outAny(c.dst(), types[2])},
              c.ints(), {{3, &sum}});
    if (types[0] != DType::F32 && types[2] != DType::F32 && c.src[0] > 1 &&
        std::string(c.name) != "WeightsOutweigh") {
      const bool isLow = std::ranges::count(types, DType::BF16) == 3 && supportsBf16();
      EXPECT_THAT(free.requirements.implementation,
                  testing::HasSubstr(isLow ? "_bf16" : "pieces: "));
    }
  });
}

TEST_P(MixedConvolution, GradInput) {
  Tensor expected(c.src);
  c.forEach([&](auto s, auto w, auto d) { expected.data[s] += diffDst.data[d] * weights.data[w]; });
  forMixes(3, [&](const std::vector<DType> &types) {
    SCOPED_TRACE(say(types));
    check(CommandOp::DnnlConvolutionGradInput,
          {in(diffDst, channelsLast(), types[0]), inAny(weights, types[1]),
           out(c.src, channelsLast(), types[2])},
          c.ints(), {{2, &expected}});
  });
}

// Tests that the pieces of a weight gradient add up, in f32 also where the sum is stored in 16 bits.
TEST_P(MixedConvolution, GradWeight) {
  Tensor expected(c.weights);
  c.forEach([&](auto s, auto w, auto d) { expected.data[w] += diffDst.data[d] * src.data[s]; });
  forMixes(3, [&](const std::vector<DType> &types) {
    SCOPED_TRACE(say(types));
    check(CommandOp::DnnlConvolutionGradWeight,
          {in(src, channelsLast(), types[0]), in(diffDst, channelsLast(), types[1]),
           outAny(c.weights, types[2])},
          c.ints(), {{2, &expected}});
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, MixedConvolution, testing::ValuesIn(convolutions),
                         [](const auto &info) { return info.param.name; });

struct Product {
  const char *name;
  Shape a, b, dst;
  bool transposeA, transposeB;
};

/// a [.., M, K] times b [.., K, N] with leading dimensions equal, 1 or missing.
Tensor multiply(const Product &p, const Tensor &a, const Tensor &b, const Tensor &bias) {
  Tensor result(p.dst);
  const size_t rank = p.dst.size();
  const int64_t m = p.dst[rank - 2], n = p.dst[rank - 1];
  const int64_t k = p.a[p.a.size() - (p.transposeA ? 2 : 1)];
  auto matrix = [&](const Shape &shape, int64_t batch) { // the number of an operand's matrix
    int64_t number = 0, stride = 1;
    for (size_t i = rank - 2; i-- > 0;) {
      const int64_t index = batch % p.dst[i];
      batch /= p.dst[i];
      const size_t missing = rank - shape.size();
      if (i < missing)
        continue;
      number += shape[i - missing] == 1 ? 0 : index * stride;
      stride *= shape[i - missing];
    }
    return number;
  };
  for (int64_t g = 0; g < elementCount(p.dst) / (m * n); ++g) {
    const double *pa = a.data.data() + matrix(p.a, g) * m * k;
    const double *pb = b.data.data() + matrix(p.b, g) * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias.data[j];
        for (int64_t x = 0; x < k; ++x)
          sum += (p.transposeA ? pa[x * m + i] : pa[i * k + x]) *
                 (p.transposeB ? pb[j * k + x] : pb[x * n + j]);
        result.data[g * m * n + i * n + j] = sum;
      }
  }
  return result;
}

const Product products[] = {
    {"Plain", {150, 170}, {170, 190}, {150, 190}, false, false},
    {"TransposedB", {150, 170}, {190, 170}, {150, 190}, false, true},
    {"TransposedA", {170, 150}, {170, 190}, {150, 190}, true, false},
    {"TransposedBoth", {170, 150}, {190, 170}, {150, 190}, true, true},
    {"LongContraction", {2000, 30}, {2000, 20}, {30, 20}, true, false},
    {"ManyRows", {3000, 24}, {24, 40}, {3000, 40}, false, false},
    {"ManyColumns", {24, 40}, {40, 3000}, {24, 3000}, false, false},
    {"Tall", {5, 70, 90}, {90, 100}, {5, 70, 100}, false, false},
    {"Heads", {3, 5, 33, 40}, {3, 5, 37, 40}, {3, 5, 33, 37}, false, true},
    {"HeadsTransposed", {2, 3, 40, 33}, {2, 3, 40, 37}, {2, 3, 33, 37}, true, false},
    {"RepeatedA", {1, 33, 40}, {7, 40, 37}, {7, 33, 37}, false, false},
    {"MissingA", {33, 40}, {2, 3, 40, 37}, {2, 3, 33, 37}, false, false},
    {"RepeatedInside", {2, 1, 33, 40}, {2, 3, 40, 37}, {2, 3, 33, 37}, false, false},
    {"OneRow", {1, 300}, {300, 200}, {1, 200}, false, false},
    {"OneColumn", {300, 200}, {200, 1}, {300, 1}, false, false},
    {"Tiny", {1, 1}, {1, 1}, {1, 1}, false, false},
};

class MixedMatMul : public testing::TestWithParam<Product> {};

TEST_P(MixedMatMul, AllMixes) {
  const Product &p = GetParam();
  const Tensor a = sample(p.a, 1), b = sample(p.b, 2), bias = sample({p.dst.back()}, 3);
  const Tensor plain = multiply(p, a, b, Tensor({p.dst.back()})), sum = multiply(p, a, b, bias);
  const Ints ints = {{"transpose_a", {p.transposeA}}, {"transpose_b", {p.transposeB}}};
  forMixes(3, [&](const std::vector<DType> &types) {
    SCOPED_TRACE(say(types));
    check(CommandOp::DnnlMatmul,
          {in(a, {}, types[0]), in(b, {}, types[1]), out(p.dst, {}, types[2])}, ints,
          {{2, &plain}});
    check(CommandOp::DnnlMatmul,
          {in(a, {}, types[0]), in(b, {}, types[1]), in(bias, {}, types[1]),
           out(p.dst, {}, types[2])},
          ints, {{3, &sum}});
    if (p.b.size() == p.dst.size())
      check(CommandOp::DnnlMatmul,
            {in(a, {}, types[0]), inAny(b, types[1]), in(bias), out(p.dst, {}, types[2])}, ints,
            {{3, &sum}});
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, MixedMatMul, testing::ValuesIn(products),
                         [](const auto &info) { return info.param.name; });

Command command(CommandOp op, const std::vector<Operand> &operands, const Ints &ints) {
  Command call;
  call.op = op;
  call.name = "node";
  call.operands = operands;
  call.ints = ints;
  return call;
}

// Tests the promise that 16-bit operands never take more memory than f32 ones: the f32 pieces take
// no more than a quarter of the operands in f32, of many images or of one. No processor has code for f16.
TEST(MixedWorkspace, IsAQuarterAtMost) {
  const Layout nhwc = channelsLast();
  const Operand image{0, DType::F16, {32, 64, 28, 28}, nhwc},
      alone{0, DType::F16, {1, 64, 56, 56}, nhwc}, weights{0, DType::F32, {64, 64, 3, 3}, {}};
  const Ints ints = {
      {"strides", {1, 1}}, {"pads", {1, 1, 1, 1}}, {"dilations", {1, 1}}, {"groups", {1}}};
  struct Case {
    Command call;
    std::vector<bool> any;
  };
  const std::vector<Case> cases = {
      {command(CommandOp::DnnlConvolution, {image, weights, image}, ints), {false, true, false}},
      {command(CommandOp::DnnlConvolutionGradInput, {image, weights, image}, ints),
       {false, true, false}},
      {command(CommandOp::DnnlConvolutionGradWeight, {image, image, weights}, ints),
       {false, false, true}},
      {command(CommandOp::DnnlConvolution, {alone, weights, alone}, ints), {false, true, false}},
      {command(CommandOp::DnnlConvolutionGradInput, {alone, weights, alone}, ints),
       {false, true, false}},
      {command(CommandOp::DnnlConvolutionGradWeight, {alone, alone, weights}, ints),
       {false, false, true}},
      {command(CommandOp::DnnlMatmul,
               {{0, DType::F16, {768, 512}, {}},
                {0, DType::F16, {512, 640}, {}},
                {0, DType::F16, {768, 640}, {}}},
               {}),
       {}},
      {command(CommandOp::DnnlMatmul,
               {{0, DType::F16, {2048, 512}, {}},
                {0, DType::F16, {2048, 640}, {}},
                {0, DType::F32, {512, 640}, {}}},
               {{"transpose_a", {1}}}),
       {}},
  };
  for (const Case &c : cases) {
    Bytes inF32 = 0;
    Command plain = c.call;
    for (Operand &operand : plain.operands) {
      if (operand.dtype == DType::F16)
        inF32 += storedBytes(operand.layout, operand.shape, DType::F32);
      operand.dtype = DType::F32;
    }
    for (int64_t threads : {1, 4}) {
      const Bytes library = queryLibrary(plain, c.any, threads).workspaceBytes;
      const LibraryRequirements pieces = queryLibrary(c.call, c.any, threads);
      EXPECT_LE(pieces.workspaceBytes, inF32 / 4 + library + 256)
          << nameOf(c.call.op) << " " << pieces.implementation;
    }
  }
}

} // namespace
} // namespace stow::host::test
