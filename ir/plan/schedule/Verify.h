// Replays a schedule and recounts its bytes and its time. Shares no code with any solver.
#pragma once

#include "ir/plan/schedule/Capacity.h"

namespace stow::schedule {

/// What a schedule does, recounted from the problem alone.
struct Replay {
  /// Why the schedule is illegal, naming the position, the op and the value; absent if it is legal.
  std::optional<std::string> fault;
  Cost time = 0;              ///< sum of the costs of all runs
  Bytes peakBytes = 0;        ///< maximum over all positions
  size_t peakPosition = 0;    ///< the first position that attains it
  std::vector<Bytes> bytesAt; ///< bytes at every position
};

/// Replays `solution`. A legal schedule runs every op at least once, runs ops that are not
/// recomputable exactly once, reads only values that have been produced and not been overwritten
/// since, and ends with every kept value available. O(runs + reads).
Replay verify(const Problem &problem, const Solution &solution);

/// The same, and a fault at the first position with more bytes than the capacity has there. Throws
/// Error(BadInput) where the capacity does not belong to the problem.
Replay verify(const Problem &problem, const Solution &solution, const Capacity &capacity);

} // namespace stow::schedule
