#include "passes/order/StartCollectives.h"

#include "ir/StowCollectiveOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"
#include "runtime/format/Reduction.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <deque>

using namespace mlir;

namespace stow {
namespace {

/// What a collective holds while it is under way, beside state: a sum, a weight that it puts together, or the shard of a new value.
Bytes heldBy(Operation *collective) {
  return storedBytesOf(isa<AllGatherOp>(collective) ? collective->getOperand(0).getType()
                                                    : collective->getResult(0).getType());
}

/// The first value of the storage that `value` lies in, as far as its op says so: through views, and what updates replace.
Value storageOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (std::optional<unsigned> viewed = viewedOperand(op)) {
      value = op->getOperand(*viewed);
      continue;
    }
    auto alias = dyn_cast<AliasOpInterface>(op);
    const auto updated =
        alias ? alias.getUpdatedOperand(cast<OpResult>(value).getResultNumber()) : std::nullopt;
    if (!updated)
      break;
    value = op->getOperand(*updated);
  }
  return value;
}

class Starter {
public:
  Starter(func::FuncOp graph, const CostModel &costs, Bytes most)
      : block(graph.getBody().front()), costs(costs), most(most) {}

  void run() {
    SmallVector<Operation *> ops =
        llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    llvm::copy_if(ops, std::back_inserter(toCome), llvm::IsaPred<UnshardOp>);
    for (size_t i = 0; i < ops.size();) {
      Launch launch = {ops[i++]};
      while (i < ops.size() && ops[i]->hasAttr(kTogetherAttr))
        launch.push_back(ops[i++]);
      while (!underWay.empty() && underWay.front().end <= now)
        await();
      if (isa<UnshardOp>(launch.front())) {
        reach(launch.front());
        continue;
      }
      while (readsWeightUnderWay(launch))
        await();
      startEarly();
      if (mustWait(launch))
        wait(launch);
      else
        place(launch);
    }
    while (!underWay.empty())
      await();
  }

private:
  using Launch = SmallVector<Operation *, 1>; ///< ops that run together

  struct Collective {
    Operation *op;
    schedule::Cost end; ///< on its lane
  };

  /// Whether it reads what is not there yet, or would overwrite what one that waits reads.
  bool mustWait(const Launch &launch) const {
    return llvm::any_of(launch, [&](Operation *op) {
      if (llvm::any_of(op->getOperands(), [&](Value value) { return missing.contains(value); }))
        return true;
      auto alias = dyn_cast<AliasOpInterface>(op);
      return alias && llvm::any_of(op->getResults(), [&](OpResult result) {
               const auto updated = alias.getUpdatedOperand(result.getResultNumber());
               return updated && readByWaiting.contains(storageOf(op->getOperand(*updated)));
             });
    });
  }

  /// What nearly everything behind it is computed from: nothing goes ahead of its readers.
  bool readsWeightUnderWay(const Launch &launch) const {
    return llvm::any_of(launch, [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value value) {
        return value.getDefiningOp<UnshardOp>() && missing.contains(value);
      });
    });
  }

  /// While the lane is idle, the next weight that is put together begins before its place.
  void startEarly() {
    while (!toCome.empty() && laneFree <= now && bytesUnderWay + heldBy(toCome.front()) <= most) {
      early.insert(toCome.front());
      placeCollective(toCome.front());
      toCome.pop_front();
    }
  }

  /// The place of a weight that is put together.
  void reach(Operation *op) {
    if (!early.erase(op)) {
      toCome.pop_front();
      return placeCollective(op);
    }
    if (!missing.contains(op->getResult(0))) // it has been awaited
      bytesUnderWay -= heldBy(op);
  }

  void wait(const Launch &launch) {
    for (Operation *op : launch) {
      missing.insert(op->result_begin(), op->result_end());
      for (Value operand : op->getOperands())
        readByWaiting.insert(storageOf(operand));
    }
    waiting.push_back(launch);
  }

  void place(const Launch &launch) {
    if (isCollective(launch.front()))
      return placeCollective(launch.front());
    for (Operation *op : launch) {
      op->moveBefore(block.getTerminator());
      if (!launchesNothing(op))
        now += costs.costOf(op);
    }
  }

  bool hasRoomFor(Operation *collective) const {
    return underWay.empty() || bytesUnderWay + heldBy(collective) <= most;
  }

  void placeCollective(Operation *op) {
    while (!hasRoomFor(op))
      await();
    op->moveBefore(block.getTerminator());
    if (!isa<UnshardOp>(op)) // whose cost is its time on the lane
      now += costs.costOf(op);
    if (heldBy(op) > most) {
      bucket = {};
      now = laneFree = std::max(now, laneFree) + costs.network->durationOf(op);
      return;
    }
    op->setAttr(kStartedAttr, UnitAttr::get(op->getContext()));
    op->removeAttr(kWorkspaceAttr); // the lane has its own
    enterLane(op);
    underWay.push_back({op, laneFree});
    bytesUnderWay += heldBy(op);
    if (!isa<AllGatherOp>(op)) // the caller alone reads what that makes
      missing.insert(op->getResult(0));
  }

  /// A small sum that begins while the lane is still busy is exchanged together with the small ones that wait for it already: they lose
  /// nothing by waiting for it, and share the latency of an exchange.
  void enterLane(Operation *op) {
    const int64_t floats = heldBy(op) / static_cast<Bytes>(sizeof(float));
    if (!isa<AllReduceOp>(op) || floats >= kMostTogether) {
      bucket = {};
      laneFree = std::max(now, laneFree) + costs.network->durationOf(op);
      return;
    }
    if (bucket.members.empty() || bucket.laneFree <= now || bucket.floats + floats > kMostTogether)
      bucket = {{}, laneFree, 0};
    else
      bucket.members.back()->setAttr(kWithNextAttr, UnitAttr::get(op->getContext()));
    bucket.members.push_back(op);
    bucket.floats += floats;
    laneFree = std::max(now, bucket.laneFree) + costs.network->durationOf(op);
    for (Collective &its : underWay)
      if (llvm::is_contained(bucket.members, its.op))
        its.end = laneFree;
  }

  /// The first collective under way ends, and what waits for no other goes on.
  void await() {
    const Collective first = underWay.front();
    underWay.pop_front();
    if (llvm::is_contained(bucket.members, first.op))
      bucket = {};
    if (!early.contains(first.op))
      bytesUnderWay -= heldBy(first.op);
    now = std::max(now, first.end);
    OpBuilder builder(block.getTerminator());
    const Location at = first.op->getLoc();
    Operation *await = nullptr;
    if (auto gather = dyn_cast<AllGatherOp>(first.op)) {
      await = AwaitGatherOp::create(builder, at, gather.getY(), gather.getX());
    } else {
      Value coming = first.op->getResult(0);
      const bool readsLater = isa<ReduceScatterOp, UnshardOp>(first.op);
      auto reduce =
          AwaitReduceOp::create(builder, at, coming.getType(), coming,
                                readsLater ? ValueRange(first.op->getOperand(0)) : ValueRange());
      coming.replaceAllUsesExcept(reduce.getY(), reduce.getOperation());
      missing.erase(coming);
      await = reduce;
    }
    setPhase(await, phaseOf(first.op));
    readByWaiting.clear();
    for (const Launch &launch : std::exchange(waiting, {}))
      goOn(launch);
  }

  /// One of those that waited, in their order: it runs, or waits on.
  void goOn(const Launch &launch) {
    Operation *op = launch.front();
    if (mustWait(launch) || (isCollective(op) && heldBy(op) <= most && !hasRoomFor(op)))
      return wait(launch);
    for (Operation *member : launch)
      for (Value result : member->getResults())
        missing.erase(result);
    place(launch);
  }

  /// Small sums that are exchanged together, the last under way, and when the lane is free for them.
  struct Bucket {
    SmallVector<Operation *> members;
    schedule::Cost laneFree = 0;
    int64_t floats = 0;
  };

  Block &block;
  const CostModel &costs;
  const Bytes most;
  schedule::Cost now = 0, laneFree = 0;
  std::deque<Collective> underWay;
  Bucket bucket;
  Bytes bytesUnderWay = 0;           ///< and of what is there before its place
  std::deque<Operation *> toCome;    ///< weights that are put together, not started yet
  llvm::DenseSet<Operation *> early; ///< those started whose places have not been reached
  std::vector<Launch> waiting;       ///< in the order of the graph
  llvm::DenseSet<Value> missing, readByWaiting;
};

} // namespace

Bytes collectiveBytes(func::FuncOp graph) {
  Bytes bytes = 0;
  for (Operation &op : graph.getBody().front())
    if (isCollective(&op))
      bytes += heldBy(&op);
  return bytes;
}

void startCollectives(func::FuncOp graph, const CostModel &costs, Bytes most) {
  Starter(graph, costs, most).run();
}

} // namespace stow
