// Derived problems keep a packing of the same height, and each derivation does what it says.
#include "ir/plan/pack/Derive.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"

#include <gtest/gtest.h>
#include <set>

namespace stow::pack {
namespace {

class DeriveTest : public testing::TestWithParam<Derivation> {};

TEST_P(DeriveTest, KeepsThePackingAndIsRepeatable) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Certified original = generateCertifiedPuzzle(40, seed, 64, 1);
    const Certified derived = derive(original, GetParam(), seed);
    ASSERT_EQ(check(derived.problem), std::vector<std::string>{}) << seed;
    const std::vector<Violation> violations = verify(derived.problem, derived.packing);
    ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations.front().message;
    ASSERT_EQ(derive(original, GetParam(), seed).problem, derived.problem);
    const Bytes most = GetParam() == Derivation::StackBytes ? 128 : 64;
    ASSERT_LE(derived.packing.height, most);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, DeriveTest, testing::ValuesIn(allDerivations), [](const auto &info) {
  std::string label = name(info.param);
  std::erase(label, '-');
  return label;
});

Certified puzzle() { return generateCertifiedPuzzle(60, 3, 64, 1); }
size_t countOf(const Certified &certified) { return certified.problem.buffers.size(); }

/// Bytes x time in use.
int64_t areaOf(const Certified &certified) {
  int64_t area = 0;
  for (const Buffer &buffer : certified.problem.buffers)
    area += buffer.size * buffer.life.length();
  return area;
}

TEST(DerivationTest, CutsMakeMoreAndMergesFewerBuffersOfTheSameArea) {
  const Certified original = puzzle();
  const Certified cut = derive(original, Derivation::CutTime, 1);
  EXPECT_GT(countOf(cut), countOf(original));
  EXPECT_EQ(areaOf(cut), areaOf(original));
  const Certified merged = derive(derive(original, Derivation::CutBytes, 1), Derivation::Merge, 1);
  EXPECT_LT(countOf(merged), countOf(derive(original, Derivation::CutBytes, 1)));
  EXPECT_EQ(areaOf(merged), areaOf(original));
}

TEST(DerivationTest, SaturationLeavesNoFreeByte) {
  const Certified holes = derive(puzzle(), Derivation::Drop, 1);
  EXPECT_LT(areaOf(holes), 64 * 64);
  EXPECT_EQ(areaOf(derive(holes, Derivation::Saturate, 1)), 64 * 64);
  EXPECT_GE(areaOf(derive(holes, Derivation::Lengthen, 1)), areaOf(holes));
  EXPECT_GE(areaOf(derive(holes, Derivation::Grow, 1)), areaOf(holes));
  EXPECT_LT(areaOf(derive(puzzle(), Derivation::Shrink, 1)), 64 * 64);
}

TEST(DerivationTest, StacksAreJoinedAtTheSeam) {
  const Certified twice = derive(puzzle(), Derivation::StackTime, 1);
  EXPECT_EQ(areaOf(twice), 2 * 64 * 64);
  EXPECT_EQ(maxLoad(twice.problem), 64);
  bool crosses = false;
  for (const Buffer &buffer : twice.problem.buffers)
    crosses |= buffer.life.begin < 64 && buffer.life.end > 64;
  EXPECT_TRUE(crosses);
  const Certified high = derive(puzzle(), Derivation::StackBytes, 1);
  EXPECT_EQ(high.packing.height, 128);
  EXPECT_EQ(maxLoad(high.problem), 128);
}

TEST(DerivationTest, ReversalKeepsLengthsAndNothingOfTheOrderShows) {
  const Certified original = puzzle(), reversed = derive(original, Derivation::Reverse, 5);
  std::multiset<std::pair<Time, Bytes>> before, after;
  for (const Buffer &buffer : original.problem.buffers)
    before.insert({64 - buffer.life.end, buffer.size});
  for (const Buffer &buffer : reversed.problem.buffers)
    after.insert({buffer.life.begin, buffer.size});
  EXPECT_EQ(before, after);
  const Certified scrambled = derive(original, Derivation::Scramble, 5);
  EXPECT_NE(scrambled.problem, original.problem);
  EXPECT_LE(countOf(scrambled), countOf(original) * 5 / 4);
}

} // namespace
} // namespace stow::pack
