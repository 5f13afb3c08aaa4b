// Tables read by index, and the sum of rows that is their gradient, against plain loops.
#include "tests/codegen/Kernels.h"

#include <bit>
#include <cmath>

using namespace stow;

namespace {

class EmbeddingRows : public testing::TestWithParam<std::pair<int, std::string>> {};

// Tests rows read by indices from both ends, and that an index outside gives NaN and nothing else:
// rows that vectors fit and rows that they do not.
TEST_P(EmbeddingRows, AreRead) {
  auto [width, index] = GetParam();
  auto type = [&, width = width](const std::string &extents) {
    return "tensor<" + extents + "x" + std::to_string(width) + "xf32>";
  };
  const std::string indexType = "tensor<2x3x" + index + ">";
  LoadedKernels kernels("func.func @g(%t: " + type("7") + ", %i: " + indexType +
                        ") { %y = stow.embedding %t, %i : (" + type("7") + ", " + indexType +
                        ") -> " + type("2x3") + " return }");
  auto table = someFloats(7 * width);
  std::vector<int64_t> wide = {6, 0, -1, 7, -8, index == "i64" ? int64_t(1) << 62 : 1 << 30};
  std::vector<int32_t> narrow(wide.begin(), wide.end());
  std::vector<int> rows = {6, 0, 6, -1, -1, -1};
  std::vector<float> y(6 * width);
  void *given = index == "i64" ? static_cast<void *>(wide.data()) : narrow.data();
  kernels.run(0, {table.data(), given, y.data()});
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < width; ++j) {
      float found = y[i * width + j];
      if (rows[i] < 0)
        EXPECT_TRUE(std::isnan(found)) << i;
      else
        EXPECT_EQ(found, table[rows[i] * width + j]);
    }
}

INSTANTIATE_TEST_SUITE_P(Widths, EmbeddingRows,
                         testing::Values(std::pair(37, "i64"), std::pair(38, "i32"),
                                         std::pair(1, "i64"), std::pair(1208, "i32")));

/// A table of `rows` x `width`, read by `count` indices.
struct ScatterCase {
  int64_t rows, width, count;
  std::string index;
  int64_t padding = -1; ///< none
};

class EmbeddingGrad : public testing::TestWithParam<ScatterCase> {};

/// Tasks of a call that does a part of them: one, and more where there are hundreds.
int64_t partOf(const KernelInfo &kernel) { return std::max<int64_t>(kernel.tasks / 50, 1); }

// Tests the sums of rows, whole and a few tasks at a time to the bit: few rows that many share, and many
// rows of which few are read. Indices outside the table count for nothing.
TEST_P(EmbeddingGrad, AgreesWithLoops) {
  auto [rows, width, count, index, padding] = GetParam();
  auto type = [&](int64_t extent) {
    return "tensor<" + std::to_string(extent) + "x" + std::to_string(width) + "xf32>";
  };
  std::string dyType = type(count);
  std::string indices = "tensor<" + std::to_string(count) + "x" + index + ">";
  LoadedKernels kernels(
      "func.func @g(%dy: " + dyType + ", %i: " + indices +
      ") { %d = stow.embedding_grad %dy, %i {rows = " + std::to_string(rows) + " : i64" +
      (padding < 0 ? "" : ", padding_index = " + std::to_string(padding) + " : i64") + "} : (" +
      dyType + ", " + indices + ") -> " + type(rows) + " return }");
  auto dy = someFloats(count * width);
  std::vector<int64_t> wide(count);
  uint64_t state = 7;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    wide[i] = static_cast<int64_t>((state >> 33) % (2 * rows)) - rows;
  }
  wide[0] = rows;
  wide[count / 2] = -rows - 1;
  std::vector<int32_t> narrow(wide.begin(), wide.end());
  std::vector<double> expected(rows * width);
  for (int64_t i = 0; i < count; ++i) {
    int64_t row = wide[i] < 0 ? wide[i] + rows : wide[i];
    for (int64_t j = 0; j < width && row >= 0 && row < rows && row != padding; ++j)
      expected[row * width + j] += dy[i * width + j];
  }
  void *given = index == "i64" ? static_cast<void *>(wide.data()) : narrow.data();
  std::vector<float> found(rows * width, 9), split(rows * width, 9);
  kernels.run(0, {dy.data(), given, found.data()});
  kernels.run(0, {dy.data(), given, split.data()}, partOf(kernels.info(0)));
  EXPECT_EQ(found, split);
  expectClose(found, expected, 1e-6, 1e-4);
}

// Tests that adding to another gradient gives the bits of the sums and an addition, those of -0 too,
// in its place and in one of its own, whole and a few tasks at a time.
TEST_P(EmbeddingGrad, AddsToAnotherGradient) {
  auto [rows, width, count, index, padding] = GetParam();
  auto type = [&](int64_t extent) {
    return "tensor<" + std::to_string(extent) + "x" + std::to_string(width) + "xf32>";
  };
  const std::string dyType = type(count), tableType = type(rows);
  const std::string indices = "tensor<" + std::to_string(count) + "x" + index + ">";
  const std::string pad =
      padding < 0 ? "" : "padding_index = " + std::to_string(padding) + " : i64, ";
  LoadedKernels kernels("func.func @g(%h: " + tableType + ", %dy: " + dyType + ", %i: " + indices +
                        ") { %d = stow.embedding_grad %dy, %i {" + pad +
                        "rows = " + std::to_string(rows) + " : i64} : (" + dyType + ", " + indices +
                        ") -> " + tableType + " %s, %t = stow.embedding_grad_add %h, %dy, %i {" +
                        pad + "stow.test} : (" + tableType + ", " + dyType + ", " + indices +
                        ") -> (" + tableType + ", " + dyType + ") return }");
  auto dy = someFloats(count * width), head = someFloats(rows * width);
  for (size_t i = 0; i < head.size(); i += 3)
    head[i] = -0.0f;
  std::vector<int64_t> wide(count);
  for (int64_t i = 0; i < count; ++i)
    wide[i] = (i * 7919) % (rows + 2) - (i % 5 == 0 ? rows : 0);
  std::vector<int32_t> narrow(wide.begin(), wide.end());
  void *given = index == "i64" ? static_cast<void *>(wide.data()) : narrow.data();
  std::vector<float> expected(rows * width, 9);
  kernels.run(0, {dy.data(), given, expected.data()});
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] += head[i];
  auto bits = [](const std::vector<float> &values) {
    return std::vector<char>(reinterpret_cast<const char *>(values.data()),
                             reinterpret_cast<const char *>(values.data() + values.size()));
  };
  std::vector<float> found(rows * width, 9), sums(count * width, NAN), kept = head, spent = dy;
  kernels.run(1, {head.data(), dy.data(), given, found.data(), sums.data()},
              partOf(kernels.info(1)));
  EXPECT_EQ(bits(found), bits(expected));
  EXPECT_EQ(bits(head), bits(kept));
  kernels.run(1, {kept.data(), spent.data(), given, kept.data(), spent.data()});
  EXPECT_EQ(bits(kept), bits(expected));
}

// Tests a table in 16 bits, as a product makes it, whose rows are read as f32, and its gradient, summed of rows
// in f32. All values are small integers, which bf16 holds.
TEST(Embedding, TableInSixteenBits) {
  const int rows = 5, width = 24, count = 60;
  LoadedKernels kernels(R"(
    func.func @g(%t: tensor<5x24xbf16>, %i: tensor<60xi32>, %dy: tensor<60x24xf32>) {
      %y = stow.embedding %t, %i : (tensor<5x24xbf16>, tensor<60xi32>) -> tensor<60x24xf32>
      %d = stow.embedding_grad %dy, %i {rows = 5 : i64}
        : (tensor<60x24xf32>, tensor<60xi32>) -> tensor<5x24xbf16>
      return
    })");
  auto bf16 = [](float value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  };
  std::vector<uint16_t> table(rows * width), found(rows * width, 9), wanted(rows * width);
  std::vector<int32_t> indices(count);
  std::vector<float> dy(count * width), y(count * width), expected(rows * width);
  for (int i = 0; i < rows * width; ++i)
    table[i] = bf16(static_cast<float>(i));
  for (int i = 0; i < count; ++i) {
    indices[i] = i * i % rows;
    for (int j = 0; j < width; ++j) {
      dy[i * width + j] = static_cast<float>((i + j) % 4 - 1);
      expected[indices[i] * width + j] += dy[i * width + j];
    }
  }
  kernels.run(0, {table.data(), indices.data(), y.data()});
  for (int i = 0; i < count * width; ++i)
    ASSERT_EQ(y[i], static_cast<float>(indices[i / width] * width + i % width)) << i;
  kernels.run(1, {dy.data(), indices.data(), found.data()});
  for (int i = 0; i < rows * width; ++i)
    wanted[i] = bf16(expected[i]);
  EXPECT_EQ(found, wanted);
}

INSTANTIATE_TEST_SUITE_P(
    Embedding, EmbeddingGrad,
    testing::Values(ScatterCase{3, 5, 60, "i64"}, ScatterCase{65, 64, 150, "i32"},
                    ScatterCase{3, 5, 60, "i64", 2}, ScatterCase{65, 64, 150, "i32", 0},
                    ScatterCase{900, 33, 60, "i64"}, ScatterCase{1, 1, 3, "i64"},
                    // Beyond a device's list of indices; columns in tiles; several rows to a block.
                    ScatterCase{2, 12, 2500, "i64"}, ScatterCase{5, 1030, 40, "i32"},
                    ScatterCase{3000, 8, 1100, "i32", 5}, ScatterCase{200, 768, 70, "i64"}));

} // namespace
