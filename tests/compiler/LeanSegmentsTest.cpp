// Tests Chen's segments as plans: no rerun is in them that their peak can do without, and under a
// budget of their arena nobody gets more of them than that takes.
#include "compiler/DataSheet.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "ir/plan/schedule/Verify.h"
#include "passes/plan/Budget.h"
#include "tests/compiler/RandomNet.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace mlir;
using namespace stow;

namespace {

class LeanSegments : public testing::TestWithParam<uint64_t> {};

TEST_P(LeanSegments, NothingIsRerunInVain) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("segments-" + std::to_string(getpid()) + ".mlir");
  std::ofstream(path) << randomNet(GetParam());
  MLIRContext context;
  prepareContext(context);
  CompileOptions options;
  options.modelPath = path;
  options.loss = parseLoss("mse");
  options.threads = 2;
  const std::unique_ptr<Backend> backend = chooseBackend(options);
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *backend);
  std::filesystem::remove(path);
  BudgetOptions planning;
  planning.effort = 0;
  BudgetPlanner planner(*prepared, loadDevice("cpu", 2), backend->target(), planning);
  const StepChoice &segments = planner.checkpointed();
  ASSERT_EQ(segments.method, "segments");
  ASSERT_LT(segments.arenaBytes, planner.keepAll().arenaBytes);

  const schedule::Problem &problem = planner.problem();
  const schedule::Replay replay = schedule::verify(problem, *segments.solution);
  ASSERT_EQ(replay.fault, std::nullopt);
  std::vector<char> hasRun(problem.ops.size(), 0);
  size_t reruns = 0;
  for (size_t i = 0; i < segments.solution->runs.size(); ++i) {
    if (!std::exchange(hasRun[segments.solution->runs[i].op], 1))
      continue;
    ++reruns;
    schedule::Solution without = *segments.solution;
    without.runs.erase(without.runs.begin() + static_cast<std::ptrdiff_t>(i));
    const schedule::Replay less = schedule::verify(problem, without);
    EXPECT_TRUE(less.fault || less.peakBytes > replay.peakBytes) << "run " << i;
  }
  EXPECT_GT(reruns, 0u);

  const StepChoice &smallest = planner.smallest();
  EXPECT_LE(std::tie(smallest.arenaBytes, smallest.time),
            std::tie(segments.arenaBytes, segments.time));
  const std::optional<StepChoice> within = planner.plan(segments.arenaBytes);
  ASSERT_TRUE(within);
  EXPECT_LE(within->arenaBytes, segments.arenaBytes);
  EXPECT_LE(within->time, segments.time);
  EXPECT_TRUE(planner.refusals().empty());
}
INSTANTIATE_TEST_SUITE_P(Seeds, LeanSegments, testing::Values(8, 17, 28, 43, 67));

} // namespace
