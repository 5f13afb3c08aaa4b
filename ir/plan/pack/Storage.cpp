#include "ir/plan/pack/Storage.h"

#include <algorithm>
#include <numeric>

namespace stow::pack {

namespace {

/// The union of `rects` as disjoint pieces. Between two consecutive border times the covered bytes
/// are constant; equal runs in touching slabs are joined.
void appendUnion(const std::vector<Piece> &rects, std::vector<Piece> &out) {
  std::vector<Time> times;
  for (const Piece &rect : rects) {
    times.push_back(rect.life.begin);
    times.push_back(rect.life.end);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());

  const size_t first = out.size();
  std::vector<std::pair<Bytes, Bytes>> slab;
  for (size_t t = 0; t + 1 < times.size(); ++t) {
    slab.clear();
    for (const Piece &rect : rects)
      if (rect.life.begin <= times[t] && times[t] < rect.life.end)
        slab.push_back({rect.low, rect.high});
    std::sort(slab.begin(), slab.end());
    for (size_t i = 0; i < slab.size();) {
      auto [low, high] = slab[i++];
      while (i < slab.size() && slab[i].first <= high)
        high = std::max(high, slab[i++].second);
      auto same = std::find_if(
          out.begin() + first, out.end(), [&, low = low, high = high](const Piece &piece) {
            return piece.low == low && piece.high == high && piece.life.end == times[t];
          });
      if (same != out.end())
        same->life.end = times[t + 1];
      else
        out.push_back({{times[t], times[t + 1]}, low, high});
    }
  }
  std::sort(out.begin() + first, out.end(), [](const Piece &a, const Piece &b) {
    return std::pair(a.life.begin, a.low) < std::pair(b.life.begin, b.low);
  });
}

} // namespace

StorageTable storageTable(const Problem &problem) {
  return storageTable(problem, resolveStorages(problem));
}

StorageTable storageTable(const Problem &problem, Storages resolved) {
  const auto count = static_cast<BufferId>(problem.buffers.size());
  const Interval whole = horizon(problem);
  StorageTable table;
  table.relative = std::move(resolved.relative);
  table.ofBuffer.assign(count, -1);

  // Members of each storage as linked lists through `next`, in increasing id.
  std::vector<BufferId> head(count, -1), next(count, -1);
  for (BufferId id = count; id-- > 0;) {
    next[id] = head[resolved.root[id]];
    head[resolved.root[id]] = id;
  }
  std::vector<Piece> rects;
  for (BufferId root = 0; root < count; ++root) {
    if (resolved.root[root] != root)
      continue;
    Storage storage;
    storage.root = root;
    storage.firstPiece = static_cast<int32_t>(table.pieces.size());
    rects.clear();
    for (BufferId id = head[root]; id >= 0; id = next[id]) {
      const Buffer &buffer = problem.buffers[id];
      const Bytes low = table.relative[id];
      table.ofBuffer[id] = static_cast<int32_t>(table.storages.size());
      storage.alignment = std::lcm(storage.alignment, buffer.alignment);
      if (buffer.fixedOffset)
        storage.fixedBase = *buffer.fixedOffset - low;
      if (buffer.size > 0)
        rects.push_back({occupancy(buffer, whole), low, low + buffer.size});
    }
    if (rects.size() == 1)
      table.pieces.push_back(rects.front());
    else if (!rects.empty())
      appendUnion(rects, table.pieces);
    storage.lastPiece = static_cast<int32_t>(table.pieces.size());
    table.storages.push_back(storage);
  }
  return table;
}

} // namespace stow::pack
