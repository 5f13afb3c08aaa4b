// A schedule brought into less room: what is asked when the packing of a schedule's buffers takes
// more than their bytes, and some positions must do with less.
#pragma once

#include "ir/plan/schedule/Capacity.h"

#include <optional>

namespace stow::schedule {

/// `solution` brought within the capacity by further recomputation: cuts at the positions that
/// exceed their room, the farthest first, then without the reruns that are not needed (MinCutRecompute).
/// The cheapest of several tries; absent if none succeeds, which proves nothing. The order of first
/// runs stays. Throws Error(BadInput) for a capacity that does not belong to the problem.
std::optional<Solution> fitCapacity(const Problem &problem, const Solution &solution,
                                    const Capacity &capacity);

} // namespace stow::schedule
