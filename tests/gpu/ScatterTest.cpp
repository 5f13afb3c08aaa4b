// Sums of rows by index on a device, where one row is named again and again: all teams of a block have a part in its sum.
#include "tests/codegen/Kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

using namespace stow;

namespace {

// 2^24 and ones: added one by one they are lost, since 2^24 + 1 is 2^24 in f32. What a team adds up by itself is not.
TEST(Scatter, AHotRowIsSummedInParts) {
  constexpr int rows = 40, width = 768, count = 3000, hot = 7;
  LoadedKernels kernels(
      "func.func @g(%dy: tensor<3000x768xf32>, %i: tensor<3000xi64>) {"
      " %d = stow.embedding_grad %dy, %i {rows = 40 : i64}"
      " : (tensor<3000x768xf32>, tensor<3000xi64>) -> tensor<40x768xf32> return }");
  std::vector<float> dy(count * width, 1), found(rows * width, 9), again = found;
  std::fill_n(dy.begin(), width, 16777216.0f);
  std::vector<int64_t> indices(count, hot);
  kernels.run(0, {dy.data(), indices.data(), found.data()});
  kernels.run(0, {dy.data(), indices.data(), again.data()}, 2);
  EXPECT_EQ(found, again) << "a few tasks at a time";
  for (int column = 0; column < width; ++column) {
    EXPECT_GT(found[hot * width + column], 16777216.0f + count / 2) << column;
    EXPECT_LE(found[hot * width + column], 16777216.0f + count) << column;
    EXPECT_EQ(found[(hot + 1) * width + column], 0) << column;
  }
}

} // namespace
