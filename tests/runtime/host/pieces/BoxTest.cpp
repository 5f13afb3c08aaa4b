// Boxes of stored tensors: which elements they hold, packed and in place.
#include "runtime/host/pieces/Box.h"
#include "runtime/host/Float16.h"
#include "tests/runtime/host/CallHarness.h"

#include <gtest/gtest.h>

#include <set>

namespace stow::host::test {
namespace {

struct Case {
  Shape shape;
  Layout layout;
  Shape from, sizes;
};

/// Row-major number in `shape` of element `i` of the box.
int64_t numberOf(const Case &c, int64_t i) {
  int64_t number = 0, stride = 1;
  for (size_t d = c.shape.size(); d-- > 0; i /= c.sizes[d]) {
    number += (c.from[d] + i % c.sizes[d]) * stride;
    stride *= c.shape[d];
  }
  return number;
}

const Case cases[] = {
    {{5, 3, 4, 6}, {}, {2, 0, 0, 0}, {2, 3, 4, 6}},
    {{5, 3, 4, 6}, channelsLast(), {1, 0, 0, 0}, {3, 3, 4, 6}},
    {{5, 3, 4, 6}, channelsLast(), {0, 1, 0, 0}, {5, 2, 4, 6}},
    {{4, 19, 3, 2}, blocked16(), {3, 0, 0, 0}, {1, 19, 3, 2}},
    {{40, 50}, {}, {3, 7}, {11, 20}},
    {{40, 50}, {1, {1, 0}, {}}, {3, 7}, {11, 20}},
    {{40, 50}, {1, {0, 1}, {}, Layout::Pitch{1, 64}}, {3, 0}, {11, 50}},
    {{4, 6, 5}, {1, {1, 0, 2}, {}}, {1, 2, 0}, {2, 3, 5}},
    {{3, 70000}, {}, {1, 3}, {2, 69990}},
    {{7}, {}, {2}, {5}},
};

// Tests that a box reads and writes its elements and no others, one thread or several.
TEST(Box, WidensAndNarrows) {
  for (const Case &c : cases)
    for (int64_t threads : {1, 3}) {
      Operand place{0, DType::BF16, c.shape, c.layout}, piece{0, DType::F32, c.sizes, {}};
      piece.layout = packedLayout(place);
      const Tensor values = sample(c.shape, 1);
      std::vector<char> stored(storedBytes(c.layout, c.shape, DType::BF16));
      storeTensor(values, place, stored.data());
      const Box box = boxOf(place, c.from, c.sizes);
      ASSERT_EQ(box.elements(), storedElementCount(piece.layout, c.sizes));
      std::vector<float> packed(box.elements());
      widenBox(DType::BF16, stored.data(), box, packed.data(), threads);
      const Tensor found = loadTensor(piece, reinterpret_cast<const char *>(packed.data()));
      std::set<int64_t> inside;
      for (int64_t i = 0; i < elementCount(c.sizes); ++i) {
        inside.insert(numberOf(c, i));
        ASSERT_EQ(found.data[i], values.data[numberOf(c, i)]) << i;
      }

      for (float &value : packed)
        value = -value;
      std::vector<char> before = stored;
      narrowBox(DType::BF16, packed.data(), box, stored.data(), threads);
      const Tensor after = loadTensor(place, stored.data());
      for (int64_t i = 0; i < elementCount(c.shape); ++i)
        ASSERT_EQ(after.data[i], inside.contains(i) ? -values.data[i] : values.data[i]) << i;
      int64_t changed = 0; // one byte of each element; gaps keep theirs
      for (size_t i = 0; i < stored.size(); ++i)
        changed += stored[i] != before[i];
      EXPECT_LE(changed, box.elements());
    }
}

// Tests that the layout in place has the strides of the whole tensor.
TEST(Box, InPlace) {
  for (const Case &c : cases) {
    Operand place{0, DType::F32, c.shape, c.layout};
    std::optional<Layout> layout = layoutInPlace(place, c.sizes);
    ASSERT_TRUE(layout.has_value());
    LayoutIndex whole(c.layout, c.shape), part(*layout, c.sizes);
    const int64_t offset = boxOf(place, c.from, c.sizes).offset;
    for (int64_t i = 0; i < elementCount(c.sizes); ++i)
      ASSERT_EQ(offset + part(i), whole(numberOf(c, i)));
  }
  const Operand gaps{0, DType::F32, {4, 5, 6}, {}};
  EXPECT_FALSE(layoutInPlace(gaps, {2, 3, 4}).has_value());
}

TEST(Box, Adds) {
  std::vector<float> sum(50001, 1), more(50001, 2);
  addTo(sum.data(), more.data(), 50001, 3);
  EXPECT_EQ(sum, std::vector<float>(50001, 3));
}

} // namespace
} // namespace stow::host::test
