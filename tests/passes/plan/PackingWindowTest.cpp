// Tests that windows in which packing overshoots are given less room, and plans that shrink there.
#include "passes/plan/PackingWindow.h"
#include "ir/plan/schedule/Generate.h"
#include "ir/plan/schedule/Verify.h"

#include <gtest/gtest.h>

using namespace stow;

namespace {

TEST(PackingWindow, LessRoomIsScratchOfTheOpsInTheWindow) {
  schedule::Problem problem = schedule::unitChainStep(4);
  schedule::Solution once = schedule::inputOrder(problem);
  schedule::Problem tighter = withLessRoom(problem, once, {2, 3, 1000}, 7);
  for (size_t op = 0; op < problem.ops.size(); ++op)
    EXPECT_EQ(tighter.ops[op].alternatives[0].workspaceBytes,
              problem.ops[op].alternatives[0].workspaceBytes + (op == 2 || op == 3 ? 7 : 0));
}

TEST(PackingWindow, ReducesOrFails) {
  int reduced = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    schedule::Problem problem = schedule::generateChainStep(seed, 12);
    schedule::Solution once = schedule::inputOrder(problem);
    const Bytes peak = schedule::verify(problem, once).peakBytes;
    auto solution = reduceTo(problem, once, peak - 1);
    if (!solution)
      continue;
    schedule::Replay replay = schedule::verify(problem, *solution);
    EXPECT_FALSE(replay.fault) << *replay.fault;
    EXPECT_LT(replay.peakBytes, peak);
    ++reduced;
    EXPECT_FALSE(reduceTo(problem, once, 1)) << "one byte holds nothing";
  }
  EXPECT_GE(reduced, 15);
}

} // namespace
