// Orders without recomputation: which topological order has the smallest peak.
//
// Greedy list schedules (several rules), then local search (LocalSearch without reruns), then exact
// windows: the runs of a window around the peak are put into the best order by dynamic programming
// over the sets of runs already done.
#pragma once

#include "passes/solvers/schedule/Graph.h"

#include <functional>

namespace stow::schedule {

struct OrderOptions {
  Bytes targetBytes = 0; ///< stop at this peak, e.g. a lower bound
  int64_t moves = 100000;
  int windowRuns = 14; ///< at most 2^windowRuns states per window
  std::function<bool()> cancelled = {};
};

/// The best order found; never worse than `start`, which must be legal. Where ops run again in it
/// they do so in the result, and no greedy orders are tried.
Sequence searchOrder(const Graph &graph, const Sequence &start, const OrderOptions &options);

/// A list schedule: of the ops that are ready, always the one that frees most (bytes after minus
/// bytes before, then bytes while it runs). `lookahead` weighs bytes that a reader would free soon.
Sequence greedyOrder(const Graph &graph, double lookahead);

/// Puts the runs of [begin, end) into an order with the smallest possible peak inside the window;
/// true if that lowers the window's peak. At most 20 runs. The sequence may contain reruns.
bool improveWindow(const Graph &graph, Sequence &sequence, size_t begin, size_t end);

/// Puts the runs of all windows of `windowRuns` runs, each overlapping the next by half, into such
/// orders. Nothing but the order inside windows changes, so no peak rises.
void improveAllWindows(const Graph &graph, Sequence &sequence, size_t windowRuns);

} // namespace stow::schedule
