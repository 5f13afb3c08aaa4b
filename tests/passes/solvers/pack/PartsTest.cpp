// The building blocks of the solvers: model, occupancy tree, greedy placing, reduction.
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/HotSpots.h"
#include "passes/solvers/pack/LargeScale.h"
#include "passes/solvers/pack/Merge.h"
#include "passes/solvers/pack/OccupancyTree.h"
#include "passes/solvers/pack/Outward.h"
#include "passes/solvers/pack/Reduce.h"
#include "tests/Cases.h"
#include "tests/ir/plan/pack/Build.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow::pack {
namespace {

using test::add;
using testing::ElementsAre;
using testing::IsEmpty;

// The picture of Model.h.
TEST(ModelTest, SectionsAreMaximalLiveSets) {
  Problem problem;
  add(problem, 0, 3, 1);
  add(problem, 1, 5, 1);
  add(problem, 4, 7, 1);
  add(problem, 6, 8, 1);
  const Model model = makeModel(problem);
  EXPECT_EQ(model.sections, 3);
  auto span = [&](int32_t i) { return std::pair(model.items[i].begin, model.items[i].end); };
  EXPECT_EQ(span(0), std::pair(0, 1));
  EXPECT_EQ(span(1), std::pair(0, 2));
  EXPECT_EQ(span(2), std::pair(1, 3));
  EXPECT_EQ(span(3), std::pair(2, 3));
  EXPECT_THAT(overlapDegrees(model), ElementsAre(1, 2, 2, 1));
  EXPECT_EQ(overlappingPairs(model, {0, 1, 2, 3}), 3);
  EXPECT_EQ(overlappingPairs(model, {0, 2, 3}), 1);
}

TEST(ModelTest, CountsAreThoseOfAllPairs) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    GenerateOptions options;
    options.buffers = 20;
    options.storages = false;
    const Problem problem = generate(seed, options);
    const Model model = makeModel(problem);
    const std::vector<int64_t> degrees = overlapDegrees(model);
    std::vector<int32_t> all;
    int64_t pairs = 0;
    for (int32_t i = 0; i < 20; ++i) {
      all.push_back(i);
      int64_t degree = 0;
      for (int32_t j = 0; j < 20; ++j) {
        const bool meet = i != j && occupancy(problem.buffers[i], horizon(problem))
                                        .overlaps(occupancy(problem.buffers[j], horizon(problem)));
        const bool share = i != j && model.items[i].begin < model.items[j].end &&
                           model.items[j].begin < model.items[i].end;
        EXPECT_EQ(meet, share);
        degree += meet;
        pairs += meet && i < j;
      }
      EXPECT_EQ(degrees[i], degree);
    }
    EXPECT_EQ(overlappingPairs(model, all), pairs);
    EXPECT_EQ(modelLoad(model), maxLoad(problem));
  }
}

TEST(OccupancyTreeTest, FindsWhatAPlainListFinds) {
  uint64_t state = 7;
  auto random = [&](int64_t bound) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state >> 33) % bound);
  };
  for (int32_t sections : {1, 2, 3, 7, 16, 33}) {
    OccupancyTree tree(sections, sections);
    struct Box {
      int32_t begin, end;
      Bytes low, high;
    };
    std::vector<Box> boxes;
    for (int step = 0; step < 200; ++step) {
      const auto begin = static_cast<int32_t>(random(sections));
      const auto end = static_cast<int32_t>(begin + 1 + random(sections - begin));
      std::vector<const RangeList *> lists;
      tree.collect(begin, end, lists);
      for (Bytes byte = 0; byte < 60; ++byte) {
        const bool listed = std::any_of(lists.begin(), lists.end(), [&](const RangeList *list) {
          return std::any_of(list->begin(), list->end(), [&](const ByteRange &range) {
            return range.low <= byte && byte < range.high;
          });
        });
        const bool taken = std::any_of(boxes.begin(), boxes.end(), [&](const Box &box) {
          return box.begin < end && begin < box.end && box.low <= byte && byte < box.high;
        });
        ASSERT_EQ(listed, taken) << sections << " sections, step " << step << ", byte " << byte;
      }
      const Bytes low = random(50);
      boxes.push_back({begin, end, low, low + 1 + random(4)});
      tree.insert(begin, end, low, boxes.back().high);
    }
  }
}

// A 4-byte gap and a 3-byte gap, from below: first fit takes the former, best fit the latter.
TEST(GreedyTest, FitsDiffer) {
  Problem problem;
  add(problem, 0, 9, 4);
  add(problem, 0, 9, 1);
  add(problem, 0, 9, 3);
  add(problem, 0, 9, 1);
  problem.buffers[1].fixedOffset = 4;
  problem.buffers[3].fixedOffset = 8;
  const Model model = makeModel(problem);
  EXPECT_EQ(placeInOrder(model, {2, 0}, GreedyFit::First)[2], 0);
  EXPECT_EQ(placeInOrder(model, {2, 0}, GreedyFit::Best)[2], 5);
}

TEST(GreedyTest, PlacingIsGivenUpAtTheLimit) {
  Problem problem;
  for (Bytes size : {3, 4, 5})
    add(problem, 0, 9, size);
  const Model model = makeModel(problem);
  EXPECT_EQ(placeInOrder(model, {0, 1, 2}, GreedyFit::First, {.below = 13}).size(), 3u);
  EXPECT_THAT(placeInOrder(model, {0, 1, 2}, GreedyFit::First, {.below = 12}), IsEmpty());
  problem.buffers[2].fixedOffset = 7;
  EXPECT_THAT(placeInOrder(makeModel(problem), {0, 1}, GreedyFit::First, {.below = 12}), IsEmpty());
}

// Three are live at the crowded instant 4: the largest of them first, of equals the longest-lived.
TEST(GreedyTest, CrowdedFirstStartsWhereTheLoadIs) {
  Problem problem;
  add(problem, 0, 3, 9);
  add(problem, 3, 5, 4);
  add(problem, 4, 9, 4);
  add(problem, 4, 6, 5);
  add(problem, 6, 8, 7);
  EXPECT_THAT(crowdedFirst(makeModel(problem)), ElementsAre(3, 2, 1, 4, 0));
}

// A bound to stop at and pairs given up early change what is run, not what can be promised.
TEST(GreedyTest, TheContestIsNotAboveAnyPair) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    GenerateOptions options;
    options.buffers = 20;
    const Problem problem = generate(seed, options);
    const Model model = makeModel(problem);
    const GreedyResult result = bestOfGreedy(model, 0);
    EXPECT_EQ(result.done, 0xFFFu);
    EXPECT_TRUE(verify(problem, model.solution(result.bases)).empty());
    for (GreedyOrder order : greedyOrders)
      for (GreedyFit fit : greedyFits)
        EXPECT_LE(result.height, packGreedy(problem, order, fit)->height) << "seed " << seed;
  }
}

TEST(GreedyTest, OrdersAreTotalAndNamed) {
  const Problem problem = generateTrace(50, 1);
  const Model model = makeModel(problem);
  std::vector<std::string> names;
  for (GreedyOrder order : greedyOrders) {
    std::vector<int32_t> sequence = greedyOrder(model, order);
    EXPECT_EQ(sequence.size(), 50u);
    std::sort(sequence.begin(), sequence.end());
    EXPECT_EQ(std::unique(sequence.begin(), sequence.end()), sequence.end());
    names.push_back(name(order));
  }
  EXPECT_THAT(names, ElementsAre("size-start", "size-length", "length", "area", "degree", "birth"));
}

TEST(GreedyTest, FirstFitNeverLeavesAGapThatWouldHaveHeldTheLastBuffer) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    GenerateOptions options;
    options.buffers = 12;
    const Problem problem = generate(seed, options);
    const Model model = makeModel(problem);
    const std::vector<int32_t> sequence = greedyOrder(model, GreedyOrder::Area);
    std::vector<Bytes> bases = placeInOrder(model, sequence, GreedyFit::First);
    const int32_t last = sequence.back();
    const Bytes step = model.items[last].alignment;
    for (Bytes lower = bases[last] - step; lower >= 0; lower -= step) {
      std::vector<Bytes> moved = bases;
      moved[last] = lower;
      EXPECT_FALSE(verify(problem, model.solution(moved)).empty()) << "seed " << seed;
    }
  }
}

/// Like the picture of Outward.h: a to c are live at the peak, e and f come after it, d before.
Problem aroundThePeak() {
  Problem problem;
  add(problem, 3, 6, 3); // a
  add(problem, 0, 6, 2); // b
  add(problem, 2, 9, 1); // c
  add(problem, 1, 3, 2); // d
  add(problem, 6, 9, 4); // e
  add(problem, 7, 9, 1); // f
  return problem;
}

TEST(OutwardTest, OrdersTheStackAndThenByDistance) {
  const Model model = makeModel(aroundThePeak());
  const std::vector<int32_t> distances = distancesFromPeak(model);
  EXPECT_THAT(distances, ElementsAre(-1, -1, -1, 1, 1, 1));
  EXPECT_THAT(outwardOrder(model, PeakStack::FirstToDie, distances), ElementsAre(0, 1, 2, 4, 3, 5));
  EXPECT_THAT(outwardOrder(model, PeakStack::LastBorn, distances), ElementsAre(0, 2, 1, 4, 3, 5));
}

// Every single pass ends above the load: the last one comes too late. Moved towards the peak it
// fits.
TEST(OutwardTest, WhatWasPlacedTooLateGoesFirst) {
  Problem problem;
  add(problem, 2, 3, 5);
  add(problem, 4, 6, 4);
  add(problem, 0, 4, 5);
  add(problem, 6, 7, 5);
  add(problem, 5, 7, 2);
  const Model model = makeModel(problem);
  const std::vector<int32_t> distances = distancesFromPeak(model);
  for (const PeakStack stack : {PeakStack::FirstToDie, PeakStack::LastBorn})
    for (const GreedyFit fit : greedyFits)
      EXPECT_GT(
          heightOfBases(model, placeInOrder(model, outwardOrder(model, stack, distances), fit)),
          10);
  const GreedyResult result = packOutward(model, 10, 1'000'000, [] { return false; });
  EXPECT_EQ(result.height, 10);
  EXPECT_TRUE(verify(problem, model.solution(result.bases)).empty());
}

// On unaligned sizes an allocator leaves the gaps that a list of all taken bytes leaves.
TEST(OutwardTest, AllocatorsPackLikeOnePass) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Problem problem = generateTrace(500, seed);
    const Model model = makeModel(problem);
    for (const PeakStack stack : {PeakStack::FirstToDie, PeakStack::LastBorn}) {
      const GreedyResult result = allocateOutward(model, stack);
      EXPECT_TRUE(verify(problem, model.solution(result.bases)).empty());
      const std::vector<Bytes> listed = placeInOrder(
          model, outwardOrder(model, stack, distancesFromPeak(model)), GreedyFit::Best);
      EXPECT_NEAR(static_cast<double>(result.height),
                  static_cast<double>(heightOfBases(model, listed)),
                  0.1 * static_cast<double>(result.height));
    }
  }
  const Problem recurrent = generateRecurrentTraining(3000, 1);
  const Model model = makeModel(recurrent);
  const GreedyResult result = allocateOutward(model, PeakStack::FirstToDie);
  EXPECT_EQ(result.height, lowerBound(recurrent));
  EXPECT_TRUE(verify(recurrent, model.solution(result.bases)).empty());
}

TEST(OutwardTest, GivesNothingWithoutACompletePass) {
  Problem problem = generateTrace(20'000, 1);
  const Model model = makeModel(problem);
  EXPECT_TRUE(packOutward(model, 0, -1, [] { return false; }).bases.empty());
  EXPECT_TRUE(packOutward(model, 0, 1'000'000'000, [] { return true; }).bases.empty());
  Problem fixed;
  add(fixed, 0, 5, 4);
  add(fixed, 0, 5, 4);
  fixed.buffers[0].fixedOffset = fixed.buffers[1].fixedOffset = 2;
  EXPECT_TRUE(packOutward(makeModel(fixed), 8, 1'000'000, [] { return false; }).bases.empty());
}

// An allocator's packing of a trace reaches far above the load at a few instants.
TEST(HotSpotsTest, LowerThePackingStepByStep) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Problem problem = generateTrace(8'000, seed);
    const Model model = makeModel(problem);
    const std::vector<Bytes> before = allocateOutward(model, PeakStack::FirstToDie).bases;
    const Bytes height = heightOfBases(model, before), load = maxLoad(problem);
    int64_t work = 0;
    const std::vector<Bytes> after =
        lowerHotSpots(model, before, load, 50'000'000, work, [] { return false; });
    const Bytes lower = heightOfBases(model, after);
    EXPECT_LT(lower - load, (height - load) * 3 / 4) << "seed " << seed;
    EXPECT_TRUE(verify(problem, model.solution(after)).empty());
    EXPECT_GT(work, 0);
    work = 0; // told to stop, or without work: what was there
    EXPECT_EQ(lowerHotSpots(model, before, load, 1'000'000, work, [] { return true; }), before);
    EXPECT_EQ(lowerHotSpots(model, before, load, -1, work, [] { return false; }), before);
  }
}

TEST(LargeScaleTest, BandsAreCorrectAndBeatTheAllocator) {
  Problem problem = generateTrace(stow::test::isNight() ? 8'000 : 4'000, 4);
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    problem.buffers[i].alignment = i % 3 == 0 ? 64 : 1;
  const Model model = makeModel(problem);
  int64_t work = 0;
  const GreedyResult result = packLargeScale(model, maxLoad(problem), work, [] { return false; });
  EXPECT_EQ(result.method, "bands");
  EXPECT_LT(result.height, allocateOutward(model, PeakStack::FirstToDie).height);
  EXPECT_TRUE(verify(problem, model.solution(result.bases)).empty());
  // Close enough: nothing else is tried.
  EXPECT_EQ(packLargeScale(model, result.height * 2, work, [] { return false; }).method,
            "outward first-to-die/best");
}

// The picture of Reduce.h.
/// The picture of Merge.h.
Problem blocks() {
  Problem problem;
  add(problem, 0, 2, 2);
  add(problem, 2, 4, 2);
  add(problem, 0, 4, 3);
  add(problem, 4, 6, 5);
  return problem;
}

std::optional<Merged> mergeOf(const Problem &problem) {
  return mergeFull(makeModel(problem), {0, 1, 2, 3});
}

TEST(MergeTest, JoinsWhatFollowsInFullSections) {
  const std::optional<Merged> merged = mergeOf(blocks());
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->of, (std::vector<std::vector<int32_t>>{{0, 1}, {2}, {3}}));
  EXPECT_EQ(merged->load, 5);
  ASSERT_EQ(merged->model.items.size(), 3u);
  const Item &joined = merged->model.items[0];
  EXPECT_EQ(joined.begin, 0);
  EXPECT_EQ(joined.end, 2); // two sections: [0, 2) and [2, 4)
  EXPECT_EQ(joined.lifetime, 4);
}

TEST(MergeTest, LeavesWhatMayLieElsewhere) {
  Problem problem = blocks();
  problem.buffers[3].size = 6; // sections 0 and 1 are not full any more
  EXPECT_FALSE(mergeOf(problem));
  problem = blocks();
  problem.buffers[1].alignment = 2;
  EXPECT_FALSE(mergeOf(problem));
  problem = blocks();
  problem.buffers[2].fixedOffset = 0;
  EXPECT_FALSE(mergeOf(problem));
}

TEST(ReduceTest, SinksAndSplits) {
  Problem problem;
  add(problem, 0, 8, 4); // a
  add(problem, 0, 3, 2); // b
  add(problem, 0, 2, 1); // c
  add(problem, 3, 8, 2); // d
  add(problem, 3, 5, 1); // e, beside which g starts
  add(problem, 1, 3, 1); // f, on c's level
  add(problem, 4, 8, 1); // g
  const Model model = makeModel(problem);
  const Reduction reduction = reduce(model);
  ASSERT_EQ(reduction.leaves.size(), 0u); // everything lives throughout some part
  EXPECT_EQ(reduction.bases[0], 0);
  EXPECT_EQ(reduction.bases[1], 4);
  EXPECT_EQ(reduction.bases[3], 4);
  EXPECT_TRUE(verify(problem, model.solution(reduction.bases)).empty());
}

TEST(ReduceTest, LeavesWithFixedOffsetsKeepTheirGround) {
  Problem problem = test::picture();
  add(problem, 9, 12, 3);
  problem.buffers[4].fixedOffset = 5;
  const Model model = makeModel(problem);
  const std::vector<Leaf> leaves = reduce(model).leaves;
  ASSERT_EQ(leaves.size(), 2u);
  EXPECT_THAT(leaves[0].items, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(leaves[1].items, ElementsAre(4));
}

/// Four buffers in three sections, none of which lives throughout.
void addChain(Problem &problem) {
  add(problem, 0, 5, 8, 8);
  add(problem, 0, 2, 8, 8);
  add(problem, 3, 9, 8, 8);
  add(problem, 6, 9, 8, 8);
}

TEST(ReduceTest, OneAlignmentSinksWithPaddingAndSaysSo) {
  Problem problem;
  add(problem, 0, 9, 5, 8);
  addChain(problem);
  EXPECT_EQ(reduce(makeModel(problem)).leaves.size(), 1u);
  EXPECT_EQ(reduce(makeModel(problem)).leaves[0].ground, 8);
  EXPECT_EQ(reduce(makeModel(problem)).grain, 8);
  problem.buffers[0].size = 16;
  EXPECT_EQ(reduce(makeModel(problem)).leaves[0].ground, 16);
  EXPECT_EQ(reduce(makeModel(problem)).grain, 1);
}

TEST(ReduceTest, MixedAlignmentsSinkOnlyWhatNeedsNoPadding) {
  Problem problem;
  add(problem, 0, 9, 12, 1);
  add(problem, 0, 9, 24, 2);
  addChain(problem);
  const Reduction reduction = reduce(makeModel(problem));
  ASSERT_EQ(reduction.leaves.size(), 1u);
  EXPECT_THAT(reduction.leaves[0].items, ElementsAre(0, 2, 3, 4, 5));
  EXPECT_EQ(reduction.leaves[0].ground, 24);
  EXPECT_EQ(reduction.grain, 1);
}

} // namespace
} // namespace stow::pack
