// The search over orders agrees with brute force under every set of rules, and each rule prunes.
#include "passes/solvers/pack/OrderSearch.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"
#include "tests/ir/plan/pack/Build.h"
#include "tests/passes/solvers/pack/BruteForce.h"

#include <gtest/gtest.h>

namespace stow::pack {
namespace {

/// One combination of rules per number in [0, 4).
OrderOptions settingsOf(int number) {
  OrderOptions options;
  options.rules.load = number & 1;
  options.rules.edges = number & 2;
  options.rules.merge = number & 4;
  return options;
}

/// Some with an alignment common to all buffers.
Problem smallProblem(uint64_t seed) {
  GenerateOptions options;
  options.buffers = 3 + static_cast<int32_t>(seed % 4);
  options.horizon = 6;
  options.maxSize = 5;
  options.storages = false;
  options.alignments = false;
  options.persistent = seed % 5 == 0;
  Problem problem = generate(seed, options);
  for (Buffer &buffer : problem.buffers) {
    buffer.alignment = seed % 3 == 0 ? 2 : 1;
    buffer.size *= buffer.alignment;
  }
  return problem;
}

class OrderRulesTest : public testing::TestWithParam<int> {};

TEST_P(OrderRulesTest, AnswersAreThoseOfBruteForce) {
  int proofs = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Problem problem = smallProblem(seed);
    const Bytes alignment = problem.buffers[0].alignment;
    const Bytes smallest = *test::BruteForce(problem).height();
    const Model model = makeModel(problem);
    const SearchInstance instance(model);
    ASSERT_TRUE(instance.canSearchOrders());
    OrderOptions options = settingsOf(GetParam());
    options.seed = seed % 4;
    const SearchResult found = instance.searchOrders(smallest, options, {});
    ASSERT_EQ(found.outcome, SearchOutcome::Found) << "seed " << seed;
    const Solution solution = model.solution(found.bases);
    ASSERT_LE(solution.height, smallest);
    ASSERT_TRUE(verify(problem, solution).empty());
    ASSERT_EQ(instance.searchOrders(smallest - alignment, options, {}).outcome,
              SearchOutcome::Exhausted)
        << "seed " << seed;
    ++proofs;
  }
  EXPECT_EQ(proofs, 300);
}

INSTANTIATE_TEST_SUITE_P(EveryCombination, OrderRulesTest, testing::Range(0, 8));

// Learned clauses leave out only what would fail: whatever fits is found.
TEST(OrderSearchTest, FindsWhatFits) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    for (Derivation derivation : allDerivations) {
      const Certified certified =
          derive(generateCertifiedPuzzle(14, seed, 16, 1), derivation, seed);
      const Model model = makeModel(certified.problem);
      for (int number : {0, 3, 7}) {
        OrderOptions options = settingsOf(number);
        options.seed = seed;
        const SearchResult result =
            SearchInstance(model).searchOrders(certified.packing.height, options, {});
        ASSERT_EQ(result.outcome, SearchOutcome::Found) << name(derivation) << " seed " << seed;
        ASSERT_TRUE(verify(certified.problem, model.solution(result.bases)).empty());
      }
    }
}

struct Rule {
  const char *label;
  bool OrderRules::*flag;
};

class OrderPruningTest : public testing::TestWithParam<Rule> {};

TEST_P(OrderPruningTest, TheRuleSavesConflicts) {
  int64_t fewer = 0, more = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem = generatePuzzle(30, seed, 32, 1);
    const Model model = makeModel(problem);
    const SearchInstance instance(model);
    OrderOptions options;
    options.conflictLimit = 2'000;
    fewer += instance.searchOrders(32, options, {}).nodes;
    options.rules.*GetParam().flag = false;
    more += instance.searchOrders(32, options, {}).nodes;
  }
  EXPECT_LT(20 * fewer, 19 * more); // by a twentieth at least
}

INSTANTIATE_TEST_SUITE_P(Each, OrderPruningTest,
                         testing::Values(Rule{"load", &OrderRules::load},
                                         Rule{"edges", &OrderRules::edges},
                                         Rule{"merge", &OrderRules::merge}),
                         [](const auto &info) { return std::string(info.param.label); });

TEST(OrderSearchTest, KeepsToItsLimits) {
  const Problem problem = generatePuzzle(300, 5);
  const Model model = makeModel(problem);
  const SearchInstance instance(model);
  OrderOptions options;
  options.conflictLimit = 10;
  SearchResult result = instance.searchOrders(1 << 20, options, {});
  EXPECT_EQ(result.outcome, SearchOutcome::Stopped);
  EXPECT_LE(result.nodes, 11);
  options.conflictLimit = 1'000'000;
  options.workLimit = 2'000'000;
  result = instance.searchOrders(1 << 20, options, {});
  EXPECT_EQ(result.outcome, SearchOutcome::Stopped);
  EXPECT_LT(result.work, 4'000'000);
  options.workLimit = 1'000'000'000;
  EXPECT_EQ(instance.searchOrders(1 << 20, options, [] { return true; }).outcome,
            SearchOutcome::Stopped);
}

// Long searches forget clauses; what they say stays right and the same.
TEST(OrderSearchTest, StaysRightBeyondManyConflicts) {
  const Certified certified = generateCertifiedPuzzle(250, 3);
  const Model model = makeModel(certified.problem);
  const SearchInstance instance(model);
  OrderOptions options;
  options.conflictLimit = 10'000;
  options.rules.edges = false;
  const SearchResult first = instance.searchOrders(1 << 20, options, {});
  const SearchResult second = instance.searchOrders(1 << 20, options, {});
  EXPECT_GT(first.nodes, 5'000);
  EXPECT_NE(first.outcome, SearchOutcome::Exhausted);
  EXPECT_EQ(first.work, second.work);
  EXPECT_EQ(first.bases, second.bases);
}

TEST(OrderSearchTest, AppliesToRectanglesOfOneAlignment) {
  Problem problem = test::picture();
  EXPECT_TRUE(SearchInstance(makeModel(problem)).canSearchOrders());
  problem.buffers[1].alignment = 4;
  EXPECT_FALSE(SearchInstance(makeModel(problem)).canSearchOrders());
  for (Buffer &buffer : problem.buffers)
    buffer.alignment = 3; // sizes would be padded
  EXPECT_FALSE(SearchInstance(makeModel(problem)).canSearchOrders());
  for (Buffer &buffer : problem.buffers)
    buffer.alignment = 1;
  problem.buffers[1].fixedOffset = 0;
  EXPECT_FALSE(SearchInstance(makeModel(problem)).canSearchOrders());
  EXPECT_EQ(SearchInstance(makeModel(Problem())).searchOrders(0, {}, {}).outcome,
            SearchOutcome::Found);
}

} // namespace
} // namespace stow::pack
