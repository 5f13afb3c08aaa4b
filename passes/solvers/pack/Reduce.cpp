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
  explicit Reducer(const Model &model) : model(model) {
    result.bases.assign(model.items.size(), 0);
    Bytes common = 0;
    for (const Item &item : model.items) {
      anyFixed |= item.fixedBase.has_value();
      largestAlignment = std::max(largestAlignment, item.alignment);
      common = std::gcd(common, item.alignment);
    }
    sameAlignment = common == largestAlignment;
    for (const Item &item : model.items)
      if (allAlignments <= maxAlignment)
        allAlignments = std::lcm(allAlignments, item.alignment);
  }

  Reduction run(int32_t maxDepth) {
    std::vector<int32_t> all(model.items.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<Task> tasks{{{all, 0}, 0}};
    while (!tasks.empty()) {
      Task task = std::move(tasks.back());
      tasks.pop_back();
      for (Leaf &part : split(task.leaf)) {
        const bool sank = !anyFixed && sink(part);
        if (part.items.empty())
          continue;
        if (sank && task.depth + 1 < maxDepth)
          tasks.push_back({std::move(part), task.depth + 1});
        else
          result.leaves.push_back(std::move(part));
      }
    }
    std::sort(result.leaves.begin(), result.leaves.end(),
              [](const Leaf &a, const Leaf &b) { return a.items.front() < b.items.front(); });
    return std::move(result);
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
        parts.push_back({{}, leaf.ground});
      parts.back().items.push_back(index);
      end = std::max(end, model.items[index].end);
    }
    for (Leaf &part : parts)
      std::sort(part.items.begin(), part.items.end());
    return parts;
  }

  /// Puts items that live throughout the leaf to its bottom; false when there is none.
  bool sink(Leaf &leaf) {
    int32_t begin = model.sections, end = 0;
    for (int32_t index : leaf.items) {
      begin = std::min(begin, model.items[index].begin);
      end = std::max(end, model.items[index].end);
    }
    std::vector<int32_t> bottom, rest;
    for (int32_t index : leaf.items) {
      const Item &item = model.items[index];
      const bool sinks =
          item.isRectangle() && item.begin == begin && item.end == end &&
          (sameAlignment || (allAlignments <= maxAlignment && item.size % allAlignments == 0));
      (sinks ? bottom : rest).push_back(index);
    }
    for (int32_t index : bottom) {
      const Item &item = model.items[index];
      result.bases[index] = leaf.ground;
      leaf.ground += alignUp(item.size, item.alignment);
      if (item.size % item.alignment != 0)
        result.grain = largestAlignment;
    }
    leaf.items = std::move(rest);
    return !bottom.empty();
  }

  static constexpr Bytes maxAlignment = Bytes(1) << 40;

  const Model &model;
  Reduction result;
  bool anyFixed = false, sameAlignment = true;
  Bytes largestAlignment = 1;
  Bytes allAlignments = 1; ///< least common multiple; of some only, once above maxAlignment
};

} // namespace

Reduction reduce(const Model &model, int32_t maxDepth) { return Reducer(model).run(maxDepth); }

} // namespace stow::pack
