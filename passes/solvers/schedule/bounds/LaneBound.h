// Bound L1 with slow memory: a lower bound on time that holds for every order, any number of reruns
// and of copies.
//
// Take an op v and its first run, as CutBound does. What is read behind it is in fast memory then,
// runs again behind it, or is fetched: a set F of buffers that are in slow memory while v runs. A
// buffer whose copy out is not awaited by then is still in fast memory, and so is one whose copy in
// has started. So all of F has been copied out before v starts, and is copied in after v has ended:
//
//   compute  | ops above v     | v | ops below v, reruns R   |     time >= all ops once + R      (1)
//   out      | copies out of F |                                   time >= out(F) + v and below + R (2)
//   in                             | copies in of F          |     time >= above and v + in(F)   (3)
//
// Time is no less than any mean of the three. With weights a1 + a2 + a3 = 1, a rerun costs (a1 + a2)
// times its op, a fetch a2 * out + a3 * in, and a byte that is kept the price: again one minimum cut
// (SaveOrRerun), whose value less price * (budget - bytes of v) is a bound for every price and all
// weights. Weights are eighths, capacities integers, so the inequality survives.
//
// Two memories hold no more than one of the size of both: a schedule with copies is one without in
// `budget + slow` bytes, if no op overwrites what could run again (a copy in slow memory outlives
// that). So the bounds without slow memory hold there, for time as for the peak.
#pragma once

#include "ir/plan/schedule/Lanes.h"
#include "passes/solvers/schedule/bounds/CutBound.h"

namespace stow::schedule {

/// The bound that holds for copies of state (OpLane): each lane copies what its ops copy, once, in no
/// less time. The graph of a LaneBound has such ops at no cost.
Cost lowerBoundOfCopies(const Problem &problem, const Lanes &lanes);

class LaneBound {
public:
  /// `cuts` belongs to the graph; both outlive this. Storages that have to stay are taken for such
  /// that need not, which weakens the bound.
  LaneBound(const Graph &graph, CutBound &cuts, const Lanes &lanes);

  /// No schedule has a smaller peak in fast memory: the largest op, what is kept at the end, and
  /// what does not fit into slow memory.
  Bytes peakBound() const { return leastPeak; }

  /// No schedule whose peak is at most the budget takes less time; absent if there is none. Cuts at
  /// the `opCount` ops of the highest pressure.
  std::optional<Cost> time(Bytes budgetBytes, int opCount);

  /// The same for memory: no schedule that takes at most `time` has a smaller peak than this, which
  /// is at most `knownBytes`, the peak of one that there is. Bisection: a budget whose bound on time
  /// is above `time` is too small.
  Bytes peakWithin(Cost time, Bytes knownBytes, int opCount);

private:
  /// In eighths.
  struct Weights {
    int64_t all, out, in;
  };
  struct Side {
    int32_t op;
    Cost withAbove, withBelow; ///< least time of the op and those above it, below it
  };
  Side sideOf(int32_t op) const;
  Cost boundAt(const Side &side, const Weights &weights, Bytes room);

  const Graph &graph;
  CutBound &cuts;
  const Lanes lanes;
  int shift = 0;
  Bytes leastPeak = 0;
};

} // namespace stow::schedule
