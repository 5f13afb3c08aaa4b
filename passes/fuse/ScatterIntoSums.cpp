// The gradient of a table that is read by index as well as otherwise: O(ops).
//
//   %e = embedding_grad %dy, %tokens          %d, %sums = embedding_grad_add %head, %dy, %tokens
//   %d = add %head, %e
//
// The left side has two tensors of the table's size. The right side adds its few rows where the other
// gradient lies: rows of one index are summed first, in place of the gradients of what was read.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowEmbeddingOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SCATTERINTOSUMSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// The host's kernel compares each pair of indices: no more than this per element of the table, a small
/// part of the time that the table's other gradient, a product, takes.
constexpr double mostComparisons = 4;

bool mayAdd(EmbeddingGradOp grad, Value other) {
  auto table = grad.getDtable().getType(), dy = grad.getDy().getType();
  auto isPlain = [](Value value) { return layoutOf(value.getType()).isRowMajor(); };
  const auto count = static_cast<double>(grad.getIndices().getType().getNumElements());
  return grad.getDtable().hasOneUse() && other != grad.getDtable() && other.getType() == table &&
         table.getRank() >= 2 && table.getElementType() == dy.getElementType() && isPlain(other) &&
         isPlain(grad.getDy()) && isPlain(grad.getIndices()) &&
         count * count <= mostComparisons * static_cast<double>(table.getNumElements());
}

/// The scatter of `add`, if it has one that may add to the other operand.
EmbeddingGradOp scatterOf(AddOp add) {
  for (unsigned side : {1u, 0u}) {
    auto grad = add->getOperand(side).getDefiningOp<EmbeddingGradOp>();
    if (grad && mayAdd(grad, add->getOperand(1 - side)))
      return grad;
  }
  return {};
}

//===-- --stow-scatter-into-sums -------------------------------------------------------------===//

struct ScatterIntoSumsPass : impl::ScatterIntoSumsPassBase<ScatterIntoSumsPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto add : llvm::make_early_inc_range(graph.getOps<AddOp>()))
        if (EmbeddingGradOp grad = scatterOf(add))
          replace(add, grad);
  }

private:
  void replace(AddOp add, EmbeddingGradOp grad) {
    OpBuilder builder(add);
    Value other = add->getOperand(add->getOperand(0) == grad.getDtable() ? 1 : 0);
    auto sum =
        EmbeddingGradAddOp::create(builder, builder.getFusedLoc({add.getLoc(), grad.getLoc()}),
                                   TypeRange{other.getType(), grad.getDy().getType()}, other,
                                   grad.getDy(), grad.getIndices(), grad.getPaddingIndexAttr());
    copyPhase(add, sum);
    add->getResult(0).replaceAllUsesWith(sum.getDtable());
    add->erase();
    grad->erase();
  }
};

} // namespace
} // namespace stow
