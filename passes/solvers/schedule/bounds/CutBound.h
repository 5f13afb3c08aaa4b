// Bound L1: a lower bound on extra time that holds for every order and any number of reruns.
//
// Take an op v. When v runs for the first time, no strict descendant of v has run; all of them run
// later and read what they read. So the values that descendants of v read (and that are no
// descendants' outputs) must be in memory across that boundary, or be computed again after it. Ops
// above v have run once already: running them again is extra time. What stays in memory must fit
// beside v's inputs, outputs and workspace. With a price on bytes this is one minimum cut
// (SaveOrRerun), and for every price
//
//   extra time >= cut value - price * (budget - bytes of v)
//
// is a proven bound: capacities are integers, rounded so that the inequality survives. One cut
// serves all budgets, so what the solved cuts cost and keep is remembered.
#pragma once

#include "passes/solvers/schedule/SaveOrRerun.h"

#include <map>

namespace stow::schedule {

class CutBound {
public:
  explicit CutBound(const Graph &graph);

  struct Proof {
    /// No schedule whose peak is at most the budget (pinned bytes included) takes less; absent if
    /// none exists.
    std::optional<Cost> time;
    double price = 0;          ///< per byte (scaled cost), of the best cut; 0: the bound is trivial
    std::optional<int32_t> op; ///< of the best cut
  };
  /// Solves cuts for the `opCount` most promising ops at the prices that matter for `budgetBytes`.
  /// The proof depends on these two alone, not on what was refined before.
  Proof refine(Bytes budgetBytes, int opCount);

  /// No schedule, whatever its time, has a smaller peak than this.
  Bytes peakBound() const { return leastPeak; }

  /// Scaled cost = cost * 2^shift().
  int shift() const { return costShift; }
  /// Ops by falling pressure: bytes that must cross their first run if nothing is run again. On graphs of
  /// tens of thousands of ops 0 for those that few bytes cross in input order.
  const std::vector<int32_t> &opsByPressure() const { return byPressure; }
  Bytes pressure(int32_t op) const { return pressureOf[op]; }
  /// Bytes in memory at the op's first run, in every schedule; pinned bytes included, or 0 where the
  /// pressure is.
  Bytes atFirstRun(int32_t op) const { return mandatoryOf[op]; }

  /// What is needed after the first run of `v`: the ops above it have run by then, those below it
  /// have not.
  SaveOrRerun::Boundary firstRunOf(int32_t v) const;

  /// The least possible time whose extra is at least `scaled` (scaled cost).
  Cost timeOfScaled(int64_t scaled) const;

private:
  struct Candidate {
    std::unique_ptr<SaveOrRerun> cut;
    std::map<double, SaveOrRerun::Answer> solved; ///< by price; without lists of ops
  };
  /// What the cuts of one op prove at one budget.
  struct Best {
    int64_t value = 0; ///< scaled cost
    double price = 0;
  };
  Candidate &candidateFor(int32_t op);
  std::vector<size_t> blocksOfPressure(const std::vector<int32_t> &lastReader) const;
  void computePressure();
  void findPeakBound();
  static const SaveOrRerun::Answer &solveAt(Candidate &candidate, double price);
  Best maximize(Candidate &candidate, Bytes room);

  const Graph &graph;
  int costShift = 0;
  Bytes leastPeak = 0;
  std::vector<Bytes> pressureOf, mandatoryOf; ///< at the first run of an op, itself included
  std::vector<int32_t> byPressure;
  std::map<int32_t, Candidate> candidates;
};

} // namespace stow::schedule
