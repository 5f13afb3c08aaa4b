#include "passes/solvers/pack/PackBuffers.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Greedy.h"
#include "runtime/base/Error.h"
#include "tests/Cases.h"
#include "tests/ir/plan/pack/Build.h"
#include "tests/passes/solvers/pack/BruteForce.h"

#include <ctime>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

namespace stow::pack {
namespace {

using test::add;
using testing::ElementsAre;
using testing::IsEmpty;

PackResult packWithin(const Problem &problem, Bytes capacity) {
  PackOptions options;
  options.capacity = capacity;
  return packBuffers(problem, options);
}

TEST(PackBuffersTest, PacksNothingAndThePicture) {
  EXPECT_EQ(packBuffers(Problem{}).status, PackStatus::Optimal);
  const PackResult result = packBuffers(test::picture());
  EXPECT_EQ(result.status, PackStatus::Optimal);
  EXPECT_EQ(result.solution->height, 6);
  EXPECT_EQ(result.lowerBound, 6);
  EXPECT_EQ(result.gap(), 0);
}

TEST(PackBuffersTest, RefusesBrokenProblems) {
  Problem problem = test::picture();
  problem.buffers[0].size = -1;
  EXPECT_THROW(packBuffers(problem), Error);
}

TEST(PackBuffersTest, EmptyBuffersAndFixedEmptyBuffersHaveAPlace) {
  Problem problem = test::picture();
  add(problem, 0, 9, 0, 4);
  add(problem, 0, 9, 0, 4);
  problem.buffers[5].fixedOffset = 4;
  const PackResult result = packBuffers(problem);
  EXPECT_TRUE(verify(problem, *result.solution).empty());
}

// Decisions are right on both sides of the smallest height, and the conflict is irreducible.
TEST(PackBuffersTest, DecidesAndExplains) {
  int tight = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    GenerateOptions generateOptions;
    generateOptions.buffers = 3 + static_cast<int32_t>(seed % 5);
    generateOptions.horizon = 7;
    generateOptions.maxSize = 7;
    generateOptions.storages = false;
    generateOptions.alignments = seed % 3 == 0;
    const Problem problem = generate(seed, generateOptions);
    const Bytes smallest = *test::BruteForce(problem).height();
    tight += smallest > lowerBound(problem);
    const PackResult fits = packWithin(problem, smallest);
    ASSERT_TRUE(fits.solution && fits.solution->height == smallest) << "seed " << seed;
    const PackResult fails = packWithin(problem, smallest - 1);
    ASSERT_EQ(fails.status, PackStatus::Infeasible) << "seed " << seed;
    ASSERT_FALSE(fails.solution);
    ASSERT_FALSE(fails.conflict.empty());
    ASSERT_TRUE(fails.conflictIsMinimal);
    auto restricted = [&](size_t without) {
      Problem part;
      for (size_t k = 0; k < fails.conflict.size(); ++k)
        if (k != without) {
          part.buffers.push_back(problem.buffers[fails.conflict[k]]);
          part.buffers.back().life = occupancy(part.buffers.back(), horizon(problem));
          part.buffers.back().persistent = false;
        }
      return part;
    };
    ASSERT_GE(*test::BruteForce(restricted(fails.conflict.size())).height(), smallest);
    for (size_t k = 0; k < fails.conflict.size(); ++k) {
      const Problem part = restricted(k);
      ASSERT_LT(test::BruteForce(part).height().value_or(0), smallest) << "seed " << seed;
    }
  }
  EXPECT_GT(tight, 10); // some need the search's proof, not only the load
}

TEST(PackBuffersTest, TheConflictOfAnOverloadIsTheFewestBuffers) {
  Problem problem;
  for (Bytes size : {1, 5, 2, 4, 3})
    add(problem, 0, 4, size);
  for (Bytes size : {6, 6, 1})
    add(problem, 4, 8, size);
  EXPECT_THAT(packWithin(problem, 11).conflict, ElementsAre(5, 6));
  EXPECT_THAT(packWithin(problem, 12).conflict, ElementsAre(5, 6, 7));
}

TEST(PackBuffersTest, CollidingFixedOffsetsAreAConflict) {
  Problem problem = test::picture();
  problem.buffers[0].fixedOffset = 3;
  problem.buffers[1].fixedOffset = 4;
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.status, PackStatus::Infeasible);
  EXPECT_THAT(result.conflict, ElementsAre(0, 1));
  EXPECT_TRUE(result.conflictIsMinimal);
}

TEST(PackBuffersTest, KeepsFixedOffsetsAndPacksAroundThem) {
  Problem problem;
  add(problem, 0, 9, 4);
  add(problem, 0, 9, 4);
  add(problem, 0, 9, 4);
  problem.buffers[1].fixedOffset = 4;
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.solution->height, 12);
  EXPECT_EQ(result.solution->offsets[1], 4);
  EXPECT_EQ(result.status, PackStatus::Optimal);
}

TEST(PackBuffersTest, ParametersAtTheBottomLeaveTheRestToTheSearch) {
  // Two pinned regions with fixed offsets, and a step above them that greedy orders do not close.
  Problem problem = generateHardTraining(600, 3);
  Bytes bottom = 0;
  for (Buffer &buffer : problem.buffers)
    if (buffer.persistent) {
      buffer.fixedOffset = bottom;
      bottom += buffer.size;
    }
  const PackResult result = packBuffers(problem);
  EXPECT_TRUE(verify(problem, *result.solution).empty());
  EXPECT_EQ(result.status, PackStatus::Optimal);
}

// A concatenation whose operands are written in place needs no copy: the arena holds the result and
// nothing else.
TEST(PackBuffersTest, ConcatenationByConstruction) {
  Problem problem;
  add(problem, 3, 6, 12);
  for (int i = 0; i < 3; ++i) {
    add(problem, i, 4, 4);
    problem.buffers.back().inside = Inside{0, 4 * i};
  }
  add(problem, 0, 1, 8); // lies where the later operands will be
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.solution->height, 12);
  EXPECT_EQ(result.status, PackStatus::Optimal);
  EXPECT_TRUE(verify(problem, *result.solution).empty());
}

TEST(PackBuffersTest, InPlaceChainsShareOneStorage) {
  Problem problem;
  add(problem, 0, 3, 8);
  add(problem, 2, 5, 8);
  add(problem, 4, 9, 6);
  problem.buffers[1].sameAs = 0;
  problem.buffers[2].sameAs = 1;
  add(problem, 4, 9, 2); // the chain has shrunk to 6 bytes at time 5 only
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.solution->height, 10);
  problem.buffers[3].life = {5, 9};
  EXPECT_EQ(packBuffers(problem).solution->height, 8);
}

/// The lowest of twelve runs that share nothing: no bound to stop at, and none is given up.
Bytes bestOfTwelveRuns(const Problem &problem) {
  Bytes best = std::numeric_limits<Bytes>::max();
  for (GreedyOrder order : greedyOrders)
    for (GreedyFit fit : greedyFits)
      best = std::min(best, packGreedy(problem, order, fit)->height);
  return best;
}

TEST(PackBuffersTest, FewLiveOfVeryManyBuffersTakeOneDescent) {
  const Problem problem = generateNestedTraining(210'000, 1);
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.status, PackStatus::Optimal);
  EXPECT_EQ(result.method.substr(0, 13), "search lowest");
  EXPECT_LT(result.work, 100'000'000);
  EXPECT_TRUE(verify(problem, *result.solution).empty());
  // One that is told to stop at once falls back on an allocator's packing.
  const std::atomic<bool> cancel = true;
  PackOptions options;
  options.cancel = &cancel;
  const PackResult stopped = packBuffers(problem, options);
  EXPECT_EQ(stopped.method, "outward first-to-die/best");
  EXPECT_TRUE(verify(problem, *stopped.solution).empty());
}

// Lives that nest at every scale: greedy orders leave gaps, the search closes them.
TEST(PackBuffersTest, NestedStepsReachTheBoundThatGreedyOrdersMiss) {
  const Problem problem = generateNestedTraining(2000, 1);
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.status, PackStatus::Optimal);
  EXPECT_TRUE(verify(problem, *result.solution).empty());
  EXPECT_GT(bestOfTwelveRuns(problem), result.solution->height / 100 * 103);
}

// Last in, first out turns into first in, first out: greedy orders leave gaps, and so do searches.
TEST(PackBuffersTest, RecurrentStepsAreStackedOutwardFromTheirPeak) {
  for (const uint64_t seed : {1, 4, 7}) {
    const Problem problem = generateRecurrentTraining(4500, seed);
    PackOptions options;
    options.workBudget = 0;
    const PackResult result = packBuffers(problem, options);
    EXPECT_EQ(result.status, PackStatus::Optimal) << "seed " << seed;
    EXPECT_EQ(result.method.substr(0, 7), "outward");
    EXPECT_TRUE(verify(problem, *result.solution).empty());
    EXPECT_GT(bestOfTwelveRuns(problem), result.solution->height);
  }
}

// Without work, told to stop before it begins, or without time: the twelve pairs are not cut short.
TEST(PackBuffersTest, IsNeverAboveTheBestOfTwelveGreedyPairs) {
  std::atomic<bool> cancel = true;
  PackOptions lazy, cancelled, hurried;
  lazy.workBudget = 0;
  cancelled.cancel = &cancel;
  hurried.timeoutSeconds = 0;
  int open = 0;
  std::vector<Problem> problems;
  for (uint64_t seed = 0; seed < stow::test::cases<uint64_t>(40); ++seed)
    problems.push_back(generateHardTraining(150, seed));
  for (uint64_t seed = 0; seed < stow::test::cases<uint64_t>(20); ++seed)
    problems.push_back(generateTrace(300, seed));
  problems.push_back(generateTrace(5'000, 3)); // greedy pairs first
  if (stow::test::isNight())
    problems.push_back(generateTrace(20'500, 3)); // bands first
  for (const Problem &problem : problems) {
    const Bytes best = bestOfTwelveRuns(problem);
    open += best > lowerBound(problem);
    for (const PackOptions *options : {&lazy, &cancelled, &hurried}) {
      if (problem.buffers.size() > 10'000 && options != &cancelled)
        continue; // takes long
      const PackResult result = packBuffers(problem, *options);
      EXPECT_LE(result.solution->height, best) << problem.buffers.size() << " buffers";
      EXPECT_EQ(result.greedyPairs, 12);
      EXPECT_TRUE(verify(problem, *result.solution).empty());
    }
  }
  EXPECT_GT(open, stow::test::cases(30)); // most have something to lose
}

TEST(PackBuffersTest, MoreWorkIsNeverWorse) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Problem problem = generateTrace(150, seed);
    Bytes before = packBestOfGreedy(problem)->height;
    for (int64_t work : {10'000, 100'000, 1'000'000, 10'000'000}) {
      PackOptions options;
      options.workBudget = work;
      const PackResult result = packBuffers(problem, options);
      EXPECT_LE(result.solution->height, before) << "seed " << seed << " work " << work;
      EXPECT_LE(result.work, 2 * work + 2'000'000);
      before = result.solution->height;
    }
  }
}

TEST(PackBuffersTest, StopsWhenToldTo) {
  const Problem problem = generateTrace(2000, 1);
  std::atomic<bool> cancel = true;
  PackOptions options;
  options.cancel = &cancel;
  options.workBudget = std::numeric_limits<int64_t>::max();
  const PackResult cancelled = packBuffers(problem, options);
  EXPECT_TRUE(verify(problem, *cancelled.solution).empty());

  options.cancel = nullptr;
  options.timeoutSeconds = 0.2;
  const std::clock_t start = std::clock(); // of this process: the machine may do other things
  const PackResult late = packBuffers(problem, options);
  const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(verify(problem, *late.solution).empty());
  EXPECT_LT(spent, 5);
}

TEST(PackBuffersTest, UnknownKeepsTheBestPacking) {
  // Greedy leaves a gap on this one, and no search is allowed.
  const Problem problem = generateTrace(300, 2);
  PackOptions options;
  options.capacity = lowerBound(problem);
  options.workBudget = 0;
  const PackResult result = packBuffers(problem, options);
  ASSERT_EQ(result.status, PackStatus::Unknown);
  EXPECT_GT(result.solution->height, *options.capacity);
  EXPECT_TRUE(verify(problem, *result.solution).empty());
  EXPECT_GT(result.gap(), 0);
}

TEST(PackBuffersTest, TrainingStepsOfCompilerSizeReachTheBound) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Problem problem = generateHardTraining(1500, seed);
    const PackResult result = packBuffers(problem);
    EXPECT_EQ(result.status, PackStatus::Optimal) << "seed " << seed << " gap " << result.gap();
  }
}

} // namespace
} // namespace stow::pack
