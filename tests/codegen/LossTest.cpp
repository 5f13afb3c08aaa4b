// Kernels of losses over classes against plain loops in double.
#include "tests/codegen/Kernels.h"

#include <cmath>

using namespace stow;

namespace {

constexpr int kRows = 6, kClasses = 37;
constexpr double kSmoothing = 0.2;

/// Labels: usual ones, the ignored one, the last class, and one that is no class.
const std::vector<int64_t> kLabels{3, 0, 7, 36, 12, 37};
constexpr int64_t kIgnored = 7;

std::vector<float> someWeights() {
  auto weights = someFloats(kClasses, 1, 5);
  for (float &weight : weights)
    weight = std::abs(weight) + 0.1f;
  return weights;
}

/// What class c counts in a row's target.
double share(int64_t label, int c, const std::vector<float> &weights) {
  return ((label == c ? 1 - kSmoothing : 0) + kSmoothing / kClasses) * weights[c];
}

// Tests smoothing and weights together, value and gradient, which may overwrite the logits.
TEST(CrossEntropy, SmoothedAndWeighted) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<6x37xf32>, %t: tensor<6xi64>, %w: tensor<37xf32>, %d: tensor<6xf32>) {
      %l, %lse = stow.cross_entropy_rows %x, %t, %w {ignore_index = 7 : i64, label_smoothing = 0.2 : f64}
          : (tensor<6x37xf32>, tensor<6xi64>, tensor<37xf32>) -> (tensor<6xf32>, tensor<6xf32>)
      %g = stow.cross_entropy_rows_grad %x, %t, %lse, %d, %w {ignore_index = 7 : i64, label_smoothing = 0.2 : f64}
          : (tensor<6x37xf32>, tensor<6xi64>, tensor<6xf32>, tensor<6xf32>, tensor<37xf32>) -> tensor<6x37xf32>
      return
    })");
  auto logits = someFloats(kRows * kClasses, 4), d = someFloats(kRows, 1, 7), w = someWeights();
  std::vector<float> x = logits, loss(kRows), lse(kRows);
  auto t = kLabels;
  kernels.run(0, {x.data(), t.data(), w.data(), loss.data(), lse.data()});
  kernels.run(1, {x.data(), t.data(), lse.data(), d.data(), w.data(), x.data()});
  for (int r = 0; r < kRows; ++r) {
    const float *row = logits.data() + r * kClasses;
    double sum = 0, expected = 0, total = 0;
    for (int c = 0; c < kClasses; ++c)
      sum += std::exp(double(row[c]));
    for (int c = 0; c < kClasses; ++c) {
      expected += share(t[r], c, w) * (std::log(sum) - row[c]);
      total += share(t[r], c, w);
    }
    EXPECT_NEAR(lse[r], std::log(sum), 2e-6);
    if (t[r] == kIgnored)
      EXPECT_EQ(loss[r], 0);
    else if (t[r] == kClasses)
      EXPECT_TRUE(std::isnan(loss[r]));
    else
      EXPECT_NEAR(loss[r], expected, 2e-5);
    for (int c = 0; c < kClasses; ++c) {
      double gradient = (std::exp(row[c]) / sum * total - share(t[r], c, w)) * d[r];
      EXPECT_NEAR(x[r * kClasses + c], t[r] == kIgnored ? 0 : gradient, 2e-6);
    }
  }
}

// Tests smoothing without weights.
TEST(CrossEntropy, Smoothed) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<6x37xf32>, %t: tensor<6xi64>, %d: tensor<6xf32>) {
      %l, %lse = stow.cross_entropy_rows %x, %t {ignore_index = 7 : i64, label_smoothing = 0.2 : f64}
          : (tensor<6x37xf32>, tensor<6xi64>) -> (tensor<6xf32>, tensor<6xf32>)
      %g = stow.cross_entropy_rows_grad %x, %t, %lse, %d {ignore_index = 7 : i64, label_smoothing = 0.2 : f64}
          : (tensor<6x37xf32>, tensor<6xi64>, tensor<6xf32>, tensor<6xf32>) -> tensor<6x37xf32>
      return
    })");
  auto x = someFloats(kRows * kClasses, 4), d = someFloats(kRows, 1, 7);
  const std::vector<float> ones(kClasses, 1);
  std::vector<float> loss(kRows), lse(kRows), dx(kRows * kClasses);
  auto t = kLabels;
  kernels.run(0, {x.data(), t.data(), loss.data(), lse.data()});
  kernels.run(1, {x.data(), t.data(), lse.data(), d.data(), dx.data()});
  for (int r = 0; r < kRows; ++r) {
    const float *row = x.data() + r * kClasses;
    double expected = 0;
    for (int c = 0; c < kClasses; ++c)
      expected += share(t[r], c, ones) * (lse[r] - row[c]);
    if (t[r] != kIgnored && t[r] != kClasses)
      EXPECT_NEAR(loss[r], expected, 2e-5);
    for (int c = 0; c < kClasses; ++c)
      EXPECT_NEAR(dx[r * kClasses + c],
                  t[r] == kIgnored ? 0 : (std::exp(row[c] - lse[r]) - share(t[r], c, ones)) * d[r],
                  2e-6);
  }
}

// Tests likelihoods, their gradient and the weights of rows, with labels of 32 bits.
TEST(Likelihood, RowsGradientAndWeights) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<6x37xf32>, %t: tensor<6xi32>, %w: tensor<37xf32>, %d: tensor<6xf32>) {
      %l = stow.nll_rows %x, %t {ignore_index = 7 : i64} : (tensor<6x37xf32>, tensor<6xi32>) -> tensor<6xf32>
      %g = stow.nll_rows_grad %t, %d {classes = 37 : i64, ignore_index = 7 : i64}
          : (tensor<6xi32>, tensor<6xf32>) -> tensor<6x37xf32>
      %y = stow.class_weights %t, %w {ignore_index = 7 : i64} : (tensor<6xi32>, tensor<37xf32>) -> tensor<6xf32>
      return
    })");
  auto x = someFloats(kRows * kClasses, 4), d = someFloats(kRows, 1, 7), w = someWeights();
  std::vector<int32_t> t(kLabels.begin(), kLabels.end());
  std::vector<float> loss(kRows), dx(kRows * kClasses, 9), y(kRows);
  kernels.run(0, {x.data(), t.data(), loss.data()});
  kernels.run(1, {t.data(), d.data(), dx.data()});
  kernels.run(2, {t.data(), w.data(), y.data()});
  for (int r = 0; r < kRows; ++r) {
    bool counts = t[r] != kIgnored && t[r] < kClasses;
    if (t[r] == kClasses)
      EXPECT_TRUE(std::isnan(loss[r]));
    else
      EXPECT_EQ(loss[r], counts ? -x[r * kClasses + t[r]] : 0);
    EXPECT_EQ(y[r], counts ? w[t[r]] : 0);
    for (int c = 0; c < kClasses; ++c)
      EXPECT_EQ(dx[r * kClasses + c], counts && c == t[r] ? -d[r] : 0);
  }
}

// Tests sums of squares over one dimension and over all.
TEST(Reduce, SumsOfSquares) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<31x45xf32>) {
      %a = stow.reduce_sum_squares %x {axes = array<i64: 0>, keepdims = true} : (tensor<31x45xf32>) -> tensor<1x45xf32>
      %b = stow.reduce_sum_squares %x {axes = array<i64: 0, 1>, keepdims = false} : (tensor<31x45xf32>) -> tensor<f32>
      return
    })");
  auto x = someFloats(31 * 45, 2);
  std::vector<float> columns(45);
  float all = 0;
  kernels.run(0, {x.data(), columns.data()});
  kernels.run(1, {x.data(), &all});
  double total = 0;
  for (int c = 0; c < 45; ++c) {
    double sum = 0;
    for (int r = 0; r < 31; ++r)
      sum += double(x[r * 45 + c]) * x[r * 45 + c];
    EXPECT_NEAR(columns[c], sum, 1e-6 * sum);
    total += sum;
  }
  EXPECT_NEAR(all, total, 1e-6 * total);
}

} // namespace
