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
// serves all budgets, so the solved cuts are kept as lines, and the bound of a budget is their
// maximum.
#pragma once

#include "passes/solvers/schedule/SaveOrRerun.h"

#include <map>

namespace stow::schedule {

class CutBound {
public:
  explicit CutBound(const Graph &graph);

  /// What the cuts of one refinement prove. Depends on the budget and `opCount` alone, not on what
  /// was refined before.
  struct Proof {
    std::optional<Cost> time;  ///< as timeBound
    double price = 0;          ///< per byte (scaled cost), of the best cut; 0: the bound is trivial
    std::optional<int32_t> op; ///< of the best cut
    std::vector<int32_t> ops;  ///< all whose cuts prove something, the best first
  };
  /// Solves cuts for the most promising ops at the prices that matter for `budgetBytes`; the bound
  /// of every budget can only grow. `opCount` ops are tried.
  Proof refine(Bytes budgetBytes, int opCount);

  /// A lower bound on the time of every schedule whose peak is at most `budgetBytes` (pinned bytes
  /// included); absent if no such schedule exists.
  std::optional<Cost> timeBound(Bytes budgetBytes) const;

  /// No schedule, whatever its time, has a smaller peak than this (as far as the solved cuts
  /// prove).
  Bytes peakBound() const { return leastPeak; }

  /// A lower bound on the peak of every schedule of at most this time: the least budget whose time
  /// bound does not exceed it.
  Bytes peakBoundForTime(Cost time) const;

  /// Scaled cost = cost * 2^shift().
  int shift() const { return costShift; }
  /// Ops by falling pressure: bytes that must cross their first run if nothing is run again.
  const std::vector<int32_t> &opsByPressure() const { return byPressure; }
  Bytes pressure(int32_t op) const { return pressureOf[op]; }
  /// Bytes in memory at the op's first run, in every schedule; pinned bytes included.
  Bytes atFirstRun(int32_t op) const { return mandatoryOf[op]; }
  /// Bytes in memory while the op runs, whatever else is: inputs, outputs, least workspace, less
  /// every credit that could apply; pinned bytes included.
  Bytes footprint(int32_t op) const;

  /// What is needed after the first run of `v`: the ops above it have run by then, those below it
  /// have not.
  SaveOrRerun::Boundary firstRunOf(int32_t v) const;

  /// The least possible time whose extra is at least `scaled` (scaled cost).
  Cost timeOfScaled(int64_t scaled) const;

private:
  struct Line {
    double price;
    int64_t value;   ///< of the cut, scaled cost
    Bytes footprint; ///< bytes of v itself, pinned bytes included
    int32_t op;      ///< v
  };
  struct Candidate {
    int32_t op;
    Bytes footprint;
    std::unique_ptr<SaveOrRerun> cut;
    std::map<double, SaveOrRerun::Answer> solved;
  };
  /// What a line proves at this budget, scaled cost.
  static int64_t provenBy(const Line &line, Bytes budgetBytes);
  std::vector<int32_t> opsThatProve(Bytes budgetBytes) const;
  int64_t scaledBound(Bytes budgetBytes, const std::vector<Line> &among, const Line **best) const;
  std::optional<Cost> timeFrom(int64_t scaled, Bytes budgetBytes) const;
  Candidate &candidateFor(int32_t op);
  void computePressure();
  void findPeakBound();
  const SaveOrRerun::Answer &solveAt(Candidate &candidate, double price);
  void maximize(Candidate &candidate, Bytes budgetBytes);

  const Graph &graph;
  int costShift = 0;
  Bytes leastPeak = 0;
  std::vector<Bytes> pressureOf, mandatoryOf; ///< at the first run of an op, itself included
  std::vector<int32_t> byPressure;
  std::vector<Line> lines;   ///< of all cuts solved so far
  std::vector<Line> current; ///< of the refinement at hand
  std::map<int32_t, Candidate> candidates;
};

} // namespace stow::schedule
