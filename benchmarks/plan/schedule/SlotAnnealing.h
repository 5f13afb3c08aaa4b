// A peer to measure against: simulated annealing over one vector of slots, after the description of
// FastSA (Imanishi et al., NeurIPS 2023). Order and reruns are one search: a run is added to an
// empty slot, taken out, or moved; the objective is max(budget, peak) * time, whose change is found
// on the Timeline of our own search. Written for this comparison from the paper's idea; its
// grouping of nodes is left out, since the graphs measured here are small enough without.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

struct PeerResult {
  Cost time = 0;
  Bytes peakBytes = 0;
  int64_t moves = 0;
};

/// Anneals for about `seconds` of CPU time from the input order. The best schedule within the
/// budget by time; if none is met, the one with the smallest peak.
PeerResult annealSlots(const Graph &graph, Bytes budgetBytes, double seconds, uint64_t seed);

} // namespace stow::schedule
