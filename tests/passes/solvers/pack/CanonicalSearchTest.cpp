// Every pruning rule saves nodes, and no rule changes an answer.
#include "passes/solvers/pack/CanonicalSearch.h"
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/Portfolio.h"
#include "tests/ir/plan/pack/Build.h"
#include "tests/passes/solvers/pack/BruteForce.h"

#include <gtest/gtest.h>

namespace stow::pack {
namespace {

using test::add;

/// One combination of rules and pick per number in [0, 128).
SearchOptions settingsOf(int number) {
  SearchOptions options;
  options.rules.floor = number & 1;
  options.rules.support = number & 2;
  options.rules.deadline = number & 4;
  options.rules.twins = number & 8;
  options.rules.decompose = number & 16;
  options.rules.backjump = number & 64;
  options.rules.merge = number & 128;
  options.pick = number & 32 ? SearchPick::Tightest : SearchPick::Lowest;
  return options;
}

Problem smallProblem(uint64_t seed) {
  GenerateOptions options;
  options.buffers = 3 + static_cast<int32_t>(seed % 4);
  options.horizon = 6;
  options.maxSize = 5;
  options.storages = false;
  options.alignments = seed % 3 == 0;
  options.fixed = seed % 4 == 1;
  return generate(seed, options);
}

class AllRulesTest : public testing::TestWithParam<int> {};

TEST_P(AllRulesTest, AnswersAreThoseOfBruteForce) {
  const SearchOptions options = settingsOf(GetParam());
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Problem problem = smallProblem(seed);
    const std::optional<Bytes> height = test::BruteForce(problem).height();
    if (!check(problem).empty() || !height)
      continue; // two fixed offsets collide
    const Bytes smallest = *height;
    const Model model = makeModel(problem);
    const SearchInstance instance(model);
    ASSERT_TRUE(instance.isComplete());
    const SearchResult found = instance.search(smallest, options, {});
    ASSERT_EQ(found.outcome, SearchOutcome::Found) << "seed " << seed;
    const Solution solution = model.solution(found.bases);
    ASSERT_EQ(solution.height, smallest);
    ASSERT_TRUE(verify(problem, solution).empty());
    ASSERT_EQ(instance.search(smallest - 1, options, {}).outcome, SearchOutcome::Exhausted)
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryCombination, AllRulesTest, testing::Range(0, 256));

/// Puzzles, with gaps every ninth piece missing; with twins pieces of even size are cut into two
/// halves.
std::vector<Problem> puzzles(bool withTwins, int32_t pieces = 70, bool withGaps = true) {
  std::vector<Problem> problems;
  int drawn = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Problem problem;
    for (const Buffer &buffer : generatePuzzle(pieces, seed, 64, 1).buffers) {
      if (++drawn % 9 == 0 && withGaps)
        continue;
      const bool cut = withTwins && buffer.size % 2 == 0;
      for (int i = 0; i < (cut ? 2 : 1); ++i)
        add(problem, buffer.life.begin, buffer.life.end, cut ? buffer.size / 2 : buffer.size);
    }
    problems.push_back(std::move(problem));
  }
  return problems;
}

/// Pairs of puzzles one after the other on a common bottom: what is left of them falls apart.
std::vector<Problem> pairs() {
  const std::vector<Problem> halves = puzzles(false, 40);
  std::vector<Problem> problems;
  for (size_t i = 0; i + 1 < halves.size(); i += 2) {
    Problem problem = halves[i];
    for (const Buffer &buffer : halves[i + 1].buffers)
      add(problem, buffer.life.begin + 64, buffer.life.end + 64, buffer.size);
    add(problem, 0, 128, 20);
    problems.push_back(std::move(problem));
  }
  return problems;
}

int64_t nodesWith(const SearchOptions &options, const std::vector<Problem> &problems) {
  int64_t nodes = 0;
  for (const Problem &problem : problems) {
    const Model model = makeModel(problem);
    SearchOptions limited = options;
    limited.nodeLimit = 5'000;
    nodes += SearchInstance(model).search(maxLoad(problem), limited, {}).nodes;
  }
  return nodes;
}

struct Rule {
  const char *label;
  bool SearchRules::*flag;
};

// A jump leaves out only what would fail: every puzzle stays solvable, from every derivation.
TEST(CanonicalSearchTest, BackjumpingKeepsWhatFits) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    for (Derivation derivation : allDerivations) {
      const Certified certified =
          derive(generateCertifiedPuzzle(14, seed, 16, 1), derivation, seed);
      const Model model = makeModel(certified.problem);
      for (int number : {95, 127}) { // all rules, both picks
        const SearchResult result =
            SearchInstance(model).search(certified.packing.height, settingsOf(number), {});
        ASSERT_EQ(result.outcome, SearchOutcome::Found) << name(derivation) << " seed " << seed;
        ASSERT_TRUE(verify(certified.problem, model.solution(result.bases)).empty());
      }
    }
}

// Failures counted by earlier searches change the order of later ones, never the answer.
TEST(CanonicalSearchTest, SharesFailuresBetweenSearches) {
  double counted = 0;
  for (const Problem &problem : puzzles(false)) {
    std::vector<double> failures;
    SearchOptions options;
    options.failures = &failures;
    options.nodeLimit = 5'000;
    const Model model = makeModel(problem);
    const SearchInstance instance(model);
    for (int run = 0; run < 2; ++run) {
      const SearchResult result = instance.search(maxLoad(problem), options, {});
      ASSERT_NE(result.outcome, SearchOutcome::Exhausted);
      ASSERT_EQ(static_cast<int32_t>(failures.size()), model.sections);
    }
    for (double count : failures)
      counted += count;
  }
  EXPECT_GT(counted, 0);
}

class PruningTest : public testing::TestWithParam<Rule> {};

TEST_P(PruningTest, TheRuleSavesNodes) {
  const bool isMerge = GetParam().flag == &SearchRules::merge;
  const std::vector<Problem> problems =
      GetParam().flag == &SearchRules::decompose
          ? pairs()
          : puzzles(GetParam().flag == &SearchRules::twins, 70, !isMerge);
  int64_t fewer = 0, more = 0;
  for (SearchPick pick : {SearchPick::Lowest, SearchPick::Tightest}) {
    SearchOptions with, without;
    with.pick = without.pick = pick;
    without.rules.*GetParam().flag = false;
    // Jumps back hide what the other rules save, and the two rules of deferral hide each other.
    if (GetParam().flag != &SearchRules::backjump)
      with.rules.backjump = without.rules.backjump = false;
    if (GetParam().flag == &SearchRules::support)
      with.rules.deadline = without.rules.deadline = false;
    if (GetParam().flag == &SearchRules::deadline)
      with.rules.support = without.rules.support = false;
    fewer += nodesWith(with, problems);
    more += nodesWith(without, problems);
  }
  EXPECT_LT(20 * fewer, 19 * more); // by a twentieth at least
}

INSTANTIATE_TEST_SUITE_P(
    Each, PruningTest,
    testing::Values(Rule{"floor", &SearchRules::floor}, Rule{"support", &SearchRules::support},
                    Rule{"deadline", &SearchRules::deadline}, Rule{"twins", &SearchRules::twins},
                    Rule{"decompose", &SearchRules::decompose},
                    Rule{"backjump", &SearchRules::backjump}, Rule{"merge", &SearchRules::merge}),
    [](const auto &info) { return std::string(info.param.label); });

TEST(CanonicalSearchTest, KeepsToItsLimits) {
  const Problem problem = generateTrace(400, 5);
  const Model model = makeModel(problem);
  const SearchInstance instance(model);
  SearchOptions options;
  options.nodeLimit = 100;
  SearchResult result = instance.search(maxLoad(problem), options, {});
  EXPECT_EQ(result.outcome, SearchOutcome::Stopped);
  EXPECT_EQ(result.nodes, 101);
  options.nodeLimit = 1'000'000;
  options.workLimit = 50'000;
  result = instance.search(maxLoad(problem), options, {});
  EXPECT_EQ(result.outcome, SearchOutcome::Stopped);
  EXPECT_LT(result.work, 100'000);
  options.workLimit = 1'000'000'000;
  EXPECT_EQ(instance.search(maxLoad(problem), options, [] { return true; }).outcome,
            SearchOutcome::Stopped);
}

// A staircase that falls apart where one step ends: the parts are searched one by one.
TEST(CanonicalSearchTest, SolvesTenThousandBuffersWithoutRecursion) {
  Problem problem;
  for (Time t = 0; t < 10'000; ++t)
    add(problem, t, t + 3, 1 + t % 3);
  const Model model = makeModel(problem);
  const SearchResult result = SearchInstance(model).search(6, {}, {});
  ASSERT_EQ(result.outcome, SearchOutcome::Found);
  EXPECT_TRUE(verify(problem, model.solution(result.bases)).empty());
}

TEST(CanonicalSearchTest, KnowsWhenItIsIncomplete) {
  Problem problem = test::picture();
  EXPECT_TRUE(SearchInstance(makeModel(problem)).isComplete());
  problem.buffers[1].fixedOffset = 0;
  EXPECT_TRUE(SearchInstance(makeModel(problem)).isComplete());
  problem.buffers[1].fixedOffset = 3; // bytes below it are free
  EXPECT_TRUE(SearchInstance(makeModel(problem)).isComplete());
  problem.buffers[1].fixedOffset.reset();
  add(problem, 8, 12, 8);
  problem.buffers[1].inside = Inside{4, 0};
  EXPECT_TRUE(SearchInstance(makeModel(problem)).isComplete());
  problem.buffers[1].inside = Inside{4, 3}; // bytes below the slice are free
  EXPECT_FALSE(SearchInstance(makeModel(problem)).isComplete());
}

TEST(CanonicalSearchTest, PacksUnderAndOverWhatIsFixed) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Certified puzzle = generateCertifiedPuzzle(40, seed, 1 << 12, 16);
    for (size_t i = seed % 3; i < puzzle.problem.buffers.size(); i += 3)
      puzzle.problem.buffers[i].fixedOffset = puzzle.packing.offsets[i];
    const Model model = makeModel(puzzle.problem);
    const SearchInstance instance(model);
    SearchOptions options;
    options.workLimit = 100'000'000;
    const SearchResult result = instance.search(puzzle.packing.height, options, {});
    ASSERT_EQ(result.outcome, SearchOutcome::Found) << "seed " << seed;
    EXPECT_TRUE(verify(puzzle.problem, model.solution(result.bases)).empty()) << "seed " << seed;
  }
}

TEST(PortfolioTest, SettingsDiffer) {
  const std::vector<SearchOptions> &portfolio = searchPortfolio();
  EXPECT_GE(portfolio.size(), 20u);
  for (size_t i = 0; i < portfolio.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(describe(portfolio[i]), describe(portfolio[j]));
}

} // namespace
} // namespace stow::pack
