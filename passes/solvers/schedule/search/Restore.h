// Sequences made legal where ops overwrite what they read.
//
//   conv  norm  relu  ...  loss  ...  relu'          `norm` and `relu` write over the output of
//   [x]-->[y]-->[z---------]          ^              `conv`: when z is wanted again, neither x nor
//                                     |              y is there any more
//                         conv' norm' relu'
//
// A run that reads what is gone gets new runs of its producer and of whatever is gone behind that,
// back to the last value that is still there. A rerun that reads what is gone and whose own result
// still is there, or is not read, is left out instead: the earlier copy serves. That is what becomes
// of schedules of a problem with copies in which a value is computed twice from one that is kept.
// What has not run yet goes in front of the op that overwrites what it reads, if it can.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

/// The sequence with what it takes to be legal; the same if it is. Every read must be served by an
/// earlier run. Absent if something would have to be computed again that cannot be, or with more
/// than `mostRuns`. O(runs + reads).
std::optional<Sequence> restoreOverwritten(const Graph &graph, const Sequence &sequence,
                                           size_t mostRuns);

} // namespace stow::schedule
