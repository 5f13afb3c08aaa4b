#include "passes/solvers/pack/Merge.h"

#include <algorithm>
#include <numeric>

namespace stow::pack {

namespace {

/// What begins or ends at a boundary.
struct Edge {
  int32_t count = 0;
  int32_t last = -1; ///< position of the last item counted
  void add(int32_t position) {
    ++count;
    last = position;
  }
};

} // namespace

std::optional<Merged> mergeFull(const Model &model, const std::vector<int32_t> &items) {
  const auto count = static_cast<int32_t>(items.size());
  int32_t first = model.sections, last = 0;
  for (int32_t index : items) {
    const Item &item = model.items[index];
    if (item.fixedBase || !item.isRectangle())
      return std::nullopt;
    first = std::min(first, item.begin);
    last = std::max(last, item.end);
  }
  if (items.empty())
    return std::nullopt;
  // By section, counted from `first`.
  std::vector<Bytes> load(last - first + 1, 0);
  std::vector<Edge> begins(load.size()), ends(load.size());
  for (int32_t position = 0; position < count; ++position) {
    const Item &item = model.items[items[position]];
    load[item.begin - first] += item.size;
    load[item.end - first] -= item.size;
    begins[item.begin - first].add(position);
    ends[item.end - first].add(position);
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  const Bytes full = *std::max_element(load.begin(), load.end());

  std::vector<int32_t> next(count, -1);
  std::vector<char> follows(count, 0);
  for (int32_t s = 1; s < last - first; ++s) {
    if (load[s - 1] != full || load[s] != full || begins[s].count != 1 || ends[s].count != 1)
      continue;
    const int32_t before = ends[s].last, after = begins[s].last;
    if (model.items[items[before]].alignment != model.items[items[after]].alignment)
      continue;
    next[before] = after;
    follows[after] = 1;
  }

  Merged merged;
  merged.load = full;
  merged.model.problem = model.problem;
  merged.model.sections = model.sections;
  for (int32_t position = 0; position < count; ++position) {
    if (follows[position])
      continue;
    Item whole = model.items[items[position]];
    std::vector<int32_t> members{position};
    for (int32_t after = next[position]; after >= 0; after = next[after]) {
      whole.end = model.items[items[after]].end;
      whole.lifetime += model.items[items[after]].lifetime;
      members.push_back(after);
    }
    whole.firstPiece = static_cast<int32_t>(merged.model.pieces.size());
    whole.lastPiece = whole.firstPiece + 1;
    merged.model.pieces.push_back({whole.begin, whole.end, 0, whole.size});
    merged.model.items.push_back(whole);
    merged.of.push_back(std::move(members));
  }
  if (merged.of.size() == items.size())
    return std::nullopt;
  return merged;
}

} // namespace stow::pack
