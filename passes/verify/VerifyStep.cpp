// Checks the form "step" (F1), constraints S1 to S11 of Passes.td.
#include "ir/StowDetachOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowPoolOps.h"
#include "passes/verify/GraphChecks.h"
#include "passes/verify/Passes.h"
#include "passes/verify/Replicas.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_VERIFYSTEPPASS
#include "passes/verify/Passes.h.inc"

namespace {

/// What a graph of a role consists of.
struct GraphRules {
  SmallVector<ArgumentKind> kinds; ///< of arguments (S3)
  bool trains = false;             ///< has phases beside the forward, a loss, new values of state
};

GraphRules rulesOf(Role role) {
  using enum ArgumentKind;
  switch (role) {
  case Role::Train:
    return {{Input, Target, Parameter, Frozen, Statistic, Optimizer, LearningRate, Step, Seed},
            /*trains=*/true};
  case Role::Accumulate:
    return {{Input, Target, Parameter, Frozen, Statistic, Optimizer, Accumulator, Seed},
            /*trains=*/true};
  case Role::Commit:
    return {{Input, Target, Parameter, Frozen, Statistic, Optimizer, Accumulator, LearningRate,
             Step, Seed},
            /*trains=*/true};
  case Role::Eval:
  case Role::Model:
  case Role::Measure:
    break;
  }
  return {{Input, Parameter, Frozen, Statistic}};
}

/// "@train: ", at the graph.
InFlightDiagnostic errorAt(func::FuncOp graph) {
  return graph.emitError() << "@" << graph.getSymName() << ": ";
}

/// Argument numbers by name.
llvm::StringMap<unsigned> argumentsByName(func::FuncOp graph) {
  llvm::StringMap<unsigned> arguments;
  for (unsigned index = 0; index < graph.getNumArguments(); ++index)
    arguments[argumentString(graph, index, kNameAttr)] = index;
  return arguments;
}

/// S4.
LogicalResult checkShared(ModuleOp module) {
  llvm::StringMap<std::pair<func::FuncOp, unsigned>> first;
  bool ok = true;
  for (auto graph : module.getOps<func::FuncOp>())
    for (unsigned index = 0; index < graph.getNumArguments(); ++index) {
      StringRef name = argumentString(graph, index, kNameAttr);
      auto [known, isNew] = first.try_emplace(name, graph, index);
      auto [other, number] = known->second;
      if (isNew || other == graph ||
          (kindOfArgument(other, number) == kindOfArgument(graph, index) &&
           other.getArgument(number).getType() == graph.getArgument(index).getType()))
        continue;
      errorAt(graph) << "argument \"" << name << "\" differs from @" << other.getSymName()
                     << "'s in kind or type";
      ok = false;
    }
  return success(ok);
}

/// S6, all but the loss, which is the first result.
LogicalResult checkStateResults(func::FuncOp train) {
  auto arguments = argumentsByName(train);
  llvm::StringSet<> returned;
  bool ok = true;
  for (unsigned index = 1; index < train.getNumResults(); ++index) {
    auto error = [&]() {
      ok = false;
      return errorAt(train) << "result " << index << " ";
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
    auto kind = kindOfArgument(train, argument->second);
    if (kind && *kind != ArgumentKind::Parameter && *kind != ArgumentKind::Statistic &&
        *kind != ArgumentKind::Optimizer && *kind != ArgumentKind::Accumulator)
      error() << "replaces \"" << state << "\", which is of kind " << stringifyArgumentKind(*kind)
              << ", not state";
    Type expected = train.getArgument(argument->second).getType();
    Type found = train.getResultTypes()[index];
    if (expected != found)
      error() << "replaces \"" << state << "\" of type " << expected << ", found " << found;
    if (!returned.insert(state).second)
      error() << "replaces \"" << state << "\" a second time";
  }
  for (unsigned index = 0; index < train.getNumArguments(); ++index) {
    StringRef name = argumentString(train, index, kNameAttr);
    const bool changes = kindOfArgument(train, index) == ArgumentKind::Optimizer
                             ? roleOf(train) != Role::Accumulate
                             : kindOfArgument(train, index) == ArgumentKind::Accumulator &&
                                   roleOf(train) == Role::Accumulate;
    if (changes && !returned.contains(name)) {
      errorAt(train) << stringifyArgumentKind(*kindOfArgument(train, index)) << " state \"" << name
                     << "\" is not returned";
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
  return errorAt(train) << "expects a scalar float named \"loss\" as its first result";
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

/// S8, S9 and S10 for one op of a graph that trains.
LogicalResult checkTrainOp(func::FuncOp train, Operation *op) {
  if (isa<DropoutOp, InTrainingOp, MaxPoolOp, RandomOp>(op))
    return op->emitError() << "'" << op->getName()
                           << "' belongs to the form \"model\"; run stow-split-train-eval first";
  Phase phase = phaseOf(op);
  if (isUpdateOp(op) != (phase == Phase::Update))
    return op->emitError() << "has phase " << stringifyPhase(phase)
                           << "; updates, and only they, have update";
  if (phase == Phase::Forward)
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer && phaseOf(producer) != Phase::Forward)
        return op->emitError() << "belongs to the forward but reads a value of the "
                               << stringifyPhase(phaseOf(producer));
  return isUpdateOp(op) ? checkUpdate(train, op) : success();
}

/// S8 and S9 for one op of a graph that does not train.
LogicalResult checkEvalOp(Operation *op) {
  if (isTrainingOp(op) || isa<DropoutOp, InTrainingOp, RandomOp>(op))
    return op->emitError() << "'" << op->getName() << "' has no place in the evaluation graph";
  if (phaseOf(op) != Phase::Forward)
    return op->emitError() << "has phase " << stringifyPhase(phaseOf(op))
                           << " in the evaluation graph";
  return success();
}

//===--------------------------------------------------------------------------------------------===//
// --stow-verify-step
//===--------------------------------------------------------------------------------------------===//

struct VerifyStep : impl::VerifyStepPassBase<VerifyStep> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkModule(module, "step", {Role::Eval},
                           {Role::Train, Role::Accumulate, Role::Commit})) || // S1, S2
        failed(checkStep(module)))
      return signalPassFailure();
    bool ok = succeeded(checkShared(module));
    for (auto graph : module.getOps<func::FuncOp>())
      ok &= succeeded(checkGraph(graph));
    ok &= succeeded(checkReplicas(module)); // S11
    if (!ok)
      signalPassFailure();
  }

  /// S2: a step is one graph or two halves, neither of which stands alone.
  LogicalResult checkStep(ModuleOp module) {
    auto accumulate = findGraph(module, Role::Accumulate), commit = findGraph(module, Role::Commit);
    auto train = findGraph(module, Role::Train);
    if (train && !accumulate && !commit)
      return success();
    if (train)
      return errorAt(train) << "a step over several batches has no function of role train";
    if (!accumulate && !commit)
      return module.emitError() << "form \"step\" expects a function of role train";
    if (accumulate && commit)
      return success();
    return errorAt(accumulate ? accumulate : commit)
           << "a step over several batches has functions of both roles, accumulate and commit";
  }

  LogicalResult checkGraph(func::FuncOp graph) {
    const GraphRules rules = rulesOf(*roleOf(graph));
    bool ok = succeeded(checkArguments(graph, rules.kinds)); // S3, S5
    if (!rules.trains) {
      ok &= succeeded(checkOutputs(graph)); // S7
      for (Operation &op : graph.front().without_terminator())
        ok &= succeeded(checkEvalOp(&op));
      return success(ok);
    }
    ok &= succeeded(checkLoss(graph));
    ok &= succeeded(checkStateResults(graph));
    for (Operation &op : graph.front().without_terminator())
      ok &= succeeded(checkTrainOp(graph, &op));
    return success(ok);
  }
};

} // namespace
} // namespace stow
