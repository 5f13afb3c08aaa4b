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
  GraphGradients(func::FuncOp graph, StringRef saved, ArrayRef<BlockArgument> inputs)
      : saved(saved) {
    for (BlockArgument argument : graph.getArguments())
      if (argumentAttr(graph, argument.getArgNumber(), kKindAttr) == "parameter" &&
          isFloat(argument))
        needed.insert(argument);
    needed.insert(inputs.begin(), inputs.end());
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
    if (auto pad = gradient.getDefiningOp<PadOp>(); pad && pad.getValue().isZero()) {
      boxes[value].push_back({pad.getX(), SmallVector<int64_t>(pad.getBefore()),
                              SmallVector<int64_t>(pad.getAfter())});
      return;
    }
    addWhole(f, value, gradient);
  }

  /// Ends the sum of `value`'s gradients: all its readers have been visited. The gradients of
  /// slices are zero outside their boxes. Boxes that touch become one by a concat, so that a tensor
  /// that is split gets its gradient joined, not as a sum of padded tensors.
  void finish(OpBuilder &builder, Value value) {
    auto found = boxes.find(value);
    if (found == boxes.end())
      return;
    SmallVector<Box> &list = found->second;
    Formula f(builder, value.getLoc());
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < list.size() && !changed; ++i)
        for (size_t j = 0; j < list.size() && !changed; ++j)
          if (i != j && joinBoxes(f, list[i], list[j])) {
            list.erase(list.begin() + j);
            changed = true;
          }
    }
    for (const Box &box : list) {
      bool whole = llvm::all_of(box.before, [](int64_t n) { return n == 0; }) &&
                   llvm::all_of(box.after, [](int64_t n) { return n == 0; });
      addWhole(f, value,
               whole ? box.inner
                     : f.build<PadOp>(box.inner, box.before, box.after, llvm::APFloat(0.0)).getY());
    }
    boxes.erase(found);
  }

  StringRef chosenAlternative(Operation *op) override {
    auto alternatives = cast<GradientOpInterface>(op).getSavedAlternatives();
    if (llvm::is_contained(alternatives, saved))
      return saved;
    return cheapestAlternative(op, *this);
  }

private:
  /// A gradient that is `inner` in a box and zero around it, as stow.pad counts.
  struct Box {
    Value inner;
    SmallVector<int64_t> before, after;
  };

  void addWhole(Formula &f, Value value, Value gradient) {
    Value &sum = gradients[value];
    sum = sum ? f.add(sum, gradient) : gradient;
  }

  /// Puts `high` behind `low`, if that is where it lies: boxes equal in all dimensions but one.
  static bool joinBoxes(Formula &f, Box &low, const Box &high) {
    std::optional<int64_t> axis;
    for (auto [dim, before] : llvm::enumerate(low.before)) {
      if (before == high.before[dim] && low.after[dim] == high.after[dim])
        continue;
      if (axis || before + tensorType(low.inner).getDimSize(dim) != high.before[dim])
        return false;
      axis = dim;
    }
    if (!axis)
      return false;
    SmallVector<Value> inputs;
    for (Value part : {low.inner, high.inner}) {
      auto concat = part.getDefiningOp<ConcatOp>();
      if (concat && static_cast<int64_t>(concat.getAxis()) == *axis && part.use_empty())
        llvm::append_range(inputs, concat.getInputs());
      else
        inputs.push_back(part);
    }
    low.inner = f.build<ConcatOp>(inputs, *axis).getY();
    low.after[*axis] = high.after[*axis];
    return true;
  }

  static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

  StringRef saved;
  DenseSet<Value> needed;
  DenseMap<Value, Value> gradients;
  DenseMap<Value, SmallVector<Box>> boxes; ///< not in `gradients` yet
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
    SmallVector<BlockArgument> inputs;
    if (failed(findInputs(train, inputs)))
      return signalPassFailure();
    GraphGradients gradients(train, saved, inputs);
    if (failed(buildBackward(train, results.front().value, gradients)))
      return signalPassFailure();
    if (failed(appendInputGradients(inputs, results, gradients)))
      return signalPassFailure();
    appendGradients(train, results, gradients);
    for (auto op : train.front().getOps<PositiveMaskOp>())
      if (!op->hasAttr(kPhaseAttr))
        ++numMasks;
  }

  /// The arguments that `inputGradients` names.
  LogicalResult findInputs(func::FuncOp train, SmallVectorImpl<BlockArgument> &inputs) {
    for (const std::string &name : inputGradients) {
      BlockArgument argument = findArgument(train, name);
      StringRef kind = argument ? argumentAttr(train, argument.getArgNumber(), kKindAttr) : "";
      if (kind != "input") {
        InFlightDiagnostic error = train.emitError();
        error << "has no data input \"" << name << "\" whose gradient could be taken; there are ";
        SmallVector<StringRef> names;
        for (BlockArgument known : train.getArguments())
          if (argumentAttr(train, known.getArgNumber(), kKindAttr) == "input")
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
    for (Operation *op : llvm::reverse(forward)) {
      for (Value result : op->getResults())
        gradients.finish(builder, result);
      failedOnce |= failed(differentiate(op, builder, gradients));
    }
    for (Value argument : train.getArguments())
      gradients.finish(builder, argument);
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

void registerAutodiffPasses() {
  registerPass([] { return createSplitTrainEvalPass(); });
  registerPass([] { return createAttachLossPass(); });
  registerPass([] { return createAutodiffPass(); });
  registerPass([] { return createAttachOptimizerPass(); });
}

} // namespace stow
