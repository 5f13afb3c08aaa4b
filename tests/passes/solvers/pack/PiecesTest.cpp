// Storages of several pieces: small problems are solved exactly, and conflicts name buffers.
#include "ir/plan/Random.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "tests/Cases.h"
#include "tests/ir/plan/pack/Build.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

namespace stow::pack {
namespace {

using test::add;
using testing::ElementsAre;

/// The oracle: tries every base of every storage, and looks at buffers alone.
class EveryBase {
public:
  /// Members of a storage that are not in `members` are left out; the others keep their distances.
  EveryBase(const Problem &problem, const std::vector<BufferId> &members)
      : problem(problem), storages(resolveStorages(problem)), whole(horizon(problem)),
        offsets(problem.buffers.size(), -1) {
    std::vector<std::vector<BufferId>> byRoot(problem.buffers.size());
    for (BufferId id : members)
      byRoot[storages.root[id]].push_back(id);
    for (std::vector<BufferId> &group : byRoot)
      if (!group.empty())
        groups.push_back(std::move(group));
    auto isFixed = [&](const std::vector<BufferId> &group) {
      return std::any_of(group.begin(), group.end(),
                         [&](BufferId id) { return problem.buffers[id].fixedOffset.has_value(); });
    };
    std::partition(groups.begin(), groups.end(), isFixed);
  }

  bool fits(Bytes capacity, size_t first = 0) {
    if (first == groups.size())
      return true;
    const std::vector<BufferId> &group = groups[first];
    Bytes lowest = 0; // without the buffers below it, a storage may begin below 0
    for (BufferId id : group)
      lowest = std::min(lowest, -storages.relative[id]);
    for (Bytes base = lowest; base <= capacity; ++base) {
      if (!std::all_of(group.begin(), group.end(),
                       [&](BufferId id) { return mayLie(id, base, capacity); }))
        continue;
      for (BufferId id : group)
        if (problem.buffers[id].size > 0)
          offsets[id] = base + storages.relative[id];
      const bool isDone = fits(capacity, first + 1);
      for (BufferId id : group)
        offsets[id] = -1;
      if (isDone)
        return true;
    }
    return false;
  }

private:
  bool mayLie(BufferId id, Bytes base, Bytes capacity) const {
    const Buffer &buffer = problem.buffers[id];
    const Bytes offset = base + storages.relative[id];
    if (offset % buffer.alignment != 0 || (buffer.fixedOffset && offset != *buffer.fixedOffset))
      return false;
    if (buffer.size == 0)
      return !buffer.fixedOffset || offset <= capacity;
    if (offset < 0 || offset + buffer.size > capacity)
      return false;
    for (size_t other = 0; other < offsets.size(); ++other)
      if (offsets[other] >= 0 && offset < offsets[other] + problem.buffers[other].size &&
          offsets[other] < offset + buffer.size &&
          occupancy(buffer, whole).overlaps(occupancy(problem.buffers[other], whole)))
        return false;
    return true;
  }

  const Problem &problem;
  const Storages storages;
  const Interval whole;
  std::vector<std::vector<BufferId>> groups;
  std::vector<Bytes> offsets; ///< -1 for what is not placed or has no bytes
};

std::vector<BufferId> allOf(const Problem &problem) {
  std::vector<BufferId> all(problem.buffers.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// A problem with links, not always a valid one.
Problem randomLinks(uint64_t seed, int64_t mostBuffers, Bytes maxSize) {
  Random random(seed);
  Problem problem;
  const int64_t count = random.integer(2, mostBuffers), horizon = random.integer(2, 8);
  const bool aligns = random.integer(0, 2) == 0, fixes = random.integer(0, 2) == 0,
             persists = random.integer(0, 3) == 0, empties = random.integer(0, 3) == 0;
  const int64_t aliases = random.integer(0, 3);
  for (BufferId id = 0; id < count; ++id) {
    const Time begin = random.integer(0, horizon - 1);
    const Bytes alignments[] = {1, 1, 2, 3, 4};
    add(problem, begin, random.integer(begin + 1, horizon),
        random.integer(empties ? 0 : 1, maxSize), aligns ? alignments[random.integer(0, 4)] : 1);
    Buffer &buffer = problem.buffers.back();
    if (fixes && random.integer(0, 3) == 0)
      buffer.fixedOffset = random.integer(0, 3) * buffer.alignment;
    buffer.persistent = persists && random.integer(0, 4) == 0;
    if (id == 0 || random.integer(0, 1) == 0)
      continue;
    const auto parent = static_cast<BufferId>(random.integer(0, id - 1));
    if (random.integer(0, 3) < aliases)
      buffer.sameAs = parent;
    else if (const Bytes room = problem.buffers[parent].size - buffer.size; room >= 0)
      buffer.inside = Inside{parent, random.integer(0, room)};
  }
  return problem;
}

bool hasLinks(const Problem &problem) {
  return std::any_of(problem.buffers.begin(), problem.buffers.end(),
                     [](const Buffer &buffer) { return buffer.sameAs || buffer.inside; });
}

/// That the conflict does not fit into `capacity`, and does without any one buffer.
void expectSmallest(const Problem &problem, const PackResult &result, Bytes capacity) {
  ASSERT_FALSE(result.conflict.empty());
  EXPECT_TRUE(result.conflictIsMinimal);
  EXPECT_FALSE(EveryBase(problem, result.conflict).fits(capacity));
  for (BufferId left : result.conflict) {
    std::vector<BufferId> rest = result.conflict;
    std::erase(rest, left);
    EXPECT_TRUE(EveryBase(problem, rest).fits(capacity)) << "without b" << left;
  }
}

TEST(PiecesTest, SmallProblemsAreSolvedExactly) {
  int solved = 0, collided = 0;
  for (uint64_t seed = 0; seed < 6'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem problem = randomLinks(seed, 6, 5);
    if (!hasLinks(problem) || !check(problem).empty())
      continue;
    const PackResult result = packBuffers(problem);
    EveryBase oracle(problem, allOf(problem));
    if (result.status == PackStatus::Infeasible) { // above all fixed offsets is room for the rest
      ++collided;
      ASSERT_FALSE(oracle.fits(50));
      expectSmallest(problem, result, 50);
      continue;
    }
    ++solved;
    ASSERT_EQ(result.status, PackStatus::Optimal);
    ASSERT_TRUE(verify(problem, *result.solution).empty());
    const Bytes height = result.solution->height;
    PackOptions options;
    options.capacity = height;
    ASSERT_TRUE(packBuffers(problem, options).solution);
    ASSERT_LE(packBuffers(problem, options).solution->height, height);
    if (height == 0)
      continue;
    ASSERT_FALSE(oracle.fits(height - 1));
    options.capacity = height - 1 - (seed % 3 == 0 ? height / 3 : 0);
    const PackResult fails = packBuffers(problem, options);
    ASSERT_EQ(fails.status, PackStatus::Infeasible);
    expectSmallest(problem, fails, *options.capacity);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(solved, 2'000);
  EXPECT_GT(collided, 20);
}

// Too many for the oracle.
TEST(PiecesTest, TwelveStoragesOfTwentyBuffersAreSolvedWithinTheUsualWork) {
  int problems = 0;
  for (uint64_t seed = 0; problems < stow::test::cases(25); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Problem problem;
    for (BufferId id = 0; id < 20; ++id) {
      const Time begin = random.integer(0, 9);
      add(problem, begin, random.integer(begin + 1, begin + 6), random.integer(1, 40));
      if (id < 12)
        continue;
      const auto parent = static_cast<BufferId>(random.integer(0, id - 1));
      Buffer &buffer = problem.buffers.back();
      buffer.size = random.integer(1, problem.buffers[parent].size);
      buffer.inside = Inside{parent, random.integer(0, problem.buffers[parent].size - buffer.size)};
    }
    if (!check(problem).empty())
      continue;
    ++problems;
    const PackResult result = packBuffers(problem);
    EXPECT_EQ(result.status, PackStatus::Optimal);
    EXPECT_TRUE(verify(problem, *result.solution).empty());
    PackOptions options;
    options.capacity = result.solution->height - 1;
    const PackResult fails = packBuffers(problem, options);
    EXPECT_EQ(fails.status, PackStatus::Infeasible);
    EXPECT_TRUE(fails.conflictIsMinimal);
  }
}

// An operand written into the end of a result leaves free bytes under it.
TEST(PiecesTest, ABufferLiesUnderAnOverhang) {
  Problem problem;
  add(problem, 2, 4, 2, 4);
  add(problem, 3, 4, 3);
  add(problem, 3, 4, 1);
  add(problem, 0, 1, 5, 2);
  add(problem, 1, 3, 3, 4);
  add(problem, 2, 3, 2);
  problem.buffers[5].inside = Inside{3, 3};
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.solution->height, 9);
  EXPECT_EQ(result.status, PackStatus::Optimal);
}

// Of a, aligned to 4, and b, one slice of each lies on one of the other: b is at a + 1. Above the
// fixed buffer b could start at 3, but a must not start at 2.
TEST(PiecesTest, InterlockedStoragesRestOnEachOtherAlone) {
  Problem problem;
  const BufferId a = add(problem, 2, 3, 8, 4);
  add(problem, 0, 1, 4);
  problem.buffers.back().inside = Inside{a, 0};
  add(problem, 1, 2, 2);
  problem.buffers.back().inside = Inside{a, 6};
  const BufferId b = add(problem, 3, 4, 5);
  add(problem, 0, 1, 2);
  problem.buffers.back().inside = Inside{b, 3};
  add(problem, 1, 2, 5);
  problem.buffers.back().inside = Inside{b, 0};
  add(problem, 1, 2, 3);
  problem.buffers.back().fixedOffset = 0;
  const PackResult result = packBuffers(problem);
  EXPECT_EQ(result.status, PackStatus::Optimal);
  EXPECT_EQ(result.solution->height, 12);
  EXPECT_EQ(result.solution->offsets[a], 4);
  EXPECT_EQ(result.solution->offsets[b], 5);
}

TEST(PiecesTest, AConflictLeavesOutTheAliasesThatDoNotMatter) {
  Problem problem;
  add(problem, 0, 2, 4);
  add(problem, 1, 3, 4);
  add(problem, 2, 5, 4);
  problem.buffers[1].sameAs = 0;
  problem.buffers[2].sameAs = 1;
  add(problem, 3, 6, 4);
  PackOptions options;
  options.capacity = 7;
  EXPECT_THAT(packBuffers(problem, options).conflict, ElementsAre(2, 3));
}

} // namespace
} // namespace stow::pack
