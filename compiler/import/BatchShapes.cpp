#include "compiler/import/BatchShapes.h"

namespace stow::onnx {
namespace {

/// Dimensions [begin, end) of both shapes that hold the same elements.
struct Group {
  size_t inputBegin, inputEnd, targetBegin, targetEnd;
};

/// Absent when the element counts differ.
std::optional<std::vector<Group>> groupsOf(const Shape &input, const Shape &target) {
  std::vector<Group> groups;
  size_t i = 0, t = 0;
  while (i < input.size() && t < target.size()) {
    Group group{i, i, t, t};
    int64_t left = input[i++], right = target[t++];
    while (left != right) {
      if (left < right && i < input.size())
        left *= input[i++];
      else if (right < left && t < target.size())
        right *= target[t++];
      else
        return std::nullopt;
    }
    group.inputEnd = i;
    group.targetEnd = t;
    groups.push_back(group);
  }
  // What is left has extent 1 and belongs to nobody.
  for (; i < input.size(); ++i)
    if (input[i] != 1)
      return std::nullopt;
  for (; t < target.size(); ++t)
    if (target[t] != 1)
      return std::nullopt;
  return groups;
}

/// How the batch lies in a changed dimension; absent when that is not known.
std::optional<MergedDims::Split> splitOf(int64_t extent, int64_t batch, const MergedDims &merged) {
  if (auto known = merged.splits.find(extent); known != merged.splits.end())
    return known->second;
  return extent == batch ? std::optional(MergedDims::Split{1, 1}) : std::nullopt;
}

void note(MergedDims &merged, int64_t extent, MergedDims::Split split) {
  auto [known, isNew] = merged.splits.emplace(extent, split);
  if (!isNew && known->second && !(*known->second == split))
    known->second.reset();
}

} // namespace

std::optional<Shape> carriedShape(const Shape &before, const Shape &now, const Shape &target,
                                  BatchPair batch, MergedDims &merged) {
  if (before.size() != now.size())
    return std::nullopt;
  auto groups = groupsOf(before, target);
  if (!groups)
    return std::nullopt;
  Shape result = target;
  const size_t grouped = groups->empty() ? 0 : groups->back().inputEnd;
  for (size_t i = grouped; i < before.size(); ++i)
    if (before[i] != now[i])
      return std::nullopt;
  for (const Group &group : *groups) {
    int64_t outer = 1; // elements of the group's dimensions before the batch
    std::optional<size_t> changed;
    for (size_t i = group.inputBegin; i < group.inputEnd; ++i) {
      if (before[i] != now[i]) {
        if (changed || before[i] % batch.from != 0 || before[i] / batch.from * batch.to != now[i])
          return std::nullopt;
        changed = i;
      }
      outer *= changed ? 1 : before[i];
    }
    if (!changed)
      continue;
    auto split = splitOf(before[*changed], batch.from, merged);
    if (!split)
      return std::nullopt;
    outer *= split->outer;
    int64_t begin = 1; // elements of the target dimensions before `t`
    size_t t = group.targetBegin;
    while (t < group.targetEnd &&
           (outer % begin != 0 || begin * target[t] % (outer * batch.from) != 0))
      begin *= target[t++];
    if (t == group.targetEnd)
      return std::nullopt;
    result[t] = target[t] / batch.from * batch.to;
    note(merged, target[t], {outer / begin, target[t] / (outer / begin * batch.from)});
  }
  return result;
}

bool growInOneDimension(const BatchShapes &before, const BatchShapes &now, BatchPair batch) {
  for (const auto &[name, shape] : now.shapes) {
    auto known = before.shapes.find(name);
    if (known == before.shapes.end() || known->second == shape)
      continue;
    if (known->second.size() != shape.size())
      return false;
    int64_t changed = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (known->second[i] == shape[i])
        continue;
      ++changed;
      if (known->second[i] % batch.from != 0 ||
          known->second[i] / batch.from * batch.to != shape[i])
        return false;
    }
    if (changed > 1)
      return false;
  }
  return true;
}

} // namespace stow::onnx
