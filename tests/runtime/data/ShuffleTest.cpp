#include "runtime/data/Shuffle.h"

#include "runtime/base/Philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace stow {
namespace {

using testing::ElementsAre;

// Tests the known answers published with the method (Random123, kat_vectors).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_THAT(philox({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

std::vector<int64_t> order(int64_t size, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> result(size, -1);
  shuffleEpoch(result, seed, epoch);
  return result;
}

TEST(ShuffleTest, IsAPermutation) {
  for (int64_t size : {0, 1, 2, 3, 100, 1437}) {
    std::vector<int64_t> shuffled = order(size, 5, 2);
    std::ranges::sort(shuffled);
    std::vector<int64_t> all(size);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(shuffled, all);
  }
}

// Tests that the order depends on seed and epoch and on nothing else.
TEST(ShuffleTest, DependsOnSeedAndEpoch) {
  EXPECT_EQ(order(100, 1, 0), order(100, 1, 0));
  EXPECT_NE(order(100, 1, 0), order(100, 1, 1));
  EXPECT_NE(order(100, 1, 0), order(100, 2, 0));
  EXPECT_NE(order(100, 1, 0), order(100, uint64_t{1} << 32 | 1, 0));
}

// Tests that all 24 orders of four samples are about equally frequent.
TEST(ShuffleTest, IsUniform) {
  std::map<std::vector<int64_t>, int> counts;
  for (uint64_t epoch = 0; epoch < 24000; ++epoch)
    ++counts[order(4, 9, epoch)];
  EXPECT_EQ(counts.size(), 24u);
  double chiSquare = 0;
  for (const auto &[permutation, count] : counts)
    chiSquare += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chiSquare, 49.7); // 23 degrees of freedom, 0.1 %
}

TEST(ShuffleTest, BelowStaysBelow) {
  PhiloxStream random(3, 4);
  for (uint64_t bound : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 63, ~uint64_t{0}})
    for (int i = 0; i < 100; ++i)
      EXPECT_LT(random.below(bound), bound);
}

} // namespace
} // namespace stow
