// Bounds that need no search: what no schedule can avoid.
#pragma once

#include "ir/plan/schedule/Problem.h"

namespace stow::schedule {

/// A lower bound on the peak of every schedule, any order, any number of recomputations: pinned
/// storages plus the inputs, outputs and least workspace of the largest op. O(ops + reads).
Bytes lowerBound(const Problem &problem);

/// A lower bound on the peak of every schedule that runs each op once, in any order: at each op v,
/// all values that an ancestor of v writes and a descendant of v (or v) reads are live. Processes
/// 64 ops at a time: O(ops * reads / 64).
Bytes lowerBoundWithoutRecompute(const Problem &problem);

} // namespace stow::schedule
