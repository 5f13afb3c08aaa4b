// Schedules by eviction: the order is run on paper inside a budget, and where a result does not
// fit, values are thrown out and computed again when something reads them.
//
// The rule is that of Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021), which decides
// while a step runs and knows only the past: throw out what is cheap to compute again, large, and
// long not used. Here the order is known, so "long not used" is "not used for long". Reruns nest as
// deeply as they must, so that budgets far below those of single cuts are met, at a price.
#pragma once

#include "passes/solvers/schedule/Graph.h"

namespace stow::schedule {

/// The value with the least cost^(costHalves/2) / (bytes * wait^(waitHalves/2)) goes first: `cost`
/// is that of everything that would have to run again for it, `wait` the time until its next use.
/// Halves keep powers exact on every machine.
struct EvictionRule {
  int costHalves = 2;
  int waitHalves = 2;
};

/// Rules worth trying, from shallow budgets to deep ones: none is best everywhere.
inline constexpr EvictionRule kEvictionRules[] = {{2, 0}, {2, 1}, {3, 0}, {3, 1},
                                                  {4, 2}, {4, 4}, {6, 4}, {1, 2}};

/// Runs `base`, which runs every op once, within `targetBytes` (pinned bytes included). Credits are
/// granted as the rule foresees last uses, so the peak of the result may differ somewhat from the
/// target: measure it. Absent if the locked operands of nested reruns do not fit, if a value would
/// have to be computed again from one that is overwritten, if there are more than `maxRuns`, or if
/// the values and ops that are looked at use up `allowance`, which is counted down.
std::optional<Sequence> evictOnDemand(const Graph &graph, const Sequence &base, Bytes targetBytes,
                                      const EvictionRule &rule, size_t maxRuns,
                                      int64_t *allowance = nullptr);

} // namespace stow::schedule
