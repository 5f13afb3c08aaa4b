// Matrix products, plain, transposed, batched and repeated, against a naive double reference.
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

namespace stow::host::test {
namespace {

/// a [.., M, K] times b [.., K, N] with leading dimensions equal, 1 or missing.
Tensor multiply(const Tensor &a, bool transposeA, const Tensor &b, bool transposeB,
                const Shape &dst) {
  Tensor result(dst);
  size_t rank = dst.size();
  int64_t m = dst[rank - 2], n = dst[rank - 1];
  int64_t k = a.shape[a.shape.size() - (transposeA ? 2 : 1)];
  int64_t batch = elementCount(dst) / (m * n);
  bool repeatA = elementCount(a.shape) == m * k, repeatB = elementCount(b.shape) == k * n;
  for (int64_t g = 0; g < batch; ++g) {
    const double *pa = a.data.data() + (repeatA ? 0 : g * m * k);
    const double *pb = b.data.data() + (repeatB ? 0 : g * k * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x)
          sum += (transposeA ? pa[x * m + i] : pa[i * k + x]) *
                 (transposeB ? pb[j * k + x] : pb[x * n + j]);
        result.data[g * m * n + i * n + j] = sum;
      }
  }
  return result;
}

std::map<std::string, std::vector<int64_t>> transposes(bool a, bool b) {
  return {{"transpose_a", {a}}, {"transpose_b", {b}}};
}

// Tests the four transposes with row-major and with library-chosen b, f32 and bf16.
TEST(MatMul, Transposes) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      Tensor a = sample(ta ? Shape{37, 20} : Shape{20, 37}, 1);
      Tensor b = sample(tb ? Shape{30, 37} : Shape{37, 30}, 2);
      Tensor expected = multiply(a, ta, b, tb, {20, 30});
      for (const TestOperand &right : {in(b), inAny(b)}) {
        CallResult result =
            runCall(CommandOp::DnnlMatmul, {in(a), right, out({20, 30})}, transposes(ta, tb));
        EXPECT_LT(relativeError(result.tensors[2], expected), 2e-6) << ta << tb;
      }
      CallResult low =
          runCall(CommandOp::DnnlMatmul,
                  {in(a, {}, DType::BF16), inAny(b, DType::BF16), out({20, 30}, {}, DType::BF16)},
                  transposes(ta, tb));
      EXPECT_LT(relativeError(low.tensors[2], expected), 1.0 / 256) << ta << tb;
    }
}

TEST(MatMul, Bias) {
  Tensor a = sample({6, 11}, 1), b = sample({5, 11}, 2), bias = sample({5}, 3);
  Tensor expected = multiply(a, false, b, true, {6, 5});
  for (size_t i = 0; i < expected.data.size(); ++i)
    expected.data[i] += bias.data[i % 5];
  auto ints = transposes(false, true);
  ints["has_bias"] = {1};
  CallResult result = runCall(CommandOp::DnnlMatmul, {in(a), in(b), in(bias), out({6, 5})}, ints);
  EXPECT_LT(relativeError(result.tensors[3], expected), 2e-6);
}

// Tests three- and four-dimensional batches, and a side that is repeated over the batch because its
// leading dimensions are 1 or missing.
TEST(MatMul, Batches) {
  struct Case {
    Shape a, b, dst;
    bool ta, tb;
  };
  const Case cases[] = {
      {{4, 7, 9}, {4, 9, 5}, {4, 7, 5}, false, false},
      {{2, 3, 7, 9}, {2, 3, 5, 9}, {2, 3, 7, 5}, false, true},
      {{2, 3, 9, 7}, {2, 3, 9, 5}, {2, 3, 7, 5}, true, false},
      {{4, 7, 9}, {9, 5}, {4, 7, 5}, false, false},
      {{4, 7, 9}, {5, 9}, {4, 7, 5}, false, true},
      {{1, 7, 9}, {4, 9, 5}, {4, 7, 5}, false, false},
      {{7, 9}, {2, 3, 9, 5}, {2, 3, 7, 5}, false, false},
  };
  for (const Case &c : cases) {
    Tensor a = sample(c.a, 1), b = sample(c.b, 2);
    CallResult result =
        runCall(CommandOp::DnnlMatmul, {in(a), in(b), out(c.dst)}, transposes(c.ta, c.tb));
    EXPECT_LT(relativeError(result.tensors[2], multiply(a, c.ta, b, c.tb, c.dst)), 2e-6)
        << testing::PrintToString(c.a) << testing::PrintToString(c.b);
  }
}

// Tests that a 1x1 problem, whose dimensions leave the order ambiguous, works.
TEST(MatMul, Tiny) {
  Tensor a = sample({1, 1}, 1), b = sample({1, 1}, 2);
  CallResult result = runCall(CommandOp::DnnlMatmul, {in(a), inAny(b), out({1, 1})});
  EXPECT_DOUBLE_EQ(result.tensors[2].data[0], a.data[0] * b.data[0]);
}

// Products of drawn sizes, which the library multiplies as their factors lie, or packs them: on any number of threads the bits of one.
// A third of them had other bits on some number of threads as the library without AVX-512 cuts them.
TEST(MatMul, AnyNumberOfThreads) {
  int64_t state = 1;
  auto draw = [&](int64_t most) {
    state = state * 48271 % 2147483647;
    return 1 + state % most;
  };
  for (int i = 0; i < 60; ++i) {
    const bool ta = draw(2) == 1, tb = draw(2) == 1, isWide = i % 6 == 0;
    const int64_t rows = isWide ? 300 + draw(200) : draw(200), columns = isWide ? 400 : draw(400),
                  depth = draw(isWide ? 40 : 300);
    auto drawn =
        [&](Shape shape) { // with all bits of f32: sums of shorter numbers are exact in any order
          Tensor tensor(shape);
          for (double &number : tensor.data)
            number = static_cast<float>(static_cast<double>(draw(1 << 30)) / (1 << 29) - 1);
          return tensor;
        };
    const Tensor a = drawn(ta ? Shape{depth, rows} : Shape{rows, depth}),
                 b = drawn(tb ? Shape{columns, depth} : Shape{depth, columns}),
                 bias = drawn({columns});
    std::vector<TestOperand> operands = {in(a), in(b), out({rows, columns})};
    if (i % 3 == 0)
      operands.insert(operands.begin() + 2, in(bias));
    auto ints = transposes(ta, tb);
    ints["has_bias"] = {i % 3 == 0};
    const CallResult one = runCall(CommandOp::DnnlMatmul, operands, ints, {}, 1);
    for (int64_t threads : {2, 3, 8, 32})
      EXPECT_EQ(runCall(CommandOp::DnnlMatmul, operands, ints, {}, threads).tensors.back().data,
                one.tensors.back().data)
          << rows << 'x' << depth << 'x' << columns << ta << tb << " on " << threads << " threads";
  }
}

} // namespace
} // namespace stow::host::test
