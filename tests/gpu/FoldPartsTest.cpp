// Folds of few rows, whose rows are shared by several blocks: the kernels one after the other against
// plain loops, and how many blocks there are.
#include "codegen/kernels/device/FoldParts.h"
#include "runtime/base/Concat.h"
#include "tests/codegen/Kernels.h"

#include <bit>
#include <cmath>

using namespace stow;

namespace {

/// The parts of the only op in `text`.
std::optional<FoldParts> partsOf(const std::string &text) {
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect>();
  auto graph = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  std::optional<FoldParts> found;
  graph->walk([&](mlir::Operation *op) {
    if (hasGeneratedKernel(op))
      found = foldParts(op);
  });
  return found;
}

std::string reduction(const std::string &op, const std::string &from, const std::string &axes,
                      const std::string &to) {
  return "func.func @g(%x: tensor<" + from + ">) {\n%y = stow.reduce_" + op +
         " %x {axes = array<i64: " + axes + ">, keepdims = false} : (tensor<" + from +
         ">) -> tensor<" + to + ">\nreturn }";
}

// Tests where rows are shared: few and long ones, along the axis and across it, never short or many.
TEST(FoldParts, FewLongRows) {
  const auto along = partsOf(reduction("sum", "64x100352xf32", "1", "64xf32"));
  ASSERT_TRUE(along);
  EXPECT_EQ(along->parts, 8); // 512 blocks
  const auto across = partsOf(reduction("sum", "4096x768xf32", "0", "768xf32"));
  ASSERT_TRUE(across);
  EXPECT_EQ(across->parts, 16); // 24 columns of blocks, 8,192 elements each
  EXPECT_EQ(across->scratchBytes(), 16 * 768 * 4);
  EXPECT_EQ(partsOf(reduction("sum", "1048576xf32", "0", "f32"))->parts, 128);
  EXPECT_FALSE(partsOf(reduction("sum", "4096x768xf32", "1", "4096xf32")));
  EXPECT_FALSE(partsOf(reduction("sum", "64x8192xf32", "1", "64xf32")));
  EXPECT_FALSE(partsOf(reduction("sum", "64x100352xf64", "1", "64xf64")));
}

// Tests that the first kernel has a block for every part and the last one for every row.
TEST(FoldParts, BlocksFillTheChip) {
  mlir::MLIRContext context;
  context.loadDialect<StowDialect, mlir::func::FuncDialect>();
  auto graph = mlir::parseSourceString<mlir::ModuleOp>(
      reduction("sum", "64x100352xf32", "1", "64xf32"), &context);
  KernelModule kernels(&context, KernelTarget::Device);
  graph->walk([&](mlir::Operation *op) {
    if (!hasGeneratedKernel(op))
      return;
    auto infos = addFoldInParts(kernels, op, *foldParts(op), {});
    ASSERT_TRUE(succeeded(infos));
    ASSERT_EQ(infos->size(), 2u);
    EXPECT_EQ((*infos)[0].tasks, 512);
    EXPECT_EQ((*infos)[1].tasks, 64);
    EXPECT_EQ(kernels.add(op)->tasks, 64); // what it would be otherwise
  });
}

/// Rows and what they have: the second one is small enough for the check of races.
class Reductions : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

// Tests sums, means, maxima and sums of squares along the axis and across it, all parts of which count.
TEST_P(Reductions, AgreeWithLoops) {
  const auto [rows, axis] = GetParam();
  const std::string wide = concat(rows, "x", axis, "xf32"), tall = concat(axis, "x", rows, "xf32");
  const std::string one = concat(rows, "xf32");
  for (const std::string op : {"sum", "mean", "max", "sum_squares"}) {
    ASSERT_TRUE(partsOf(reduction(op, wide, "1", one)) && partsOf(reduction(op, tall, "0", one)));
    LoadedKernels along(reduction(op, wide, "1", one)), across(reduction(op, tall, "0", one));
    auto x = someFloats(rows * axis), turned = x;
    std::vector<double> expected(rows, op == "max" ? -1e30 : 0);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < axis; ++i) {
        const float value = x[row * axis + i];
        turned[i * rows + row] = value;
        double &sum = expected[row];
        sum = op == "max"           ? std::max(sum, static_cast<double>(value))
              : op == "sum_squares" ? sum + static_cast<double>(value) * value
                                    : sum + value / (op == "mean" ? double(axis) : 1.0);
      }
    std::vector<float> found(rows), again(rows);
    along.run(0, {x.data(), found.data()});
    expectClose(found, expected, 1e-6, 2e-5);
    across.run(0, {turned.data(), again.data()});
    expectClose(again, expected, 1e-6, 2e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(FoldParts, Reductions,
                         testing::Values(std::pair{40, 40000}, std::pair{3, 20000}));

/// [2, 24, 50, 170] channels first, or last in bf16.
struct Images {
  int64_t count = 2, channels = 24, plane = 50 * 170;
  int64_t at(int64_t image, int64_t channel, int64_t pixel, bool last) const {
    return last ? (image * plane + pixel) * channels + channel
                : (image * channels + channel) * plane + pixel;
  }
};

// Tests a channel's mean and variance, which needs the mean of all parts, and the gradients of its scale
// and bias, in both orders of images.
TEST(FoldParts, ChannelsOfImages) {
  for (bool last : {false, true}) {
    const std::string image =
        last ? "tensor<2x24x50x170xf32, #stow.layout<\"0,2,3,1\">>" : "tensor<2x24x50x170xf32>";
    const std::string of = "tensor<24xf32>";
    LoadedKernels kernels(
        "func.func @g(%x: " + image + ", %dy: " + image + ", %m: " + of + ", %v: " + of + R"() {
      %0, %1 = stow.channel_moments %x : ()" +
        image + ") -> (" + of + ", " + of + R"()
      %2, %3 = stow.batch_norm_scale_grad %dy, %x, %m, %v {epsilon = 1.0e-5 : f64} : ()" +
        image + ", " + image + ", " + of + ", " + of + ") -> (" + of + ", " + of + ") return }");
    const Images images;
    const int64_t count = images.count * images.plane;
    auto x = someFloats(images.channels * count, 2), dy = someFloats(x.size(), 1, 7);
    for (float &value : x)
      value += 5; // far from zero: a variance from sums of squares would lose it
    std::vector<double> mean(24), variance(24), scale(24), bias(24);
    std::vector<float> givenMean(24), givenVariance(24);
    for (int64_t c = 0; c < 24; ++c) {
      auto each = [&](auto &&add) {
        for (int64_t n = 0; n < images.count; ++n)
          for (int64_t p = 0; p < images.plane; ++p)
            add(images.at(n, c, p, last));
      };
      each([&](int64_t i) { mean[c] += x[i] / double(count); });
      each([&](int64_t i) { variance[c] += (x[i] - mean[c]) * (x[i] - mean[c]) / double(count); });
      givenMean[c] = static_cast<float>(mean[c]);
      givenVariance[c] = static_cast<float>(variance[c]);
      each([&](int64_t i) {
        scale[c] += dy[i] * (x[i] - mean[c]) / std::sqrt(variance[c] + 1e-5);
        bias[c] += dy[i];
      });
    }
    std::vector<float> found(24), spread(24), dscale(24), dbias(24);
    kernels.run(0, {x.data(), found.data(), spread.data()});
    expectClose(found, mean, 1e-6);
    expectClose(spread, variance, 1e-6);
    kernels.run(1, {dy.data(), x.data(), givenMean.data(), givenVariance.data(), dscale.data(),
                    dbias.data()});
    expectClose(dscale, scale, 1e-5, 1e-4);
    expectClose(dbias, bias, 1e-5, 1e-4);
  }
}

// Tests the gradients of a layer normalization's scale and bias in bf16: sums over rows in f32.
TEST(FoldParts, ScalesOfLayers) {
  const int64_t rows = 9000, columns = 80;
  LoadedKernels kernels(R"(
    func.func @g(%dy: tensor<9000x80xbf16>, %x: tensor<9000x80xbf16>, %m: tensor<9000xf32>, %r: tensor<9000xf32>) {
      %0, %1 = stow.layer_norm_scale_grad %dy, %x, %m, %r
          : (tensor<9000x80xbf16>, tensor<9000x80xbf16>, tensor<9000xf32>, tensor<9000xf32>) -> (tensor<80xf32>, tensor<80xf32>)
      return
    })");
  auto narrow = [](const std::vector<float> &values) {
    std::vector<uint16_t> bits;
    for (float value : values)
      bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    return bits;
  };
  auto wide = [](uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); };
  auto dy = narrow(someFloats(rows * columns)), x = narrow(someFloats(rows * columns, 2, 3));
  auto mean = someFloats(rows, 1, 4), rstd = someFloats(rows, 1, 5);
  std::vector<double> scale(columns), bias(columns);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const double gradient = wide(dy[row * columns + column]);
      scale[column] += gradient * (wide(x[row * columns + column]) - mean[row]) * rstd[row];
      bias[column] += gradient;
    }
  std::vector<float> dscale(columns), dbias(columns);
  kernels.run(0, {dy.data(), x.data(), mean.data(), rstd.data(), dscale.data(), dbias.data()});
  expectClose(dscale, scale, 1e-5, 1e-4);
  expectClose(dbias, bias, 1e-5, 1e-4);
}

} // namespace
