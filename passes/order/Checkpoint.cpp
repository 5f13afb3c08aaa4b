// Checkpointing by segments (Chen et al. 2016, arXiv 1604.06174) on the articulation points of the
// forward graph.
//
//   forward   [ segment 0 ] c1 [ segment 1 ] c2 [ last segment ]        c1, c2: the only values
//   backward                                    [ last segment ]        that cross, kept
//             [ segment 1 again ] [ its backward ]
//             [ segment 0 again ] [ its backward ]
//
// A plan is a set of cuts. Its peak is measured, not estimated: the graph is cloned, the segments
// are inserted, in-place sharing is decided and the live bytes are counted. O(plans x ops).
#include "passes/order/Passes.h"

#include "passes/memory/Liveness.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <set>

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_CHECKPOINTPASS
#include "passes/order/Passes.h.inc"

namespace {

/// Ops of the forward in order, without the terminator.
SmallVector<Operation *> forwardOps(func::FuncOp graph) {
  SmallVector<Operation *> ops;
  for (Operation &op : graph.getBody().front().without_terminator())
    if (isForward(&op))
      ops.push_back(&op);
  return ops;
}

/// A place behind forward op `position` that a single value crosses.
struct Cut {
  size_t position;
  Value value;
  Bytes savedBefore; ///< bytes of forward values, up to here, that the backward reads
};

/// All single-value cuts of the forward, in order.
SmallVector<Cut> findCuts(func::FuncOp graph) {
  SmallVector<Operation *> ops = forwardOps(graph);
  llvm::DenseMap<Operation *, size_t> position;
  for (auto [index, op] : llvm::enumerate(ops))
    position[op] = index;
  // When the last forward reader of each storage comes, and whether the backward reads it.
  llvm::MapVector<Value, size_t> lastForward;
  llvm::DenseSet<Value> saved;
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      Value root = viewedValue(result);
      if (isa<BlockArgument>(root))
        continue;
      size_t &last = lastForward.try_emplace(root, position[op]).first->second;
      for (Operation *user : result.getUsers()) {
        if (auto found = position.find(user); found != position.end())
          last = std::max(last, found->second);
        else if (!isForward(user))
          saved.insert(root);
      }
    }
  std::vector<SmallVector<Value>> dyingAfter(ops.size());
  for (auto [root, last] : lastForward)
    dyingAfter[last].push_back(root);

  SmallVector<Cut> cuts;
  llvm::SetVector<Value> crossing;
  Bytes savedBytes = 0;
  for (auto [index, op] : llvm::enumerate(ops)) {
    for (Value result : op->getResults())
      if (viewedValue(result) == result) {
        crossing.insert(result);
        if (saved.contains(result))
          savedBytes += storedBytesOf(result.getType());
      }
    for (Value root : dyingAfter[index])
      crossing.remove(root);
    if (crossing.size() == 1 && index + 1 < ops.size())
      cuts.push_back({index, crossing.front(), savedBytes});
  }
  return cuts;
}

/// A plan: indices into the list of cuts, increasing.
using Plan = std::vector<size_t>;

/// Results that cost next to nothing to keep beside what their op reads and writes: batch-norm's
/// statistics, the log-sum-exp of a row.
bool isSmall(OpResult result) {
  Bytes largest = 0;
  for (Type type : result.getOwner()->getOperandTypes())
    largest = std::max(largest, storedBytesOf(type));
  for (Type type : result.getOwner()->getResultTypes())
    largest = std::max(largest, storedBytesOf(type));
  return storedBytesOf(result.getType()) * 256 <= largest;
}

/// True for the readers of a segment that get the values computed again: the backward and the
/// updates fused with it.
bool readsAgain(Operation *user) { return !isForward(user) && !user->hasAttr(kRecomputeAttr); }

/// True when `op` reads state that is overwritten before `place`: there it would give other bits.
bool readsOverwrittenState(Operation *op, Operation *place) {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Value root = viewedValue(operand);
    return isa<BlockArgument>(root) && llvm::any_of(root.getUses(), [&](OpOperand &use) {
             return use.getOwner()->isBeforeInBlock(place) && isUpdate(use);
           });
  });
}

/// One segment and which of its values are computed again.
class Segment {
public:
  /// `kept`, all other results of its op, and small results stay.
  Segment(ArrayRef<Operation *> ops, Value kept)
      : ops(ops), members(ops.begin(), ops.end()), kept(kept.getDefiningOp()) {
    // Ops that would read overwritten state at the first reader stay too; without them the first
    // reader may come later, where more state is overwritten.
    for (bool changed = true; changed;) {
      changed = false;
      findFirstReader();
      if (firstReader)
        for (Operation *op : ops)
          if (!fixed.contains(op) && readsOverwrittenState(op, firstReader))
            changed = fixed.insert(op).second;
    }
  }

  /// Computes the ops again in front of their first reader. Returns the number of clones.
  unsigned recompute() {
    if (!firstReader)
      return 0;
    findNeeded();
    OpBuilder builder(firstReader);
    IRMapping mapping;
    unsigned clones = 0;
    for (Operation *op : ops) {
      if (!needed.contains(op))
        continue;
      Operation *clone = builder.clone(*op, mapping);
      setPhase(clone, Phase::Backward);
      clone->setAttr(kRecomputeAttr, builder.getUnitAttr());
      ++clones;
      for (auto [result, again] : llvm::zip(op->getResults(), clone->getResults())) {
        if (stays(result))
          mapping.map(result, result);
        else
          result.replaceUsesWithIf(again,
                                   [](OpOperand &use) { return readsAgain(use.getOwner()); });
      }
    }
    return clones;
  }

private:
  bool stays(Value value) const {
    Operation *op = value.getDefiningOp();
    return !op || op == kept || !members.contains(op) || fixed.contains(op) ||
           isSmall(cast<OpResult>(value));
  }

  void findFirstReader() {
    firstReader = nullptr;
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (!stays(result))
          for (Operation *user : result.getUsers())
            if (readsAgain(user) && (!firstReader || user->isBeforeInBlock(firstReader)))
              firstReader = user;
  }

  /// What the backward reads, and what computing that reads.
  void findNeeded() {
    SmallVector<Operation *> worklist;
    auto demand = [&](Value value) {
      if (!stays(value) && needed.insert(value.getDefiningOp()).second)
        worklist.push_back(value.getDefiningOp());
    };
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), readsAgain))
          demand(result);
    while (!worklist.empty())
      for (Value operand : worklist.pop_back_val()->getOperands())
        demand(operand);
  }

  ArrayRef<Operation *> ops;
  llvm::DenseSet<Operation *> members;
  Operation *kept;
  llvm::DenseSet<Operation *> fixed;  ///< not computed again, to read state before its update
  llvm::DenseSet<Operation *> needed; ///< computed again
  Operation *firstReader = nullptr;
};

/// Applies a plan to the graph; the segment behind the last cut is not recomputed.
unsigned applyPlan(func::FuncOp graph, const Plan &plan) {
  SmallVector<Cut> cuts = findCuts(graph);
  SmallVector<Operation *> ops = forwardOps(graph);
  unsigned clones = 0;
  for (size_t i = plan.size(); i-- > 0;) {
    size_t begin = i == 0 ? 0 : cuts[plan[i - 1]].position + 1;
    size_t end = cuts[plan[i]].position + 1;
    clones += Segment(ArrayRef(ops).slice(begin, end - begin), cuts[plan[i]].value).recompute();
  }
  return clones;
}

/// Peak of live bytes and recomputed operations: what plans are compared by.
struct Score {
  Bytes peak;
  double flops;
  bool operator<(const Score &other) const {
    return std::tie(peak, flops) < std::tie(other.peak, other.flops);
  }
};

Score score(func::FuncOp graph, const Plan &plan) {
  auto clone = cast<func::FuncOp>(graph->clone());
  applyPlan(clone, plan);
  placeInside(clone);
  shareInPlace(clone);
  double flops = 0;
  clone.walk([&](CostOpInterface op) {
    if (op->hasAttr(kRecomputeAttr))
      flops += op.getFlops();
  });
  Score result = {Liveness(clone).transientPeak(), flops};
  clone->erase();
  return result;
}

/// The cuts that close a segment each time `share` more bytes have been saved.
Plan equalShares(ArrayRef<Cut> cuts, Bytes share) {
  Plan plan;
  Bytes since = 0;
  for (size_t i = 0; i < cuts.size(); ++i) {
    Bytes next = i + 1 < cuts.size() ? cuts[i + 1].savedBefore : cuts[i].savedBefore;
    if (next - since <= share)
      continue;
    plan.push_back(i);
    since = cuts[i].savedBefore;
  }
  return plan;
}

/// The best plan found: equal shares, then single boundaries moved, added or dropped.
Plan searchPlan(func::FuncOp graph) {
  constexpr int64_t kMaxSegments = 64;
  constexpr unsigned kMaxRounds = 8;
  SmallVector<Cut> cuts = findCuts(graph);
  Plan best;
  Score bestScore = score(graph, best);
  std::set<Plan> tried = {best};
  auto consider = [&](const Plan &plan) {
    if (!tried.insert(plan).second)
      return false;
    Score candidate = score(graph, plan);
    if (!(candidate < bestScore))
      return false;
    best = plan;
    bestScore = candidate;
    return true;
  };
  if (cuts.empty())
    return best;
  for (int64_t segments = 2; segments <= kMaxSegments; ++segments)
    consider(equalShares(cuts, cuts.back().savedBefore / segments));
  // A move costs one evaluation of O(ops); large graphs stay with the shares.
  size_t budget = 2'000'000 / std::max<size_t>(1, forwardOps(graph).size() * 8);
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    bool improved = false;
    for (size_t i = 0; i < cuts.size() && tried.size() < budget; ++i) {
      Plan toggled = best;
      auto place = llvm::lower_bound(toggled, i);
      if (place != toggled.end() && *place == i)
        toggled.erase(place);
      else
        toggled.insert(place, i);
      improved |= consider(toggled);
    }
    if (!improved)
      break;
  }
  return best;
}

//===-- --stow-checkpoint --------------------------------------------------------------------===//

struct CheckpointPass : impl::CheckpointPassBase<CheckpointPass> {
  using CheckpointPassBase::CheckpointPassBase;

  void runOnOperation() override {
    if (mode != "none" && mode != "sqrt") {
      getOperation().emitError() << "unknown checkpoint mode \"" << mode
                                 << "\"; expected none or sqrt";
      return signalPassFailure();
    }
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (mode == "sqrt" && roleOf(graph) == Role::Train)
        recomputed += applyPlan(graph, searchPlan(graph));
    getOperation()->setAttr(kFormAttr, StringAttr::get(&getContext(), "ordered"));
  }
};

} // namespace
} // namespace stow
