// Puts the optimizer inside the backward: a parameter is updated as soon as its gradient exists and
// nothing reads its old value any more, so that the gradient dies at once instead of living until
// the backward ends (Lv et al., "Full Parameter Fine-tuning for Large Language Models with Limited
// Resources", 2023, call this fused backward LOMO). O(ops + uses).
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_ATTACHOPTIMIZERPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

/// The later of `last` and the readers of `value`, views' readers included. The terminator does not
/// count.
Operation *lastReader(Value value, Operation *last) {
  for (OpOperand &use : value.getUses()) {
    Operation *reader = use.getOwner();
    if (reader->hasTrait<OpTrait::IsTerminator>())
      continue;
    if (!last || last->isBeforeInBlock(reader))
      last = reader;
    auto alias = dyn_cast<AliasOpInterface>(reader);
    if (alias && alias.getViewedOperand() == use.getOperandNumber())
      last = lastReader(reader->getResult(0), last);
  }
  return last;
}

//===--------------------------------------------------------------------------------------------===//
// --stow-attach-optimizer
//===--------------------------------------------------------------------------------------------===//

struct AttachOptimizer : impl::AttachOptimizerPassBase<AttachOptimizer> {
  using Base::Base;

  void runOnOperation() override {
    auto train = findGraph(getOperation(), "train", "run stow-split-train-eval first");
    if (!train || failed(checkOptions()) || failed(attach(train)))
      return signalPassFailure();
    getOperation()->setAttr(kFormAttr, StringAttr::get(&getContext(), "step"));
  }

  LogicalResult checkOptions() {
    ModuleOp module = getOperation();
    if (optimizer != "sgd" && optimizer != "adam" && optimizer != "adamw")
      return module.emitError() << "unknown optimizer \"" << optimizer.getValue()
                                << "\"; expected sgd, adam or adamw";
    if (momentum < 0 || weightDecay < 0 || epsilon < 0)
      return module.emitError("momentum, weight-decay and epsilon must not be negative");
    if (nesterov && momentum == 0)
      return module.emitError("nesterov needs a momentum above 0");
    if (beta1 < 0 || beta1 >= 1 || beta2 < 0 || beta2 >= 1)
      return module.emitError("beta1 and beta2 must lie in [0, 1)");
    return success();
  }

  LogicalResult attach(func::FuncOp train) {
    SmallVector<GraphResult> kept, gradients;
    for (const GraphResult &result : resultsOf(train))
      (result.get("stow.gradient_of").empty() ? kept : gradients).push_back(result);
    Builder types(&getContext());
    learningRate = addArgument(train, RankedTensorType::get({}, types.getF32Type()),
                               "learning_rate", "learning_rate", {}, train.getLoc());
    if (!learningRate)
      return failure();
    if (optimizer != "sgd") {
      step = addArgument(train, RankedTensorType::get({}, types.getI64Type()), "step", "step", {},
                         train.getLoc());
      if (!step)
        return failure();
    }
    for (const GraphResult &gradient : gradients)
      if (failed(update(train, gradient, kept)))
        return failure();
    setResults(train, kept);
    return success();
  }

  /// Adds the update of one parameter and its results.
  LogicalResult update(func::FuncOp train, const GraphResult &gradient,
                       SmallVectorImpl<GraphResult> &results) {
    StringRef name = gradient.get("stow.gradient_of");
    BlockArgument parameter = findArgument(train, name);
    if (!parameter || parameter.getType() != gradient.value.getType())
      return train.emitError() << "result marked as the gradient of \"" << name
                               << "\" has no argument of that name and type";
    OpBuilder builder(&getContext());
    if (Operation *last = lastReader(parameter, gradient.value.getDefiningOp()))
      builder.setInsertionPointAfter(last);
    else
      builder.setInsertionPointToStart(&train.front());
    SmallVector<StringRef> suffixes;
    if (optimizer != "sgd")
      suffixes = {".exp_avg", ".exp_avg_sq"};
    else if (momentum != 0)
      suffixes = {".momentum"};
    SmallVector<Value> state;
    SmallVector<std::string> names = {name.str()};
    for (StringRef suffix : suffixes) {
      names.push_back((name + suffix).str());
      Value argument = addArgument(
          train, parameter.getType(), names.back(), "optimizer",
          InitAttr::get(&getContext(), "constant", APFloat(0.0), APFloat(0.0)), parameter.getLoc());
      if (!argument)
        return failure();
      state.push_back(argument);
    }
    Operation *op = build(builder, parameter, gradient.value, state);
    op->setAttr(kPhaseAttr, builder.getStringAttr("update"));
    for (auto [value, stateName] : llvm::zip(op->getResults(), names))
      results.push_back({value, stringAttributes(&getContext(), {{kStateAttr, stateName}})});
    return success();
  }

  Operation *build(OpBuilder &builder, Value parameter, Value gradient, ArrayRef<Value> state) {
    Location location = parameter.getLoc();
    Type type = parameter.getType();
    if (optimizer == "sgd")
      return SgdOp::create(builder, location, type, state.empty() ? Type() : type, parameter,
                           gradient, learningRate, state.empty() ? Value() : state[0],
                           APFloat(double(momentum)), APFloat(double(weightDecay)), nesterov);
    return AdamOp::create(builder, location, type, type, type, parameter, gradient, learningRate,
                          step, state[0], state[1], APFloat(double(beta1)), APFloat(double(beta2)),
                          APFloat(double(epsilon)), APFloat(double(weightDecay)),
                          optimizer == "adamw");
  }

  Value learningRate, step;
};

} // namespace
} // namespace stow
