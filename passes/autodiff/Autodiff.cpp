// Reverse-mode differentiation of the training graph. The forward is a list of ops in topological
// order; visiting it backwards, every reader of a value has added its contribution before the op
// that defines the value is asked for its own gradient. Linear in ops and uses.
//
// The backward is appended in that same order: parameters of the last layer get their gradients
// first, which is what lets the optimizer free them one by one.
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "passes/autodiff/SavedValues.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_AUTODIFFPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

/// Marks every op that a builder creates as part of the backward.
class BackwardMarker : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setAttr(kPhaseAttr, StringAttr::get(op->getContext(), "backward"));
    ++count;
  }
  unsigned count = 0;
};

/// The gradients of one graph.
class GraphGradients : public Gradients {
public:
  GraphGradients(func::FuncOp graph, StringRef saved) : saved(saved) {
    for (BlockArgument argument : graph.getArguments())
      if (argumentAttr(graph, argument.getArgNumber(), kKindAttr) == "parameter" &&
          isFloat(argument))
        needed.insert(argument);
    for (Operation &op : graph.front())
      if (llvm::any_of(op.getOperands(), [&](Value v) { return needed.contains(v); }))
        for (Value result : op.getResults())
          if (isFloat(result))
            needed.insert(result);
  }

  Value of(Value value) override { return gradients.lookup(value); }
  bool isNeeded(Value value) override { return needed.contains(value); }

  void add(OpBuilder &builder, Location location, Value value, Value gradient) override {
    Formula f(builder, location);
    gradient = sumToShape(f, gradient, tensorType(value).getShape());
    Value &sum = gradients[value];
    sum = sum ? f.add(sum, gradient) : gradient;
  }

  StringRef chosenAlternative(Operation *op) override {
    auto alternatives = cast<GradientOpInterface>(op).getSavedAlternatives();
    if (llvm::is_contained(alternatives, saved))
      return saved;
    return cheapestAlternative(op, *this);
  }

private:
  static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

  StringRef saved;
  DenseSet<Value> needed;
  DenseMap<Value, Value> gradients;
};

/// Asks one op for the gradients of its operands, when it has any to pass on.
LogicalResult differentiate(Operation *op, OpBuilder &builder, GraphGradients &gradients) {
  if (llvm::none_of(op->getResults(), [&](Value v) { return gradients.of(v) != nullptr; }) ||
      llvm::none_of(op->getOperands(), [&](Value v) { return gradients.isNeeded(v); }))
    return success();
  if (auto differentiable = dyn_cast<GradientOpInterface>(op))
    return differentiable.buildGradient(builder, gradients);
  InFlightDiagnostic error = op->emitError();
  if (std::string name = sourceNameOf(op->getLoc()); !name.empty())
    error << "\"" << name << "\" (" << op->getName() << ")";
  else
    error << "'" << op->getName() << "'";
  return error << " has no gradient, but the loss depends on a parameter through it";
}

//===--------------------------------------------------------------------------------------------===//
// --stow-autodiff
//===--------------------------------------------------------------------------------------------===//

struct Autodiff : impl::AutodiffPassBase<Autodiff> {
  using Base::Base;

  void runOnOperation() override {
    if (saved != "auto" && saved != "output" && saved != "mask" && saved != "input") {
      getOperation().emitError() << "unknown choice of saved values \"" << saved.getValue()
                                 << "\"; expected auto, output, mask or input";
      return signalPassFailure();
    }
    auto train = findGraph(getOperation(), "train", "run stow-split-train-eval first");
    if (!train)
      return signalPassFailure();
    SmallVector<GraphResult> results = resultsOf(train);
    if (results.empty() || results.front().get(kNameAttr) != "loss" ||
        tensorType(results.front().value).getRank() != 0) {
      train.emitError("expects a scalar \"loss\" as its first result; run stow-attach-loss first");
      return signalPassFailure();
    }
    GraphGradients gradients(train, saved);
    if (failed(buildBackward(train, results.front().value, gradients)))
      return signalPassFailure();
    appendGradients(train, results, gradients);
    for (auto op : train.front().getOps<PositiveMaskOp>())
      if (!op->hasAttr(kPhaseAttr))
        ++numMasks;
  }

  LogicalResult buildBackward(func::FuncOp train, Value loss, GraphGradients &gradients) {
    SmallVector<Operation *> forward;
    for (Operation &op : train.front().without_terminator())
      forward.push_back(&op);
    BackwardMarker marker;
    OpBuilder builder(train.getContext(), &marker);
    builder.setInsertionPoint(train.front().getTerminator());
    if (gradients.isNeeded(loss))
      gradients.add(builder, loss.getLoc(), loss,
                    Formula(builder, loss.getLoc()).scalar(1.0, loss));
    bool failedOnce = false;
    for (Operation *op : llvm::reverse(forward))
      failedOnce |= failed(differentiate(op, builder, gradients));
    numBackwardOps = marker.count;
    return failure(failedOnce);
  }

  void appendGradients(func::FuncOp train, SmallVector<GraphResult> &results,
                       GraphGradients &gradients) {
    for (BlockArgument argument : train.getArguments()) {
      if (argumentAttr(train, argument.getArgNumber(), kKindAttr) != "parameter")
        continue;
      StringRef name = argumentAttr(train, argument.getArgNumber(), kNameAttr);
      if (Value gradient = gradients.of(argument))
        results.push_back(
            {gradient, stringAttributes(&getContext(), {{kNameAttr, (name + ".grad").str()},
                                                        {"stow.gradient_of", name}})});
      else
        emitWarning(argument.getLoc())
            << "parameter \"" << name << "\" does not influence the loss; it stays as it is";
    }
    setResults(train, results);
  }
};

} // namespace

// Generated functions that register each pass and, as a group, all of them.
namespace {
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"
} // namespace

void registerAutodiffPasses() { registerStowautodiffPasses(); }

} // namespace stow
