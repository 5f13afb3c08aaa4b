// Checks the form "step" (F1), constraints S1 to S10 of Passes.td.
#include "passes/verify/GraphChecks.h"
#include "passes/verify/Passes.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_VERIFYSTEPPASS
#include "passes/verify/Passes.h.inc"

namespace {

StringRef phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return phase ? phase.getValue() : "forward";
}

/// Argument numbers by name.
llvm::StringMap<unsigned> argumentsByName(func::FuncOp graph) {
  llvm::StringMap<unsigned> arguments;
  for (unsigned index = 0; index < graph.getNumArguments(); ++index)
    arguments[argumentString(graph, index, kNameAttr)] = index;
  return arguments;
}

/// S4.
LogicalResult checkShared(func::FuncOp train, func::FuncOp eval) {
  auto arguments = argumentsByName(train);
  bool ok = true;
  for (unsigned index = 0; index < eval.getNumArguments(); ++index) {
    StringRef name = argumentString(eval, index, kNameAttr);
    auto found = arguments.find(name);
    if (found == arguments.end())
      continue;
    if (argumentString(train, found->second, kKindAttr) == argumentString(eval, index, kKindAttr) &&
        train.getArgument(found->second).getType() == eval.getArgument(index).getType())
      continue;
    eval.emitError() << "@eval: argument \"" << name << "\" differs from @train's in kind or type";
    ok = false;
  }
  return success(ok);
}

/// S6, all but the first result.
LogicalResult checkStateResults(func::FuncOp train) {
  auto arguments = argumentsByName(train);
  llvm::StringSet<> returned;
  bool ok = true;
  for (unsigned index = 1; index < train.getNumResults(); ++index) {
    auto error = [&]() {
      ok = false;
      return train.emitError() << "@train: result " << index << " ";
    };
    StringRef state = resultString(train, index, kStateAttr);
    auto argument = arguments.find(state);
    if (train.getResultAttr(index, "stow.gradient_of")) {
      error() << "is a gradient; run stow-attach-optimizer first";
      continue;
    }
    if (state.empty() && !resultString(train, index, kNameAttr).empty())
      continue;
    if (state.empty() || argument == arguments.end()) {
      error() << "replaces no state argument (stow.state = \"" << state << "\")";
      continue;
    }
    StringRef kind = argumentString(train, argument->second, kKindAttr);
    if (kind != "parameter" && kind != "statistic" && kind != "optimizer")
      error() << "replaces \"" << state << "\", which is of kind \"" << kind << "\", not state";
    Type expected = train.getArgument(argument->second).getType();
    Type found = train.getResultTypes()[index];
    if (expected != found)
      error() << "replaces \"" << state << "\" of type " << expected << ", found " << found;
    if (!returned.insert(state).second)
      error() << "replaces \"" << state << "\" a second time";
  }
  for (unsigned index = 0; index < train.getNumArguments(); ++index) {
    StringRef name = argumentString(train, index, kNameAttr);
    if (argumentString(train, index, kKindAttr) == "optimizer" && !returned.contains(name)) {
      train.emitError() << "@train: optimizer state \"" << name << "\" is not returned";
      ok = false;
    }
  }
  return success(ok);
}

LogicalResult checkLoss(func::FuncOp train) {
  if (train.getNumResults() > 0 && resultString(train, 0, kNameAttr) == "loss" &&
      resultString(train, 0, kStateAttr).empty()) {
    auto type = dyn_cast<RankedTensorType>(train.getResultTypes()[0]);
    if (type && type.getRank() == 0 && isa<FloatType>(type.getElementType()))
      return success();
  }
  return train.emitError() << "@train: expects a scalar float named \"loss\" as its first result";
}

/// S10 for one update: what `value`, the old state, is read by after `update`, views included.
LogicalResult checkReaders(Operation *update, Value value) {
  bool ok = true;
  for (OpOperand &use : value.getUses()) {
    Operation *reader = use.getOwner();
    auto alias = dyn_cast<AliasOpInterface>(reader);
    if (alias && alias.getViewedOperand() == use.getOperandNumber())
      ok &= succeeded(checkReaders(update, reader->getResult(0)));
    if (update->isBeforeInBlock(reader)) {
      reader->emitError() << "reads state after its update";
      ok = false;
    }
  }
  return success(ok);
}

/// S10.
LogicalResult checkUpdate(func::FuncOp train, Operation *op) {
  bool ok = true;
  auto alias = cast<AliasOpInterface>(op);
  for (OpResult result : op->getResults()) {
    auto operand = alias.getUpdatedOperand(result.getResultNumber());
    if (!operand)
      continue;
    auto argument = dyn_cast<BlockArgument>(op->getOperand(*operand));
    if (!argument) {
      ok = false;
      op->emitError() << "overwrites operand " << *operand << ", which is not an argument";
      continue;
    }
    StringRef name = argumentString(train, argument.getArgNumber(), kNameAttr);
    bool isReturned = llvm::any_of(result.getUses(), [&](OpOperand &use) {
      return use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
             resultString(train, use.getOperandNumber(), kStateAttr) == name;
    });
    if (!isReturned) {
      op->emitError() << "result " << result.getResultNumber() << " is not returned as \"" << name
                      << "\", which it overwrites";
      ok = false;
    }
    ok &= succeeded(checkReaders(op, argument));
  }
  return success(ok);
}

/// S8, S9 and S10 for one op of `@train`.
LogicalResult checkTrainOp(func::FuncOp train, Operation *op) {
  if (isa<DropoutOp, MaxPoolOp, RandomOp>(op))
    return op->emitError() << "'" << op->getName()
                           << "' belongs to the form \"model\"; run stow-split-train-eval first";
  StringRef phase = phaseOf(op);
  if (phase != "forward" && phase != "backward" && phase != "update")
    return op->emitError() << "unknown phase \"" << phase
                           << "\"; expected forward, backward or update";
  if (isUpdateOp(op) != (phase == "update"))
    return op->emitError() << "has phase \"" << phase << "\"; updates, and only they, have "
                           << "\"update\"";
  if (phase == "forward")
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && phaseOf(producer) != "forward")
        return op->emitError() << "belongs to the forward but reads a value of the "
                               << phaseOf(producer);
  return isUpdateOp(op) ? checkUpdate(train, op) : success();
}

/// S8 and S9 for one op of `@eval`.
LogicalResult checkEvalOp(Operation *op) {
  if (isTrainingOp(op) || isa<DropoutOp, RandomOp>(op))
    return op->emitError() << "'" << op->getName() << "' has no place in the evaluation graph";
  if (phaseOf(op) != "forward")
    return op->emitError() << "has phase \"" << phaseOf(op) << "\" in the evaluation graph";
  return success();
}

//===--------------------------------------------------------------------------------------------===//
// --stow-verify-step
//===--------------------------------------------------------------------------------------------===//

struct VerifyStep : impl::VerifyStepPassBase<VerifyStep> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkModule(getOperation(), "step", {"train", "eval"}))) // S1, S2
      return signalPassFailure();
    auto train = getOperation().lookupSymbol<func::FuncOp>("train");
    auto eval = getOperation().lookupSymbol<func::FuncOp>("eval");
    // S3, S5
    bool ok = succeeded(checkArguments(train, {"input", "target", "parameter", "statistic",
                                               "optimizer", "learning_rate", "step", "seed"}));
    ok &= succeeded(checkArguments(eval, {"input", "parameter", "statistic"}));
    ok &= succeeded(checkShared(train, eval));
    ok &= succeeded(checkLoss(train));
    ok &= succeeded(checkStateResults(train));
    ok &= succeeded(checkOutputs(eval)); // S7
    for (Operation &op : train.front().without_terminator())
      ok &= succeeded(checkTrainOp(train, &op));
    for (Operation &op : eval.front().without_terminator())
      ok &= succeeded(checkEvalOp(&op));
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace stow
