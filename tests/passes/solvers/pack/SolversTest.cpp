// Properties that every packing solver has, on random problems. Seeds are fixed and printed.
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Greedy.h"
#include "passes/solvers/pack/PackBuffers.h"
#include "passes/solvers/pack/Portfolio.h"
#include "tests/Cases.h"
#include "tests/passes/solvers/pack/BruteForce.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

namespace stow::pack {
namespace {

/// Each solver: a packing, or nullopt when fixed offsets collide, and the first of its own seeds.
template <GreedyOrder order, GreedyFit fit> struct OneGreedy {
  static constexpr bool isExact = false;
  static constexpr uint64_t firstSeed = 10'000 * static_cast<uint64_t>(order);
  static std::optional<Solution> solve(const Problem &problem) {
    return packGreedy(problem, order, fit);
  }
};

struct BestOfGreedy {
  static constexpr bool isExact = false;
  static constexpr uint64_t firstSeed = 100'000;
  static std::optional<Solution> solve(const Problem &problem) { return packBestOfGreedy(problem); }
};

struct Driver {
  static constexpr bool isExact = true;
  static constexpr uint64_t firstSeed = 110'000;
  static std::optional<Solution> solve(const Problem &problem) {
    PackOptions options;
    options.workBudget = 2'000'000;
    options.explain = false;
    return packBuffers(problem, options).solution;
  }
};

/// The canonical search alone, raising the capacity from the bound one byte at a time.
template <SearchPick pick> struct Canonical {
  static constexpr bool isExact = true;
  static constexpr uint64_t firstSeed = 120'000 + 10'000 * static_cast<uint64_t>(pick);
  static std::optional<Solution> solve(const Problem &problem) {
    const Model model = makeModel(problem);
    if (!packGreedy(problem, GreedyOrder::Birth, GreedyFit::First))
      return std::nullopt;
    SearchInstance instance(model);
    SearchOptions options;
    options.pick = pick;
    for (Bytes capacity = lowerBound(problem);; ++capacity) {
      SearchResult result = instance.search(capacity, options, {});
      EXPECT_NE(result.outcome, SearchOutcome::Stopped);
      if (result.outcome == SearchOutcome::Found)
        return model.solution(result.bases);
    }
  }
};

template <typename Solver> class SolversTest : public testing::Test {};
using Solvers =
    testing::Types<OneGreedy<GreedyOrder::SizeStart, GreedyFit::Best>,
                   OneGreedy<GreedyOrder::SizeLength, GreedyFit::First>,
                   OneGreedy<GreedyOrder::Length, GreedyFit::Best>,
                   OneGreedy<GreedyOrder::Area, GreedyFit::First>,
                   OneGreedy<GreedyOrder::Degree, GreedyFit::Best>,
                   OneGreedy<GreedyOrder::Birth, GreedyFit::First>, BestOfGreedy, Driver,
                   Canonical<SearchPick::Lowest>, Canonical<SearchPick::Tightest>>;
TYPED_TEST_SUITE(SolversTest, Solvers);

/// Seeds vary size, density and features of the problem.
Problem problemOf(uint64_t seed) {
  GenerateOptions options;
  options.buffers = 1 + static_cast<int32_t>(seed % 11);
  options.horizon = 3 + static_cast<Time>(seed % 7) * 3;
  options.maxSize = seed % 3 == 0 ? 6 : 40;
  options.alignments = seed % 2 == 0;
  options.storages = seed % 5 < 2;
  options.fixed = seed % 13 == 0;
  return generate(seed, options);
}

/// Random fixed offsets may break `check`; such problems are skipped.
bool isValid(const Problem &problem) { return check(problem).empty(); }

// Every solver has its own problems: 10^5 in all in the nightly run.
TYPED_TEST(SolversTest, PackingsAreCorrectAndNotBelowTheBound) {
  for (uint64_t i = 0; i < stow::test::cases<uint64_t>(10'000); ++i) {
    const uint64_t seed = TypeParam::firstSeed + i;
    const Problem problem = problemOf(seed);
    if (!isValid(problem))
      continue;
    const std::optional<Solution> solution = TypeParam::solve(problem);
    if (!solution)
      continue;
    const std::vector<Violation> violations = verify(problem, *solution);
    ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations.front().message;
    ASSERT_GE(solution->height, lowerBound(problem)) << "seed " << seed;
  }
}

TYPED_TEST(SolversTest, AgreesWithBruteForce) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    GenerateOptions options;
    options.buffers = 2 + static_cast<int32_t>(seed % 6);
    options.horizon = 8;
    options.maxSize = 9;
    options.storages = false;
    options.alignments = seed % 4 == 0;
    const Problem problem = generate(seed, options);
    const std::optional<Bytes> smallest = test::BruteForce(problem).height();
    const std::optional<Solution> solution = TypeParam::solve(problem);
    ASSERT_TRUE(smallest && solution);
    if (TypeParam::isExact)
      ASSERT_EQ(solution->height, *smallest) << "seed " << seed;
    else
      ASSERT_GE(solution->height, *smallest) << "seed " << seed;
  }
}

TYPED_TEST(SolversTest, IsRepeatable) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Problem problem = problemOf(seed);
    if (isValid(problem)) {
      EXPECT_EQ(TypeParam::solve(problem), TypeParam::solve(problem)) << "seed " << seed;
    }
  }
}

TYPED_TEST(SolversTest, ScalesWithSizesAndTimes) {
  for (uint64_t seed = 0; seed < stow::test::cases<uint64_t>(400); ++seed) {
    const Problem problem = problemOf(seed);
    Problem scaled = problem;
    for (Buffer &buffer : scaled.buffers) {
      buffer.size *= 48;
      buffer.alignment *= 48;
      buffer.life = {buffer.life.begin * 7 - 100, buffer.life.end * 7 - 100};
      if (buffer.fixedOffset)
        *buffer.fixedOffset *= 48;
      if (buffer.inside)
        buffer.inside->offset *= 48;
    }
    if (!isValid(problem))
      continue;
    const std::optional<Solution> a = TypeParam::solve(problem), b = TypeParam::solve(scaled);
    ASSERT_EQ(a.has_value(), b.has_value()) << "seed " << seed;
    // The canonical loop of this test steps byte by byte: too slow on scaled sizes above the bound.
    if (a)
      ASSERT_EQ(48 * a->height, b->height) << "seed " << seed;
  }
}

// Time runs backward: exact solvers reach the same height.
TYPED_TEST(SolversTest, ReversedInputsStayCorrectAndExactOnesKeepTheirHeight) {
  for (uint64_t seed = 0; seed < stow::test::cases<uint64_t>(400); ++seed) {
    const Problem problem = problemOf(seed);
    if (!isValid(problem))
      continue;
    Problem reversed = problem;
    for (Buffer &buffer : reversed.buffers)
      buffer.life = {-buffer.life.end, -buffer.life.begin};
    const std::optional<Solution> a = TypeParam::solve(problem), b = TypeParam::solve(reversed);
    ASSERT_EQ(a.has_value(), b.has_value()) << "seed " << seed;
    if (!a)
      continue;
    ASSERT_TRUE(verify(reversed, *b).empty()) << "seed " << seed;
    const Model model = makeModel(problem);
    if (TypeParam::isExact && SearchInstance(model).isComplete())
      ASSERT_EQ(a->height, b->height) << "seed " << seed;
  }
}

TYPED_TEST(SolversTest, PermutedInputsStayCorrectAndExactOnesKeepTheirHeight) {
  for (uint64_t seed = 0; seed < stow::test::cases<uint64_t>(400); ++seed) {
    const Problem problem = problemOf(seed);
    if (!isValid(problem))
      continue;
    const auto count = static_cast<BufferId>(problem.buffers.size());
    std::vector<BufferId> to(count);
    std::iota(to.begin(), to.end(), 0);
    std::rotate(to.begin(), to.begin() + seed % count, to.end());
    std::reverse(to.begin(), to.begin() + count / 2);
    Problem permuted;
    permuted.buffers.resize(count);
    for (BufferId i = 0; i < count; ++i) {
      Buffer buffer = problem.buffers[i];
      if (buffer.sameAs)
        buffer.sameAs = to[*buffer.sameAs];
      if (buffer.inside)
        buffer.inside->container = to[buffer.inside->container];
      permuted.buffers[to[i]] = buffer;
    }
    const std::optional<Solution> a = TypeParam::solve(problem), b = TypeParam::solve(permuted);
    ASSERT_EQ(a.has_value(), b.has_value()) << "seed " << seed;
    if (!a)
      continue;
    ASSERT_TRUE(verify(permuted, *b).empty()) << "seed " << seed;
    const Model model = makeModel(problem);
    if (TypeParam::isExact && SearchInstance(model).isComplete())
      ASSERT_EQ(a->height, b->height) << "seed " << seed;
  }
}

} // namespace
} // namespace stow::pack
