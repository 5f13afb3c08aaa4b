// Phase programs of rising size until one proves the schedule at hand (stowage remat --prove).
#pragma once

#include "passes/solvers/schedule/bounds/CutBound.h"
#include "passes/solvers/schedule/search/BudgetSolver.h"

namespace stow::schedule {

/// Whether `time` is the least: phase programs are solved in floating point, and their bound is exact up to a
/// small part of the extra time.
bool meetsPhaseBound(const Graph &graph, Cost time, std::optional<Cost> least);

struct PhaseProofTask {
  Bytes budget = 0;
  CutBound::Proof cut; ///< with a time
  Cost least = 0;      ///< what cuts and branching prove
  double seconds = 0;
  std::function<bool()> cancelled;
};

struct PhaseProof {
  std::optional<Point> best; ///< the cheapest schedule known
  std::optional<Cost> bound; ///< L2
  bool infeasible = false;
};

/// Each program is refined while its replay exceeds the budget inside a phase. Replays, with reruns delayed to
/// their readers, may be better schedules than `known` themselves, or start a search for one.
PhaseProof proveByPhases(const Graph &graph, const CutBound &bound, const BudgetSolver &solver,
                         const PhaseProofTask &task, std::optional<Point> known);

} // namespace stow::schedule
