// Tests that Chen's segments are a start and not an answer: where their peak does not need all of
// their reruns, nobody gets the bare segments.
#include "compiler/DeviceProfile.h"
#include "compiler/Pipeline.h"
#include "compiler/Registration.h"
#include "passes/plan/Budget.h"
#include "tests/compiler/RandomNet.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace mlir;
using namespace stow;

namespace {

class LeanSegments : public testing::TestWithParam<uint64_t> {};

// Tests networks whose smallest arena, by cuts alone, is that of the segments.
TEST_P(LeanSegments, AtTheSmallestArenaLessIsRerun) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("segments-" + std::to_string(getpid()) + ".mlir");
  std::ofstream(path) << randomNet(GetParam());
  MLIRContext context;
  prepareContext(context);
  CompileOptions options;
  options.modelPath = path;
  options.loss = parseLoss("mse");
  options.threads = 2;
  OwningOpRef<ModuleOp> prepared = prepareStep(context, options, *chooseBackend(options));
  std::filesystem::remove(path);
  BudgetOptions planning;
  planning.effort = 0;
  BudgetPlanner planner(*prepared, loadDevice("cpu", 2), planning);
  const StepChoice &bare = planner.checkpointed();
  ASSERT_EQ(bare.method, "segments");
  const StepChoice &smallest = planner.smallest();
  EXPECT_EQ(smallest.arenaBytes, bare.arenaBytes) << "no row of the ladder is smaller";
  EXPECT_LT(smallest.time, bare.time);
  const std::optional<StepChoice> within = planner.plan(bare.arenaBytes);
  ASSERT_TRUE(within);
  EXPECT_LE(within->arenaBytes, bare.arenaBytes);
  EXPECT_LT(within->time, bare.time);
  EXPECT_TRUE(planner.refusals().empty());
}
INSTANTIATE_TEST_SUITE_P(Seeds, LeanSegments, testing::Values(3, 17, 19, 51, 76));

} // namespace
