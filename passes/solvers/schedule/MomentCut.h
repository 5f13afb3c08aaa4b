// One moment of a schedule as a minimum cut, whatever has run by then.
//
// KeepOrRerun asks what a moment costs if it is known which ops have run before it. Here that is
// part of the question. At a moment (the run of one op) the ops that have run before form a set D,
// closed towards ancestors; the ops that run at the moment or later form a set Y. Every op is in D
// or in Y; an op in both is run again, which costs extra time. A value is in memory if an op of Y
// reads it and its producer is not in Y. So every schedule whose bytes fit `room` pays at least
//
//   minimize   sum of cost(t) over D and Y
//   subject to bytes of values read by Y and written outside Y <= room,   weight(D) = level
//
// where the second row, if there is one, says which moment is meant (every schedule reaches every
// level). With a price per byte and a pull per unit of weight both rows move into the objective and
// what is left is one minimum cut over two nodes per op, on the source's side if
//
//   later(t): t is not in D          later(t) -> later(reader)    D is closed
//   again(t): t is in Y              later(t) -> again(t)         what has not run yet will
//                                    again(t) --cost--> later(t)  a rerun
//                                    again(reader) -> need(a) --bytes--> again(producer of a)
//
// Ops whose fate is decided are merged with the source or the sink. Capacities are integers,
// rounded so that the value is a certificate.
#pragma once

#include "passes/solvers/schedule/Core.h"
#include "passes/solvers/schedule/MaxFlow.h"

#include <memory>

namespace stow::schedule {

/// What is decided about an op.
enum class Fate : int8_t {
  Open,   ///< nothing
  Later,  ///< has not run before the moment
  Before, ///< has; may run again
  Once,   ///< has, and does not run again
  Again,  ///< has, and runs again
};

/// What is asked at a moment.
struct MomentQuestion {
  std::vector<Fate> fates;  ///< per op, of every schedule
  std::vector<char> isFree; ///< per value: its bytes are not counted
  Bytes room = 0;
  std::vector<int64_t> weights; ///< per op; empty: no level
  int64_t level = 0;
  /// -1: the weight may be pulled up by any amount per unit; otherwise at most by this multiple of
  /// the price of a byte.
  double mostPullUp = -1;
};

class MomentCut {
public:
  /// `costs` are scaled. Without `withReruns` nothing in D may run again.
  MomentCut(const Core &core, const MomentQuestion &question, const std::vector<Fate> &fates,
            const std::vector<Cost> &costs, bool withReruns);

  struct Answer {
    int64_t value = 0; ///< the cost of every schedule is at least this (scaled)
    /// The cost function of the minimizer: value <= cost + price * excess + pull * weightExcess.
    double cost = 0, excess = 0, weightExcess = 0;
    std::vector<Fate> fates; ///< the minimizer: Later, Once or Again
  };
  /// `price` per byte and `pull` per unit of weight, in scaled cost. A positive pull makes D
  /// smaller.
  Answer solve(double price, double pull);

  /// Adds what each op's rerun cost contributes to the last answer's value: with these costs alone
  /// the value is the same.
  void charges(std::vector<Cost> &most) const;

  int64_t work() const { return flow->work() + buildWork; }

private:
  struct Item {
    int32_t arc;
    Bytes bytes;
  };
  struct Lever { ///< an open op at the level
    int32_t op, raise, lower;
  };
  int32_t node() { return nodes++; }
  void placeOps(const std::vector<Cost> &costs, bool withReruns);
  bool isNeeded(int32_t value) const;
  void placeValues();

  const Core &core;
  const MomentQuestion &question;
  const std::vector<Fate> fates;
  struct Arc {
    int32_t from, to;
    int64_t capacity;
  };
  struct Rerun {
    int32_t op, arc;
    Cost cost;
  };
  std::vector<Arc> arcs;
  std::vector<int32_t> laterNode, againNode;
  std::vector<Item> items;
  std::vector<Lever> levers;
  std::vector<Rerun> reruns;
  std::vector<std::pair<int32_t, Cost>> certain; ///< reruns decided
  std::unique_ptr<MaxFlow> flow;
  int32_t nodes = 2;
  Bytes certainBytes = 0;
  Cost certainCost = 0;
  int64_t weightBefore = 0, weightOpen = 0; ///< of decided ops in D, of open ops
  int64_t share = 0, buildWork = 0;
};

} // namespace stow::schedule
