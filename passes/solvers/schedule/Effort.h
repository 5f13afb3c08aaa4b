// How much is spent on a problem of a given size: every number of the planner that depends on it.
//
// Each falls or rises steadily with the number of ops, between limits. Behind each stands the row of
// benchmarks/results/schedule.md that it serves: what gets worse, or takes too long, with less or
// more of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace stow::schedule {

class Effort {
public:
  /// `scale` multiplies the moves of all searches (PlanOptions::effort). `share`: of all work, where
  /// it is divided between searches for one answer.
  Effort(size_t opCount, double scale, double share = 1)
      : count(static_cast<double>(std::max<size_t>(opCount, 1))), scale(scale), share(share) {}

  /// Where ops overwrite, the part of the work that the same problem with copies gets:
  /// inplace-recurrent-20 at 40 %; seconds of recurrent-1060, whose fixed costs would be twice as high.
  static double shareOfCopies(size_t opCount) {
    return within(0.5 - static_cast<double>(opCount) / 24'000, 0, 0.5);
  }

  /// Moves of the search for orders: layered-1000-2 at 80 %; seconds of recurrent-1060.
  int64_t orderMoves() const { return times(within(2.45e8 / count, 0, 75'000)); }
  /// The gain, as a share of the least bytes, below which orders are not searched: seconds of
  /// recurrent-1060, whose input order is nearly the best.
  double orderGain() const {
    const double large = std::min(count / 12'000, 1.0);
    return 0.02 * large * large * large * large;
  }
  /// Ops at which cuts prove a bound: gpt-235, all budgets.
  int boundOps() const { return whole(within(2.4e5 / count, 12, 64)); }
  /// Work of branching for a bound that may make a search needless: seconds of vgg19 for what it
  /// is, of gpt-235 for no more.
  int64_t branchWork() const { return static_cast<int64_t>(within(1e10 / count / count, 0, 4e6)); }
  /// Rounds of cuts at the highest position: unet at 50 %; seconds of gpt-20.
  int cutRounds() const { return whole(within(3e4 / count, 16, 60)); }
  /// Work of all cuts for one budget: mobilenet-1 at 60 % for the constant, recurrent-1060 at 30 %
  /// for what grows; seconds of 50,000 ops for what an op may take at most.
  int64_t cutWork() const { return cutWork(within(5 * count, 2'500, 25'000)); }
  /// The same for a cut of a schedule that nearly fits: capacity per position, proofs.
  int64_t repairWork() const { return cutWork(2500); }
  int64_t sweepWork() const { return cutWork(1500); }
  /// Prices of a sweep: frontiers of gpt-235 and recurrent-1060.
  int prices() const { return whole(within(4.9e5 / count, 40, 64)); }
  /// Of the cheapest schedules that cuts find, those that lose their needless reruns: recurrent-1060.
  size_t dropped() const { return static_cast<size_t>(within(3e4 / count, 1, 3)); }
  /// Moves of all searches for one budget; one takes longer on larger graphs, where it touches more
  /// memory, and where reruns explode, the more so on small graphs: layered-1000-1 at 60 % and
  /// gpt-235 within their seconds.
  int64_t moves(bool explodes) const {
    const double usual = within(std::min(9e7 / (count + 151), 6.5e7 / (count + 1)), 6'000, 300'000);
    return times(explodes ? usual * within(0.55 + count / 1'100, 0.55, 1) : usual);
  }

  /// Parts of the schedule (SearchOptions::parts) in searches that start near the budget. In large
  /// networks what is nearly right already is searched for its peak alone: unet-1 at 50 % for the
  /// most; inplace-residual-33 and recurrent-1060 at 30 % for none.
  double partsNearBudget() const { return within(8 - count / 50, 0, 4); }

  /// Values and ops that evictions for one budget look at: unet-1 at 90 %; seconds of gpt-235.
  int64_t evictionWork() const {
    return static_cast<int64_t>(share * within(7.5e9 / count, 0, 3e6));
  }
  /// Runs of a window that is put into the best order after a search, which takes time that is
  /// exponential in them, in every window: unet-1 at 50 %; seconds of gpt-235.
  size_t windowRuns() const { return static_cast<size_t>(within(2.5e4 / count, 0, 10)); }
  /// The part of the room that a cut may leave free, because closer prices take more flows:
  /// seconds of gpt-235.
  double cutTolerance() const { return within(2e-6 * count, 0, 0.01); }

  /// Nodes of the tree of budgets, in quarters of a percent: the finest that is solved for a budget
  /// between others, for the smallest peak, and for a frontier. Seconds of layered-1000-1 at 62.2 %.
  int finestNode() const { return std::min(ladder(count / 400), 4); }
  int smallestPeakNode() const { return std::clamp(ladder(count / 625), 4, 20); }
  int frontierNode() const { return std::max(ladder(count / 100), 4); }

  /// With slow memory: percents between the budgets that copies are placed for, and ops at which
  /// cuts bound the time. Seconds of recurrent-1060.
  int laneBudgetStep() const { return count > 5'000 ? 5 : count > 1'500 ? 2 : 1; }
  int laneBoundOps() const { return whole(within(2e4 / count, 4, 12)); }

private:
  static int ladder(double least) {
    for (int step : {1, 4, 20})
      if (step >= least)
        return step;
    return 40;
  }
  static double within(double value, double least, double most) {
    return std::clamp(value, least, most);
  }
  static int whole(double value) { return static_cast<int>(value); }
  int64_t times(double value) const { return static_cast<int64_t>(scale * share * value); }
  int64_t cutWork(double perOp) const {
    return static_cast<int64_t>(share * (12e6 + perOp * count));
  }

  double count, scale, share;
};

} // namespace stow::schedule
