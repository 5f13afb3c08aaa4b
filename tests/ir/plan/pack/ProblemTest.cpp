#include "ir/plan/pack/Problem.h"
#include "ir/plan/pack/Storage.h"
#include "runtime/base/Error.h"
#include "tests/ir/plan/pack/Build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::pack {
namespace {

using test::add;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CheckTest, AcceptsThePicture) { EXPECT_THAT(check(test::picture()), IsEmpty()); }

TEST(CheckTest, AcceptsNothingAtAll) { EXPECT_THAT(check(Problem{}), IsEmpty()); }

/// One broken rule each: what is changed, and what the finding must say.
struct Broken {
  const char *label;
  void (*change)(Problem &);
  const char *finding;
};

void PrintTo(const Broken &broken, std::ostream *out) { *out << broken.label; }

class CheckRuleTest : public testing::TestWithParam<Broken> {};

TEST_P(CheckRuleTest, IsReported) {
  Problem problem = test::picture();
  GetParam().change(problem);
  EXPECT_THAT(check(problem), ElementsAre(HasSubstr(GetParam().finding)));
  EXPECT_THROW(requireValid(problem), Error);
}

INSTANTIATE_TEST_SUITE_P(
    All, CheckRuleTest,
    testing::Values(
        Broken{"name", [](Problem &p) { p.buffers[1].name = "b0"; }, "'b0' is named twice"},
        Broken{"life", [](Problem &p) { p.buffers[1].life = {3, 3}; }, "empty lifetime [3, 3)"},
        Broken{"size", [](Problem &p) { p.buffers[1].size = -1; }, "negative size -1"},
        Broken{"alignment", [](Problem &p) { p.buffers[1].alignment = 0; }, "alignment 0"},
        Broken{"overflow", [](Problem &p) { p.buffers[1].size = Bytes(1) << 61; }, "2^60"},
        Broken{"fixed",
               [](Problem &p) {
                 p.buffers[1].alignment = 4;
                 p.buffers[1].fixedOffset = 6;
               },
               "fixed offset 6; expected a multiple of its alignment 4"},
        Broken{"both",
               [](Problem &p) {
                 p.buffers[1].sameAs = 0;
                 p.buffers[1].inside = Inside{0, 0};
               },
               "both the same as and inside"},
        Broken{"range", [](Problem &p) { p.buffers[1].sameAs = 9; }, "buffer number 9"},
        Broken{"self", [](Problem &p) { p.buffers[1].sameAs = 1; }, "buffer number 1"},
        Broken{"does not fit", [](Problem &p) { p.buffers[1].inside = Inside{0, 1}; },
               "of 2 bytes does not fit at offset 1 of 'b0', which has 2 bytes"},
        Broken{"cycle",
               [](Problem &p) {
                 p.buffers[0].sameAs = 1;
                 p.buffers[1].sameAs = 3;
                 p.buffers[3].sameAs = 0;
               },
               "cycle"},
        Broken{"slice alignment",
               [](Problem &p) {
                 p.buffers[3].alignment = 4;
                 p.buffers[3].inside = Inside{2, 2};
               },
               "lies 2 bytes into its storage, which breaks its alignment 4"},
        Broken{"fixed below storage",
               [](Problem &p) {
                 p.buffers[3].inside = Inside{2, 2};
                 p.buffers[3].fixedOffset = 1;
               },
               "fixed at 1, below its place"},
        Broken{"fixed disagree",
               [](Problem &p) {
                 p.buffers[0].fixedOffset = 4;
                 p.buffers[3].fixedOffset = 8;
                 p.buffers[3].sameAs = 0;
               },
               "fixed offsets that disagree"},
        Broken{"fixed breaks a member",
               [](Problem &p) {
                 p.buffers[0].fixedOffset = 4;
                 p.buffers[3].alignment = 8;
                 p.buffers[3].sameAs = 0;
               },
               "alignment 8, which the fixed offset of 'b0'"},
        Broken{"slices collide",
               [](Problem &p) {
                 add(p, 0, 9, 8);
                 p.buffers[0].inside = Inside{4, 0};
                 p.buffers[1].inside = Inside{4, 1};
               },
               "'b0' are live together on the same bytes of 'b4'"}),
    [](const auto &info) {
      std::string label = info.param.label;
      std::replace(label.begin(), label.end(), ' ', '_');
      return label;
    });

TEST(CheckTest, SlicesMayShareBytesOneAfterTheOther) {
  Problem problem = test::picture(); // b0 lives in [0, 5), b3 in [5, 8)
  add(problem, 0, 9, 8);
  problem.buffers[0].inside = Inside{4, 1};
  problem.buffers[3].inside = Inside{4, 2};
  EXPECT_THAT(check(problem), IsEmpty());
}

TEST(CheckTest, AViewOfASliceSharesItsBytes) {
  Problem problem;
  add(problem, 0, 9, 8);
  add(problem, 0, 4, 4);
  add(problem, 2, 6, 4);
  problem.buffers[1].inside = Inside{0, 4};
  problem.buffers[2].sameAs = 1;
  EXPECT_THAT(check(problem), IsEmpty());
}

TEST(CheckTest, ReportsAtMostTwentyFindings) {
  Problem problem;
  for (int i = 0; i < 100; ++i)
    add(problem, 1, 1, 1);
  EXPECT_EQ(check(problem).size(), 20u);
}

TEST(HorizonTest, PersistentBuffersLiveThroughout) {
  Problem problem = test::picture();
  problem.buffers[1].persistent = true;
  EXPECT_EQ(horizon(problem), (Interval{0, 8}));
  EXPECT_EQ(occupancy(problem.buffers[1], horizon(problem)), (Interval{0, 8}));
  EXPECT_EQ(occupancy(problem.buffers[0], horizon(problem)), (Interval{0, 5}));
}

TEST(StorageTest, ChainsAddUp) {
  Problem problem;
  add(problem, 0, 9, 16);
  add(problem, 0, 9, 8);
  add(problem, 0, 9, 4);
  add(problem, 0, 9, 4);
  problem.buffers[1].inside = Inside{0, 8};
  problem.buffers[2].inside = Inside{1, 4};
  problem.buffers[3].sameAs = 2;
  const Storages storages = resolveStorages(problem);
  EXPECT_THAT(storages.root, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(storages.relative, ElementsAre(0, 8, 12, 12));
}

// The picture of Storage.h: the operand's slice first, then the whole result.
TEST(StorageTest, AConcatenationHasTwoPieces) {
  Problem problem;
  add(problem, 4, 9, 10);
  add(problem, 1, 6, 3);
  problem.buffers[1].inside = Inside{0, 0};
  const StorageTable table = storageTable(problem);
  ASSERT_EQ(table.storages.size(), 1u);
  EXPECT_THAT(table.pieces, ElementsAre(Piece{{1, 4}, 0, 3}, Piece{{4, 9}, 0, 10}));
}

TEST(StorageTest, TouchingSlicesBecomeOnePieceAndDistantOnesTwo) {
  Problem problem;
  add(problem, 5, 6, 10);
  add(problem, 1, 5, 3);
  add(problem, 1, 5, 3);
  add(problem, 1, 5, 2);
  problem.buffers[1].inside = Inside{0, 0};
  problem.buffers[2].inside = Inside{0, 3};
  problem.buffers[3].inside = Inside{0, 8};
  EXPECT_THAT(storageTable(problem).pieces,
              ElementsAre(Piece{{1, 5}, 0, 6}, Piece{{1, 5}, 8, 10}, Piece{{5, 6}, 0, 10}));
}

TEST(StorageTest, AlignmentIsTheLeastCommonMultipleAndEmptyBuffersHaveNoPieces) {
  Problem problem;
  add(problem, 0, 2, 5, 4);
  add(problem, 2, 4, 5, 6);
  add(problem, 0, 9, 0);
  problem.buffers[1].sameAs = 0;
  const StorageTable table = storageTable(problem);
  EXPECT_EQ(table.storages[0].alignment, 12);
  EXPECT_EQ(table.storages[1].firstPiece, table.storages[1].lastPiece);
}

} // namespace
} // namespace stow::pack
