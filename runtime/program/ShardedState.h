// A save of several ranks: each writes its part of the file, or gives it to rank 0.
#pragma once

#include "runtime/program/Executor.h"
#include "runtime/ranks/Ranks.h"

#include <string>
#include <vector>

namespace stow {

class FilePart;

/// Elements of the tensor: of one in shards, of all ranks' together.
const Shape &wholeShape(const StateTensor &tensor);

class ShardedState {
public:
  /// Takes all memory that a save needs.
  ShardedState(Executor &executor, Ranks &ranks);

  /// On rank 0, while the others serve(): all write their parts of what is saved into the file `part`, whose data lie from byte `begin` on. False where a
  /// rank cannot open it, which `why` says: nothing is written then. Throws Error(BadInput) where a rank cannot write.
  bool write(const std::string &part, Bytes begin, std::string &why);

  /// On rank 0, while the others serve(): the elements of a tensor in shards, at that position of the program's state, in row-major order.
  void collect(size_t position, float *elements);
  /// On rank 0: the others need not serve any longer.
  void finish();
  /// On all others: does what rank 0 asks for until it finishes.
  void serve();

private:
  void exchange(size_t position, float *elements);
  std::vector<uint64_t> writeParts(std::string part, Bytes begin, bool &isOpen);
  void writePart(FilePart &file, const StateTensor &tensor, Bytes begin);
  void writeStored(FilePart &file, Bytes offset, Bytes bytes, Bytes begin);

  Executor &executor;
  Ranks &ranks;
  std::vector<const StateTensor *> saved;
  std::vector<Bytes> begins;   ///< of what is saved, from the data's beginning
  std::vector<char> rowMajor;  ///< the largest tensor that lies in another order
  std::vector<float> own, all; ///< a piece of this rank's shard, and of each rank's
};

} // namespace stow
