// Layout-converting copies against LayoutIndex, which is written independently.
#include "runtime/program/StoredTensor.h"

#include "tests/runtime/base/CountAllocations.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace stow {
namespace {

struct Case {
  Shape shape;
  Layout layout;
};

const Case cases[] = {
    {{}, {}},
    {{7}, {}},
    {{3, 5, 4, 6}, {}},
    {{3, 5, 4, 6}, {1, {0, 2, 3, 1}, {}}},
    {{2, 19, 3, 4}, {1, {0, 1, 2, 3}, {{1, 16}}}},
    {{20, 19, 3, 3}, {1, {0, 1, 2, 3}, {{1, 4}, {0, 16}, {1, 2}}}},
    {{20, 19}, {1, {1, 0}, {{1, 4}, {0, 8}}}},
    {{9, 37}, {1, {0, 1}, {{1, 16}, {0, 2}, {1, 2}}}},
    {{12, 4, 3, 3}, {3, {0, 1, 2, 3, 4}, {{1, 4}, {2, 2}}}},
    {{24, 1, 3, 3}, {24, {0, 1, 2, 3, 4}, {{0, 16}}}},
    {{12, 4, 3, 3}, {3, {}, {}}},
    {{1, 1, 1, 1}, {1, {0, 2, 3, 1}, {}}},
};

template <typename Element> void roundTrip(const Case &c, DType type) {
  int64_t count = elementCount(c.shape), stored = storedElementCount(c.layout, c.shape);
  std::vector<Element> logical(static_cast<size_t>(count)), found(logical);
  std::iota(logical.begin(), logical.end(), Element{1});
  std::vector<Element> arena(static_cast<size_t>(stored) + 8, Element{99});
  StoredTensor tensor({0, type, c.shape, c.layout});
  char *base = reinterpret_cast<char *>(arena.data() + 4);
  EXPECT_EQ(tensor.elementCount(), count);
  EXPECT_EQ(tensor.storedElementCount(), stored);
  EXPECT_EQ(tensor.storedBytes(), storedBytes(c.layout, c.shape, type));
  tensor.clear(base);
  tensor.store(base, 0, count, logical.data());
  LayoutIndex index(c.layout, c.shape);
  std::vector<Element> expected(arena.size(), Element{0});
  for (int64_t i = 0; i < 4; ++i)
    expected[i] = expected[expected.size() - 1 - i] = Element{99};
  for (int64_t i = 0; i < count; ++i) {
    expected[4 + index(i)] = logical[i];
    EXPECT_EQ(tensor.positionOf(i), index(i));
  }
  EXPECT_EQ(arena, expected) << formatLayout(c.layout);
  tensor.load(base, 0, count, found.data());
  EXPECT_EQ(found, logical) << formatLayout(c.layout);
}

TEST(StoredTensor, RoundTripAllSizes) {
  for (const Case &c : cases) {
    roundTrip<uint8_t>(c, DType::U8);
    roundTrip<uint16_t>(c, DType::BF16);
    roundTrip<uint32_t>(c, DType::F32);
    roundTrip<uint64_t>(c, DType::I64);
  }
}

// Tests that any partial range touches its own elements only.
TEST(StoredTensor, PartialRanges) {
  for (const Case &c : cases) {
    int64_t count = elementCount(c.shape), stored = storedElementCount(c.layout, c.shape);
    for (auto [begin, end] : {std::pair{count / 3, count - count / 4}, std::pair{count, count}}) {
      std::vector<uint32_t> arena(static_cast<size_t>(stored), 7u),
          values(static_cast<size_t>(end - begin));
      std::iota(values.begin(), values.end(), 1000u);
      StoredTensor tensor({0, DType::F32, c.shape, c.layout});
      tensor.store(reinterpret_cast<char *>(arena.data()), begin, end, values.data());
      LayoutIndex index(c.layout, c.shape);
      std::vector<uint32_t> expected(arena.size(), 7u);
      for (int64_t i = begin; i < end; ++i)
        expected[index(i)] = values[i - begin];
      EXPECT_EQ(arena, expected) << formatLayout(c.layout);
    }
  }
}

TEST(StoredTensor, AllocatesNothing) {
  if (!test::allocationsAreCounted())
    GTEST_SKIP() << "the allocator is the sanitizer's";
  Operand place{0, DType::F32, {20, 19, 3, 3}, {1, {0, 1, 2, 3}, {{1, 4}, {0, 16}, {1, 2}}}};
  std::vector<float> arena(static_cast<size_t>(storedElementCount(place.layout, place.shape)));
  std::vector<float> values(static_cast<size_t>(elementCount(place.shape)));
  int64_t before = test::allocationsSoFar().calls;
  StoredTensor tensor(place);
  char *base = reinterpret_cast<char *>(arena.data());
  tensor.clear(base);
  tensor.store(base, 0, tensor.elementCount(), values.data());
  tensor.load(base, 0, tensor.elementCount(), values.data());
  EXPECT_EQ(test::allocationsSoFar().calls - before, 0);
}

} // namespace
} // namespace stow
