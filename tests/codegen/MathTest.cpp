// Accuracy of math functions against double: the worst error over many arguments, in units of the
// last place of the exact result.
#include "tests/codegen/Kernels.h"

#include "runtime/base/Philox.h"

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
        Function{"log", [](double x) { return std::log(x); }, 1e-44f, 1e38f,
                 1}, // below the least normal, too
        Function{"expm1", [](double x) { return std::expm1(x); }, -80, 88, 3},
        Function{"log1p", [](double x) { return std::log1p(x); }, -0.999f, 1e30f, 3},
        Function{"tanh", [](double x) { return std::tanh(x); }, -12, 12, 5},
        Function{"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, 3.5},
        Function{"erf", [](double x) { return std::erf(x); }, -5, 5, 5},
        Function{"softplus", [](double x) { return std::log1p(std::exp(x)); }, -80, 80, 3},
        Function{"sin", [](double x) { return std::sin(x); }, -1e6f, 1e6f, 0.51},
        Function{"cos", [](double x) { return std::cos(x); }, -1e6f, 1e6f, 0.51},
        Function{"atan", [](double x) { return std::atan(x); }, -1e9f, 1e9f, 0.51},
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
    %g = stow.expm1 %x : (tensor<8xf32>) -> tensor<8xf32>
    %h = stow.log1p %x : (tensor<8xf32>) -> tensor<8xf32>
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
                            Row{0, 0, 0, 0, 1e-30, 200, inf, nan},
                            Row{-1, -1, e1 - 1, 0, 1e-30, inf, inf, nan},
                            Row{nan, nan, -inf, 0, 1e-30, std::log(201.0), inf, nan}};
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

// Tests the angles of points all around, of infinite ones and of both zeros.
TEST(Math, Angles) {
  const std::vector<float> places = {0, -0.f, 1, -1, 3e-30f, -2e30f, INFINITY, -INFINITY};
  std::vector<float> a, b, y(64);
  for (float height : places)
    for (float width : places)
      a.push_back(height), b.push_back(width);
  LoadedKernels kernels(R"(func.func @g(%a: tensor<64xf32>, %b: tensor<64xf32>) {
    %y = stow.atan2 %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return
  })");
  kernels.run(0, {a.data(), b.data(), y.data()});
  for (size_t i = 0; i < 64; ++i)
    EXPECT_FLOAT_EQ(y[i], std::atan2(a[i], b[i])) << "of " << a[i] << ", " << b[i];
}

// Tests that a probability of 0 or 1 costs 100 where it is wrong and nothing where it is right.
TEST(Math, BoundsCrossEntropies) {
  std::vector<float> p = {0, 1, 0, 1, 0.25f, 1e-40f}, t = {1, 0, 0, 1, 0.5f, 1}, y(6);
  LoadedKernels kernels(R"(func.func @g(%p: tensor<6xf32>, %t: tensor<6xf32>) {
    %y = stow.binary_cross_entropy %p, %t : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    return
  })");
  kernels.run(0, {p.data(), t.data(), y.data()});
  std::vector<double> expected = {
      100, 100, 0, 0, -0.5 * (std::log(0.25) + std::log(0.75)), -std::log(1e-40)};
  for (size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-5) << "p = " << p[i] << ", t = " << t[i];
}

// Tests quotients, comparisons and choices of whole numbers: rounded towards zero, 0 by 0, and the
// least number by -1 stays what it is.
TEST(Math, WholeNumbers) {
  LoadedKernels kernels(R"(func.func @g(%a: tensor<20xi64>, %b: tensor<20xi64>) {
    %q = stow.div %a, %b : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %m = stow.compare %a, %b {predicate = "ge"} : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi1>
    %s = stow.select %m, %a, %b : (tensor<20xi1>, tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %x = stow.maximum %a, %b : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    return
  })");
  std::vector<int64_t> a(20), b(20), quotients(20), chosen(20), largest(20);
  std::vector<uint8_t> mask(20);
  for (int i = 0; i < 20; ++i) {
    a[i] = i * 7 - 60;
    b[i] = i % 5 - 2;
  }
  a[16] = INT64_MIN;
  kernels.run(0, {a.data(), b.data(), quotients.data()});
  kernels.run(1, {a.data(), b.data(), mask.data()});
  kernels.run(2, {mask.data(), a.data(), b.data(), chosen.data()});
  kernels.run(3, {a.data(), b.data(), largest.data()});
  for (int i = 0; i < 20; ++i) {
    int64_t expected = b[i] == 0 ? 0 : b[i] == -1 ? int64_t(-uint64_t(a[i])) : a[i] / b[i];
    EXPECT_EQ(quotients[i], expected) << a[i] << " / " << b[i];
    EXPECT_EQ(mask[i], a[i] >= b[i]);
    EXPECT_EQ(chosen[i], std::max(a[i], b[i]));
    EXPECT_EQ(largest[i], std::max(a[i], b[i]));
  }
}

// Tests arithmetic on bits, shifts by fewer than no places and by more than there are bits among it.
TEST(Math, Bits) {
  LoadedKernels kernels(
      R"(func.func @g(%a: tensor<20xi64>, %b: tensor<20xi64>, %c: tensor<20xi32>, %d: tensor<20xi32>) {
    %0 = stow.bitwise %a, %b {kind = "and"} : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %1 = stow.bitwise %a, %b {kind = "or"} : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %2 = stow.bitwise %a, %b {kind = "xor"} : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %3 = stow.bitwise %a, %b {kind = "shift_left"} : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %4 = stow.bitwise %a, %b {kind = "shift_right"} : (tensor<20xi64>, tensor<20xi64>) -> tensor<20xi64>
    %5 = stow.bitwise %c, %d {kind = "shift_left"} : (tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    %6 = stow.bitwise %c, %d {kind = "shift_right"} : (tensor<20xi32>, tensor<20xi32>) -> tensor<20xi32>
    return
  })");
  std::vector<int64_t> a(20), b(20), found(20);
  std::vector<int32_t> c(20), d(20), narrow(20);
  for (int i = 0; i < 20; ++i) {
    a[i] = (i * 0x123456789abcdLL - 0xfedcba987654LL) * (i % 3 - 1);
    b[i] = i * 4 - 7; // from -7 to 69
    c[i] = static_cast<int32_t>(a[i]);
    d[i] = static_cast<int32_t>(b[i] / 2);
  }
  auto shifted = [](auto x, int64_t by, bool left) {
    constexpr int64_t bits = 8 * sizeof(x);
    const bool isInside = by >= 0 && by < bits;
    using Bits = std::make_unsigned_t<decltype(x)>;
    if (left)
      return isInside ? static_cast<decltype(x)>(static_cast<Bits>(x) << by) : decltype(x)(0);
    return static_cast<decltype(x)>(x >> (isInside ? by : bits - 1));
  };
  for (int kernel = 0; kernel < 5; ++kernel) {
    kernels.run(kernel, {a.data(), b.data(), found.data()});
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(found[i], kernel == 0   ? a[i] & b[i]
                          : kernel == 1 ? a[i] | b[i]
                          : kernel == 2 ? a[i] ^ b[i]
                                        : shifted(a[i], b[i], kernel == 3))
          << kernel << " of " << a[i] << " and " << b[i];
  }
  for (int kernel = 5; kernel < 7; ++kernel) {
    kernels.run(kernel, {c.data(), d.data(), narrow.data()});
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(narrow[i], shifted(c[i], d[i], kernel == 5)) << c[i] << " by " << d[i];
  }
}

// Tests that NaN equals nothing, itself included, and differs from everything.
TEST(Math, ComparesNaN) {
  LoadedKernels kernels(R"(func.func @g(%a: tensor<4xf32>) {
    %e = stow.compare %a, %a {predicate = "eq"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %n = stow.compare %a, %a {predicate = "ne"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %l = stow.compare %a, %a {predicate = "le"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    return
  })");
  std::vector<float> a = {0, NAN, INFINITY, -1};
  std::vector<uint8_t> mask(4);
  kernels.run(0, {a.data(), a.data(), mask.data()});
  EXPECT_EQ(mask, (std::vector<uint8_t>{1, 0, 1, 1}));
  kernels.run(1, {a.data(), a.data(), mask.data()});
  EXPECT_EQ(mask, (std::vector<uint8_t>{0, 1, 0, 0}));
  kernels.run(2, {a.data(), a.data(), mask.data()});
  EXPECT_EQ(mask, (std::vector<uint8_t>{1, 0, 1, 1}));
}

// Tests rounding to whole numbers, halves included.
TEST(Math, Rounds) {
  LoadedKernels kernels(R"(func.func @g(%x: tensor<6xf32>) {
    %a = stow.round %x {mode = "even"} : (tensor<6xf32>) -> tensor<6xf32>
    %b = stow.round %x {mode = "floor"} : (tensor<6xf32>) -> tensor<6xf32>
    %c = stow.round %x {mode = "ceil"} : (tensor<6xf32>) -> tensor<6xf32>
    %d = stow.round %x {mode = "zero"} : (tensor<6xf32>) -> tensor<6xf32>
    return
  })");
  std::vector<float> x = {-2.5f, -1.5f, -0.2f, 0.5f, 1.5f, 2.7f}, y(6);
  std::vector<std::vector<float>> expected = {
      {-2, -2, 0, 0, 2, 3}, {-3, -2, -1, 0, 1, 2}, {-2, -1, 0, 1, 2, 3}, {-2, -1, 0, 0, 1, 2}};
  for (int mode = 0; mode < 4; ++mode) {
    kernels.run(mode, {x.data(), y.data()});
    EXPECT_EQ(y, expected[mode]) << mode;
  }
}

// Tests the three distributions: the numbers of the definition, their moments, and the same again
// whatever the tasks.
TEST(Math, DrawsByCounter) {
  constexpr int64_t count = 1 << 16;
  std::string type = "tensor<" + std::to_string(count) + "xf32>";
  std::string body;
  for (const char *text :
       {"\"uniform\", a = -1.0 : f64, b = 3.0 : f64", "\"normal\", a = 2.0 : f64, b = 0.5 : f64",
        "\"bernoulli\", a = 0.3 : f64, b = 0.0 : f64"})
    body += "%y" + std::to_string(body.size()) + " = stow.draw %s {distribution = " + text +
            ", stream = 5 : i64} : (tensor<i64>) -> " + type + "\n";
  LoadedKernels kernels("func.func @g(%s: tensor<i64>) { " + body + " return }");
  int64_t seed = 0x123456789abcdef;
  std::vector<float> y(count), again(count);
  double means[] = {1, 2, 0.3}, deviations[] = {4 / std::sqrt(12.0), 0.5, std::sqrt(0.21)};
  for (int kind = 0; kind < 3; ++kind) {
    kernels.run(kind, {&seed, y.data()});
    kernels.run(kind, {&seed, again.data()}, 1);
    EXPECT_EQ(y, again);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      PhiloxCounter words = philox({uint32_t(i), 0, 5, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
      double first = (words[0] >> 8) * 0x1p-24, second = (words[1] >> 8) * 0x1p-24;
      double expected = kind == 0   ? 4 * first - 1
                        : kind == 1 ? 2 + 0.5 * std::sqrt(-2 * std::log(first + 0x1p-24)) *
                                              std::cos(2 * M_PI * second)
                                    : words[0] < std::floor(0.3 * 4294967296.0);
      ASSERT_NEAR(y[i], expected, 4e-6) << kind << " " << i;
      sum += y[i];
      squares += (y[i] - means[kind]) * (y[i] - means[kind]);
    }
    EXPECT_NEAR(sum / count, means[kind], 4 * deviations[kind] / std::sqrt(count));
    EXPECT_NEAR(std::sqrt(squares / count), deviations[kind], 0.02 * deviations[kind]);
  }
}

} // namespace
