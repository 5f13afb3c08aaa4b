#include "passes/order/StartCollectives.h"

#include "ir/StowCollectiveOps.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/Passes.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <deque>

using namespace mlir;

namespace stow {
namespace {

/// What a collective holds while it is under way, beside state: a sum, or the shard that it gathers.
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
    for (size_t i = 0; i < ops.size();) {
      Launch launch = {ops[i++]};
      while (i < ops.size() && ops[i]->hasAttr(kTogetherAttr))
        launch.push_back(ops[i++]);
      while (!underWay.empty() && underWay.front().end <= now)
        await();
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
    now += costs.costOf(op);
    laneFree = std::max(now, laneFree) + costs.network->durationOf(op);
    if (heldBy(op) > most) {
      now = laneFree;
      return;
    }
    op->setAttr(kStartedAttr, UnitAttr::get(op->getContext()));
    op->removeAttr(kWorkspaceAttr); // the lane has its own
    underWay.push_back({op, laneFree});
    bytesUnderWay += heldBy(op);
    if (!isa<AllGatherOp>(op)) // the caller alone reads what that makes
      missing.insert(op->getResult(0));
  }

  /// The first collective under way ends, and what waits for no other goes on.
  void await() {
    const Collective first = underWay.front();
    underWay.pop_front();
    bytesUnderWay -= heldBy(first.op);
    now = std::max(now, first.end);
    OpBuilder builder(block.getTerminator());
    const Location at = first.op->getLoc();
    Operation *await = nullptr;
    if (auto gather = dyn_cast<AllGatherOp>(first.op)) {
      await = AwaitGatherOp::create(builder, at, gather.getY(), gather.getX());
    } else {
      Value coming = first.op->getResult(0);
      const bool isScatter = isa<ReduceScatterOp>(first.op);
      auto reduce =
          AwaitReduceOp::create(builder, at, coming.getType(), coming,
                                isScatter ? ValueRange(first.op->getOperand(0)) : ValueRange());
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

  Block &block;
  const CostModel &costs;
  const Bytes most;
  schedule::Cost now = 0, laneFree = 0;
  std::deque<Collective> underWay;
  Bytes bytesUnderWay = 0;
  std::vector<Launch> waiting; ///< in the order of the graph
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
