// Products of few rows read the codes of their quantized factor: O(ops).
//
//   %w = dequantize %packed
//   %y = matmul %a, %w           ==>    %y = coded_matmul %a, %packed
//
// The numbers, which take eight times the codes' bytes, are nowhere in memory.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowQuantizeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_READCODESPASS
#include "passes/fuse/Passes.h.inc"

namespace {

//===-- --stow-read-codes --------------------------------------------------------------------===//

struct ReadCodesPass : impl::ReadCodesPassBase<ReadCodesPass> {
  explicit ReadCodesPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto product : llvm::make_early_inc_range(graph.getOps<MatmulOp>()))
        if (auto factor = product.getB().getDefiningOp<DequantizeOp>();
            factor && isAlone(product, factor))
          readCodes(product, factor);
  }

private:
  /// True where nothing else reads the numbers, which are one matrix, row-major, and multiply rows.
  static bool isAlone(MatmulOp product, DequantizeOp factor) {
    const RankedTensorType a = tensorType(product.getA()), y = tensorType(product.getY());
    return factor->hasOneUse() && tensorType(factor.getY()).getRank() == 2 &&
           layoutOf(factor.getY().getType()).isRowMajor() &&
           tensorType(factor.getY()).getElementType() == y.getElementType() &&
           !product.getTransposeA() && a.getRank() == y.getRank() &&
           a.getShape().drop_back() == y.getShape().drop_back();
  }

  /// Where the target has a call for it.
  void readCodes(MatmulOp product, DequantizeOp factor) {
    OpBuilder builder(product);
    auto coded =
        CodedMatmulOp::create(builder, product.getLoc(), product.getY().getType(), product.getA(),
                              factor.getX(), factor.getSchemeAttr(), product.getTransposeBAttr());
    if (!target.libraryCall(coded)) {
      coded.erase();
      return;
    }
    copyPhase(product, coded);
    Value y = coded.getY();
    if (product.getBias()) {
      auto sum =
          AddOp::create(builder, product.getLoc(), product.getY().getType(), y, product.getBias());
      copyPhase(product, sum);
      y = sum->getResult(0);
    }
    product.replaceAllUsesWith(y);
    product.erase();
    factor.erase();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createReadCodesPass(const Target &target) {
  return std::make_unique<ReadCodesPass>(target);
}

} // namespace stow
