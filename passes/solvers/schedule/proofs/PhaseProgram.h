// Bound L2: the phase program, a small integer program over the first runs of a chain of ops.
//
// Take ops v_1 < ... < v_K, each an ancestor of the next. The first run of v_k ends phase k; phase
// K + 1 is the rest. With R_k(t) = "t runs in phase k" and S_k(a) = "a is in memory across the end
// of phase k and read later", every schedule within the budget satisfies
//
//   R_k(t) <= S_{k-1}(b) + R_k(producer of b)       for every input b of t
//   S_k(a) <= S_{k-1}(a) + R_k(producer of a)
//   R_k(v_k) = 1;  R_j(v_k) = 0 for j < k
//   R_j(d) = 0 for j <= k and every strict descendant d of v_k
//   sum_k R_k(t) >= 1, within the first k phases for ancestors of v_k; = 1 if t may not run again
//   kept values are in memory after the last phase
//   bytes of S_k beside v_k's inputs, outputs and workspace <= budget
//
// so the least cost of R is a lower bound on its time, whatever the order and the repeats; cut
// bounds are its relaxation for K = 1.
//
// What happens inside a phase is relaxed. Where that matters the program's solution, replayed phase
// by phase, exceeds the budget at some op t inside a phase k. Then the phase is divided there by a
// conditional event, "t runs between the end of phase k - 1 and the next certain event":
//
//        v_1          t ?        v_2            If t runs, its first run there ends the phase, the
//   -----|------------:----------|------        bytes that stay across it and t's own fit the
//     1        2           3         4          budget, and nothing in the phase reads what it
//                                               writes. If not, the phase is empty, and t idle up
//                                               to v_2.
//
// Every schedule fits this form, for any op and any order of events, so the bound holds. A program
// divided until its replay fits the budget has proven that replay optimal.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

/// What ends a phase.
struct PhaseEvent {
  int32_t op = 0;
  bool conditional = false; ///< see above; otherwise the first run of the op
  bool operator==(const PhaseEvent &) const = default;
};

struct PhaseOptions {
  double seconds = 60;
  /// Time of the best schedule known: the program only has to rule out anything cheaper.
  std::optional<Cost> knownTime;
};

struct PhaseResult {
  /// No schedule within the budget is cheaper (up to the solver's tolerance of 1e-7 of the extra
  /// time); absent if the program has no solution: then the budget is infeasible.
  std::optional<Cost> bound;
  bool infeasible = false;
  double seconds = 0; ///< of processor time spent by the solver
  /// The program's solution replayed phase by phase, if one was found; may exceed the budget.
  std::optional<Sequence> sequence;
  /// The events, with one more where the replay exceeds the budget inside a phase.
  std::vector<PhaseEvent> refined;
  bool isRefined = false; ///< there is one more
};

/// False if the library was built without CBC.
bool phaseProgramAvailable();

/// A chain of certain events: from `start` along a longest path to the end, at most `phases`
/// ops.
std::vector<PhaseEvent> phaseChain(const Graph &graph, int32_t start, int phases);

/// Solves the program. Certain events must be a chain of ancestors. Throws Error(Internal) if built
/// without CBC.
PhaseResult solvePhaseProgram(const Graph &graph, const std::vector<PhaseEvent> &events,
                              Bytes budgetBytes, const PhaseOptions &options);

} // namespace stow::schedule
