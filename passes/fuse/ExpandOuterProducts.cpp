// Products of one contracted element are multiplications: O(ops).
//
//   %g = matmul %ds, %w : [80, 50, 1] x [1, 1000]     %g = mul %ds, %w
//   %d = tanh_grad %g, %t                             %d = tanh_grad %g, %t
//
// A library writes the left side's %g whole. The right side is elementwise ops alone, which become one
// kernel that may write over %t.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_EXPANDOUTERPRODUCTSPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// The extent of the dimension that is contracted.
int64_t contractedOf(MatmulOp product) {
  ArrayRef<int64_t> shape = product.getA().getType().getShape();
  return product.getTransposeA() ? shape[shape.size() - 2] : shape.back();
}

/// `factor` of `product` as it is contracted: with its last two dimensions exchanged, one of which has
/// one element, where it is read transposed. A view.
Value contracted(OpBuilder &builder, MatmulOp product, Value factor, bool isTransposed) {
  if (!isTransposed)
    return factor;
  RankedTensorType type = tensorType(factor);
  SmallVector<int64_t> shape(type.getShape());
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  auto view = ReshapeOp::create(builder, product.getLoc(), type.clone(shape), factor);
  copyPhase(product, view);
  return view;
}

void expand(MatmulOp product) {
  OpBuilder builder(product);
  Value a = contracted(builder, product, product.getA(), product.getTransposeA());
  Value b = contracted(builder, product, product.getB(), product.getTransposeB());
  auto elements = MulOp::create(builder, product.getLoc(), product.getY().getType(), a, b);
  copyPhase(product, elements);
  product.replaceAllUsesWith(elements->getResult(0));
  product.erase();
}

//===-- --stow-expand-outer-products ---------------------------------------------------------===//

struct ExpandOuterProductsPass : impl::ExpandOuterProductsPassBase<ExpandOuterProductsPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto product : llvm::make_early_inc_range(graph.getOps<MatmulOp>()))
        if (contractedOf(product) == 1 && !product.getBias())
          expand(product);
  }
};

} // namespace
} // namespace stow
