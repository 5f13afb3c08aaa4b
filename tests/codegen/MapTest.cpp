// stow.map kernels against plain loops.
#include "tests/codegen/Kernels.h"

using namespace stow;

namespace {

// Tests that a flat map computes every element, also the last partial vector.
TEST(Map, FlatOddSize) {
  LoadedKernels kernels(R"(
    func.func @g(%a: tensor<3x17x11xf32>, %b: tensor<3x17x11xf32>) -> tensor<3x17x11xf32> {
      %y = stow.map %a, %b : (tensor<3x17x11xf32>, tensor<3x17x11xf32>) -> tensor<3x17x11xf32> {
      ^bb0(%p: f32, %q: f32):
        %0 = arith.mulf %p, %q : f32
        %1 = arith.addf %0, %p : f32
        stow.yield %1 : f32
      }
      return %y : tensor<3x17x11xf32>
    })");
  auto a = someFloats(561), b = someFloats(561, 3, 2);
  std::vector<float> y(561);
  kernels.run(0, {a.data(), b.data(), y.data()});
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], a[i] * b[i] + a[i]) << i;
}

// Tests that a bias broadcasts over channels-last activations.
TEST(Map, BiasOverChannelsLast) {
  LoadedKernels kernels(R"(
    func.func @g(%x: tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>, %b: tensor<5x1x1xf32>)
        -> tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">> {
      %y = stow.map %x, %b : (tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>, tensor<5x1x1xf32>)
          -> tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">> {
      ^bb0(%p: f32, %q: f32):
        %0 = arith.addf %p, %q : f32
        stow.yield %0 : f32
      }
      return %y : tensor<2x5x3x4xf32, #stow.layout<"0,2,3,1">>
    })");
  auto x = someFloats(120), b = someFloats(5, 3, 2);
  std::vector<float> y(120);
  kernels.run(0, {x.data(), b.data(), y.data()});
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], x[i] + b[i % 5]) << i;
}

} // namespace
