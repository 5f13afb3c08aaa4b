#include "passes/solvers/pack/OrderState.h"

#include <algorithm>

namespace stow::pack {

/// The conflict rests on `literal`, which is true.
void OrderSearch::rest(Literal literal) {
  const int32_t position = entryOf[literal >> 1];
  if (marked[position] || trail[position].level == 0)
    return;
  marked[position] = 1;
  markedEntries.push_back(position);
  open += trail[position].level == level();
}

/// The conflict rests on a bound being `atLeast`: on the first entry that says so.
void OrderSearch::restOnBound(int32_t item, int side, Bytes atLeast) {
  int32_t position = newest[nodeOf(item, side)];
  if (position < 0 || atLeast <= 0)
    return;
  while (trail[position].previous >= 0 && trail[trail[position].previous].value >= atLeast)
    position = trail[position].previous;
  if (trail[position].level == 0)
    return;
  if (marked[position]) {
    required[position] = std::max(required[position], atLeast);
    return;
  }
  marked[position] = 1;
  required[position] = atLeast;
  markedEntries.push_back(position);
  open += trail[position].level == level();
}

/// The bound as it was before the entry at `position`.
Bytes OrderSearch::boundAt(int32_t node, int32_t position) const {
  int32_t entry = newest[node];
  while (entry >= position)
    entry = trail[entry].previous;
  return entry < 0 ? 0 : trail[entry].value;
}

/// Marks what the entry at `position` follows from.
void OrderSearch::explain(int32_t position) {
  const Entry entry = trail[position];
  ++work;
  switch (entry.reason.kind) {
  case Reason::Kind::Decision:
    return;
  case Reason::Kind::Clause:
    for (Literal literal : clauses[entry.reason.first].literals)
      if (literal != entry.literal)
        rest(literal ^ 1);
    work += static_cast<int64_t>(clauses[entry.reason.first].literals.size()) / 4;
    return;
  case Reason::Kind::TooHigh:
    return explainTooHigh(entry.literal, position);
  case Reason::Kind::Chain: {
    const int32_t item = entry.node / 2, side = entry.node % 2, from = entry.reason.first;
    rest(nearer(side, from, item));
    return restOnBound(from, side, required[position] - data.step[from]);
  }
  case Reason::Kind::Load:
    return explainLoad(entry, position, required[position]);
  case Reason::Kind::Edge: {
    const int32_t a = lowerOf(entry.literal), b = lowerOf(entry.literal ^ 1);
    return explainEdge(entry.reason, position, entry.reason.second == a ? b : a);
  }
  }
}

/// The largest items first: few literals are enough.
void OrderSearch::explainLoad(const Entry &entry, int32_t position, Bytes atLeast) {
  const int32_t item = entry.node / 2, side = entry.node % 2;
  std::vector<std::pair<Bytes, Literal>> parts;
  for (int32_t other : itemsOf[entry.reason.first])
    if (other != item) {
      const Literal literal = nearer(side, other, item);
      if (isTrue(literal) && entryOf[literal >> 1] < position)
        parts.push_back({-data.step[other], literal});
    }
  work += static_cast<int64_t>(itemsOf[entry.reason.first].size());
  std::sort(parts.begin(), parts.end());
  for (const auto &[size, literal] : parts) {
    if (atLeast <= 0)
      return;
    rest(literal);
    atLeast += size;
  }
}

/// "`literal`'s upper item below the lower one" would have left the capacity.
void OrderSearch::explainTooHigh(Literal literal, int32_t position) {
  const int32_t under = lowerOf(literal ^ 1), over = lowerOf(literal); // in the other order
  const Bytes low = boundAt(nodeOf(under, 0), position), high = boundAt(nodeOf(over, 1), position);
  const Bytes excess = low + data.step[under] + data.step[over] + high - capacity - 1;
  const Bytes less = std::min(excess, low);
  restOnBound(under, 0, low - less);
  restOnBound(over, 1, high - (excess - less));
}

/// Items of a section that start at `near` or beyond, with `far` bytes or more on their other side,
/// leave no room: for item `second` among them before `other`, or at all where it is -1.
void OrderSearch::explainEdge(const Reason &reason, int32_t position, int32_t other) {
  const std::vector<int32_t> &items = itemsOf[reason.first];
  const int side = reason.side;
  std::vector<std::pair<Bytes, int32_t>> group;
  Bytes sum = 0;
  auto add = [&](int32_t item) { sum += data.step[item]; };
  for (int32_t item : items) {
    if (item == reason.second || item == other)
      continue;
    if (boundAt(nodeOf(item, side), position) >= reason.near &&
        boundAt(nodeOf(item, 1 - side), position) >= reason.far)
      group.push_back({data.step[item], item});
  }
  work += static_cast<int64_t>(items.size()) * 2;
  std::sort(group.begin(), group.end(), std::greater<>());
  if (reason.second >= 0)
    add(reason.second);
  if (other >= 0)
    add(other);
  // The largest that are enough.
  size_t used = 0;
  while (used < group.size() && reason.near + sum + reason.far <= capacity)
    add(group[used++].second);
  group.resize(used);
  Bytes excess = reason.near + sum + reason.far - capacity - 1;
  const Bytes farther = std::min(excess, reason.far);
  const Bytes far = reason.far - farther, near = reason.near - (excess - farther);
  auto restOn = [&](int32_t item, bool isNear) {
    if (isNear)
      restOnBound(item, side, near);
    restOnBound(item, 1 - side, far);
  };
  for (const auto &[size, item] : group)
    restOn(item, true);
  if (other >= 0)
    restOn(other, true);
  if (reason.second >= 0)
    restOn(reason.second, false);
}

/// `literal` follows from `reason`, but its opposite is true.
void OrderSearch::conflictOf(Literal literal, const Reason &reason) {
  rest(literal ^ 1);
  const auto position = static_cast<int32_t>(trail.size());
  push({-1, literal, 0, -1, level(), reason});
  explain(position);
  trail.pop_back();
}

} // namespace stow::pack
