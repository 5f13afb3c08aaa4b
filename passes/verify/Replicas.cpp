#include "passes/verify/Replicas.h"

#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "passes/verify/GraphChecks.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace stow {
namespace {

bool isShard(func::FuncOp graph, unsigned index) {
  return graph.getArgAttr(index, kShardOfAttr) != nullptr;
}

/// True for arguments that each rank has of its own batch.
bool isOfRank(func::FuncOp graph, unsigned index) {
  switch (kindOfArgument(graph, index).value_or(ArgumentKind::Input)) {
  case ArgumentKind::Input:
  case ArgumentKind::Target:
  case ArgumentKind::Seed:
  case ArgumentKind::Statistic:
    return true;
  case ArgumentKind::Parameter:
  case ArgumentKind::Frozen:
  case ArgumentKind::Optimizer:
  case ArgumentKind::Accumulator:
  case ArgumentKind::LearningRate:
  case ArgumentKind::Step:
    break;
  }
  return false;
}

/// By what a value differs from rank to rank: an argument of a rank's batch, and an argument or an op that is a shard.
struct Origins {
  Value batch, shard;
};

/// What a result may not differ by: state in shards by batches, other state and the loss by shards as well.
struct Forbidden {
  bool batch = false, shard = false;
};
Forbidden forbiddenIn(func::FuncOp graph, unsigned index) {
  StringRef state = resultString(graph, index, kStateAttr);
  for (unsigned argument = 0; !state.empty() && argument < graph.getNumArguments(); ++argument)
    if (argumentString(graph, argument, kNameAttr) == state) {
      const bool isOfAll = !isOfRank(graph, argument);
      return {isOfAll, isOfAll && !isShard(graph, argument)};
    }
  const bool isLoss = resultString(graph, index, kNameAttr) == "loss";
  return {isLoss, isLoss};
}

std::string describeOrigin(func::FuncOp graph, Value origin) {
  auto argument = dyn_cast<BlockArgument>(origin);
  return argument ? ("\"" + argumentString(graph, argument.getArgNumber(), kNameAttr) + "\"").str()
                  : ("a " + origin.getDefiningOp()->getName().getStringRef()).str();
}

/// State in shards is a shard of what it says, for as many devices.
LogicalResult checkShards(func::FuncOp graph, int64_t devices) {
  bool ok = true;
  for (BlockArgument argument : graph.getArguments()) {
    auto whole = graph.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kShardOfAttr);
    if (!whole)
      continue;
    auto type = dyn_cast<RankedTensorType>(whole.getValue());
    const auto kind = kindOfArgument(graph, argument.getArgNumber());
    const bool isKept = kind == ArgumentKind::Optimizer || kind == ArgumentKind::Parameter;
    if (isKept && type && argument.getType() == shardType(type, devices))
      continue;
    ok = false;
    graph.emitError() << "@" << graph.getSymName() << ": \""
                      << argumentString(graph, argument.getArgNumber(), kNameAttr)
                      << "\" is no shard of a parameter or of optimizer state " << whole << " on "
                      << devices << (devices == 1 ? " device" : " devices");
  }
  return success(ok);
}

/// By what the results of `op` differ, where its operands do so by `operands`.
Origins originsOf(Operation &op, Origins operands) {
  if (isa<AllReduceOp>(op))
    return {};
  if (isa<ReduceScatterOp>(op))
    return {{}, op.getResult(0)};
  if (isa<ShardOp>(op))
    return {operands.batch, op.getResult(0)};
  if (isa<AllGatherOp, UnshardOp>(op))
    return {operands.batch, {}};
  return operands;
}

LogicalResult checkGraph(func::FuncOp graph) {
  llvm::DenseMap<Value, Origins> origins;
  for (BlockArgument argument : graph.getArguments()) {
    if (isOfRank(graph, argument.getArgNumber()))
      origins[argument].batch = argument;
    if (isShard(graph, argument.getArgNumber()))
      origins[argument].shard = argument;
  }
  for (Operation &op : graph.front().without_terminator()) {
    Origins operands;
    // An await hands on what comes, whatever that is made of.
    const bool isAwait = isa<AwaitReduceOp, AwaitGatherOp>(op);
    for (Value operand : isAwait ? op.getOperands().take_front() : op.getOperands()) {
      const Origins its = origins.lookup(operand);
      operands.batch = operands.batch ? operands.batch : its.batch;
      operands.shard = operands.shard ? operands.shard : its.shard;
    }
    for (Value result : op.getResults())
      origins[result] = originsOf(op, operands);
  }
  bool ok = true;
  for (OpOperand &operand : graph.front().getTerminator()->getOpOperands()) {
    const Origins its = origins.lookup(operand.get());
    const Forbidden forbidden = forbiddenIn(graph, operand.getOperandNumber());
    const bool isOfBatch = forbidden.batch && its.batch;
    if (!isOfBatch && !(forbidden.shard && its.shard))
      continue;
    ok = false;
    StringRef state = resultString(graph, operand.getOperandNumber(), kStateAttr);
    emitError(operand.get().getLoc())
        << "@" << graph.getSymName() << ": \"" << (state.empty() ? StringRef("loss") : state)
        << "\" would differ from rank to rank: it is computed from "
        << describeOrigin(graph, isOfBatch ? its.batch : its.shard) << " without a "
        << (isOfBatch ? "stow.all_reduce" : "stow.all_gather") << " between them";
  }
  return success(ok);
}

} // namespace

LogicalResult checkReplicas(ModuleOp module) {
  const int64_t devices = devicesOf(module);
  bool ok = true;
  module.walk([&](Operation *op) {
    if (!isa<AllReduceOp, ReduceScatterOp, ShardOp, AllGatherOp, UnshardOp>(op))
      return;
    auto graph = op->getParentOfType<func::FuncOp>();
    const int64_t ranks = op->getAttrOfType<IntegerAttr>("ranks").getInt();
    if (ranks == devices && (isStepGraph(graph) || isa<UnshardOp>(op)))
      return;
    ok = false;
    op->emitOpError() << "is of " << ranks << " ranks in a graph of role "
                      << stringifyRole(*roleOf(graph)) << "; the module is for " << devices
                      << (devices == 1 ? " device" : " devices")
                      << ", of whose graphs those that train work together";
  });
  for (auto graph : module.getOps<func::FuncOp>())
    ok &= succeeded(checkShards(graph, devices));
  if (devices > 1)
    for (auto graph : module.getOps<func::FuncOp>())
      if (isStepGraph(graph))
        ok &= succeeded(checkGraph(graph));
  return success(ok);
}

} // namespace stow
