// Masks of one bit an element, which stow.map reads and writes, against plain loops.
#include "tests/codegen/Kernels.h"

#include <cmath>
#include <limits>

using namespace stow;

namespace {

std::string tensor(const Shape &shape, const std::string &layout, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + (layout.empty() ? "" : ", #stow.layout<\"" + layout + "\">") + ">";
}

struct WriteCase {
  Shape shape;
  std::string layout;
};

class PackedMaskWritten : public testing::TestWithParam<WriteCase> {};

// Tests that the mask of x > 0 lies as x does, a bit an element, beside a result and alone; NaN is not
// above 0, and no byte behind the mask is written.
TEST_P(PackedMaskWritten, AsTheTensorsLie) {
  const auto &[shape, layout] = GetParam();
  const auto count = static_cast<size_t>(elementCount(shape));
  const std::string x = tensor(shape, layout, "f32"),
                    bits = "tensor<" + std::to_string(count / 8) + "xi8>";
  LoadedKernels kernels("func.func @g(%x: " + x + ") { %y, %m = stow.map %x : (" + x + ") -> (" +
                        x + ", " + bits + R"() {
    ^bb0(%0: f32):
      %zero = arith.constant 0.0 : f32
      %1 = arith.negf %0 : f32
      %2 = arith.cmpf ogt, %0, %zero : f32
      stow.yield %1, %2 : f32, i1
    }
    %n = stow.map %x : ()" +
                        x + ") -> " + bits + R"( {
    ^bb0(%0: f32):
      %zero = arith.constant 0.0 : f32
      %1 = arith.cmpf ogt, %0, %zero : f32
      stow.yield %1 : i1
    }
    return })");
  std::vector<float> x0 = someFloats(count), y(count);
  x0[3] = std::numeric_limits<float>::quiet_NaN();
  x0[count - 1] = 0;
  std::vector<uint8_t> beside(count / 8 + 4, 0xAB), alone = beside;
  kernels.run(0, {x0.data(), y.data(), beside.data()}, 1);
  kernels.run(1, {x0.data(), alone.data()});
  for (size_t k = 0; k < count; ++k) {
    EXPECT_EQ(beside[k / 8] >> k % 8 & 1, x0[k] > 0) << k;
    EXPECT_EQ(alone[k / 8] >> k % 8 & 1, x0[k] > 0) << k;
    if (!std::isnan(x0[k]))
      EXPECT_EQ(y[k], -x0[k]) << k;
  }
  for (size_t byte = count / 8; byte < beside.size(); ++byte) {
    EXPECT_EQ(beside[byte], 0xAB);
    EXPECT_EQ(alone[byte], 0xAB);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PackedMaskWritten,
                         testing::Values(WriteCase{{64}, ""}, WriteCase{{3, 64, 5}, ""},
                                         WriteCase{{2, 16, 3, 10}, "0,2,3,1"},
                                         WriteCase{{40000}, ""}, WriteCase{{20032, 2}, "1,0"}));

Layout layoutFrom(const std::string &text) { return text.empty() ? Layout() : parseLayout(text); }

struct ReadCase {
  Shape shape;
  std::string layout;   ///< of the result and of the gradient, which the mask is counted by
  std::string gradient; ///< layout of the gradient, where it is another
  bool isScaled;        ///< by a factor for each channel, dimension 1
};

class PackedMaskRead : public testing::TestWithParam<ReadCase> {};

// Tests that a kernel finds the bit of each element, however it walks: as the tensors lie, by rows that
// begin and end within a byte, through gaps and another order.
TEST_P(PackedMaskRead, ByEachElement) {
  const ReadCase &c = GetParam();
  const auto count = static_cast<size_t>(elementCount(c.shape));
  const std::string dx = tensor(c.shape, c.layout, "f32"), dy = tensor(c.shape, c.gradient, "f32"),
                    bits = "tensor<" + std::to_string(count / 8) + "xi8>";
  const Shape channels = {c.isScaled ? c.shape[1] : 1, 1, 1};
  const std::string scale = tensor(channels, "", "f32");
  LoadedKernels kernels("func.func @g(%dy: " + dy + ", %m: " + bits + ", %s: " + scale +
                        ") { %0 = stow.map %dy, %m, %s : (" + dy + ", " + bits + ", " + scale +
                        ") -> " + dx + R"( {
    ^bb0(%0: f32, %1: i1, %2: f32):
      %zero = arith.constant 0.0 : f32
      %3 = arith.mulf %0, %2 : f32
      %4 = arith.select %1, %3, %zero : f32
      stow.yield %4 : f32
    }
    return })");
  const Layout own = layoutFrom(c.layout), other = layoutFrom(c.gradient);
  auto stored = [&](const Layout &layout) {
    return static_cast<size_t>(storedElementCount(layout, c.shape));
  };
  Layout dense = own;
  dense.pitch.reset();
  std::vector<float> gradient = someFloats(stored(other)), result(stored(own), -7);
  std::vector<float> factors = someFloats(channels[0], 1, 2);
  std::vector<uint8_t> mask(count / 8);
  for (size_t byte = 0; byte < mask.size(); ++byte)
    mask[byte] = static_cast<uint8_t>(byte * 151 + byte / 7);
  kernels.run(0, {gradient.data(), mask.data(), factors.data(), result.data()}, 1);
  const LayoutIndex from(other, c.shape), to(own, c.shape), bit(dense, c.shape);
  const int64_t inner = c.shape[2] * c.shape[3];
  for (size_t i = 0; i < count; ++i) {
    const auto logical = static_cast<int64_t>(i);
    const auto k = static_cast<size_t>(bit(logical));
    const float factor = factors[c.isScaled ? logical / inner % c.shape[1] : 0];
    const float expected =
        (mask[k / 8] >> k % 8 & 1) ? gradient[static_cast<size_t>(from(logical))] * factor : 0;
    ASSERT_EQ(result[static_cast<size_t>(to(logical))], expected) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Walks, PackedMaskRead,
    testing::Values(ReadCase{{2, 16, 8, 5}, "", "", false},
                    ReadCase{{2, 24, 4, 8}, "0,2,3,1", "0,2,3,1", true},
                    ReadCase{{2, 19, 4, 8}, "0,2,3,1", "0,2,3,1", true}, // rows within bytes
                    ReadCase{{2, 24, 4, 8}, "0,2,3,1", "0,2,3,1 of 1:40", false}, // gaps
                    ReadCase{{2, 5, 8, 8}, "0,2,3,1 of 1:7", "0,2,3,1", false},
                    ReadCase{{2, 24, 4, 8}, "0,2,3,1", "", false}, // another order
                    ReadCase{{4, 64, 20, 9}, "", "", true}));

} // namespace
