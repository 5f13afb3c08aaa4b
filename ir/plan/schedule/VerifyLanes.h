// Replays a schedule with copies: who holds what where, and when. Shares no code with any solver.
#pragma once

#include "ir/plan/schedule/Lanes.h"

#include <limits>

namespace stow::schedule {

/// No limit on the bytes of a memory.
constexpr Bytes kAnyBytes = std::numeric_limits<Bytes>::max();

/// What a schedule does, recounted from the problem alone.
struct LaneReplay {
  /// Why the schedule is illegal, naming the step, the op and the value; absent if it is legal.
  std::optional<std::string> fault;
  Cost time = 0;                   ///< until the last step has ended
  Cost computeTime = 0;            ///< sum of the costs of all runs
  Cost copyTime = 0;               ///< sum of the durations of all copies
  Bytes bytesOut = 0, bytesIn = 0; ///< that travel
  Bytes peakBytes = 0, slowPeakBytes = 0;
  std::vector<Bytes> bytesAt, slowBytesAt; ///< in each memory, at every step
  /// When a run or copy begins and ends, and from when to when an await holds the compute lane.
  std::vector<Cost> begins, ends;

  /// Time that the compute lane waits for copies.
  Cost exposed() const { return time - computeTime; }
  /// Time of copies that runs hide.
  Cost hidden() const { return copyTime - exposed(); }
};

/// Replays `solution`. A legal one runs every op at least once, and ops that are not recomputable
/// exactly once; reads only what is in fast memory, whole: not overwritten since, and awaited where
/// it was copied in; copies in only what has been copied out, whole; writes to no buffer that a
/// copy out still reads; awaits every copy; copies nothing that has to stay; holds every kept value
/// in fast memory at the end; and has no more than `budgetBytes` in fast and `lanes.slowBytes` in
/// slow memory at any step. O(steps + reads).
///
/// A copy out takes all values that are in the buffer. A copy in brings the buffer back: those of
/// its values that have not been computed again meanwhile are in it, and the value that the step
/// names.
LaneReplay verify(const Problem &problem, const Lanes &lanes, const LaneSolution &solution,
                  Bytes budgetBytes = kAnyBytes);

} // namespace stow::schedule
