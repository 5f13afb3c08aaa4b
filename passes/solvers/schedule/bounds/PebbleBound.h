// A lower bound on the peak of every schedule: values do not come together in memory for free.
//
// When an op v runs for the first time its inputs are in memory together. One of them was written
// last, by some op u: while u ran, the others were there already, beside what u reads and writes.
// Before that, the others and u's inputs were there together, and so on back to values that exist
// from the start. Whoever goes back chooses at each step what was written last; the least over all
// ways back of the most bytes on the way is a bound. It is the black pebble game (Sethi, "Complete
// register allocation problems", 1975) played backwards from one op, with bytes for pebbles.
//
// It sees what one op alone does not show: where four large tensors meet and each can only be
// written beside the other three and something more, the peak is that much higher.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

/// A lower bound on the peak of every schedule (pinned bytes included). `together`: values that are
/// in memory together at some position of every schedule, before or after reruns; `atOnce` bytes are
/// in memory then. `allowance` limits the sizes of all sets of values that are made; what is
/// returned when it is spent holds too.
Bytes pebbleBound(const Graph &graph, std::vector<int32_t> together, Bytes atOnce,
                  int64_t allowance);

} // namespace stow::schedule
