// Bound L2: the phase program, a small integer program over the first runs of a chain of ops.
//
// Take ops v_1 < ... < v_K, each an ancestor of the next. The first run of v_k ends phase k; phase
// K + 1 is the rest. With R_k(t) = "t runs in phase k" and S_k(a) = "a is in memory across the end
// of phase k and read later", every schedule within the budget satisfies
//
//   R_k(t) <= S_{k-1}(b) + R_k(producer of b)       for every input b of t
//   S_k(a) <= S_{k-1}(a) + R_k(producer of a)
//   R_k(v_k) = 1;  R_j(v_k) = 0 for j < k;  R_j(d) = 0 for j <= k and every strict descendant d of
//   v_k sum_k R_k(t) >= 1, within the first k phases for ancestors of v_k; = 1 if t may not run
//   again kept values are in memory after the last phase bytes of S_k beside v_k's inputs, outputs
//   and workspace <= budget
//
// so the least cost of R is a lower bound on its time, whatever the order and the repeats; cut
// bounds are its relaxation for K = 1. What happens inside a phase is relaxed, hence a bound and
// not a plan; replayed phase by phase it is a good start for search, though.
#pragma once

#include "passes/solvers/schedule/Core.h"

namespace stow::schedule {

struct PhaseOptions {
  int phases = 24;
  double seconds = 60;
  /// Time of the best schedule known: the program only has to rule out anything cheaper.
  std::optional<Cost> knownTime;
};

struct PhaseResult {
  /// No schedule within the budget is cheaper (up to the solver's tolerance of 1e-7 of the extra
  /// time); absent if the program has no solution: then the budget is infeasible.
  std::optional<Cost> bound;
  bool infeasible = false;
  /// The program's solution replayed phase by phase, if one was found; may exceed the budget.
  std::optional<Sequence> sequence;
};

/// False if the library was built without CBC.
bool phaseProgramAvailable();

/// The chain used for the phases: from `start` along a longest path to the end, at most `phases`
/// ops.
std::vector<int32_t> phaseChain(const Core &core, int32_t start, int phases);

/// Solves the program for a chain that starts at `start` (an op of high pressure). Throws
/// Error(Internal) if built without CBC.
PhaseResult solvePhaseProgram(const Core &core, int32_t start, Bytes budgetBytes,
                              const PhaseOptions &options);

} // namespace stow::schedule
