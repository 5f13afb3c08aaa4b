// Values in shards: each of several ranks has an equal part of the elements, in their order.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stow {

/// Elements of a shard of `count`, the same on all ranks: those of the last ones may reach behind the end, where they are zero.
constexpr int64_t shardElements(int64_t count, int64_t ranks) {
  return (count + ranks - 1) / ranks;
}

/// The most elements of a value in shards: what MPI counts to.
inline constexpr int64_t kMostSharded = (int64_t{1} << 31) - 1;

/// The elements [begin, end) of `count` that are those of a rank; the rest of its shard is behind the end.
struct ShardRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
constexpr ShardRange shardRange(int64_t count, int64_t ranks, int64_t rank) {
  const int64_t each = shardElements(count, ranks);
  return {std::min(rank * each, count), std::min((rank + 1) * each, count)};
}

/// Of a rank's shard, the elements [first, first + piece), as far as the value has them.
constexpr ShardRange shardPart(int64_t count, int64_t ranks, int64_t rank, int64_t first,
                               int64_t piece) {
  const ShardRange range = shardRange(count, ranks, rank);
  return {std::min(range.begin + first, range.end),
          std::min(range.begin + first + piece, range.end)};
}

} // namespace stow
