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

LogicalResult checkGraph(func::FuncOp graph) {
  llvm::DenseMap<Value, Value> origins; // of values that differ: an argument by which they do
  for (BlockArgument argument : graph.getArguments())
    if (isOfRank(graph, argument.getArgNumber()))
      origins[argument] = argument;
  for (Operation &op : graph.front().without_terminator()) {
    if (isa<AllReduceOp>(op))
      continue;
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
        << "\" would differ from rank to rank: it is computed from \""
        << argumentString(graph, cast<BlockArgument>(origin).getArgNumber(), kNameAttr)
        << "\" without a stow.all_reduce between them";
  }
  return success(ok);
}

} // namespace

LogicalResult checkReplicas(ModuleOp module) {
  const int64_t devices = devicesOf(module);
  bool ok = true;
  module.walk([&](AllReduceOp op) {
    auto graph = op->getParentOfType<func::FuncOp>();
    if (static_cast<int64_t>(op.getRanks()) == devices && isStepGraph(graph))
      return;
    ok = false;
    op.emitOpError() << "adds up values of " << static_cast<int64_t>(op.getRanks())
                     << " ranks in a graph of role " << stringifyRole(*roleOf(graph))
                     << "; the module is for " << devices << (devices == 1 ? " device" : " devices")
                     << ", of whose graphs those that train reduce";
  });
  if (devices > 1)
    for (auto graph : module.getOps<func::FuncOp>())
      if (isStepGraph(graph))
        ok &= succeeded(checkGraph(graph));
  return success(ok);
}

} // namespace stow
