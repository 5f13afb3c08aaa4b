// Pooling and its gradients against plain loops in double.
#include "tests/codegen/Kernels.h"

#include <array>
#include <cmath>
#include <limits>

using namespace stow;

namespace {

/// Two spatial dimensions alike, but for the image's extents.
struct Geometry {
  std::string name;
  const char *layout;
  int64_t height, width, kernel, stride, padBefore, padAfter, dilation;
  int64_t channels = 5;

  int64_t out(int64_t extent) const {
    return (extent + padBefore + padAfter - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

constexpr int64_t kImages = 2;

class Pool : public testing::TestWithParam<Geometry> {
protected:
  const Geometry &g = GetParam();
  int64_t oh = g.out(g.height), ow = g.out(g.width);

  std::string type(int64_t height, int64_t width, const char *element) const {
    return "tensor<" + std::to_string(kImages) + "x" + std::to_string(g.channels) + "x" +
           std::to_string(height) + "x" + std::to_string(width) + "x" + element +
           ", #stow.layout<\"" + g.layout + "\">>";
  }

  std::string attributes(const char *more = "") const {
    auto two = [](int64_t n) { return std::to_string(n) + ", " + std::to_string(n); };
    return " {kernel = array<i64: " + two(g.kernel) + ">, strides = array<i64: " + two(g.stride) +
           ">, pads = array<i64: " + two(g.padBefore) + ", " + two(g.padAfter) +
           ">, dilations = array<i64: " + two(g.dilation) + ">" + more + "} ";
  }

  /// Where [image, channel, row, column] is stored.
  int64_t at(int64_t height, int64_t width, int64_t n, int64_t c, int64_t i, int64_t j) const {
    const Shape shape{kImages, g.channels, height, width};
    const auto strides = outerStrides(parseLayout(g.layout), shape);
    return n * strides[0] + c * strides[1] + i * strides[2] + j * strides[3];
  }

  /// Calls `body(n, c, i, j)` for all results.
  template <typename Body> void forResults(Body body) const {
    for (int64_t n = 0; n < kImages; ++n)
      for (int64_t c = 0; c < g.channels; ++c)
        for (int64_t i = 0; i < oh; ++i)
          for (int64_t j = 0; j < ow; ++j)
            body(n, c, i, j);
  }

  /// Calls `body(tap, row, column)` for the taps of a window inside the image.
  template <typename Body> void forTaps(int64_t i, int64_t j, Body body) const {
    for (int64_t p = 0; p < g.kernel; ++p)
      for (int64_t q = 0; q < g.kernel; ++q) {
        const int64_t row = i * g.stride - g.padBefore + p * g.dilation;
        const int64_t column = j * g.stride - g.padBefore + q * g.dilation;
        if (row >= 0 && row < g.height && column >= 0 && column < g.width)
          body(p * g.kernel + q, row, column);
      }
  }
};

// Tests maxima, the taps that are saved, the gradient from them, and the same maxima without saving.
TEST_P(Pool, Maximum) {
  const std::string x = type(g.height, g.width, "f32"), y = type(oh, ow, "f32"),
                    s = type(oh, ow, g.kernel * g.kernel <= 255 ? "i8" : "i32");
  LoadedKernels kernels(
      "func.func @g(%x: " + x + ", %dy: " + y + ") {\n  %y, %s = " + "stow.max_pool_training %x" +
      attributes() + ": (" + x + ") -> (" + y + ", " + s + ")\n  %dx = stow.max_pool_grad %dy, %s" +
      attributes() + ": (" + y + ", " + s + ") -> " + x + "\n  %z = stow.max_pool %x" +
      attributes() + ": (" + x + ") -> " + y + "\n  return\n}");
  auto image = someFloats(kImages * g.channels * g.height * g.width);
  auto dy = someFloats(kImages * g.channels * oh * ow, 1, 2);
  for (size_t i = 0; i < image.size(); i += 3) // ties
    image[i] = 0.75f;
  for (size_t i = image.size() / 2; i < image.size() / 2 + 40 && i < image.size(); ++i)
    image[i] = -std::numeric_limits<float>::infinity();
  std::vector<float> expected(dy.size());
  std::vector<int64_t> taps(dy.size());
  std::vector<double> dimage(image.size());
  forResults([&](int64_t n, int64_t c, int64_t i, int64_t j) {
    const int64_t to = at(oh, ow, n, c, i, j);
    int64_t from = -1;
    forTaps(i, j, [&](int64_t tap, int64_t row, int64_t column) {
      const int64_t here = at(g.height, g.width, n, c, row, column);
      if (from < 0 || image[here] > image[from])
        from = here, taps[to] = tap;
    });
    expected[to] = image[from];
    dimage[from] += dy[to];
  });
  std::vector<float> found(dy.size()), inference(dy.size()), dx(image.size());
  std::vector<uint8_t> small(dy.size());
  std::vector<int32_t> large(dy.size());
  const bool isSmall = g.kernel * g.kernel <= 255;
  void *saved = isSmall ? static_cast<void *>(small.data()) : large.data();
  kernels.run(0, {image.data(), found.data(), saved}, 1);
  kernels.run(1, {dy.data(), saved, dx.data()});
  kernels.run(2, {image.data(), inference.data()});
  EXPECT_EQ(found, expected);
  EXPECT_EQ(inference, expected);
  for (size_t i = 0; i < taps.size(); ++i)
    ASSERT_EQ(isSmall ? small[i] : large[i], taps[i]) << "result " << i;
  expectClose(dx, dimage, 1e-6, 1e-6);
  // Windows from the last to the first are taps from the first to the last: the order of the sums.
  std::vector<float> sums(image.size());
  std::vector<std::array<int64_t, 4>> results;
  forResults([&](int64_t n, int64_t c, int64_t i, int64_t j) { results.push_back({n, c, i, j}); });
  for (auto [n, c, i, j] : llvm::reverse(results)) {
    const int64_t to = at(oh, ow, n, c, i, j);
    forTaps(i, j, [&](int64_t tap, int64_t row, int64_t column) {
      if (tap == taps[to])
        sums[at(g.height, g.width, n, c, row, column)] += dy[to];
    });
  }
  EXPECT_EQ(dx, sums);
}

// Tests means over whole windows and over what lies inside the image, and their gradients.
TEST_P(Pool, Mean) {
  if (g.dilation != 1)
    GTEST_SKIP() << "means are not dilated";
  const std::string x = type(g.height, g.width, "f32"), y = type(oh, ow, "f32");
  std::string text = "func.func @g(%x: " + x + ", %dy: " + y + ") {\n";
  for (const char *counts : {"true", "false"}) {
    const std::string with = attributes((std::string(", count_include_pad = ") + counts).c_str());
    text += std::string("  %y_") + counts + " = stow.avg_pool %x" + with + ": (" + x + ") -> " + y +
            "\n  %dx_" + counts + " = stow.avg_pool_grad %dy" + with + ": (" + y + ") -> " + x +
            "\n";
  }
  LoadedKernels kernels(text + "  return\n}");
  auto image = someFloats(kImages * g.channels * g.height * g.width);
  auto dy = someFloats(kImages * g.channels * oh * ow, 1, 2);
  for (size_t op : {0, 2}) {
    std::vector<double> expected(dy.size()), dimage(image.size());
    forResults([&](int64_t n, int64_t c, int64_t i, int64_t j) {
      const int64_t to = at(oh, ow, n, c, i, j);
      double count = 0;
      forTaps(i, j, [&](int64_t, int64_t, int64_t) { ++count; });
      if (op == 0)
        count = static_cast<double>(g.kernel * g.kernel);
      forTaps(i, j, [&](int64_t, int64_t row, int64_t column) {
        const int64_t from = at(g.height, g.width, n, c, row, column);
        expected[to] += image[from] / count;
        dimage[from] += dy[to] / count;
      });
    });
    std::vector<float> found(dy.size()), dx(image.size());
    kernels.run(op, {image.data(), found.data()});
    kernels.run(op + 1, {dy.data(), dx.data()}, 1);
    expectClose(found, expected, 1e-6, 1e-6);
    expectClose(dx, dimage, 1e-6, 1e-6);
  }
}

constexpr const char *kRowMajor = "0,1,2,3", *kChannelsLast = "0,2,3,1";

INSTANTIATE_TEST_SUITE_P(
    Geometries, Pool,
    testing::Values(
        Geometry{"stem", kRowMajor, 9, 11, 3, 2, 1, 1, 1},
        Geometry{"stem_last", kChannelsLast, 9, 11, 3, 2, 1, 1, 1},
        Geometry{"lopsided", kRowMajor, 7, 8, 3, 2, 0, 1, 1},
        Geometry{"dilated", kChannelsLast, 9, 8, 3, 1, 2, 2, 2, 4},
        Geometry{"loops", kRowMajor, 11, 12, 5, 3, 2, 2, 1},
        Geometry{"many_taps", kRowMajor, 17, 18, 16, 1, 0, 0, 1},
        Geometry{"rows_left_out", kRowMajor, 10, 9, 2, 3, 0, 0, 1},
        // A device's vectors: of channels, and of what lies along a row.
        Geometry{"channels", kChannelsLast, 9, 11, 3, 2, 1, 1, 1, 8},
        Geometry{"loops_over_channels", kChannelsLast, 7, 8, 5, 2, 2, 2, 1, 4},
        Geometry{"rows", kRowMajor, 12, 16, 3, 2, 1, 1, 1},
        Geometry{"halves", kRowMajor, 8, 16, 2, 2, 0, 0, 1},
        Geometry{"overlapping_rows", kRowMajor, 8, 12, 3, 1, 1, 1, 1},
        Geometry{"thirds", kRowMajor, 9, 12, 3, 3, 0, 0, 1},
        Geometry{"short_rows", kRowMajor, 6, 6, 3, 2, 1, 1, 1},
        // A device's planes: rows that are no whole vectors, before or behind; many taps.
        Geometry{"planes", kRowMajor, 7, 7, 3, 1, 1, 1, 1, 8},
        Geometry{"planes_halved", kRowMajor, 9, 14, 3, 2, 1, 1, 1, 8},
        Geometry{"planes_lopsided", kRowMajor, 13, 13, 3, 2, 0, 0, 1, 8},
        Geometry{"planes_of_many_taps", kRowMajor, 8, 8, 5, 1, 2, 2, 1, 8},
        Geometry{"planes_dilated", kRowMajor, 10, 10, 2, 2, 1, 1, 3, 8}),
    [](const auto &info) { return info.param.name; });

// Tests that NaN wins over numbers wherever it lies in the window, and that bf16 is not rounded on the
// way.
TEST(PoolValues, NanAndSixteenBits) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<1x1x2x6xf32>, %h: tensor<1x1x2x4xbf16>) {
      %y = stow.max_pool %x {kernel = array<i64: 2, 3>, strides = array<i64: 2, 3>,
          pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
          : (tensor<1x1x2x6xf32>) -> tensor<1x1x1x2xf32>
      %m = stow.avg_pool %h {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
          pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, count_include_pad = true}
          : (tensor<1x1x2x4xbf16>) -> tensor<1x1x1x2xbf16>
      return
    })");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {nan, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, nan}, y(2);
  kernels.run(0, {x.data(), y.data()});
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
  // 1, 2, 3, 4 and 256 with three small ones: 257.5 / 4 is 64.375, which bf16 holds as 64.5.
  std::vector<uint16_t> h = {0x3F80, 0x4000, 0x4380, 0x3F00, 0x4040, 0x4080, 0x3F00, 0x3F00}, m(2);
  kernels.run(1, {h.data(), m.data()});
  EXPECT_EQ(m[0], 0x4020); // 2.5
  EXPECT_EQ(m[1], 0x4281); // 64.5
}

// Tests one and three dimensions of space.
TEST(PoolValues, LinesAndVolumes) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<1x2x7xf32>, %v: tensor<1x1x2x2x4xf32>) {
      %y = stow.avg_pool %x {kernel = array<i64: 3>, strides = array<i64: 2>,
          pads = array<i64: 0, 0>, dilations = array<i64: 1>, count_include_pad = true}
          : (tensor<1x2x7xf32>) -> tensor<1x2x3xf32>
      %m = stow.max_pool %v {kernel = array<i64: 2, 2, 2>, strides = array<i64: 2, 2, 2>,
          pads = array<i64: 0, 0, 0, 0, 0, 0>, dilations = array<i64: 1, 1, 1>}
          : (tensor<1x1x2x2x4xf32>) -> tensor<1x1x1x1x2xf32>
      return
    })");
  std::vector<float> x, v, y(6), m(2);
  for (int i = 0; i < 14; ++i)
    x.push_back(static_cast<float>(i));
  for (int i = 0; i < 16; ++i)
    v.push_back(static_cast<float>(i * 7 % 16));
  kernels.run(0, {x.data(), y.data()});
  kernels.run(1, {v.data(), m.data()});
  EXPECT_EQ(y, (std::vector<float>{1, 3, 5, 8, 10, 12}));
  EXPECT_EQ(m, (std::vector<float>{15, 14}));
}

} // namespace
