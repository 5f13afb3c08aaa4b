// The schedule problem with slow memory: ops on the compute lane, copies on lanes of their own.
//
// Beside the memory that ops read there is a larger, slower one (a host's beside a GPU, a disk
// beside RAM). A value need not be kept between two distant readers, nor computed again: its buffer
// may be copied out and, before it is read, in again. Each direction is a lane that copies one
// buffer at a time, while ops run on the compute lane.
//
//   compute   | a  | b  | c  |await a.in| d  |     steps  run a, out a, run b, await out a, run c,
//   out            |==a==|                                in a, await in a, run d
//   in                       |====a=====|
//   a, fast   [----------]   [----------------]    from its run to the end of the copy that reads it,
//   a, slow        [--------------------]          and from the start of the copy that writes it
//
// A solution is one list of steps, as a program issues them:
//   run       the op runs on the compute lane, behind every run and every await before it
//   out, in   a copy starts: as soon as its lane is free, not before the compute lane is here
//   await     the compute lane goes on when the copy has ended
// So what a step may rely on follows from the list alone, however long ops and copies take; times
// only say how long the compute lane waits.
//
// A buffer takes bytes of fast memory from the step that creates it (a run, or the start of a copy
// in) to the last that touches it: a run that reads or writes it, the await of a copy out. It takes
// bytes of slow memory from the start of the copy out to the last await of a copy in.
//
// State whose place is slow memory takes part as ops of the two copy lanes (OpLane). To run one starts
// its copy: a copy out of its input, a copy in that makes its output. Both take what a copy of these
// bytes takes, whatever the op costs in plain schedules, and both are awaited under the name of the
// value that is copied. So a step may fetch its optimizer's state just before an update, and send
// what the update wrote while other ops run. Where state lies in slow memory is its own: it takes no
// bytes of the capacity.
//
// Units: those of Problem; bandwidths in bytes per cost units.
#pragma once

#include "ir/plan/schedule/Problem.h"

namespace stow::schedule {

/// One direction between the two memories.
struct Link {
  Bytes bandwidthBytes = 1; ///< that pass in `perCost` cost units
  Cost perCost = 1;
  Cost latency = 0; ///< of every copy, its lane is busy for it
  /// latency + bytes / bandwidth, rounded up.
  Cost duration(Bytes bytes) const;
  bool operator==(const Link &) const = default;
};

struct Lanes {
  Link out, in;
  Bytes slowBytes = 0; ///< capacity of the slow memory, beside what state takes there
  /// Storages that are never copied, ascending; pinned ones need not be listed.
  std::vector<StorageId> stay;
  bool operator==(const Lanes &) const = default;

  /// Per storage, whether its buffers may be copied out and in: not pinned, not listed, not empty,
  /// and nothing that an op of a copy lane fetches or sends.
  std::vector<char> mayTravel(const Problem &problem) const;
};

struct Step {
  enum class Kind : int8_t { Run, Out, In, AwaitOut, AwaitIn };
  Kind kind = Kind::Run;
  int32_t id =
      0; ///< the op that runs or, of a copy lane, starts; otherwise the value whose buffer is copied
  int32_t alternative = 0; ///< of a run
  bool operator==(const Step &) const = default;
};

/// As files and messages name it: "run", "out", "await-out", "in" or "await-in".
const char *wordOf(Step::Kind kind);

/// A schedule: steps in the order in which they are issued.
struct LaneSolution {
  std::vector<Step> steps;
  bool operator==(const LaneSolution &) const = default;
};

/// Checks lanes that belong to a checked problem: positive bandwidths, latencies and a capacity
/// that are not negative, storages that exist, and copies of all storages together in representable
/// time. Throws Error(BadInput) naming the lane or storage at fault.
void check(const Problem &problem, const Lanes &lanes);

/// What a schedule may take at most, in cost units: a step adds at most 2^56 to the clock, so that sums stay in range.
inline constexpr Cost mostLaneTime = Cost(1) << 60;

/// The runs of a plain schedule as steps. Nothing travels but state, whose copies are awaited at once.
LaneSolution withoutCopies(const Problem &problem, const Solution &solution);

/// The runs alone, in order.
Solution runsOf(const LaneSolution &solution);

} // namespace stow::schedule
