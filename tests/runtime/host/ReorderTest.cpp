// Layout and type conversion by the library.
#include "runtime/host/Float16.h"
#include "tests/runtime/host/CallHarness.h"

#include <gmock/gmock.h>

#include <cmath>

namespace stow::host::test {
namespace {

// Tests that every pair of layouts keeps every element, channel padding included.
TEST(Reorder, AllPairs) {
  Tensor src = sample({3, 19, 5, 4}, 1);
  const Layout layouts[] = {
      {}, channelsLast(), blocked16(), {1, {1, 2, 3, 0}, {}}, {1, {1, 2, 3, 0}, {{1, 4}, {0, 2}}}};
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      CallResult result = runCall(CommandOp::DnnlReorder, {in(src, from), out(src.shape, to)});
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
      CallResult result =
          runCall(CommandOp::DnnlReorder, {in(weights, from), out(weights.shape, to)});
      EXPECT_EQ(relativeError(result.tensors[1], weights), 0)
          << formatLayout(from) << " to " << formatLayout(to);
    }
}

/// All pairs of types with at least one of 16 bits.
std::vector<std::pair<DType, DType>> lowPairs() {
  std::vector<std::pair<DType, DType>> pairs;
  for (DType from : {DType::F32, DType::BF16, DType::F16})
    for (DType to : {DType::F32, DType::BF16, DType::F16})
      if (from != DType::F32 || to != DType::F32)
        pairs.emplace_back(from, to);
  return pairs;
}

// Tests that every pair of layouts and types keeps every element, and that padding becomes zero:
// the test's arena is full of NaN before.
TEST(Reorder, SixteenBits) {
  struct Case {
    Shape shape;
    std::vector<Layout> layouts;
  };
  const std::vector<Case> cases = {
      {{3, 19, 5, 4},
       {{},
        channelsLast(),
        blocked16(),
        {1, {0, 1, 2, 3}, {{1, 8}}},
        {1, {1, 2, 3, 0}, {}},
        {1, {1, 2, 3, 0}, {{1, 4}, {0, 2}}}}},
      {{40, 24, 3, 3},
       {{},
        {1, {0, 1, 2, 3}, {{1, 8}, {0, 8}}},
        {1, {1, 0, 2, 3}, {{0, 8}, {1, 8}}},
        {1, {0, 2, 3, 1}, {{0, 16}, {1, 2}}},
        {1, {1, 0, 2, 3}, {{1, 8}, {0, 16}, {1, 2}}}}},
      {{24, 4, 3, 3}, {{}, {3, {}, {}}, {3, {0, 1, 2, 3, 4}, {{1, 8}, {2, 8}}}}},
      {{70, 1000}, {{}, {1, {1, 0}, {}}}},
      {{1, 1}, {{}, {1, {1, 0}, {}}}},
      {{5}, {{}}},
  };
  for (const Case &c : cases) {
    const Tensor src = sample(c.shape, 1); // exact in all types
    for (const Layout &from : c.layouts)
      for (const Layout &to : c.layouts)
        for (auto [fromType, toType] : lowPairs())
          for (int64_t threads : {1, 3}) {
            const CallResult result =
                runCall(CommandOp::DnnlReorder, {in(src, from, fromType), out(c.shape, to, toType)},
                        {}, {}, threads);
            EXPECT_EQ(result.tensors[1].data, src.data)
                << formatLayout(from) << " to " << formatLayout(to) << ", " << nameOf(fromType)
                << " to " << nameOf(toType) << ", " << result.requirements.implementation;
            EXPECT_EQ(result.padding[1], 0) << formatLayout(from) << " to " << formatLayout(to);
            EXPECT_EQ(result.requirements.workspaceBytes, 0);
          }
  }
}

// Tests blocks of which none divides the other: the library does these.
TEST(Reorder, SixteenBitsInOddBlocks) {
  const Tensor src = sample({2, 24, 3, 3}, 1);
  const CallResult result =
      runCall(CommandOp::DnnlReorder, {in(src, {1, {0, 1, 2, 3}, {{1, 8}}}, DType::BF16),
                                       out(src.shape, {1, {0, 1, 2, 3}, {{1, 12}}}, DType::BF16)});
  EXPECT_EQ(result.tensors[1].data, src.data);
}

// Tests rounding on the way down, in contiguous and in gathered rows.
TEST(Reorder, Rounds) {
  Tensor src({33, 47}), bf16(src.shape), f16(src.shape);
  for (size_t i = 0; i < src.data.size(); ++i) {
    src.data[i] = static_cast<float>(std::sin(static_cast<double>(i)) * 3);
    bf16.data[i] = widenBf16(narrowBf16(static_cast<float>(src.data[i])));
    f16.data[i] = widenF16(narrowF16(static_cast<float>(src.data[i])));
  }
  for (const Layout &to : {Layout(), Layout{1, {1, 0}, {}}}) {
    EXPECT_EQ(
        runCall(CommandOp::DnnlReorder, {in(src), out(src.shape, to, DType::BF16)}).tensors[1].data,
        bf16.data);
    EXPECT_EQ(
        runCall(CommandOp::DnnlReorder, {in(src), out(src.shape, to, DType::F16)}).tensors[1].data,
        f16.data);
  }
}

} // namespace
} // namespace stow::host::test
