#include "passes/verify/Replicas.h"

#include "ir/StepGraphs.h"
#include "ir/StowCollectiveOps.h"
#include "passes/verify/GraphChecks.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace stow {
namespace {

/// True for arguments that differ from rank to rank.
bool isOfRank(func::FuncOp graph, unsigned index) {
  if (graph.getArgAttr(index, kShardOfAttr))
    return true;
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

/// True for results that are to be the same on all ranks.
bool isOfAll(func::FuncOp graph, unsigned index) {
  StringRef state = resultString(graph, index, kStateAttr);
  for (unsigned argument = 0; !state.empty() && argument < graph.getNumArguments(); ++argument)
    if (argumentString(graph, argument, kNameAttr) == state)
      return !isOfRank(graph, argument);
  return resultString(graph, index, kNameAttr) == "loss";
}

std::string describeOrigin(func::FuncOp graph, Value origin) {
  auto argument = dyn_cast<BlockArgument>(origin);
  return argument ? ("\"" + argumentString(graph, argument.getArgNumber(), kNameAttr) + "\"").str()
                  : "a stow.shard";
}

/// State in shards is a shard of what it says, for as many devices.
LogicalResult checkShards(func::FuncOp graph, int64_t devices) {
  bool ok = true;
  for (BlockArgument argument : graph.getArguments()) {
    auto whole = graph.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), kShardOfAttr);
    if (!whole)
      continue;
    auto type = dyn_cast<RankedTensorType>(whole.getValue());
    const bool isOptimizer =
        kindOfArgument(graph, argument.getArgNumber()) == ArgumentKind::Optimizer;
    if (isOptimizer && type && argument.getType() == shardType(type, devices))
      continue;
    ok = false;
    graph.emitError() << "@" << graph.getSymName() << ": \""
                      << argumentString(graph, argument.getArgNumber(), kNameAttr)
                      << "\" is no shard of optimizer state " << whole << " on " << devices
                      << (devices == 1 ? " device" : " devices");
  }
  return success(ok);
}

LogicalResult checkGraph(func::FuncOp graph) {
  llvm::DenseMap<Value, Value>
      origins; // of values that differ: an argument or a shard by which they do
  for (BlockArgument argument : graph.getArguments())
    if (isOfRank(graph, argument.getArgNumber()))
      origins[argument] = argument;
  for (Operation &op : graph.front().without_terminator()) {
    if (isa<AllReduceOp, AllGatherOp>(op))
      continue;
    if (auto shard = dyn_cast<ShardOp>(op)) {
      origins[shard.getY()] = shard.getY();
      continue;
    }
    for (Value operand : op.getOperands())
      if (Value origin = origins.lookup(operand)) {
        for (Value result : op.getResults())
          origins[result] = origin;
        break;
      }
  }
  bool ok = true;
  for (OpOperand &operand : graph.front().getTerminator()->getOpOperands()) {
    Value origin = origins.lookup(operand.get());
    if (!origin || !isOfAll(graph, operand.getOperandNumber()))
      continue;
    ok = false;
    StringRef state = resultString(graph, operand.getOperandNumber(), kStateAttr);
    emitError(operand.get().getLoc())
        << "@" << graph.getSymName() << ": \"" << (state.empty() ? StringRef("loss") : state)
        << "\" would differ from rank to rank: it is computed from "
        << describeOrigin(graph, origin) << " without a stow.all_reduce between them";
  }
  return success(ok);
}

} // namespace

LogicalResult checkReplicas(ModuleOp module) {
  const int64_t devices = devicesOf(module);
  bool ok = true;
  module.walk([&](Operation *op) {
    if (!isa<AllReduceOp, ReduceScatterOp, ShardOp, AllGatherOp>(op))
      return;
    auto graph = op->getParentOfType<func::FuncOp>();
    const int64_t ranks = op->getAttrOfType<IntegerAttr>("ranks").getInt();
    if (ranks == devices && isStepGraph(graph))
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
