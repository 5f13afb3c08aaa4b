// Folds along rows on the simulated device, where rows begin anywhere: vectors behind what lies before the
// first 16 bytes and before what lies behind the last, several rows a warp, and tensors with gaps.
#include "runtime/base/Concat.h"
#include "tests/codegen/Kernels.h"
#include "tests/gpu/Accesses.h"
#include "tests/gpu/TypedValues.h"

#include <array>
#include <cmath>
#include <limits>

using namespace stow;

namespace {

constexpr int64_t kRows = 9;

/// Numbers that the type keeps.
std::vector<double> some(int64_t count, const std::string &type, uint64_t seed = 1) {
  std::vector<double> values;
  for (float value : someFloats(static_cast<size_t>(count), 1, seed))
    values.push_back(rounded(value, type));
  return values;
}

/// How far a result of the type may be from one in double, beside the size of the terms.
double tolerance(const std::string &type) {
  return type == "f64" ? 1e-13 : type == "f32" ? 1e-6 : type == "f16" ? 6e-4 : 5e-3;
}

std::string matrix(int64_t rows, int64_t columns, const std::string &type) {
  return concat("tensor<", rows, "x", columns, "x", type, ">");
}

class OddRows : public testing::TestWithParam<std::string> {};

// Tests sums, maxima and softmax, in place and not, of rows from one element to more than a thread keeps.
TEST_P(OddRows, FoldsOfEveryLength) {
  const std::string type = GetParam();
  std::string graph = "func.func @g(";
  const std::vector<int64_t> lengths = {1,  2,  3,  5,  7,   10,  13,  17,  21,  30,   33,   34,
                                        49, 50, 60, 97, 100, 130, 196, 197, 255, 1001, 2053, 4098};
  for (size_t i = 0; i < lengths.size(); ++i)
    append(graph, i == 0 ? "" : ", ", "%x", i, ": ", matrix(kRows, lengths[i], type));
  graph += ") {\n";
  for (size_t i = 0; i < lengths.size(); ++i) {
    const std::string x = matrix(kRows, lengths[i], type),
                      y = concat("tensor<", kRows, "x", type, ">");
    for (const std::string op : {"sum", "max"})
      append(graph, "%", op, i, " = stow.reduce_", op, " %x", i,
             " {axes = array<i64: 1>, keepdims = false} : (", x, ") -> ", y, "\n");
    append(graph, "%y", i, " = stow.softmax %x", i, " {axis = 1 : i64} : (", x, ") -> ", x, "\n");
  }
  LoadedKernels kernels(graph + "return }");
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t length = lengths[i];
    const std::vector<double> values = some(kRows * length, type, i + 1);
    std::vector<char> x = stored(values, type), sum(kRows * bytesOf(type)), max(sum);
    std::vector<char> y(x.size());
    kernels.run(3 * i, {x.data(), sum.data()});
    kernels.run(3 * i + 1, {x.data(), max.data()});
    kernels.run(3 * i + 2, {x.data(), y.data()});
    kernels.run(3 * i + 2, {x.data(), x.data()});
    EXPECT_EQ(x, y) << length;
    for (int64_t row = 0; row < kRows; ++row) {
      const double *begin = &values[row * length];
      double total = 0, size = 0, most = *std::max_element(begin, begin + length), powers = 0;
      for (int64_t k = 0; k < length; ++k)
        total += begin[k], size += std::abs(begin[k]), powers += std::exp(begin[k] - most);
      ASSERT_NEAR(get(&sum[row * bytesOf(type)], type), total, tolerance(type) * (1 + size) / 2)
          << length << " " << row;
      ASSERT_EQ(get(&max[row * bytesOf(type)], type), most) << length << " " << row;
      for (int64_t k = 0; k < length; ++k)
        ASSERT_NEAR(get(&y[(row * length + k) * bytesOf(type)], type),
                    std::exp(begin[k] - most) / powers, tolerance(type))
            << length << " " << row << " " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OddRows, testing::Values("f64", "f32", "f16", "bf16"));

/// Images [n, c, h, w] whose planes are odd.
using Extents = std::array<int64_t, 4>;
class OddPlanes : public testing::TestWithParam<Extents> {};

// Tests a channel's statistics and the gradient of its scale, whose rows are many planes: with as many
// channels as vectors have lanes and not, kept in registers and not, and of planes shorter than a vector.
TEST_P(OddPlanes, StatisticsOfChannels) {
  const auto [images, channels, height, width] = GetParam();
  const int64_t plane = height * width, count = images * plane;
  const std::string x = concat("tensor<", images, "x", channels, "x", height, "x", width, "xf32>");
  const std::string dy = concat(x.substr(0, x.size() - 4), "bf16>");
  const std::string of = concat("tensor<", channels, "xf32>");
  LoadedKernels kernels(
      "func.func @g(%x: " + x + ", %dy: " + dy + ") {\n%m, %v = stow.channel_moments %x : (" + x +
      ") -> (" + of + ", " + of +
      ")\n%s, %b = stow.batch_norm_scale_grad %dy, %x, %m, %v {epsilon = 1.0e-3 : f64} : (" + dy +
      ", " + x + ", " + of + ", " + of + ") -> (" + of + ", " + of + ")\nreturn\n}");
  const std::vector<double> values = some(images * channels * plane, "f32"),
                            gradients = some(images * channels * plane, "bf16", 2);
  std::vector<char> first = stored(values, "f32"), second = stored(gradients, "bf16");
  std::vector<float> m(channels), v(channels), s(channels), b(channels);
  kernels.run(0, {first.data(), m.data(), v.data()});
  kernels.run(1, {second.data(), first.data(), m.data(), v.data(), s.data(), b.data()});
  for (int64_t channel = 0; channel < channels; ++channel) {
    double mean = 0, variance = 0, scale = 0, bias = 0;
    auto each = [&](auto visit) {
      for (int64_t image = 0; image < images; ++image)
        for (int64_t i = 0; i < plane; ++i)
          visit((image * channels + channel) * plane + i);
    };
    each([&](int64_t i) { mean += values[i] / double(count); });
    each([&](int64_t i) { variance += (values[i] - mean) * (values[i] - mean) / double(count); });
    each([&](int64_t i) {
      scale += gradients[i] * (values[i] - mean) / std::sqrt(variance + 1e-3);
      bias += gradients[i];
    });
    const double spread = 1e-6 * (10 + static_cast<double>(count));
    ASSERT_NEAR(m[channel], mean, 1e-6) << channel;
    ASSERT_NEAR(v[channel], variance, 1e-5) << channel;
    ASSERT_NEAR(s[channel], scale, spread) << channel;
    ASSERT_NEAR(b[channel], bias, spread) << channel;
  }
}

INSTANTIATE_TEST_SUITE_P(Images, OddPlanes,
                         testing::Values(Extents{32, 8, 7, 7}, Extents{5, 5, 7, 7},
                                         Extents{2, 9, 3, 5}, Extents{3, 2, 1, 3},
                                         Extents{40, 3, 13, 13}, Extents{3, 3, 113, 113},
                                         Extents{2, 1100, 5, 5}));

// Tests that a fold of a tensor with gaps gives the bits of the one without, wherever its rows begin.
TEST(OddRows, GapsKeepTheOrder) {
  for (const std::string type : {"f32", "bf16"})
    for (const int64_t pitch : {11, 12, 17}) {
      const std::string dense = concat("tensor<6x9x49x", type, ">"),
                        result = concat("tensor<6x9x", type, ">");
      const std::string gaps =
          concat("tensor<6x9x49x", type, ", #stow.layout<\"0,1,2 of 1:", pitch, "\">>");
      std::string graph = "func.func @g(%x: " + dense + ", %y: " + gaps + ") {\n";
      for (const auto &[name, from] : {std::pair("x", dense), std::pair("y", gaps)})
        append(graph, "%s", name, " = stow.reduce_sum %", name,
               " {axes = array<i64: 2>, keepdims = false} : (", from, ") -> ", result, "\n");
      LoadedKernels kernels(graph + "return\n}");
      const std::vector<double> values = some(6 * 9 * 49, type);
      std::vector<double> apart(6 * pitch * 49, 1e6);
      for (int64_t i = 0; i < 6; ++i)
        std::copy_n(&values[i * 9 * 49], 9 * 49, &apart[i * pitch * 49]);
      std::vector<char> x = stored(values, type), y = stored(apart, type);
      std::vector<char> first(54 * bytesOf(type)), second(first.size(), 1);
      kernels.run(0, {x.data(), first.data()});
      kernels.run(1, {y.data(), second.data()});
      EXPECT_EQ(first, second) << type << pitch;
    }
}

// Tests normalization of odd rows, whose scale and bias begin elsewhere than the rows do.
TEST(OddRows, LayerNorm) {
  for (const int64_t width : {49, 131, 3001}) {
    const std::string x = matrix(kRows, width, "f32"), row = concat("tensor<", width, "xf32>"),
                      one = concat("tensor<", kRows, "xf32>");
    LoadedKernels kernels(
        "func.func @g(%x: " + x + ", %s: " + row + ", %b: " + row +
        ") {\n%y, %m, %r = stow.layer_norm %x, %s, %b {epsilon = 1.0e-3 : f64} : (" + x + ", " +
        row + ", " + row + ") -> (" + x + ", " + one + ", " + one + ")\nreturn\n}");
    auto values = someFloats(kRows * width), scale = someFloats(width, 1, 2),
         bias = someFloats(width, 1, 3);
    std::vector<float> y(values.size()), mean(kRows), rstd(kRows);
    kernels.run(0, {values.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data()});
    for (int64_t i = 0; i < kRows; ++i) {
      double average = 0, square = 0;
      for (int64_t k = 0; k < width; ++k)
        average += values[i * width + k] / double(width);
      for (int64_t k = 0; k < width; ++k)
        square += std::pow(values[i * width + k] - average, 2) / double(width);
      ASSERT_NEAR(mean[i], average, 1e-6);
      for (int64_t k = 0; k < width; ++k)
        ASSERT_NEAR(
            y[i * width + k],
            (values[i * width + k] - average) / std::sqrt(square + 1e-3) * scale[k] + bias[k], 1e-5)
            << width << " " << i << " " << k;
    }
  }
}

// Tests losses and logarithms of rows that are walked once, beginning with many elements of minus infinity in some,
// with all in one, with large numbers, and with targets that are ignored or no class.
TEST(OddRows, LongRowsOfClasses) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::string type : {"f32", "bf16", "f64"})
    for (const int64_t classes : {5003, 8192, 20001}) {
      const std::string wide = type == "f64" ? "f64" : "f32";
      const std::string x = matrix(kRows, classes, type),
                        target = concat("tensor<", kRows, "xi32>"),
                        one = concat("tensor<", kRows, "x", wide, ">");
      LoadedKernels kernels(
          "func.func @g(%x: " + x + ", %t: " + target +
          ") {\n%l, %lse = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64} : (" + x +
          ", " + target + ") -> (" + one + ", " + one +
          ")\n%y = stow.log_softmax %x {axis = 1 : i64} : (" + x + ") -> " + x + "\nreturn\n}");
      std::vector<double> values = some(kRows * classes, type);
      std::fill_n(&values[1 * classes], 4500, -infinity);
      std::fill_n(&values[2 * classes], classes - 1, -infinity);
      std::fill_n(&values[3 * classes], classes, -infinity);
      values[4 * classes + 17] = 2048, values[4 * classes + classes - 1] = 2040;
      const auto count = static_cast<int32_t>(classes);
      std::vector<int32_t> targets = {0, 4600, count - 1, 1, 17, -100, count, -1, 5};
      std::vector<char> scores = stored(values, type), y(scores.size());
      std::vector<char> losses(kRows * bytesOf(wide)), logarithms(losses);
      kernels.run(0, {scores.data(), targets.data(), losses.data(), logarithms.data()});
      kernels.run(1, {scores.data(), y.data()});
      for (int64_t row = 0; row < kRows; ++row) {
        const double *begin = &values[row * classes];
        const double most = *std::max_element(begin, begin + classes);
        double powers = 0;
        for (int64_t k = 0; k < classes; ++k)
          powers += std::exp(begin[k] - most);
        const double expected = most + std::log(powers);
        const double loss = get(&losses[row * bytesOf(wide)], wide);
        if (row == 3) { // no class is possible
          EXPECT_FALSE(std::isfinite(loss));
          continue;
        }
        const double near = (wide == "f64" ? 1e-13 : 1e-6) * (20 + std::abs(most));
        ASSERT_NEAR(get(&logarithms[row * bytesOf(wide)], wide), expected, near)
            << type << classes << " " << row;
        if (targets[row] == -100)
          EXPECT_EQ(loss, 0);
        else if (targets[row] < 0 || targets[row] >= count)
          EXPECT_TRUE(std::isnan(loss)) << row;
        else
          ASSERT_NEAR(loss, expected - begin[targets[row]], near) << type << classes << " " << row;
        for (int64_t k = classes - 3; k < classes; ++k)
          if (std::isfinite(begin[k]))
            ASSERT_NEAR(get(&y[(row * classes + k) * bytesOf(type)], type), begin[k] - expected,
                        tolerance(type) * (20 + std::abs(begin[k] - expected)))
                << type << classes << " " << row << " " << k;
      }
    }
}

// Tests that rows of odd length are read by 16 bytes, and element by element at their ends alone; in short rows
// as many pieces as they may have there, shared by the threads of a row.
TEST(OddRows, SixteenBytesAtOnce) {
  Module classes(R"(
    func.func @g(%x: tensor<2048x50257xbf16>, %t: tensor<2048xi32>) {
      %l, %lse = stow.cross_entropy_rows %x, %t {ignore_index = -100 : i64}
          : (tensor<2048x50257xbf16>, tensor<2048xi32>) -> (tensor<2048xf32>, tensor<2048xf32>)
      return
    })");
  // The row is walked once: 4 in a loop, one in that behind it; an element of an edge, and that of the target.
  EXPECT_EQ(accesses(classes.ptx, "ld", 16), 5) << classes.ptx;
  EXPECT_EQ(accesses(classes.ptx, "ld", 2), 2) << classes.ptx;
  Module windows(R"(
    func.func @g(%x: tensor<64x49x49xf32>) {
      %y = stow.softmax %x {axis = 2 : i64} : (tensor<64x49x49xf32>) -> tensor<64x49x49xf32>
      return
    })");
  // 8 threads share 12 vectors and 6 elements.
  EXPECT_EQ(accesses(windows.ptx, "ld", 16), 2) << windows.ptx;
  EXPECT_EQ(accesses(windows.ptx, "ld", 4), 1) << windows.ptx;
  Module even(R"(
    func.func @g(%x: tensor<64x50x50xf32>) {
      %y = stow.softmax %x {axis = 2 : i64} : (tensor<64x50x50xf32>) -> tensor<64x50x50xf32>
      return
    })");
  EXPECT_EQ(accesses(even.ptx, "ld", 8), 1) << even.ptx; // rows begin at 8 bytes
  EXPECT_EQ(accesses(even.ptx, "ld", 4), 0) << even.ptx;
}

} // namespace
