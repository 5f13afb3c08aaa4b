#include "runtime/host/Shards.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/base/Shards.h"
#include "runtime/format/Reduction.h"

#include <cstring>

namespace stow::host {

namespace {

/// What the three have: the whole value, this rank's shard of it, and scratch.
class ShardCall : public Exchange {
public:
  ShardCall(Ranks &ranks, float *whole, int64_t count, float *shard, float *scratch)
      : ranks(ranks), whole(whole), count(count), shard(shard), scratch(scratch) {}

protected:
  int64_t elements() const { return shardElements(count, ranks.size()); }

  /// How many of the elements [first, first + piece) of this rank's shard the value has.
  int64_t present(int64_t first, int64_t piece) const {
    return shardPart(count, ranks.size(), ranks.rank(), first, piece).size();
  }

  void clear(int64_t from) const { std::fill(shard + from, shard + elements(), 0.0f); }

  /// Calls body(first, piece) for parts of a shard that cover it.
  template <typename Body> void forEachPiece(const Body &body) const {
    const int64_t all = elements(), most = shardPiece(count, ranks.size());
    for (int64_t first = 0; first < all; first += most)
      body(first, std::min(most, all - first));
  }

  Ranks &ranks;
  float *whole;
  int64_t count; ///< of the whole value
  float *shard, *scratch;
};

class ReduceScatterCall : public ShardCall {
public:
  using ShardCall::ShardCall;

  void exchange() override {
    forEachPiece([&](int64_t first, int64_t piece) {
      const int64_t own = present(first, piece);
      ranks.scatter(whole, count, first, piece, scratch);
      for (int64_t i = 0; i < own; ++i) {
        float total = 0;
        for (int64_t rank = 0; rank < ranks.size(); ++rank)
          total += scratch[rank * own + i];
        shard[first + i] = total;
      }
    });
    clear(present(0, elements()));
  }
};

class ShardOfOwnCall : public ShardCall {
public:
  using ShardCall::ShardCall;

  void exchange() override {
    const ShardRange own = shardRange(count, ranks.size(), ranks.rank());
    std::memcpy(shard, whole + own.begin, static_cast<size_t>(own.size()) * sizeof(float));
    clear(own.size());
  }
};

class AllGatherCall : public ShardCall {
public:
  using ShardCall::ShardCall;

  void exchange() override {
    forEachPiece(
        [&](int64_t first, int64_t piece) { ranks.join(shard, count, first, piece, whole); });
  }
};

[[noreturn]] void fail(const Command &command, const std::string &why) {
  throw Error::badInput("command " + command.title() + ": " + why);
}

/// The number of floats of an operand, which lie in their order.
int64_t floatsOf(const Command &command, const Operand &operand) {
  if (operand.dtype != DType::F32 || !operand.layout.isRowMajor())
    fail(command, "expected operands of f32, row-major");
  return elementCount(operand.shape);
}

} // namespace

Ranks &ranksOf(const Command &command, Ranks *ranks) {
  const auto wanted = command.ints.find("ranks");
  if (wanted == command.ints.end() || wanted->second.size() != 1)
    fail(command, "expected the number of ranks");
  const int64_t size = wanted->second.front();
  if (!ranks || ranks->size() != size)
    fail(command,
         concat("is of ", size, " ranks, and this process is one of ", ranks ? ranks->size() : 1,
                "; programs for several devices are started as: mpirun -n ", size,
                " ./model train --data=FILE ..."));
  return *ranks;
}

std::unique_ptr<Exchange> bindShards(const Command &command, char *arena, Ranks *given,
                                     char *laneScratch) {
  Ranks &ranks = ranksOf(command, given);
  const bool isGather = command.op == CommandOp::AllGather;
  if (command.operands.size() != 2 && !(isGather && command.operands.size() == 3))
    fail(command, isGather ? "expected a shard, perhaps an old value, and the whole"
                           : "expected a value and a shard of it");
  // A new value lies where the old one does.
  const Operand &whole = isGather ? command.operands.back() : command.operands[0],
                &shard = isGather ? command.operands[0] : command.operands[1];
  const int64_t count = floatsOf(command, whole);
  if (floatsOf(command, shard) != shardElements(count, ranks.size()))
    fail(command, concat("expected a shard of ", shardElements(count, ranks.size()),
                         " elements of ", count, ", found ", elementCount(shard.shape)));
  if (count > kMostSharded)
    fail(command, concat("has ", count, " elements, and MPI counts to ", kMostSharded));
  const Bytes needed =
      command.op == CommandOp::ReduceScatter ? scatterScratchBytes(count, ranks.size()) : 0;
  if (!laneScratch && command.workspaceBytes < needed)
    fail(command,
         concat("needs ", needed, " bytes of scratch, the plan has ", command.workspaceBytes));
  auto at = [&](Bytes offset) { return reinterpret_cast<float *>(arena + offset); };
  float *value = at(whole.offset), *part = at(shard.offset),
        *scratch =
            laneScratch ? reinterpret_cast<float *>(laneScratch) : at(command.workspaceOffset);
  if (isGather)
    return std::make_unique<AllGatherCall>(ranks, value, count, part, scratch);
  if (command.op == CommandOp::Shard)
    return std::make_unique<ShardOfOwnCall>(ranks, value, count, part, scratch);
  return std::make_unique<ReduceScatterCall>(ranks, value, count, part, scratch);
}

} // namespace stow::host
