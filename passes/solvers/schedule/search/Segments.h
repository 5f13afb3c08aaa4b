// Chen's segments: "Training Deep Nets with Sublinear Memory Cost" (2016), on any graph.
//
// The ops in front of the peak are cut into segments; what a later segment reads is kept,
// everything else that is live across the peak is computed again segment by segment, just in time.
// With about sqrt(n) segments of a chain of n ops the memory is O(sqrt n) for one extra forward
// pass.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

/// The schedule of least peak (then least time) over segment counts around the square root of the
/// number of ops in front of the peak; the input order if no segmentation helps.
Sequence sqrtSchedule(const Graph &graph);

/// The schedule with `segmentCount` segments of about equal numbers of ops.
Sequence segmentSchedule(const Graph &graph, const Sequence &base, int segmentCount);

/// Marks the ops in front of the peak of `base` whose outputs cross one of `segmentCount` - 1
/// equally spaced borders. If these never run again, no chain of reruns is longer than a segment:
/// deep cuts then do not compute half of the graph for one value, as Chen's segments do not.
std::vector<char> segmentBars(const Graph &graph, const Sequence &base, int segmentCount);

} // namespace stow::schedule
