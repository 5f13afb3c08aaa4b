// Data movement and window sums against plain loops over logical positions.
#include "tests/codegen/Kernels.h"

#include <numeric>

using namespace stow;

namespace {

/// Reads and writes a stored tensor by logical position.
struct Tensor {
  Shape shape;
  Layout layout;
  std::vector<float> data;

  Tensor(Shape shape, const std::string &order, uint64_t seed = 0)
      : shape(shape), layout(order.empty() ? Layout() : parseLayout(order)),
        data(seed ? someFloats(elementCount(shape), 1, seed)
                  : std::vector<float>(elementCount(shape), -9)) {}

  float &at(std::vector<int64_t> position) {
    int64_t logical = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      logical = logical * shape[d] + position[d];
    return data[LayoutIndex(layout, shape)(logical)];
  }
};

template <typename Body> void forEach(const Shape &shape, Body body) {
  for (int64_t i = 0; i < elementCount(shape); ++i) {
    std::vector<int64_t> at(shape.size());
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      at[d] = rest % shape[d];
    body(at);
  }
}

TEST(Copy, TransposeMatrixAndBatch) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<37x50xf32>, %b: tensor<3x5x7xf32>, %c: tensor<3x32x48xf32>) {
      %y = stow.transpose %x {permutation = array<i64: 1, 0>}
          : (tensor<37x50xf32>) -> tensor<50x37xf32>
      %z = stow.transpose %b {permutation = array<i64: 2, 0, 1>}
          : (tensor<3x5x7xf32>) -> tensor<7x3x5xf32>
      %w = stow.transpose %c {permutation = array<i64: 0, 2, 1>}
          : (tensor<3x32x48xf32>) -> tensor<3x48x32xf32>
      return
    })");
  Tensor x({37, 50}, "", 1), y({50, 37}, ""), b({3, 5, 7}, "", 2), z({7, 3, 5}, "");
  kernels.run(0, {x.data.data(), y.data.data()});
  kernels.run(1, {b.data.data(), z.data.data()}, 1);
  Tensor c({3, 32, 48}, "", 3), w({3, 48, 32}, "");
  kernels.run(2, {c.data.data(), w.data.data()}, 1);
  forEach(w.shape, [&](auto at) { ASSERT_EQ(w.at(at), c.at({at[0], at[2], at[1]})); });
  forEach(y.shape, [&](auto at) { ASSERT_EQ(y.at(at), x.at({at[1], at[0]})); });
  forEach(z.shape, [&](auto at) { ASSERT_EQ(z.at(at), b.at({at[1], at[2], at[0]})); });
}

// Tests that elements of 16 bits are moved as they are, NaNs too, also in parts of tiles, on processors
// that have no such floats.
TEST(Copy, TransposeSixteenBits) {
  for (std::string type : {"bf16", "f16"}) {
    auto tensor = [&](const char *shape) { return "tensor<" + (shape + ("x" + type)) + ">"; };
    LoadedKernels kernels("func.func @g(%x: " + tensor("37x50") + ", %c: " + tensor("3x32x48") +
                              ") {" +
                              "%y = stow.transpose %x {permutation = array<i64: 1, 0>} : (" +
                              tensor("37x50") + ") -> " + tensor("50x37") +
                              "%w = stow.transpose %c {permutation = array<i64: 0, 2, 1>} : (" +
                              tensor("3x32x48") + ") -> " + tensor("3x48x32") + " return }",
                          "x86-64-v3");
    std::vector<uint16_t> x(37 * 50), y(x.size()), c(3 * 32 * 48), w(c.size());
    std::iota(x.begin(), x.end(), uint16_t{0x7c00});
    std::iota(c.begin(), c.end(), uint16_t{0x7700});
    kernels.run(0, {x.data(), y.data()});
    kernels.run(1, {c.data(), w.data()});
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i % 50 * 37 + i / 50], x[i]) << type << " " << i;
    for (size_t i = 0; i < c.size(); ++i)
      ASSERT_EQ(w[i / 1536 * 1536 + i % 48 * 32 + i % 1536 / 48], c[i]) << type << " " << i;
  }
}

// Tests concat and its gradient, slice, along channels of channels-last tensors.
TEST(Copy, ConcatAndSlice) {
  LoadedKernels kernels(R"(
    func.func @g(%a: tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>,
                 %b: tensor<2x18x3x4xf32, #stow.layout<"0,2,3,1">>) {
      %y = stow.concat %a, %b {axis = 1 : i64}
          : (tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>,
             tensor<2x18x3x4xf32, #stow.layout<"0,2,3,1">>)
          -> tensor<2x23x3x4xf32, #stow.layout<"0,2,3,1">>
      %s = stow.slice %y {starts = array<i64: 1, 4, 0, 1>, sizes = array<i64: 1, 17, 3, 2>}
          : (tensor<2x23x3x4xf32, #stow.layout<"0,2,3,1">>) -> tensor<1x17x3x2xf32>
      return
    })");
  Tensor a({2, 5, 3, 4}, "0,2,3,1", 1), b({2, 18, 3, 4}, "0,2,3,1", 2);
  Tensor y({2, 23, 3, 4}, "0,2,3,1"), s({1, 17, 3, 2}, "");
  kernels.run(0, {a.data.data(), b.data.data(), y.data.data()}, 1);
  kernels.run(1, {y.data.data(), s.data.data()});
  forEach(y.shape, [&](auto at) {
    float expected = at[1] < 5 ? a.at(at) : b.at({at[0], at[1] - 5, at[2], at[3]});
    ASSERT_EQ(y.at(at), expected);
  });
  forEach(s.shape,
          [&](auto at) { ASSERT_EQ(s.at(at), y.at({at[0] + 1, at[1] + 4, at[2], at[3] + 1})); });
}

TEST(Copy, PadEveryside) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<2x3x5xf32>) {
      %y = stow.pad %x {before = array<i64: 0, 2, 1>, after = array<i64: 1, 0, 3>,
          value = 4.5 : f64} : (tensor<2x3x5xf32>) -> tensor<3x5x9xf32>
      return
    })");
  Tensor x({2, 3, 5}, "", 1), y({3, 5, 9}, "");
  kernels.run(0, {x.data.data(), y.data.data()}, 1);
  forEach(y.shape, [&](auto at) {
    bool inside = at[0] < 2 && at[1] >= 2 && at[2] >= 1 && at[2] < 6;
    ASSERT_EQ(y.at(at), inside ? x.at({at[0], at[1] - 2, at[2] - 1}) : 4.5f);
  });
}

class Window : public testing::TestWithParam<std::string> {};

// Tests window sums with channels along and across the lanes.
TEST_P(Window, SumsNeighbours) {
  std::string type = "tensor<2x21x3x5xf32" +
                     (GetParam().empty() ? "" : ", #stow.layout<\"" + GetParam() + "\">") + ">";
  LoadedKernels kernels("func.func @g(%x: " + type +
                        ") { %y = stow.channel_window_sum %x {before = 2 : i64, after = 1 : i64} "
                        ": (" +
                        type + ") -> " + type + " return }");
  Tensor x({2, 21, 3, 5}, GetParam(), 1), y({2, 21, 3, 5}, GetParam());
  kernels.run(0, {x.data.data(), y.data.data()}, 1);
  forEach(y.shape, [&](auto at) {
    double sum = 0;
    for (int64_t c = std::max<int64_t>(at[1] - 2, 0); c <= std::min<int64_t>(at[1] + 1, 20); ++c)
      sum += x.at({at[0], c, at[2], at[3]});
    ASSERT_NEAR(y.at(at), sum, 1e-6);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Window, testing::Values("", "0,2,3,1"));

} // namespace
