#include "passes/solvers/pack/OccupancyTree.h"

#include <algorithm>

namespace stow::pack {

namespace {

/// Adds [low, high) and joins it with the ranges it touches.
void unite(RangeList &ranges, Bytes low, Bytes high) {
  auto first = std::partition_point(ranges.begin(), ranges.end(),
                                    [&](const ByteRange &range) { return range.high < low; });
  auto last = first;
  while (last != ranges.end() && last->low <= high)
    ++last;
  if (first == last) {
    ranges.insert(first, {low, high});
    return;
  }
  first->low = std::min(first->low, low);
  first->high = std::max(std::prev(last)->high, high);
  ranges.erase(first + 1, last);
}

} // namespace

OccupancyTree::OccupancyTree(int32_t sections, int32_t longest) : leaves(1), widest(1) {
  while (leaves < sections)
    leaves *= 2;
  while (2 * widest <= longest)
    widest *= 2;
  nodes.resize(2 * static_cast<size_t>(leaves));
}

void OccupancyTree::insert(int32_t begin, int32_t end, Bytes low, Bytes high) {
  // The nodes that make up [begin, end), bottom up; all their ancestors are touched.
  auto fill = [&](int32_t node) {
    unite(nodes[node].cover, low, high);
    unite(nodes[node].span, low, high);
  };
  int32_t left = begin + leaves, right = end + leaves;
  for (; left < right; left /= 2, right /= 2) {
    if (left & 1)
      fill(left++);
    if (right & 1)
      fill(--right);
  }
  // Ancestors of the first and the last leaf that are not inside [begin, end).
  int32_t first = (begin + leaves) / 2, last = (end - 1 + leaves) / 2;
  for (int32_t width = 2; width <= widest; first /= 2, last /= 2, width *= 2) {
    auto touch = [&](int32_t node) {
      const int32_t from = node * width - leaves; // first section under `node` at this level
      if (from < begin || from + width > end)
        unite(nodes[node].cover, low, high);
    };
    touch(first);
    if (last != first)
      touch(last);
  }
}

void OccupancyTree::collect(int32_t begin, int32_t end,
                            std::vector<const RangeList *> &lists) const {
  auto take = [&](const RangeList &list) {
    if (!list.empty())
      lists.push_back(&list);
  };
  int32_t left = begin + leaves, right = end + leaves;
  for (; left < right; left /= 2, right /= 2) {
    if (left & 1)
      take(nodes[left++].cover);
    if (right & 1)
      take(nodes[--right].cover);
  }
  int32_t first = (begin + leaves) / 2, last = (end - 1 + leaves) / 2;
  for (int32_t width = 2; width <= widest; first /= 2, last /= 2, width *= 2) {
    auto touch = [&](int32_t node) {
      const int32_t from = node * width - leaves;
      if (from < begin || from + width > end)
        take(nodes[node].span);
    };
    touch(first);
    if (last != first)
      touch(last);
  }
}

} // namespace stow::pack
