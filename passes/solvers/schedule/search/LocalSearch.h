// Local search on a schedule: evict across the peak, drop reruns, shift runs inside their slack.
//
// Simulated annealing on time + price * (bytes over budget, summed over the schedule), on a
// Timeline. Parts of the schedule that stay above the budget get dearer and dearer, those below it
// cheaper (Morris, "The breakout method for escaping from local minima", 1993). "The peak" of a
// move is the highest slot or a random one above the budget. Moves:
//   evict  a value live across the peak but idle there is computed again just before its next
//          reader; inputs that would have to live longer for it are kept or computed again too,
//          recursively
//   drop   a rerun is taken out; the previous copy serves its readers
//   retime a rerun moves past readers and suppliers that other runs can stand in for
//   shift  a run moves to another slot between the runs it depends on and the runs that read it;
//          most of these moves are aimed at a value live across the peak: its writer goes behind
//          the peak or its last reader before it, with the few runs that stand in the way
// Deterministic: a seed and a number of moves, no clock.
#pragma once

#include "passes/solvers/schedule/Graph.h"

#include <functional>

namespace stow::schedule {

struct SearchOptions {
  Bytes budgetBytes = 0;
  double pricePerByte = 0; ///< of a byte over budget, at first; the cut bound's is a good scale
  int64_t moves = 0;
  uint64_t seed = 1;
  bool reruns = true; ///< false: order search, no op runs twice
  /// A byte over the budget in one of so many parts of the slots costs `pricePerByte`; 0: only
  /// where the peak is, as in searches for orders.
  double parts = 16;
  double warmth = 1.0; ///< first temperature in units of the mean op cost (or of price * mean size)
  double cooling = 1e-5; ///< last temperature as a fraction of the first
  std::function<bool()> cancelled = {};
};

struct SearchResult {
  Sequence sequence;
  Measure measured;
};

/// The best schedule met, starting from `start` (which must be legal): within the budget the one of
/// least time (then least peak), otherwise the one of least peak (then least time).
SearchResult improve(const Graph &graph, const Sequence &start, const SearchOptions &options);

} // namespace stow::schedule
