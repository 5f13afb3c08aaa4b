// Reverse-mode differentiation of the training graph (Backward.h), with what it saves chosen first
// (SavedValues.h).
//
// The backward is appended in that same order: parameters of the last layer get their gradients
// first, which is what lets the optimizer free them one by one.
#include "ir/gradients/Build.h"
#include "passes/autodiff/Backward.h"
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"
#include "passes/autodiff/SavedValues.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_AUTODIFFPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

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
    auto train = requireGraph(getOperation(), Role::Train, "run stow-split-train-eval first");
    if (!train)
      return signalPassFailure();
    SmallVector<GraphResult> results = resultsOf(train);
    if (results.empty() || results.front().get(kNameAttr) != "loss" ||
        tensorType(results.front().value).getRank() != 0) {
      train.emitError("expects a scalar \"loss\" as its first result; run stow-attach-loss first");
      return signalPassFailure();
    }
    SmallVector<BlockArgument> inputs;
    if (failed(findInputs(train, inputs)))
      return signalPassFailure();
    GraphGradients gradients(train, inputs);
    if (failed(differentiate(train, results.front().value, inputs, gradients)))
      return signalPassFailure();
    if (failed(appendInputGradients(inputs, results, gradients)))
      return signalPassFailure();
    appendGradients(train, results, gradients);
    removeDetached(train);
  }

  /// The arguments that `inputGradients` names.
  LogicalResult findInputs(func::FuncOp train, SmallVectorImpl<BlockArgument> &inputs) {
    for (const std::string &name : inputGradients) {
      BlockArgument argument = findArgument(train, name);
      if (!argument || kindOfArgument(train, argument.getArgNumber()) != ArgumentKind::Input) {
        InFlightDiagnostic error = train.emitError();
        error << "has no data input \"" << name << "\" whose gradient could be taken; there are ";
        SmallVector<StringRef> names;
        for (BlockArgument known : train.getArguments())
          if (kindOfArgument(train, known.getArgNumber()) == ArgumentKind::Input)
            names.push_back(argumentAttr(train, known.getArgNumber(), kNameAttr));
        llvm::interleaveComma(names, error, [&](StringRef known) { error << '"' << known << '"'; });
        return error;
      }
      if (!isa<FloatType>(getElementTypeOrSelf(argument)))
        return train.emitError() << "input \"" << name << "\" is " << argument.getType()
                                 << "; only real numbers have a gradient";
      if (!llvm::is_contained(inputs, argument))
        inputs.push_back(argument);
    }
    return success();
  }

  LogicalResult appendInputGradients(ArrayRef<BlockArgument> inputs,
                                     SmallVectorImpl<GraphResult> &results,
                                     GraphGradients &gradients) {
    for (BlockArgument input : inputs) {
      auto train = cast<func::FuncOp>(input.getOwner()->getParentOp());
      StringRef name = argumentAttr(train, input.getArgNumber(), kNameAttr);
      Value gradient = gradients.of(input);
      if (!gradient)
        return train.emitError() << "input \"" << name
                                 << "\" does not influence the loss; it has no gradient";
      results.push_back(
          {gradient, stringAttributes(&getContext(), {{kNameAttr, (name + ".grad").str()}})});
    }
    return success();
  }

  LogicalResult differentiate(func::FuncOp train, Value loss, ArrayRef<BlockArgument> inputs,
                              GraphGradients &gradients) {
    FailureOr<SavedChoices> choices = chooseSaved(train, loss, inputs);
    if (failed(choices))
      return failure();
    Value seed;
    if (scaleLoss && !(seed = addLossScale(train)))
      return failure();
    auto built = buildBackward(
        train, loss, gradients,
        [&](Operation *op) -> SmallVector<StringRef> {
          auto alternatives = cast<GradientOpInterface>(op).getSavedAlternatives();
          return {llvm::is_contained(alternatives, saved.getValue()) ? saved : choices->lookup(op)};
        },
        seed);
    return failure(failed(built));
  }

  /// What the loss is multiplied by: state that stow-attach-optimizer changes. It starts as PyTorch's
  /// torch.amp.GradScaler.
  Value addLossScale(func::FuncOp train) {
    return addKnownArgument(
        train, RankedTensorType::get({}, Float32Type::get(&getContext())), kLossScaleName,
        ArgumentKind::Optimizer,
        InitAttr::get(&getContext(), "constant", APFloat(65536.0), APFloat(0.0)), train.getLoc());
  }

  void appendGradients(func::FuncOp train, SmallVector<GraphResult> &results,
                       GraphGradients &gradients) {
    for (BlockArgument argument : train.getArguments()) {
      if (kindOfArgument(train, argument.getArgNumber()) != ArgumentKind::Parameter)
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

void registerAutodiffPasses() {
  registerPass([] { return createAttachLossPass(); });
  registerPass([] { return createAutodiffPass(); });
  registerPass([] { return createAttachOptimizerPass(); });
}

} // namespace stow
