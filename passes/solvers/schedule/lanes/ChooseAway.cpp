#include "passes/solvers/schedule/lanes/ChooseAway.h"

#include <algorithm>
#include <queue>

namespace stow::schedule {

AwayChooser::AwayChooser(const Residency &residency, AwayRule rule)
    : residency(residency), rule(rule) {
  for (size_t i = 0; i < residency.spells.size(); ++i)
    if (residency.spells[i].kind == Spell::Kind::Idle)
      order.push_back(static_cast<int32_t>(i));
  auto weight = [&](int32_t number) -> double {
    const Spell &spell = residency.spells[number];
    const auto time =
        static_cast<double>(residency.startOf[spell.to] - residency.startOf[spell.from + 1]);
    const auto bytes = static_cast<double>(spell.bytes);
    switch (rule) {
    case AwayRule::Longest:
      return -time;
    case AwayRule::Area:
      return -time * bytes;
    case AwayRule::Largest:
      return -bytes;
    case AwayRule::Farthest:
      return spell.from;
    }
    return 0;
  };
  std::vector<double> weights(residency.spells.size(), 0);
  for (int32_t number : order)
    weights[number] = weight(number);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::pair(weights[a], a) < std::pair(weights[b], b);
  });
}

void AwayChooser::takeInOrder(Bytes budgetBytes, RangePeak &peaks,
                              std::vector<int32_t> &taken) const {
  for (int32_t number : order) {
    if (peaks.peak() <= budgetBytes)
      return;
    const Spell &spell = residency.spells[number];
    if (peaks.peak(spell.from + 1, spell.to - 1) <= budgetBytes)
      continue;
    peaks.add(spell.from + 1, spell.to - 1, -spell.bytes);
    taken.push_back(number);
  }
}

void AwayChooser::takeFarthest(Bytes budgetBytes, RangePeak &peaks,
                               std::vector<int32_t> &taken) const {
  std::priority_queue<std::pair<int32_t, int32_t>> begun; // by `to`, then number
  size_t next = 0;
  for (int32_t position = 0; position <= residency.runs(); ++position) {
    for (; next < order.size() && residency.spells[order[next]].from < position; ++next)
      begun.push({residency.spells[order[next]].to, order[next]});
    while (!begun.empty() && begun.top().first > position &&
           peaks.peak(position, position) > budgetBytes) {
      const Spell &spell = residency.spells[begun.top().second];
      peaks.add(spell.from + 1, spell.to - 1, -spell.bytes);
      taken.push_back(begun.top().second);
      begun.pop();
    }
  }
}

std::optional<std::vector<int32_t>> AwayChooser::choose(Bytes budgetBytes) const {
  RangePeak peaks(residency.bytesAt);
  std::vector<int32_t> taken, kept;
  if (rule == AwayRule::Farthest)
    takeFarthest(budgetBytes, peaks, taken);
  else
    takeInOrder(budgetBytes, peaks, taken);
  if (peaks.peak() > budgetBytes)
    return std::nullopt;
  for (size_t i = taken.size(); i-- > 0;) {
    const Spell &spell = residency.spells[taken[i]];
    if (peaks.peak(spell.from + 1, spell.to - 1) + spell.bytes > budgetBytes)
      kept.push_back(taken[i]);
    else
      peaks.add(spell.from + 1, spell.to - 1, spell.bytes);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

} // namespace stow::schedule
