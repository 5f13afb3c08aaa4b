#include "passes/solvers/pack/OrderState.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace stow::pack {

/// Notes, or takes back, which of the two items of `literal` lies below the other.
void OrderSearch::flipLies(Literal literal) {
  const int32_t under = lowerOf(literal), over = lowerOf(literal ^ 1);
  lies(0, over)[under / 64] ^= uint64_t(1) << (under % 64);
  lies(1, under)[over / 64] ^= uint64_t(1) << (over % 64);
}

bool OrderSearch::assign(Literal literal, const Reason &reason) {
  if (isTrue(literal))
    return true;
  if (isTrue(literal ^ 1)) {
    conflictOf(literal, reason);
    return false;
  }
  value[literal] = 1;
  value[literal ^ 1] = -1;
  flipLies(literal);
  entryOf[literal >> 1] = static_cast<int32_t>(trail.size());
  push({-1, literal, 0, -1, level(), reason});
  return true;
}

bool OrderSearch::raise(int32_t item, int side, Bytes to, const Reason &reason) {
  const int32_t node = nodeOf(item, side);
  if (to <= bound[node])
    return true;
  push({node, -1, to, newest[node], level(), reason});
  newest[node] = static_cast<int32_t>(trail.size()) - 1;
  bound[node] = to;
  const Bytes beyond = capacity - data.step[item] - bound[node ^ 1];
  if (to <= beyond)
    return true;
  restOnBound(item, side, beyond + 1);
  restOnBound(item, 1 - side, bound[node ^ 1]);
  return false;
}

bool OrderSearch::propagate() {
  for (;;) {
    while (nextEntry < trail.size()) {
      const int32_t node = trail[nextEntry].node;
      const Literal literal = trail[nextEntry].literal;
      ++nextEntry;
      if (node < 0)
        shiftLoads(literal, 1);
      if (node >= 0 ? !propagateBound(node)
                    : !propagateClauses(literal) || !propagateOrder(literal))
        return false;
    }
    if (touchedSections.empty())
      return true;
    const int32_t touched = touchedSections.back();
    touchedSections.pop_back();
    isTouched[touched] = 0;
    if (options.rules.edges && !propagateSection(touched >> 1, touched & 1))
      return false;
  }
}

/// `literal` became true: clauses that watch its opposite look for another literal.
bool OrderSearch::propagateClauses(Literal literal) {
  const Literal falsified = literal ^ 1;
  std::vector<int32_t> &list = watchers[falsified];
  size_t kept = 0;
  for (size_t k = 0; k < list.size(); ++k) {
    const int32_t index = list[k];
    std::vector<Literal> &literals = clauses[index].literals;
    ++work;
    if (literals[0] == falsified)
      std::swap(literals[0], literals[1]);
    size_t other = 2;
    if (!isTrue(literals[0])) {
      while (other < literals.size() && value[literals[other]] < 0)
        ++other;
      work += static_cast<int64_t>(other) / 4;
      if (other < literals.size()) {
        std::swap(literals[1], literals[other]);
        watchers[literals[1]].push_back(index);
        continue;
      }
    }
    list[kept++] = index;
    if (isTrue(literals[0]) || assign(literals[0], {Reason::Kind::Clause, 0, index}))
      continue;
    list.erase(list.begin() + static_cast<int64_t>(kept),
               list.begin() + static_cast<int64_t>(k) + 1);
    return false;
  }
  list.resize(kept);
  return true;
}

/// `literal` became true: the bounds of its two items.
bool OrderSearch::propagateOrder(Literal literal) {
  const int32_t under = lowerOf(literal), over = lowerOf(literal ^ 1);
  const int32_t begin = std::max(data.begin[under], data.begin[over]);
  const int32_t end = std::min(data.end[under], data.end[over]);
  for (int side : {0, 1}) {
    const int32_t inner = side ? over : under, outer = side ? under : over;
    if (!raise(outer, side, bound[nodeOf(inner, side)] + data.step[inner],
               {Reason::Kind::Chain, 0, inner}))
      return false;
    const std::vector<Bytes> &load = loads[nodeOf(outer, side)];
    const auto from = load.begin() + begin - data.begin[outer];
    const auto fullest = std::max_element(from, from + end - begin);
    work += (end - begin) / 4;
    const auto section = static_cast<int32_t>(fullest - load.begin()) + data.begin[outer];
    if (options.rules.load && !raise(outer, side, *fullest, {Reason::Kind::Load, 0, section}))
      return false;
  }
  return true;
}

/// The bound rose: it is handed on, and orders that would leave the capacity fall away.
bool OrderSearch::propagateBound(int32_t node) {
  const int32_t item = node / 2;
  const int side = node % 2;
  const Bytes beyond = bound[node] + data.step[item];
  work += static_cast<int64_t>(neighbours[item].size()) / 2;
  for (int32_t other : neighbours[item]) {
    const Literal outward = nearer(side, item, other);
    if (isTrue(outward)) {
      if (!raise(other, side, beyond, {Reason::Kind::Chain, 0, item}))
        return false;
    } else if (!isKnown(outward) &&
               beyond + data.step[other] + bound[nodeOf(other, 1 - side)] > capacity) {
      if (!assign(outward ^ 1, {Reason::Kind::TooHigh}))
        return false;
    }
  }
  for (int32_t s = data.begin[item]; s < data.end[item]; ++s)
    if (const int32_t touched = 2 * s + side; !isTouched[touched]) {
      isTouched[touched] = 1;
      touchedSections.push_back(touched);
    }
  work += (data.end[item] - data.begin[item]) / 2;
  return true;
}

/// In a section, items that start at `near` or beyond leave no room for what does not: overload, or
/// another item must come before all of them.
bool OrderSearch::propagateSection(int32_t section, int side) {
  std::vector<int32_t> &items = sorted[2 * section + side];
  const Bytes largest = largestOf[section];
  auto comesFirst = [&](int32_t a, int32_t b) {
    const Bytes boundA = bound[nodeOf(a, side)], boundB = bound[nodeOf(b, side)];
    return boundA != boundB ? boundA > boundB : a < b;
  };
  work += static_cast<int64_t>(items.size()) * 2;
  for (size_t k = 1; k < items.size(); ++k) // nearly sorted
    for (size_t m = k; m > 0 && comesFirst(items[m], items[m - 1]); --m, ++work)
      std::swap(items[m], items[m - 1]);
  group.assign(words, 0);
  Bytes sum = 0, far = std::numeric_limits<Bytes>::max();
  for (size_t k = 0; k < items.size(); ++k) {
    const int32_t item = items[k];
    const Bytes near = bound[nodeOf(item, side)];
    sum += data.step[item];
    group[item / 64] |= uint64_t(1) << (item % 64);
    far = std::min(far, bound[nodeOf(item, 1 - side)]);
    if (k + 1 < items.size() && bound[nodeOf(items[k + 1], side)] == near)
      continue;
    const Bytes room = capacity - near - sum;
    if (room - far < 0) {
      explainEdge({Reason::Kind::Edge, static_cast<int8_t>(side), section, -1, near, far},
                  static_cast<int32_t>(trail.size()), -1);
      return false;
    }
    if (room - far >= largest)
      continue;
    for (size_t m = k + 1; m < items.size(); ++m) {
      const int32_t other = items[m];
      const Bytes beyond = std::min(far, bound[nodeOf(other, 1 - side)]);
      ++work;
      if (room - beyond >= data.step[other])
        continue;
      const Reason reason{
          Reason::Kind::Edge, static_cast<int8_t>(side), section, other, near, beyond};
      for (int32_t w = 0; w < words; ++w)
        for (uint64_t missing = group[w] & ~lies(1 - side, other)[w]; missing != 0;
             missing &= missing - 1)
          if (!assign(nearer(side, other, 64 * w + std::countr_zero(missing)), reason))
            return false;
      work += words / 2;
    }
  }
  return true;
}

} // namespace stow::pack
