#include "passes/autodiff/Backward.h"

#include "ir/StowDetachOps.h"
#include "ir/StowShapeOps.h"
#include "ir/gradients/Build.h"
#include "passes/autodiff/Graph.h"

using namespace mlir;

namespace stow {
namespace {

bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

/// Marks every op that a builder creates as part of the backward, and lists them.
class BackwardMarker : public OpBuilder::Listener {
public:
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    setPhase(op, Phase::Backward);
    inserted.push_back(op);
  }
  SmallVector<Operation *> inserted;
};

/// Asks one op for the gradients of its operands, when it has any to pass on.
LogicalResult differentiate(Operation *op, OpBuilder &builder, GraphGradients &gradients) {
  if (isa<DetachOp>(op) ||
      llvm::none_of(op->getResults(), [&](Value v) { return gradients.of(v) != nullptr; }) ||
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

} // namespace

GraphGradients::GraphGradients(func::FuncOp graph, ArrayRef<BlockArgument> inputs) {
  for (BlockArgument argument : graph.getArguments())
    if (kindOfArgument(graph, argument.getArgNumber()) == ArgumentKind::Parameter &&
        isFloat(argument))
      needed.insert(argument);
  needed.insert(inputs.begin(), inputs.end());
  for (Operation &op : graph.front())
    if (!isa<DetachOp>(op) &&
        llvm::any_of(op.getOperands(), [&](Value v) { return needed.contains(v); }))
      for (Value result : op.getResults())
        if (isFloat(result))
          needed.insert(result);
}

void GraphGradients::add(OpBuilder &builder, Location location, Value value, Value gradient) {
  Formula f(builder, location);
  gradient = sumToShape(f, gradient, tensorType(value).getShape());
  if (auto pad = gradient.getDefiningOp<PadOp>(); pad && pad.getValue().isZero()) {
    boxes[value].push_back(
        {pad.getX(), SmallVector<int64_t>(pad.getBefore()), SmallVector<int64_t>(pad.getAfter())});
    return;
  }
  addWhole(builder, location, value, gradient);
}

void GraphGradients::finish(OpBuilder &builder, Value value) {
  auto found = boxes.find(value);
  if (found == boxes.end())
    return;
  SmallVector<Box> &list = found->second;
  Formula f(builder, value.getLoc());
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < list.size() && !changed; ++i)
      for (size_t j = 0; j < list.size() && !changed; ++j)
        if (i != j && joinBoxes(builder, value.getLoc(), list[i], list[j])) {
          list.erase(list.begin() + j);
          changed = true;
        }
  }
  for (const Box &box : list) {
    bool whole = llvm::all_of(box.before, [](int64_t n) { return n == 0; }) &&
                 llvm::all_of(box.after, [](int64_t n) { return n == 0; });
    addWhole(builder, value.getLoc(), value,
             whole ? box.inner
                   : f.build<PadOp>(box.inner, box.before, box.after, llvm::APFloat(0.0)).getY());
  }
  boxes.erase(found);
}

void GraphGradients::addWhole(OpBuilder &builder, Location location, Value value, Value gradient) {
  Value &sum = gradients[value];
  sum = sum ? Formula(builder, location).add(sum, gradient) : gradient;
}

/// Puts `high` behind `low`, if that is where it lies: boxes equal in all dimensions but one.
bool GraphGradients::joinBoxes(OpBuilder &builder, Location location, Box &low, const Box &high) {
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
  low.inner = Formula(builder, location).build<ConcatOp>(inputs, *axis).getY();
  low.after[*axis] = high.after[*axis];
  return true;
}

FailureOr<std::vector<BuiltGradient>> buildBackward(func::FuncOp graph, Value loss,
                                                    GraphGradients &gradients,
                                                    AlternativesOf alternativesOf, Value seed) {
  SmallVector<Operation *> forward;
  for (Operation &op : graph.front().without_terminator())
    forward.push_back(&op);
  BackwardMarker marker;
  OpBuilder builder(graph.getContext(), &marker);
  builder.setInsertionPoint(graph.front().getTerminator());
  std::vector<BuiltGradient> built;
  auto note = [&](Operation *op, StringRef saved) {
    built.push_back({op, saved, std::exchange(marker.inserted, {})});
  };
  if (gradients.isNeeded(loss))
    gradients.add(builder, loss.getLoc(), loss,
                  seed ? seed : Formula(builder, loss.getLoc()).scalar(1.0, loss));
  bool failedOnce = false;
  for (Operation *op : llvm::reverse(forward)) {
    for (Value result : op->getResults())
      gradients.finish(builder, result);
    note(nullptr, ""); // sums of gradients
    auto differentiable = dyn_cast<GradientOpInterface>(op);
    if (!differentiable || differentiable.getSavedAlternatives().empty()) {
      failedOnce |= failed(differentiate(op, builder, gradients));
      note(op, "");
      continue;
    }
    for (StringRef saved : alternativesOf(op)) {
      gradients.choose(op, saved);
      failedOnce |= failed(differentiate(op, builder, gradients));
      note(op, saved);
    }
  }
  for (Value argument : graph.getArguments())
    gradients.finish(builder, argument);
  note(nullptr, "");
  if (failedOnce)
    return failure();
  return built;
}

} // namespace stow
