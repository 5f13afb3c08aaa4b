// Bound L1 without its gap: branch and bound over what runs again.
//
// A cut (CutBound) prices bytes, so at its best price it may mix two answers, half of a large
// tensor kept. Here the answers on both sides of that price are compared, and an op that runs again
// in one of them only is decided:
//
//                 runs again?          value of a leaf  = its best cut, with what is decided
//                 /         \          bound of a tree  = the least value of its leaves
//              never      it does      The leaf with the least value is split next.
//
// Land and Doig (1960) on the relaxation of Lagrange; every value is an integer certificate of
// SaveOrRerun, so the bound is one too.
#pragma once

#include "passes/solvers/schedule/bounds/CutBound.h"

namespace stow::schedule {

struct BranchOptions {
  /// Ops at whose first run to branch; the bound is the best of theirs.
  std::vector<int32_t> ops;
  /// Time of the best schedule known: no need to prove more.
  std::optional<Cost> knownTime;
  /// Work of cuts (SaveOrRerun::work) that may be spent on each op.
  int64_t allowance = 0;
};

/// A lower bound on the time of every schedule whose peak is at most `budgetBytes`. Deterministic.
Cost branchedTimeBound(const Graph &graph, const CutBound &bound, Bytes budgetBytes,
                       const BranchOptions &options);

} // namespace stow::schedule
