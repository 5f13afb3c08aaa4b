// Folds factors and summands per plane into the normalization they follow: O(ops).
//
// PyTorch exports group normalization without its scale and shift, which follow as a product and a
// sum. Apart, the product's gradient keeps the normalized tensor alive and sums over another one of
// its size; folded, the normalization's own gradient does both from what it reads anyway.
#include "passes/rewrite/Passes.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_FOLDPLANESCALESPASS
#include "passes/rewrite/Passes.h.inc"

namespace {

/// The operand of `op` that a normalization alone gives to it, and the other one.
std::pair<PlaneNormalizeOp, Value> normalizationOf(Operation *op) {
  for (unsigned i : {0u, 1u}) {
    auto norm = op->getOperand(i).getDefiningOp<PlaneNormalizeOp>();
    if (norm && norm.getY().hasOneUse())
      return {norm, op->getOperand(1 - i)};
  }
  return {};
}

/// True when the tensor has one number per plane, or fewer, and leaves the planes' shape as it is.
bool isPerPlane(Value value, PlaneNormalizeOp norm) {
  auto planes = norm.getShift().getType().getShape();
  auto joined = broadcastShapes(cast<RankedTensorType>(value.getType()).getShape(), planes);
  return succeeded(joined) && ArrayRef<int64_t>(*joined) == planes;
}

//===-- --stow-fold-plane-scales -------------------------------------------------------------===//

struct FoldPlaneScalesPass : impl::FoldPlaneScalesPassBase<FoldPlaneScalesPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (Operation &op : llvm::make_early_inc_range(graph.front()))
        if (isa<MulOp, AddOp>(op))
          fold(&op);
  }

  void fold(Operation *op) {
    auto [norm, other] = normalizationOf(op);
    if (!norm || !isPerPlane(other, norm))
      return;
    OpBuilder builder(op);
    Location location = op->getLoc();
    Value slope = norm.getSlope(), shift = norm.getShift();
    if (isa<MulOp>(op)) {
      slope = MulOp::create(builder, location, slope, other);
      shift = MulOp::create(builder, location, shift, other);
    } else {
      shift = AddOp::create(builder, location, shift, other);
    }
    auto folded =
        PlaneNormalizeOp::create(builder, norm.getLoc(), norm.getX(), norm.getMean(), slope, shift);
    op->getResult(0).replaceAllUsesWith(folded.getY());
    op->erase();
    norm.erase();
  }
};

} // namespace
} // namespace stow
