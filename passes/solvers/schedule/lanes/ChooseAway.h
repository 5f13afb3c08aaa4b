// Which idle spells of a schedule are spent in slow memory, so that the rest fits a budget.
//
// A rule takes spells one after the other as long as some run that they lie across has more than the
// budget; then those are given back, the last taken first, whose bytes fit after all. No rule knows
// how fast copies are, so what is chosen for a budget is the same on every machine.
#pragma once

#include "passes/solvers/schedule/lanes/Residency.h"

namespace stow::schedule {

enum class AwayRule : int8_t {
  Longest,  ///< by time between the runs around the spell: the most time to hide the copies in
  Area,     ///< by time and bytes: few copies
  Largest,  ///< by bytes
  Farthest, ///< at the first run above the budget: what is read the latest (Belady 1966)
};
inline constexpr AwayRule kAwayRules[] = {AwayRule::Longest, AwayRule::Area, AwayRule::Farthest,
                                          AwayRule::Largest};

/// The spells of a schedule in the order of one rule.
class AwayChooser {
public:
  AwayChooser(const Residency &residency, AwayRule rule);

  /// The spells that go, ascending; absent if the budget is not met with all of them away.
  std::optional<std::vector<int32_t>> choose(Bytes budgetBytes) const;

private:
  void takeInOrder(Bytes budgetBytes, RangePeak &peaks, std::vector<int32_t> &taken) const;
  void takeFarthest(Bytes budgetBytes, RangePeak &peaks, std::vector<int32_t> &taken) const;

  const Residency &residency;
  const AwayRule rule;
  std::vector<int32_t> order; ///< by the rule; by `from` for the farthest
};

} // namespace stow::schedule
