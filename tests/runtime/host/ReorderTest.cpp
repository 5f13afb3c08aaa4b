// Layout and type conversion by the library.
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

namespace stow::host::test {
namespace {

// Tests that every pair of layouts keeps every element, channel padding included.
TEST(Reorder, AllPairs) {
  Tensor src = sample({3, 19, 5, 4}, 1);
  const Layout layouts[] = {
      {}, channelsLast(), blocked16(), {1, {1, 2, 3, 0}, {}}, {1, {1, 2, 3, 0}, {{1, 4}, {0, 2}}}};
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      CallResult result = runCall("dnnl.reorder", {in(src, from), out(src.shape, to)});
      EXPECT_EQ(relativeError(result.tensors[1], src), 0)
          << formatLayout(from) << " to " << formatLayout(to);
    }
}

// Tests grouped weights: plain [O, I/g, kh, kw] against the five-dimensional blocked form.
TEST(Reorder, GroupedWeights) {
  Tensor weights = sample({24, 4, 3, 3}, 1);
  Layout grouped{3, {0, 1, 2, 3, 4}, {{1, 8}, {2, 8}}};
  Layout plainGrouped{3, {}, {}};
  for (const Layout &from : {Layout(), plainGrouped, grouped})
    for (const Layout &to : {Layout(), plainGrouped, grouped}) {
      CallResult result = runCall("dnnl.reorder", {in(weights, from), out(weights.shape, to)});
      EXPECT_EQ(relativeError(result.tensors[1], weights), 0)
          << formatLayout(from) << " to " << formatLayout(to);
    }
}

TEST(Reorder, ChangesType) {
  Tensor src = sample({3, 19, 5, 4}, 1); // exact in bf16
  CallResult down = runCall("dnnl.reorder", {in(src), out(src.shape, channelsLast(), DType::BF16)});
  EXPECT_EQ(relativeError(down.tensors[1], src), 0);
  CallResult up = runCall("dnnl.reorder", {in(src, channelsLast(), DType::BF16), out(src.shape)});
  EXPECT_EQ(relativeError(up.tensors[1], src), 0);
}

} // namespace
} // namespace stow::host::test
