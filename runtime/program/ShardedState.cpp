#include "runtime/program/ShardedState.h"

#include "runtime/base/Shards.h"
#include "runtime/format/Reduction.h"

#include <algorithm>
#include <cstring>

namespace stow {

namespace {

/// What rank 0 says when it needs nothing more; else the position that it collects, counted from 1.
constexpr uint64_t kFinished = 0;

} // namespace

const Shape &wholeShape(const StateTensor &tensor) {
  return tensor.shardOf ? *tensor.shardOf : tensor.place.shape;
}

ShardedState::ShardedState(Executor &executor, Ranks &ranks) : executor(executor), ranks(ranks) {
  int64_t most = 0;
  for (const StateTensor &tensor : executor.program().state)
    if (tensor.shardOf)
      most = std::max(most, shardPiece(elementCount(*tensor.shardOf), ranks.size()));
  own.resize(static_cast<size_t>(most));
  all.resize(static_cast<size_t>(most * ranks.size()));
}

void ShardedState::collect(size_t position, float *elements) {
  ranks.gather(uint64_t{position} + 1);
  exchange(position, elements);
}

void ShardedState::finish() { ranks.gather(kFinished); }

void ShardedState::serve() {
  for (uint64_t wanted = ranks.gather(kFinished).front(); wanted != kFinished;
       wanted = ranks.gather(kFinished).front())
    exchange(static_cast<size_t>(wanted - 1), nullptr);
}

void ShardedState::exchange(size_t position, float *elements) {
  const StateTensor &tensor = executor.program().state[position];
  const int64_t count = elementCount(*tensor.shardOf), size = ranks.size();
  const int64_t shard = shardElements(count, size), most = shardPiece(count, size);
  for (int64_t first = 0; first < shard; first += most) {
    const int64_t piece = std::min(most, shard - first);
    const Bytes begin = tensor.place.offset + first * static_cast<Bytes>(sizeof(float));
    executor.device().download(own.data(), begin, piece * static_cast<Bytes>(sizeof(float)));
    ranks.gather(own.data(), piece, all.data());
    if (!elements)
      continue;
    for (int64_t rank = 0; rank < size; ++rank) {
      const ShardRange range = shardRange(count, size, rank);
      const int64_t from = std::min(range.begin + first, range.end),
                    to = std::min(from + piece, range.end);
      std::memcpy(elements + from, all.data() + rank * piece,
                  static_cast<size_t>(to - from) * sizeof(float));
    }
  }
}

} // namespace stow
