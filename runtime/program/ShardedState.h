// State of which each rank has a shard, brought together for a save.
#pragma once

#include "runtime/program/Executor.h"
#include "runtime/ranks/Ranks.h"

#include <vector>

namespace stow {

/// Elements of the tensor: of one in shards, of all ranks' together.
const Shape &wholeShape(const StateTensor &tensor);

class ShardedState {
public:
  /// Takes all memory that a save needs.
  ShardedState(Executor &executor, Ranks &ranks);

  /// On rank 0, while the others serve(): the elements of a tensor in shards, at that position of the program's state, in row-major order.
  void collect(size_t position, float *elements);
  /// On rank 0: the others need not serve any longer.
  void finish();
  /// On all others: gives rank 0 what it collects until it finishes.
  void serve();

private:
  void exchange(size_t position, float *elements);

  Executor &executor;
  Ranks &ranks;
  std::vector<float> own, all; ///< a piece of this rank's shard, and of each rank's
};

} // namespace stow
