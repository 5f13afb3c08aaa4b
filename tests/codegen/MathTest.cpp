// Accuracy of math functions against double: the worst error over many arguments, in units of the
// last place of the exact result.
#include "tests/codegen/Kernels.h"

#include <cmath>
#include <cstring>
#include <functional>

using namespace stow;

namespace {

constexpr int64_t kCount = 1 << 20;

struct Function {
  std::string op;
  std::function<double(double)> exact;
  float low, high;
  double ulps; ///< largest error allowed
};

double ulp(double exact) {
  float rounded = std::abs(static_cast<float>(exact));
  rounded = std::max(rounded, 1.17549435e-38f);
  return static_cast<double>(std::nextafter(rounded, INFINITY)) - rounded;
}

/// Half of the arguments are spread evenly, the other half by magnitude.
std::vector<float> arguments(float low, float high) {
  std::vector<float> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    double part = static_cast<double>(i / 2) / (kCount / 2);
    if (i % 2 == 0)
      x[i] = static_cast<float>(low + (high - low) * part);
    else if (low > 0)
      x[i] = static_cast<float>(low * std::pow(double(high) / low, part));
    else
      x[i] = static_cast<float>((i & 2 ? high : low) * std::pow(2.0, -40 * part));
  }
  return x;
}

class Accuracy : public testing::TestWithParam<Function> {};

TEST_P(Accuracy, WithinUlps) {
  const Function &function = GetParam();
  std::string type = "tensor<" + std::to_string(kCount) + "xf32>";
  LoadedKernels kernels("func.func @g(%x: " + type + ") { %y = stow." + function.op + " %x : (" +
                        type + ") -> " + type + " return }");
  auto x = arguments(function.low, function.high);
  std::vector<float> y(kCount);
  kernels.run(0, {x.data(), y.data()});
  double worst = 0;
  float at = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    double exact = function.exact(x[i]);
    double error = std::abs(y[i] - exact) / ulp(exact);
    if (!(error <= worst))
      worst = error, at = x[i];
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  std::cout << function.op << ": worst error " << worst << " ulp at " << at << "\n";
  EXPECT_LE(worst, function.ulps) << "at " << at;
}

INSTANTIATE_TEST_SUITE_P(
    Math, Accuracy,
    testing::Values(
        Function{"exp", [](double x) { return std::exp(x); }, -87, 88, 1},
        Function{"log", [](double x) { return std::log(x); }, 1e-37f, 1e38f, 1},
        Function{"tanh", [](double x) { return std::tanh(x); }, -12, 12, 5},
        Function{"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 3},
        Function{"erf", [](double x) { return std::erf(x); }, -5, 5, 5},
        Function{"softplus", [](double x) { return std::log1p(std::exp(x)); }, -80, 80, 3},
        Function{"sqrt", [](double x) { return std::sqrt(x); }, 1e-37f, 1e38f, 0.5},
        Function{"reciprocal", [](double x) { return 1 / x; }, 1e-37f, 1e37f, 0.5}),
    [](const auto &info) { return info.param.op; });

// Tests the ends of the range: overflow, underflow, zero and NaN.
TEST(Math, EdgeCases) {
  LoadedKernels kernels(R"(func.func @g(%x: tensor<8xf32>) {
    %a = stow.exp %x : (tensor<8xf32>) -> tensor<8xf32>
    %b = stow.log %x : (tensor<8xf32>) -> tensor<8xf32>
    %c = stow.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
    %d = stow.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
    %e = stow.softplus %x : (tensor<8xf32>) -> tensor<8xf32>
    %f = stow.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    return
  })");
  float inf = INFINITY, nan = NAN;
  std::vector<float> x{-inf, -200, -1, 0, 1e-30f, 200, inf, nan};
  using Row = std::vector<double>;
  double e1 = std::exp(-1.0), t1 = std::tanh(-1.0), s1 = 1 / (1 + std::exp(1.0));
  std::vector<Row> expected{Row{0, 0, e1, 1, 1, inf, inf, nan},
                            Row{nan, nan, nan, -inf, std::log(1e-30), std::log(200.0), inf, nan},
                            Row{-1, -1, t1, 0, 1e-30, 1, 1, nan},
                            Row{0, 0, s1, 0.5, 0.5, 1, 1, nan},
                            Row{0, 0, std::log1p(e1), std::log(2.0), std::log(2.0), 200, inf, nan},
                            Row{0, 0, 0, 0, 1e-30, 200, inf, nan}};
  for (size_t op = 0; op < expected.size(); ++op) {
    std::vector<float> y(8);
    kernels.run(op, {x.data(), y.data()});
    for (size_t i = 0; i < 8; ++i) {
      SCOPED_TRACE("op " + std::to_string(op) + " at " + std::to_string(x[i]));
      if (std::isnan(expected[op][i]))
        EXPECT_TRUE(std::isnan(y[i])) << y[i];
      else if (std::isinf(expected[op][i]))
        EXPECT_EQ(y[i], expected[op][i]);
      else
        EXPECT_NEAR(y[i], expected[op][i], 1e-6 * std::abs(expected[op][i]) + 1e-38);
    }
  }
}

} // namespace
