// Bound L1 over moments: the least time of a budget from the costs of a few moments together.
//
// Two kinds of moments are reached by every schedule, whatever its order:
//
//   the first run of an op v: everything above v has run, nothing below it has;
//   a level: so and so many ops have run, or ops that write so and so many bytes. Which ones, a
//   MomentTree finds out: it splits the sets there can be until each is too large for the budget.
//
// The second kind sees what no single op shows: in a graph of wide layers nearly all ops are beside
// each other, and only numbers say that half of a layer must have run at some moment. Whether
// levels are worth a tree, orders without reruns tell: where one of them fits, nothing is proven.
//
// Several moments may charge their reruns to different ops: what one moment's proof does not use of
// an op's cost is left to the next, and the bounds add up.
#pragma once

#include "passes/solvers/schedule/CutBound.h"

namespace stow::schedule {

struct MomentBoundOptions {
  /// Orders of all ops without reruns, the smaller their peaks the better.
  std::vector<Sequence> orders;
  /// Ops whose cuts prove most at this budget, the best first (CutBound::Proof).
  std::vector<int32_t> ops;
  /// Time of the best schedule known: no need to prove more.
  std::optional<Cost> knownTime;
  /// Work of cuts that may be spent.
  int64_t allowance = 0;
};

/// A lower bound on the time of every schedule whose peak is at most `budgetBytes`. At most 4,000
/// ops; larger problems get the least time. Deterministic.
Cost momentTimeBound(const Core &core, const CutBound &bound, Bytes budgetBytes,
                     const MomentBoundOptions &options);

} // namespace stow::schedule
