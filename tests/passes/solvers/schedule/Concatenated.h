// A concatenation whose parts are written where they belong, idle across an op with a workspace.
#pragma once

#include "ir/plan/schedule/Problem.h"

namespace stow::schedule {

/// 19 bytes in input order. 12 are enough if `left` and `right`, one unit of time each, run again
/// behind `heavy`, and no schedule takes fewer.
inline Problem concatenatedStep() {
  Problem problem;
  const ValueId stem = problem.addValue("stem", 1), half = problem.addValue("half", 8),
                full = problem.addValueIn("full", problem.values[half].storage),
                next = problem.addValue("next", 2), last = problem.addValue("last", 1),
                gradient = problem.addValue("gradient", 1);
  problem.addOp("stem", 5, {}, {stem});
  problem.addOp("left", 1, {stem}, {half});
  problem.addOp("right", 1, {stem, half}, {full});
  problem.addOp("next", 5, {half, full}, {next});
  const OpId heavy = problem.addOp("heavy", 5, {next}, {last});
  problem.ops[heavy].alternatives.front().workspaceBytes = 8;
  problem.addOp("gradient", 5, {last, half, full}, {gradient});
  problem.values[gradient].keep = true;
  return problem;
}

} // namespace stow::schedule
