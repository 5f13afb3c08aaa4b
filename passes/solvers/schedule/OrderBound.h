// Bound L1 with orders: a cut bound that decides which of two ops runs first.
//
// A cut at the first run of v (CutBound) charges reruns of ops above v only: ops beside v may run
// for the first time after it, at no extra time. Where graphs are wide that is most of the freedom
// of an order, and the bound is weak. But of two ops u and v one runs first. If u does, u and all
// above it have run at v's first run; if v does, the same holds the other way round, and u and all
// below it are still to come at v's. Each case is a graph with one more precedence and has stronger
// cuts; the smaller of the two bounds holds. Repeated, this is a tree of precedences:
//
//              v ? u                 bound of the tree = the least bound of its leaves
//            /       \               bound of a leaf   = the best cut at any of its pairs' ops
//        u < v       v < u
//        /  \         /  \           The leaf with the least bound is split next.
//
// Every cut is an integer certificate, so the bound is one too.
#pragma once

#include "passes/solvers/schedule/CutBound.h"

namespace stow::schedule {

/// A lower bound on the time of every schedule whose peak is at most `budgetBytes`, starting from
/// what `bound` proves at `start` ops of high pressure. `allowance` is the work of cuts
/// (KeepOrRerun::work) that may be spent. At most 4,000 ops; larger problems get the least time.
Cost orderedTimeBound(const Core &core, const CutBound &bound, Bytes budgetBytes,
                      std::vector<int32_t> start, int64_t allowance);

} // namespace stow::schedule
