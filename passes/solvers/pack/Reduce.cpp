#include "passes/solvers/pack/Reduce.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stow::pack {

namespace {

struct Task {
  Leaf leaf;
  int32_t depth;
};

class Reducer {
public:
  Reducer(const Model &model, std::vector<Bytes> &bases) : model(model), bases(bases) {
    Bytes unit = 0;
    for (const Item &item : model.items) {
      anyFixed |= item.fixedBase.has_value();
      largestAlignment = std::max(largestAlignment, item.alignment);
      unit = std::gcd(unit, item.alignment);
    }
    sameAlignment = unit == largestAlignment;
  }

  std::vector<Leaf> run(int32_t maxDepth) {
    std::vector<int32_t> all(model.items.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<Task> tasks{{{all, 0, true}, 0}};
    std::vector<Leaf> leaves;
    while (!tasks.empty()) {
      Task task = std::move(tasks.back());
      tasks.pop_back();
      std::vector<Leaf> parts = split(task.leaf);
      for (Leaf &part : parts) {
        const bool sank = !anyFixed && sink(part);
        if (part.items.empty())
          continue;
        if (sank && task.depth + 1 < maxDepth)
          tasks.push_back({std::move(part), task.depth + 1});
        else
          leaves.push_back(std::move(part));
      }
    }
    std::sort(leaves.begin(), leaves.end(),
              [](const Leaf &a, const Leaf &b) { return a.items.front() < b.items.front(); });
    return leaves;
  }

private:
  /// Cuts where no item crosses from one section to the next.
  std::vector<Leaf> split(const Leaf &leaf) const {
    std::vector<int32_t> byBegin = leaf.items;
    std::sort(byBegin.begin(), byBegin.end(), [&](int32_t a, int32_t b) {
      return std::pair(model.items[a].begin, a) < std::pair(model.items[b].begin, b);
    });
    std::vector<Leaf> parts;
    int32_t end = -1;
    for (int32_t index : byBegin) {
      if (model.items[index].begin >= end)
        parts.push_back({{}, leaf.ground, leaf.exact});
      parts.back().items.push_back(index);
      end = std::max(end, model.items[index].end);
    }
    for (Leaf &part : parts)
      std::sort(part.items.begin(), part.items.end());
    return parts;
  }

  /// Puts the items that live throughout the leaf to its bottom; false when there is none.
  bool sink(Leaf &leaf) {
    int32_t begin = model.sections, end = 0;
    for (int32_t index : leaf.items) {
      begin = std::min(begin, model.items[index].begin);
      end = std::max(end, model.items[index].end);
    }
    std::vector<int32_t> bottom, rest;
    for (int32_t index : leaf.items) {
      const Item &item = model.items[index];
      const bool throughout = item.isRectangle() && item.begin == begin && item.end == end;
      (throughout ? bottom : rest).push_back(index);
    }
    // Strict alignments first; within one alignment what needs no padding first, so that at most
    // one piece of padding precedes the rest.
    auto rounding = [&](int32_t index) {
      const Item &item = model.items[index];
      return alignUp(item.size, item.alignment) - item.size;
    };
    std::sort(bottom.begin(), bottom.end(), [&](int32_t a, int32_t b) {
      return std::tuple(-model.items[a].alignment, rounding(a), a) <
             std::tuple(-model.items[b].alignment, rounding(b), b);
    });
    for (int32_t index : bottom) {
      const Item &item = model.items[index];
      bases[index] = alignUp(leaf.ground, item.alignment);
      leaf.ground = bases[index] + item.size;
      // Harmless padding: none at all, or the same for whatever would lie here instead.
      leaf.exact &= item.size % largestAlignment == 0 || (rest.empty() && sameAlignment);
    }
    leaf.items = std::move(rest);
    return !bottom.empty();
  }

  const Model &model;
  std::vector<Bytes> &bases;
  bool anyFixed = false, sameAlignment = true;
  Bytes largestAlignment = 1;
};

} // namespace

std::vector<Leaf> reduce(const Model &model, std::vector<Bytes> &bases, int32_t maxDepth) {
  return Reducer(model, bases).run(maxDepth);
}

} // namespace stow::pack
