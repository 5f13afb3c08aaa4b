// Dynamic programs for chains: the optimal checkpoints of a forward chain and its backward.
//
//   f_0 -> f_1 -> ... -> f_{n-1} -> b_{n-1} -> ... -> b_1 -> b_0
//   f_i reads a_{i-1} and writes a_i; b_i reads a_{i-1} and g_{i+1} (b_{n-1}: a_{n-1}) and writes
//   g_i
//
// Rotor (Beaumont et al. 2019, arXiv 1911.13214), here with checkpoints of inputs only since that
// is all these backwards read: to run b_j..b_i from a_{i-1}, go forward to some a_{k-1}, keep it,
// run b_j..b_k from there, come back and run b_{k-1}..b_i. The program finds the cheapest such
// ("persistent") schedule under a budget; with unit costs and sizes it is Revolve (Griewank and
// Walther 2000). It is an oracle for the general solvers and an option of the command line.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

struct Chain {
  std::vector<int32_t> forward, backward; ///< graph ops: f_0.., b_0..
  std::vector<Cost> forwardCost, backwardCost;
  std::vector<Bytes> sizes;         ///< of a_i
  std::vector<Bytes> gradientSizes; ///< of g_i
};

/// The chain that the problem is, if it is one (no workspace, no alternatives, nothing kept).
std::optional<Chain> asChain(const Graph &graph);

/// The cheapest persistent schedule within the budget; absent if there is none. Sizes are counted
/// in at most `slots` equal parts of the budget, rounded up (exact if their greatest common divisor
/// allows). O(n^3 * slots).
std::optional<Sequence> rotorSchedule(const Graph &graph, const Chain &chain, Bytes budgetBytes,
                                      int slots = 400);

} // namespace stow::schedule
