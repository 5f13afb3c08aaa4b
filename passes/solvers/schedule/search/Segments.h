// Chen's segments: "Training Deep Nets with Sublinear Memory Cost" (2016), on any graph.
//
//   forward   [ segment 0 ] a [ segment 1 ] b [ last segment ]      a, b: what crosses a border
//                                                            | turn       of segments is kept
//   backward                                  [ last segment ]
//             [ segment 1 again ][ its backward ]
//             [ segment 0 again ][ its backward ]
//
// The turn is where most bytes are saved that can be computed again, or the peak. The ops in front
// of it are cut into segments at narrow places, which a single value crosses (articulation points).
// What a later segment reads is kept; everything else that is read behind the turn is computed
// again, just in time. With about sqrt(n) segments of a chain of n ops the memory is O(sqrt n) for
// one extra forward pass.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

/// The segments with the least peak, then the least time, or the input order if none has less. No
/// rerun is in it that this peak can do without. Segments of equal shares of the saved bytes are
/// tried, and of equal numbers of ops, from one to 64; then single borders are added and taken
/// away, and the order of the runs is searched with `effort` (PlanOptions; 0: it stays), but not
/// where nothing runs again: that is OrderSearch's.
/// O(n + m) for each of some hundred tries. Throws Error(BadInput) if the problem is malformed.
Solution planSegments(const Problem &problem, double effort);

/// Marks the ops in front of the peak of `base` whose outputs cross one of `segmentCount` - 1
/// equally spaced borders. If these never run again, no chain of reruns is longer than a segment:
/// deep cuts then do not compute half of the graph for one value, as Chen's segments do not.
std::vector<char> segmentBars(const Graph &graph, const Sequence &base, int segmentCount);

} // namespace stow::schedule
