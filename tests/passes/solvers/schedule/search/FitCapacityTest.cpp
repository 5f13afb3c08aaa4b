// Tests schedules that are brought into less room at some positions.
#include "passes/solvers/schedule/search/FitCapacity.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"

#include <gtest/gtest.h>

using namespace stow;
using namespace stow::schedule;

namespace {

/// Two positions in front of the one with the most bytes, with `lessBytes` less than is in use at
/// the first of them.
Window beforePeak(const Solution &solution, const Replay &replay, Bytes lessBytes) {
  const size_t at = replay.peakPosition - 3;
  return {solution.runs[at].op, solution.runs[at + 1].op,
          replay.peakBytes - replay.bytesAt[at] + lessBytes};
}

// Tests that what fits is left as it is, and that a window is made room in with nothing but reruns,
// while the rest keeps the whole budget.
TEST(FitCapacity, MakesRoomInAWindow) {
  int fitted = 0, wouldNotFitEverywhere = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Problem problem = generateChainStep(seed, 12);
    const Solution once = inputOrder(problem);
    const Replay before = verify(problem, once);
    const Capacity whole = {before.peakBytes, {}};
    EXPECT_EQ(fitCapacity(problem, once, whole), once);
    const Bytes less = (before.peakBytes - problem.pinnedBytes()) / 8 + 1;
    const Capacity capacity = {before.peakBytes, {beforePeak(once, before, less)}};
    ASSERT_TRUE(verify(problem, once, capacity).fault) << "seed " << seed;
    const std::optional<Solution> solution = fitCapacity(problem, once, capacity);
    if (!solution)
      continue;
    ++fitted;
    const Replay after = verify(problem, *solution, capacity);
    EXPECT_FALSE(after.fault) << "seed " << seed << ": " << *after.fault;
    EXPECT_GT(after.time, before.time);
    wouldNotFitEverywhere += after.peakBytes > before.peakBytes - capacity.windows[0].withheldBytes;
  }
  EXPECT_GE(fitted, 30);
  EXPECT_GE(wouldNotFitEverywhere, 10) << "a window is less than a smaller budget";
}

// Tests that a window costs no more than the same bytes withheld everywhere.
TEST(FitCapacity, AWindowCostsNoMoreThanASmallerBudget) {
  Cost inWindow = 0, everywhere = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Problem problem = generateChainStep(seed, 12);
    const Solution once = inputOrder(problem);
    const Replay before = verify(problem, once);
    const Bytes less = (before.peakBytes - problem.pinnedBytes()) / 8 + 1;
    const Window held = beforePeak(once, before, less);
    auto window = fitCapacity(problem, once, {before.peakBytes, {held}});
    auto whole = fitCapacity(problem, once, {before.peakBytes - held.withheldBytes, {}});
    if (!window || !whole)
      continue;
    inWindow += verify(problem, *window).time;
    everywhere += verify(problem, *whole).time;
  }
  EXPECT_LE(inWindow, everywhere);
  EXPECT_GT(everywhere, 0);
}

// Tests that reruns which land in a window count there: of the ops' own bytes a window of all
// positions leaves as much as the budget less what it withholds.
TEST(FitCapacity, AWindowOfEverythingIsASmallerBudget) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem = generateChainStep(seed, 12);
    const Solution once = inputOrder(problem);
    const Bytes peak = verify(problem, once).peakBytes, less = peak / 10;
    const Window all = {0, static_cast<OpId>(problem.ops.size()) - 1, less};
    EXPECT_EQ(fitCapacity(problem, once, {peak, {all}}),
              fitCapacity(problem, once, {peak - less, {}}))
        << "seed " << seed;
  }
}

TEST(FitCapacity, NoRoomIsNoSchedule) {
  const Problem problem = unitChainStep(6);
  const Solution once = inputOrder(problem);
  const Bytes peak = verify(problem, once).peakBytes;
  EXPECT_FALSE(fitCapacity(problem, once, {peak, {{2, 3, peak}}})) << "one byte holds nothing";
}

} // namespace
