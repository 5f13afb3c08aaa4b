// The way down the tree of budgets: which node is solved next, and what its answer means for those to come.
//
//   100 % of the input order's peak
//    |        a node is a quarter of a percent; a range of nodes is split at a round one (pivot), which
//    +- 50 %  has an answer (the way goes on below or above it) or none (above it)
//    |  +- 40
//    |  +- ...
//    |- steps below the last answer, each from what the one above it found
#pragma once

#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/search/BudgetSolver.h"

namespace stow::schedule {

/// The nodes of a problem's tree.
struct BudgetGrid {
  static constexpr int whole = 400; ///< nodes in 100 %

  Bytes fullPeak = 0;
  int lowest = 0, highest = whole; ///< what bounds leave open
  /// Distances of nodes: of those on which the smallest peak is looked for, and of those that are
  /// solved for a budget between others.
  int coarse = 1, fine = 1;
  bool explodes = false; ///< reruns explode: the lower part of a range is out of reach

  Bytes rung(int node) const { return percentOf(fullPeak, 100.0 * node / whole); }
  int shortestStride() const { return std::min(coarse / 4, fine); }
};

/// What more memory and what less memory is answered with. Points belong to the nodes that found
/// them, and to the sweep.
struct AnswerBox {
  const Point *high;
  const Point *low = nullptr;
  Bytes refused = -1; ///< a budget that found nothing

  /// The cheapest point of the pool within the budget that lies in the box, ties to the smaller
  /// peak; null if there is none. No peak may be `refused` or less.
  const Point *choose(const std::vector<const Point *> &pool, Bytes budget) const;
};

/// A way down the tree: the range of nodes that is left, and what holds in it.
///
/// A search that starts far above its budget may find nothing where one that starts close to it
/// does. So below the last answer of the tree there are steps. Each starts from what the one above
/// it found; where one finds nothing, half of it is tried.
struct Descent {
  struct Step {
    int node = 0;
    const Point *best, *own; ///< the node's answers
    const std::vector<char> *failures;
  };

  /// From the best order, with what is known already.
  Descent(const BudgetGrid &grid, const Point *order, std::vector<const Point *> known);

  /// The node that comes next; absent if there is none of at least `least`.
  std::optional<int> nextNode(int least);
  /// True where a node without an answer may be followed by a shorter step.
  bool shortenStep();
  void goBelow(const Step &step);
  void goAbove(const Step &step);

  const BudgetGrid grid;
  enum class Part { Tree, Steps, Between } part = Part::Tree;
  bool wentBelow = false;          ///< at the last node
  int stride = 0;                  ///< nodes to the next step
  size_t steps = 0;                ///< taken so far
  std::vector<const Point *> pool; ///< everything met
  AnswerBox box;
  /// The same of this planner's own searches, without what others have found: searches start from
  /// these, so that what they find does not depend on others.
  std::vector<const Point *> ownPool;
  AnswerBox own;
  int from, to;
  Cost most = kAnyTime;       ///< what takes more is of no use
  bool isBounded = false;     ///< from below: by an answer, or by what takes too long
  double work = 5;            ///< left for nodes to come, in usual nodes
  std::vector<char> failures; ///< cuts that came to nothing for more memory

private:
  std::optional<int> pivot(int finest) const;
};

} // namespace stow::schedule
