// What to save is chosen from what gradients read, which a trial shows: the backward of a copy of the
// graph, in which every op with a choice has the gradient of each of its alternatives. A value is
// kept by the gradient of an op without a choice that reads it; an alternative costs the bytes of
// what it reads beside that. Ops with a choice do not count on each other's. Twice the time of
// differentiation.
#include "passes/autodiff/SavedValues.h"

#include "ir/Graphs.h"
#include "passes/autodiff/Backward.h"

using namespace mlir;

namespace stow {
namespace {

/// The values of the forward that stay until the backward whatever ops with a choice save.
class KeptValues {
public:
  explicit KeptValues(ArrayRef<BuiltGradient> built) {
    for (const BuiltGradient &gradient : built)
      if (!gradient.saved.empty())
        undecided.insert(gradient.ops.begin(), gradient.ops.end());
  }

  /// True for what the backward reads itself, as a view, or as a part of what it is joined in: what
  /// a concat reads is produced inside its result, so that one of them keeps the other.
  bool contains(Value value) const {
    return isa<BlockArgument>(value) || llvm::any_of(value.getUses(), [&](OpOperand &use) {
             Operation *reader = use.getOwner();
             if (!isForward(reader))
               return !undecided.contains(reader);
             return (viewedOperand(reader) == use.getOperandNumber() || partOfResult(use)) &&
                    contains(reader->getResult(0));
           });
  }

private:
  llvm::DenseSet<Operation *> undecided;
};

/// Bytes that the forward keeps for `gradient` alone.
Bytes costOf(const BuiltGradient &gradient, const KeptValues &kept) {
  llvm::SmallSetVector<Value, 4> read;
  for (Operation *op : gradient.ops)
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp(); maker && isForward(maker))
        read.insert(operand);
  Bytes bytes = 0;
  for (Value value : read)
    if (!kept.contains(value))
      bytes += storedBytesOf(value.getType());
  return bytes;
}

} // namespace

FailureOr<SavedChoices> chooseSaved(func::FuncOp graph, Value loss,
                                    ArrayRef<BlockArgument> inputs) {
  IRMapping copies;
  OwningOpRef<func::FuncOp> trial = cast<func::FuncOp>(graph->clone(copies));
  llvm::DenseMap<Operation *, Operation *> original; // by copy
  for (auto [op, copy] : llvm::zip(graph.front(), trial->front()))
    original[&copy] = &op;
  auto copiedInputs = llvm::map_to_vector(inputs, [&](BlockArgument input) {
    return cast<BlockArgument>(copies.lookup(Value(input)));
  });
  GraphGradients gradients(*trial, copiedInputs);
  auto built = buildBackward(*trial, copies.lookup(loss), gradients, [](Operation *op) {
    return cast<GradientOpInterface>(op).getSavedAlternatives();
  });
  if (failed(built))
    return failure();
  const KeptValues kept(*built);
  SavedChoices choices;
  llvm::DenseMap<Operation *, Bytes> least;
  for (const BuiltGradient &gradient : *built) {
    if (gradient.saved.empty())
      continue;
    const Bytes cost = costOf(gradient, kept);
    auto [known, isFirst] = least.try_emplace(gradient.forward, cost);
    if (isFirst || cost < known->second) {
      known->second = cost;
      choices[original.lookup(gradient.forward)] = gradient.saved;
    }
  }
  return choices;
}

} // namespace stow
