// The question behind both the bound and the cut schedule, as one minimum cut.
//
// At one boundary of a schedule some values are needed later. Each must either stay in memory across
// the boundary (its bytes, at a price per byte) or be computed again later (its op's cost, and then
// that op's inputs are needed later too):
//
//   minimize  sum of cost(t) * R_t  +  sum of weight(a) * [N_a and not R_producer(a)]
//   subject to  N_a = 1 for needed values,  R_t implies N_b for every input b of t
//
// Where values may lie in slow memory meanwhile, weight(a) is at most what it costs to fetch a.
//
//          weight(a)              cost(t)           unbounded
//   source --------> rerun(t) ------------> sink    rerun(t) -----> need(b) --weight(b)--> rerun(u)
//
// The cut puts rerun(t) on the source's side exactly if t is run again. Capacities are integers:
// weights are rounded down, so that the value of the cut is a certificate.
#pragma once

#include "passes/solvers/schedule/Graph.h"
#include "passes/solvers/schedule/MaxFlow.h"

#include <memory>

namespace stow::schedule {

/// floor(price * bytes) and ceil(price * bytes), exact: a double is a rational number.
int64_t priceDown(double price, Bytes bytes);
int64_t priceUp(double price, Bytes bytes);

/// Scaled costs are costs * 2^shift: so many that their sum, given unscaled, stays below 2^44.
int scaleShift(Cost total);

class SaveOrRerun {
public:
  /// What the caller knows about the boundary.
  struct Boundary {
    std::vector<int32_t> needed; ///< values that are read later whatever is decided
    std::vector<char> free;  ///< per value: in memory at the boundary anyway, keeping costs nothing
    std::vector<char> fixed; ///< per op: may not run again
    std::vector<Cost> rerunCost; ///< per op, in scaled cost
    /// Per value: where it is a view, it is written again with what it views. Empty: none is.
    std::vector<char> follows;
    /// A value may weigh more than all reruns together: at a high price the fewest bytes are kept,
    /// and where these are too many, nothing fits.
    bool isUncapped = false;
    /// Per value: overwritten by now, so that whoever reads it later needs a new run of its
    /// producer, too. Empty: none is.
    std::vector<char> gone;

    /// Per value: what it costs, in scaled cost, to have it in slow memory at the boundary and copy it
    /// in behind it. Empty: none can be.
    std::vector<int64_t> fetchCost;

    /// Ops that read what is gone may not run again if what computes that may not; nor may ops
    /// whose output is shown by a view that may not be written again.
    void spreadFixed(const Graph &graph);
  };

  SaveOrRerun(const Graph &graph, Boundary boundary);

  struct Answer {
    int64_t value = 0;           ///< of the minimum cut
    Cost rerunCost = 0;          ///< scaled cost of all reruns
    int64_t fetchCost = 0;       ///< of all values that are fetched
    Bytes keptBytes = 0;         ///< of kept values (free ones not counted)
    std::vector<int32_t> reruns; ///< ops, ascending
  };

  /// Solves at `price` (scaled cost per byte). `bias`, if given, multiplies the weight of each
  /// value (such answers are plans, not certificates).
  Answer solve(double price, const std::vector<double> *bias = nullptr);

  /// Work done by all solves so far (MaxFlow::work), and what building took.
  int64_t work() const { return flow->work() + buildWork; }

  /// Weights never exceed this: above it, unless they are uncapped, a byte more or less decides
  /// nothing.
  int64_t ceiling() const { return weightCeiling; }

private:
  struct Item {
    int32_t value;
    int32_t rerun; ///< node of the producer's rerun, or the sink
    int32_t arc;
    bool forced;
  };
  const Graph &graph;
  Boundary boundary;
  std::vector<int32_t> rerunNode, needNode; ///< -1: not in the network
  std::vector<int32_t> opOfNode;
  std::vector<Item> items;
  std::unique_ptr<MaxFlow> flow;
  int64_t weightCeiling = 0;
  int64_t buildWork = 0;
};

} // namespace stow::schedule
