// Reductions, softmax and losses against plain loops in double.
#include "tests/codegen/Kernels.h"

#include <cmath>

using namespace stow;

namespace {

// Tests the sum of one element per row and column of a matrix, along and across the lanes.
TEST(Reduce, RowsAndColumns) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<37x83xf32>) {
      %r = stow.reduce_sum %x {axes = array<i64: 1>, keepdims = false}
          : (tensor<37x83xf32>) -> tensor<37xf32>
      %c = stow.reduce_mean %x {axes = array<i64: 0>, keepdims = true}
          : (tensor<37x83xf32>) -> tensor<1x83xf32>
      return
    })");
  auto x = someFloats(37 * 83);
  std::vector<double> rows(37), columns(83);
  for (int i = 0; i < 37; ++i)
    for (int j = 0; j < 83; ++j)
      rows[i] += x[i * 83 + j], columns[j] += x[i * 83 + j] / 37.0;
  std::vector<float> r(37), c(83);
  kernels.run(0, {x.data(), r.data()});
  kernels.run(1, {x.data(), c.data()});
  expectClose(r, rows, 1e-6, 1e-6);
  expectClose(c, columns, 1e-6, 1e-6);
}

// Tests losses, log-sum-exps and gradients of rows, one ignored and one with a wrong label.
TEST(CrossEntropy, RowsAndGradient) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<5x10xf32>, %t: tensor<5xi64>, %d: tensor<5xf32>) {
      %l, %lse = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64}
          : (tensor<5x10xf32>, tensor<5xi64>) -> (tensor<5xf32>, tensor<5xf32>)
      %g = stow.cross_entropy_rows_grad %x, %t, %lse, %d {ignore_index = -100 : i64}
          : (tensor<5x10xf32>, tensor<5xi64>, tensor<5xf32>, tensor<5xf32>) -> tensor<5x10xf32>
      return
    })");
  auto x = someFloats(50, 4), d = someFloats(5, 1, 7);
  std::vector<int64_t> t{3, 0, -100, 9, 10};
  std::vector<float> loss(5), lse(5), gradient(50);
  kernels.run(0, {x.data(), t.data(), loss.data(), lse.data()});
  kernels.run(1, {x.data(), t.data(), lse.data(), d.data(), gradient.data()});
  for (int r = 0; r < 5; ++r) {
    double sum = 0;
    for (int c = 0; c < 10; ++c)
      sum += std::exp(double(x[r * 10 + c]));
    EXPECT_NEAR(lse[r], std::log(sum), 1e-6);
    if (t[r] == -100)
      EXPECT_EQ(loss[r], 0);
    else if (t[r] == 10)
      EXPECT_TRUE(std::isnan(loss[r]));
    else
      EXPECT_NEAR(loss[r], std::log(sum) - x[r * 10 + t[r]], 2e-6);
    for (int c = 0; c < 10; ++c) {
      double expected = (std::exp(x[r * 10 + c]) / sum - (c == t[r])) * d[r];
      EXPECT_NEAR(gradient[r * 10 + c], t[r] == -100 ? 0 : expected, 1e-6);
    }
  }
}

} // namespace
