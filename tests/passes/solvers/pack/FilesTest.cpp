// Every problem in tests/data/pack fits into the capacity that its file name ends in.
#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Generate.h"
#include "ir/plan/pack/Text.h"
#include "ir/plan/pack/Verify.h"
#include "passes/solvers/pack/PackBuffers.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace stow::pack {
namespace {

TEST(FilesTest, FitIntoTheirCapacity) {
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(STOWAGE_PACK_DATA)) {
    const std::string stem = entry.path().stem().string();
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    const Problem problem = parse(text.str(), entry.path().filename().string());
    EXPECT_EQ(parse(print(problem), "again"), problem) << stem;
    PackOptions options;
    options.capacity = std::stoll(stem.substr(stem.rfind('.') + 1));
    const PackResult decided = packBuffers(problem, options);
    ASSERT_TRUE(decided.solution) << stem;
    EXPECT_LE(decided.solution->height, *options.capacity) << stem;
    EXPECT_TRUE(verify(problem, *decided.solution).empty()) << stem;
    options.capacity = lowerBound(problem) - 1;
    options.explain = false;
    EXPECT_EQ(packBuffers(problem, options).status, PackStatus::Infeasible) << stem;
    ++files;
  }
  EXPECT_EQ(files, 4);
}

// Tests that minimizing never ends above what a decision at the lower bound finds with the same
// work: public instances, puzzles that fill the load, and training steps. Bisection alone would.
TEST(FilesTest, MinimizingIsNeverAboveDecidingTheBound) {
  std::vector<Problem> problems;
  for (const auto &entry : std::filesystem::directory_iterator(STOWAGE_PACK_DATA)) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    problems.push_back(parse(text.str(), entry.path().filename().string()));
  }
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    problems.push_back(generatePuzzle(20 + 5 * static_cast<int32_t>(seed), seed));
    problems.push_back(generate(seed));
  }
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    problems.push_back(generateNestedTraining(300, seed));
    problems.push_back(generateRecurrentTraining(300, seed));
    problems.push_back(generateTraining(3, seed));
  }
  int above = 0, open = 0;
  for (size_t i = 0; i < problems.size(); ++i)
    for (int64_t work : {100'000, 1'000'000, 60'000'000}) {
      PackOptions options;
      options.workBudget = work;
      const PackResult alone = packBuffers(problems[i], options);
      const PackResult lowest = packLowest(problems[i], options);
      ASSERT_EQ(lowest.solution.has_value(), alone.solution.has_value());
      if (!lowest.solution)
        continue;
      EXPECT_TRUE(verify(problems[i], *lowest.solution).empty());
      EXPECT_LE(lowest.solution->height, alone.solution->height);
      options.capacity = lowerBound(problems[i]);
      options.explain = false;
      const PackResult decided = packBuffers(problems[i], options);
      if (!decided.solution)
        continue;
      EXPECT_LE(lowest.solution->height, decided.solution->height) << "problem " << i;
      open += lowest.solution->height > lowest.lowerBound;
      above += alone.solution->height > decided.solution->height;
    }
  EXPECT_GT(above, 0);
  EXPECT_GT(open, 0);
}

} // namespace
} // namespace stow::pack
