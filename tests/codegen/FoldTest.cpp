// Reductions, softmax and losses against plain loops in double.
#include "tests/codegen/Kernels.h"

#include <array>
#include <bit>
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

// Tests sums of many columns: strips of two vectors, and what is left of them.
TEST(Reduce, ManyColumns) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<37x140xf32>) {
      %c = stow.reduce_sum %x {axes = array<i64: 0>, keepdims = false}
          : (tensor<37x140xf32>) -> tensor<140xf32>
      return
    })");
  auto x = someFloats(37 * 140);
  std::vector<double> columns(140);
  for (int i = 0; i < 37; ++i)
    for (int j = 0; j < 140; ++j)
      columns[j] += x[i * 140 + j];
  std::vector<float> c(140);
  kernels.run(0, {x.data(), c.data()});
  expectClose(c, columns, 1e-6, 1e-6);
}

/// A reduction of [4, 6, 5, 7] in a layout, over axes, by name.
struct ReduceCase {
  std::string op, layout;
  std::vector<int64_t> axes;
  bool keepdims;
};

class Reduce4 : public testing::TestWithParam<ReduceCase> {};

// Tests reductions over any axes in both activation layouts, whole and task by task.
TEST_P(Reduce4, AgreesWithLoops) {
  const ReduceCase &test = GetParam();
  Shape shape{4, 6, 5, 7}, reduced;
  std::string axes, type = "tensor<4x6x5x7xf32", result = "tensor<";
  if (!test.layout.empty())
    type += ", #stow.layout<\"" + test.layout + "\">";
  type += ">";
  double size = 1;
  std::vector<int64_t> kept(4, 1);
  for (int64_t d = 0; d < 4; ++d) {
    bool folded = std::count(test.axes.begin(), test.axes.end(), d);
    if (folded) {
      axes += (axes.empty() ? "" : ", ") + std::to_string(d);
      size *= shape[d];
    } else {
      kept[d] = shape[d];
    }
    if (!folded || test.keepdims)
      result += std::to_string(kept[d]) + "x";
  }
  result += "f32>";
  LoadedKernels kernels("func.func @g(%x: " + type + ") { %y = stow.reduce_" + test.op +
                        " %x {axes = array<i64: " + axes +
                        ">, keepdims = " + (test.keepdims ? "true" : "false") + "} : (" + type +
                        ") -> " + result + " return }");
  auto x = someFloats(840);
  Layout layout = test.layout.empty() ? Layout() : parseLayout(test.layout);
  LayoutIndex stored(layout, shape);
  bool maximum = test.op == "max";
  std::vector<double> expected(elementCount(kept), maximum ? -1e30 : 0);
  for (int64_t i = 0; i < 840; ++i) {
    int64_t at[4] = {i / 210, i / 35 % 6, i / 7 % 5, i % 7}, position = 0;
    for (int d = 0; d < 4; ++d)
      position = position * kept[d] + (kept[d] == 1 ? 0 : at[d]);
    double value = x[stored(i)];
    expected[position] = maximum ? std::max(expected[position], value)
                                 : expected[position] + (test.op == "mean" ? value / size : value);
  }
  std::vector<float> y(expected.size()), split(expected.size());
  kernels.run(0, {x.data(), y.data()});
  kernels.run(0, {x.data(), split.data()}, 1);
  EXPECT_EQ(y, split);
  expectClose(y, expected, 1e-6, maximum ? 0 : 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Fold, Reduce4,
                         testing::Values(ReduceCase{"sum", "", {0, 2, 3}, false},
                                         ReduceCase{"sum", "0,2,3,1", {0, 2, 3}, false},
                                         ReduceCase{"mean", "0,2,3,1", {2, 3}, true},
                                         ReduceCase{"mean", "", {2, 3}, true},
                                         ReduceCase{"max", "", {1}, false},
                                         ReduceCase{"max", "0,2,3,1", {1}, false},
                                         ReduceCase{"sum", "", {0, 1, 2, 3}, false},
                                         ReduceCase{"sum", "0,2,3,1", {0, 1, 2, 3}, true},
                                         ReduceCase{"mean", "", {0}, true},
                                         ReduceCase{"mean", "", {1, 3}, true}));

// Tests that long sums stay accurate: a million numbers near one, along and across the lanes.
TEST(Reduce, LongSumsAreAccurate) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<1048573xf32>, %y: tensor<200000x5xf32>) {
      %a = stow.reduce_mean %x {axes = array<i64: 0>, keepdims = false}
          : (tensor<1048573xf32>) -> tensor<f32>
      %b = stow.reduce_sum %y {axes = array<i64: 0>, keepdims = false}
          : (tensor<200000x5xf32>) -> tensor<5xf32>
      return
    })");
  auto x = someFloats(1048573, 0.5f), y = someFloats(1000000, 0.5f, 2);
  double mean = 0;
  std::vector<double> sums(5);
  for (float &value : x)
    value += 1, mean += value / double(1048573);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] += 1, sums[i % 5] += y[i];
  std::vector<float> a(1), b(5);
  kernels.run(0, {x.data(), a.data()});
  kernels.run(1, {y.data(), b.data()});
  expectClose(a, {mean}, 5e-7, 0);
  expectClose(b, sums, 5e-7, 0);
}

// Tests softmax, its logarithm and both gradients along each axis of a matrix, in place.
TEST(Softmax, AllFourInPlace) {
  for (int64_t axis : {0, 1}) {
    std::string type = "tensor<9x37xf32>", along = " {axis = " + std::to_string(axis) + " : i64} ";
    std::string unary = along + ": (" + type + ") -> " + type;
    std::string binary = along + ": (" + type + ", " + type + ") -> " + type;
    LoadedKernels kernels("func.func @g(%x: " + type + ", %dy: " + type + ") {" +
                          "%y = stow.softmax %x" + unary + "%l = stow.log_softmax %x" + unary +
                          "%a = stow.softmax_grad %dy, %y" + binary +
                          "%b = stow.log_softmax_grad %dy, %l" + binary + " return }");
    auto x = someFloats(333, 6), dy = someFloats(333, 1, 2);
    int64_t rows = axis ? 9 : 37, extent = axis ? 37 : 9, step = axis ? 1 : 37;
    std::vector<double> y(333), l(333), dx(333), dl(333);
    for (int64_t r = 0; r < rows; ++r) {
      auto at = [&](int64_t i) { return (axis ? r * 37 : r) + i * step; };
      double sum = 0, dot = 0, total = 0;
      for (int64_t i = 0; i < extent; ++i)
        sum += std::exp(double(x[at(i)])), total += dy[at(i)];
      for (int64_t i = 0; i < extent; ++i) {
        y[at(i)] = std::exp(double(x[at(i)])) / sum, l[at(i)] = x[at(i)] - std::log(sum);
        dot += y[at(i)] * dy[at(i)];
      }
      for (int64_t i = 0; i < extent; ++i) {
        dx[at(i)] = y[at(i)] * (dy[at(i)] - dot);
        dl[at(i)] = dy[at(i)] - y[at(i)] * total;
      }
    }
    auto soft = x, logarithm = x, dySoft = dy, gradient = dy;
    kernels.run(0, {soft.data(), soft.data()}, 1);
    kernels.run(1, {logarithm.data(), logarithm.data()}, 1);
    expectClose(soft, y, 3e-6);
    expectClose(logarithm, l, 1e-6, 1e-6);
    kernels.run(2, {dySoft.data(), soft.data(), dySoft.data()});
    kernels.run(3, {gradient.data(), logarithm.data(), logarithm.data()});
    expectClose(dySoft, dx, 3e-6, 1e-6);
    expectClose(logarithm, dl, 3e-6, 1e-6);
  }
}

// Tests softmax and cross-entropy in double, and softmax over bf16 with sums in f32.
TEST(Softmax, OtherElementTypes) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<3x21xf64>, %t: tensor<3xi32>, %h: tensor<3x21xbf16>) {
      %y = stow.softmax %x {axis = 1 : i64} : (tensor<3x21xf64>) -> tensor<3x21xf64>
      %l, %lse = stow.cross_entropy_rows %x, %t {ignore_index = -1 : i64}
          : (tensor<3x21xf64>, tensor<3xi32>) -> (tensor<3xf64>, tensor<3xf64>)
      %z = stow.softmax %h {axis = 1 : i64} : (tensor<3x21xbf16>) -> tensor<3x21xbf16>
      return
    })");
  std::vector<double> x(63), y(63), loss(3), lse(3);
  std::vector<uint16_t> h(63), z(63);
  for (int i = 0; i < 63; ++i) {
    x[i] = (i * 37 % 64) / 8.0; // exact in bf16
    h[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x[i])) >> 16);
  }
  std::vector<int32_t> t{20, 0, -1};
  kernels.run(0, {x.data(), y.data()});
  kernels.run(1, {x.data(), t.data(), loss.data(), lse.data()});
  kernels.run(2, {h.data(), z.data()});
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int c = 0; c < 21; ++c)
      sum += std::exp(x[r * 21 + c]);
    EXPECT_NEAR(lse[r], std::log(sum), 1e-13);
    EXPECT_NEAR(loss[r], r == 2 ? 0 : std::log(sum) - x[r * 21 + t[r]], 1e-13);
    for (int c = 0; c < 21; ++c) {
      double exact = std::exp(x[r * 21 + c]) / sum;
      EXPECT_NEAR(y[r * 21 + c], exact, 1e-14);
      EXPECT_NEAR(std::bit_cast<float>(uint32_t{z[r * 21 + c]} << 16), exact, exact / 256);
    }
  }
}

TEST(CountValid, SkipsIgnored) {
  LoadedKernels kernels(R"(
    func.func @g(%t: tensor<1003xi64>) {
      %n = stow.count_valid %t {ignore_index = -100 : i64, element_type = f32}
          : (tensor<1003xi64>) -> tensor<f32>
      return
    })");
  std::vector<int64_t> t(1003, 3);
  t[0] = t[500] = t[1002] = -100;
  float n = 0;
  kernels.run(0, {t.data(), &n});
  EXPECT_EQ(n, 1000);
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

/// Layer normalization of [rows, width] in double.
struct Norm {
  Norm(const std::vector<float> &x, int64_t width, double epsilon)
      : mean(x.size() / width), rstd(mean.size()) {
    for (size_t r = 0; r < mean.size(); ++r) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i)
        mean[r] += x[r * width + i] / static_cast<double>(width);
      for (int64_t i = 0; i < width; ++i)
        squares += std::pow(x[r * width + i] - mean[r], 2);
      rstd[r] = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    }
  }
  std::vector<double> mean, rstd;
};

// Tests layer normalization and both its gradients, with mean far from 0.
TEST(LayerNorm, AgreesWithLoops) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<4x5x83xf32>, %s: tensor<83xf32>, %b: tensor<83xf32>,
                 %dy: tensor<4x5x83xf32>) {
      %y, %m, %r = stow.layer_norm %x, %s, %b {epsilon = 1.0e-3 : f64}
          : (tensor<4x5x83xf32>, tensor<83xf32>, tensor<83xf32>)
          -> (tensor<4x5x83xf32>, tensor<4x5xf32>, tensor<4x5xf32>)
      %dx = stow.layer_norm_grad %dy, %x, %m, %r, %s
          : (tensor<4x5x83xf32>, tensor<4x5x83xf32>, tensor<4x5xf32>, tensor<4x5xf32>,
             tensor<83xf32>) -> tensor<4x5x83xf32>
      %ds, %db = stow.layer_norm_scale_grad %dy, %x, %m, %r
          : (tensor<4x5x83xf32>, tensor<4x5x83xf32>, tensor<4x5xf32>, tensor<4x5xf32>)
          -> (tensor<83xf32>, tensor<83xf32>)
      return
    })");
  constexpr int64_t rows = 20, width = 83;
  auto x = someFloats(rows * width), s = someFloats(width, 2, 2), b = someFloats(width, 1, 3);
  auto dy = someFloats(rows * width, 1, 4);
  for (float &value : x)
    value += 10;
  Norm norm(x, width, 1e-3);
  std::vector<double> y(x.size()), dx(x.size()), ds(width), db(width);
  for (int64_t r = 0; r < rows; ++r) {
    double level = 0, slope = 0;
    auto normal = [&](int64_t i) { return (x[r * width + i] - norm.mean[r]) * norm.rstd[r]; };
    for (int64_t i = 0; i < width; ++i) {
      double g = dy[r * width + i] * s[i];
      y[r * width + i] = normal(i) * s[i] + b[i];
      level += g / width, slope += g * normal(i) / width;
      ds[i] += dy[r * width + i] * normal(i), db[i] += dy[r * width + i];
    }
    for (int64_t i = 0; i < width; ++i)
      dx[r * width + i] = norm.rstd[r] * (dy[r * width + i] * s[i] - level - normal(i) * slope);
  }
  std::vector<float> foundY(x.size()), m(rows), r(rows), foundDx(x.size()), foundDs(width),
      foundDb(width);
  kernels.run(0, {x.data(), s.data(), b.data(), foundY.data(), m.data(), r.data()});
  kernels.run(1, {dy.data(), x.data(), m.data(), r.data(), s.data(), foundDx.data()});
  kernels.run(2, {dy.data(), x.data(), m.data(), r.data(), foundDs.data(), foundDb.data()});
  expectClose(foundY, y, 1e-5, 1e-5);
  expectClose(m, norm.mean, 1e-6, 1e-6);
  expectClose(r, norm.rstd, 1e-5, 1e-6);
  expectClose(foundDx, dx, 1e-5, 2e-5);
  expectClose(foundDs, ds, 1e-5, 2e-5);
  expectClose(foundDb, db, 1e-5, 1e-5);
  // The gradient may overwrite either operand of its shape.
  std::vector<float> over = dy;
  kernels.run(1, {over.data(), x.data(), m.data(), r.data(), s.data(), over.data()});
  EXPECT_EQ(over, foundDx);
}

/// A layout of 4x6x5x7 and the strides it stands for.
struct ChannelsCase {
  std::string layout;
  std::array<int64_t, 4> strides;
};

class Channels : public testing::TestWithParam<ChannelsCase> {};

// Tests the statistics of channels and the sums of batch normalization's gradient, with means far
// from 0: dense in both activation layouts, and with gaps between the pixels.
TEST_P(Channels, AgreeWithLoops) {
  const ChannelsCase &test = GetParam();
  const std::array<int64_t, 4> shape{4, 6, 5, 7};
  std::string type = "tensor<4x6x5x7xf32" +
                     (test.layout.empty() ? "" : ", #stow.layout<\"" + test.layout + "\">") + ">";
  LoadedKernels kernels("func.func @g(%x: " + type +
                        ", %dy: tensor<4x6x5x7xf32, #stow.layout<\"0,2,3,1\">>) {\n"
                        "%m, %v = stow.channel_moments %x : (" +
                        type +
                        ") -> (tensor<6xf32>, tensor<6xf32>)\n"
                        "%s, %b = stow.batch_norm_scale_grad %dy, %x, %m, %v {epsilon = 1.0e-3 : "
                        "f64} : (tensor<4x6x5x7xf32, #stow.layout<\"0,2,3,1\">>, " +
                        type +
                        ", tensor<6xf32>, tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>)\n"
                        "return\n}");
  const std::array<int64_t, 4> dense{210, 1, 42, 6};
  auto x = someFloats(4 * 35 * 16), dy = someFloats(4 * 35 * 6, 1, 2);
  for (float &value : x)
    value += 10;
  auto forEach = [&](auto visit) {
    for (int64_t n = 0; n < shape[0]; ++n)
      for (int64_t c = 0; c < shape[1]; ++c)
        for (int64_t h = 0; h < shape[2]; ++h)
          for (int64_t w = 0; w < shape[3]; ++w) {
            auto at = [&](const std::array<int64_t, 4> &strides) {
              return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
            };
            visit(c, x[at(test.strides)], dy[at(dense)]);
          }
  };
  std::vector<double> mean(6), variance(6), dscale(6), dbias(6);
  forEach([&](int64_t c, double value, double) { mean[c] += value / 140; });
  forEach([&](int64_t c, double value, double) {
    variance[c] += (value - mean[c]) * (value - mean[c]) / 140;
  });
  forEach([&](int64_t c, double value, double gradient) {
    dscale[c] += gradient * (value - mean[c]) / std::sqrt(variance[c] + 1e-3);
    dbias[c] += gradient;
  });
  std::vector<float> m(6), v(6), s(6), b(6);
  kernels.run(0, {x.data(), m.data(), v.data()});
  kernels.run(1, {dy.data(), x.data(), m.data(), v.data(), s.data(), b.data()});
  expectClose(m, mean, 1e-6, 0);
  expectClose(v, variance, 1e-5, 0);
  expectClose(s, dscale, 1e-5, 2e-5);
  expectClose(b, dbias, 1e-5, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Channels,
                         testing::Values(ChannelsCase{"", {210, 35, 7, 1}},
                                         ChannelsCase{"0,2,3,1", {210, 1, 42, 6}},
                                         ChannelsCase{"0,2,3,1 of 1:16", {560, 1, 112, 16}}));

// Tests rows without a bias that fill their task alone.
TEST(LayerNorm, WithoutBias) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<3x40000xf32>, %s: tensor<40000xf32>) {
      %y, %m, %r = stow.layer_norm %x, %s {epsilon = 1.0e-5 : f64}
          : (tensor<3x40000xf32>, tensor<40000xf32>)
          -> (tensor<3x40000xf32>, tensor<3xf32>, tensor<3xf32>)
      return
    })");
  auto x = someFloats(120000), s = someFloats(40000, 1, 2);
  Norm norm(x, 40000, 1e-5);
  std::vector<float> y(120000), m(3), r(3);
  kernels.run(0, {x.data(), s.data(), y.data(), m.data(), r.data()}, 1);
  std::vector<double> expected(120000);
  for (int i = 0; i < 120000; ++i)
    expected[i] = (x[i] - norm.mean[i / 40000]) * norm.rstd[i / 40000] * s[i % 40000];
  expectClose(y, expected, 1e-5, 1e-5);
}

} // namespace
