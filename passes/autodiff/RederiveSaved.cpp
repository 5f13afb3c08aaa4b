// Shortens the list of forward values that the backward reads.
//
// A value that is one arithmetic operation away from another saved value need not be saved itself:
// the backward computes it again from that one. It costs one operation per element inside a kernel
// that waits for memory, reads one tensor less, and the value dies in the forward. GELU by its
// formula, 0.5 x (1 + tanh(c (x + 0.044715 x^3))), saves x and tanh instead of x, x^2, 0.5 x, tanh
// and 1 + tanh. Anything dearer is the schedule's decision. O(ops + uses).
#include "passes/autodiff/Graph.h"
#include "passes/autodiff/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_REDERIVESAVEDPASS
#include "passes/autodiff/Passes.h.inc"

namespace {

bool isBackward(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return phase && phase == "backward";
}

bool isSplat(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat();
}

/// The one value, of the result's size, that `op` is a single operation of; null when there are
/// several or the operation is dear.
Value onlySource(Operation *op) {
  if (!isa<AddOp, SubOp, MulOp, NegOp>(op))
    return {};
  Value source;
  for (Value operand : op->getOperands()) {
    if (isSplat(operand) || operand == source)
      continue;
    if (source || operand.getType() != op->getResult(0).getType())
      return {};
    source = operand;
  }
  return source;
}

/// The last op of the backward that reads `value`; null without one.
Operation *lastBackwardReader(Value value) {
  Operation *last = nullptr;
  for (Operation *reader : value.getUsers())
    if (isBackward(reader) && (!last || last->isBeforeInBlock(reader)))
      last = reader;
  return last;
}

//===--------------------------------------------------------------------------------------------===//
// --stow-rederive-saved
//===--------------------------------------------------------------------------------------------===//

struct RederiveSaved : impl::RederiveSavedPassBase<RederiveSaved> {
  using Base::Base;

  void runOnOperation() override {
    auto train = findGraph(getOperation(), "train", "run stow-autodiff first");
    if (!train)
      return signalPassFailure();
    // Last first: a source that becomes a saved value here is seen with all its readers.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(train.front())))
      if (!isBackward(&op))
        rederive(&op);
  }

  void rederive(Operation *op) {
    Value source = onlySource(op);
    if (!source)
      return;
    Operation *last = lastBackwardReader(op->getResult(0));
    Operation *lastOfSource = last ? lastBackwardReader(source) : nullptr;
    // The source must not live longer than it does.
    if (!last || !lastOfSource || lastOfSource->isBeforeInBlock(last))
      return;
    OpBuilder builder(op->getContext());
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : op->getResult(0).getUses())
      if (isBackward(use.getOwner()))
        uses.push_back(&use);
    // One clone for each reader: a kernel takes in what only it reads.
    llvm::DenseMap<Operation *, Value> clones;
    for (OpOperand *use : uses) {
      Value &clone = clones[use->getOwner()];
      if (!clone) {
        builder.setInsertionPoint(use->getOwner());
        Operation *copy = builder.clone(*op);
        copy->setAttr(kPhaseAttr, builder.getStringAttr("backward"));
        clone = copy->getResult(0);
      }
      use->set(clone);
    }
    ++numRederived;
    bytesSaved += storedBytesOf(op->getResult(0).getType());
  }
};

} // namespace
} // namespace stow
