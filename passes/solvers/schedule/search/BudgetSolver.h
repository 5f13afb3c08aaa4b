// Schedules for one budget: cuts first, then search from the best of them.
//
// Everything here is a function of its arguments; nothing is learnt from one call to the next. The
// planner decides which budgets to solve and which of the schedules to keep.
#pragma once

#include "passes/solvers/schedule/Effort.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/search/LocalSearch.h"
#include "passes/solvers/schedule/search/MinCutRecompute.h"

#include <map>

namespace stow::schedule {

/// A schedule met on the way, with the figures of its replay.
struct Point {
  Bytes peak = 0;
  Cost time = 0;
  Solution solution;
  Sequence sequence;
};

/// Points that no other point dominates, by falling peak and rising time.
class Frontier {
public:
  void add(Point point);
  /// The cheapest point within the budget, or null.
  const Point *within(Bytes budget) const;
  const std::vector<Point> &points() const { return list; }

private:
  std::vector<Point> list;
};

class BudgetSolver {
public:
  BudgetSolver(const Problem &problem, const Graph &graph, const PlanOptions &options,
               const Effort &effort);

  /// Adds an order of the ops, without reruns, to start from. The last one added is the best.
  void addBase(Sequence order);
  const std::vector<Sequence> &bases() const { return orders; }

  /// Reruns do not nest, each needs more of them: cuts come less than half the way from the best
  /// order's peak to the bound on all peaks (under 0.25 of it on random layered graphs, over 0.7 on
  /// networks; U-Net++, at 0.47, is planned as well either way). Search does the work. Known once
  /// swept.
  bool hasExplodingReruns() const { return explodes; }

  /// The legal sequence as a point; absent if its replay finds a fault.
  std::optional<Point> pointOf(Sequence sequence, Bytes budget) const;

  struct Task {
    Bytes budget = 0;
    double pricePerByte = 0;   ///< of the cut bound, in cost per byte; 0: unknown
    std::optional<Cost> least; ///< no schedule within the budget takes less
    /// A bound like `least` that takes more work, where a schedule that takes `known` is at hand.
    std::function<Cost(Cost known)> closerBound = {};
    uint64_t seed = 1;
    /// Multiplies the work of cuts, evictions and searches. Below 1: `above` is close, and every
    /// search starts from it or from what it led to.
    double work = 1;
    const Point *above = nullptr; ///< a schedule with a higher peak
    const Point *below = nullptr; ///< a schedule that fits
    std::vector<char> failures;   ///< what the last answer for more memory says of its cuts
  };
  struct Answer {
    std::vector<Point> points;
    /// Per style of cuts and order, for how many budgets on the way here it led nowhere. What did
    /// so for three larger ones is not tried.
    std::vector<char> failures;
  };
  /// Every schedule within the budget that cuts and search come across; if search finds none, the
  /// one nearest to it.
  Answer solve(const Task &task) const;

  /// Search from one sequence: points within the budget, or the one nearest to it.
  void search(const Task &task, const Sequence *start, std::vector<Point> &found) const;

  /// Schedules within the budget from one that exceeds it a little: cut at its peaks, then without
  /// the reruns that are not needed.
  std::vector<Point> repair(const Sequence &start, Bytes budget) const;

  /// One cut at the peak per price, segmentation and base: the whole range of budgets at once. To
  /// be called before `solve`, which tries first what did best here.
  Frontier sweep(Bytes peakBound);

private:
  struct CutStyle {
    double segments, bias;
    size_t index = 0; ///< in the list of all
  };
  struct SweptStyle {
    double segments;
    std::vector<std::pair<Bytes, Cost>> points; ///< peak and time
  };
  std::vector<CutStyle> stylesFor(Bytes budget) const;
  std::vector<Sequence> cuts(const Task &task, std::vector<char> &failures) const;
  const std::vector<char> *barsFor(size_t base, double segments) const;
  void polish(const Task &task, SearchResult &result) const;
  int64_t cutWork(int64_t usual, double share = 1) const;
  bool cancelled() const { return options.cancelled && options.cancelled(); }

  const Problem &problem;
  const Graph &graph;
  const PlanOptions &options;
  const Effort effort;
  bool explodes = false;
  std::vector<Sequence> orders;
  std::vector<SweptStyle> sweptStyles;
  mutable std::map<std::pair<size_t, double>, std::vector<char>> bars; ///< computed on demand
};

} // namespace stow::schedule
