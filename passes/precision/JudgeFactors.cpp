// Weight gradients in fp16 whose factors tell whether they are finite: O(ops).
//
//   %g = matmul %dy, %x : f16, f16 -> f32           %a = sum of %dy's squares, %b of %x's
//   %r = reduce_sum_squares %g                      %s = add %a, %b
//   %s = reduce_sum %r                              %ok = compare %s < infinity
//   %ok = compare %s < infinity                     %g = matmul %dy, %x
//
// A sum of products of finite f16 numbers is finite in f32 for any length that a tensor has, and so is the
// sum of such sums' squares below 1e19 = (contracted elements)^2 * elements. A factor that is not finite
// makes a whole row or column of the product so: infinity times 0 is NaN. Both sides thus say the
// same, and the right one does not need the product, which can be used up by tiles.
#include "passes/precision/Passes.h"

#include "ir/Graphs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_JUDGEFACTORSPASS
#include "passes/precision/Passes.h.inc"
namespace {

bool isInfinity(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.isSplat() && elements.getSplatValue<APFloat>().isPosInfinity();
}

/// True when nothing is asked of `value`, a sum of squares, but whether it and sums with others are
/// finite.
bool isJudgedOnly(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    if (auto sum = dyn_cast<AddOp>(use.getOwner()))
      return isJudgedOnly(sum->getResult(0));
    auto compare = dyn_cast<CompareOp>(use.getOwner());
    return compare && use.getOperandNumber() == 0 && compare.getPredicate() == "lt" &&
           isInfinity(compare.getB());
  });
}

/// True for a product of f16 matrices, larger than both, with sums that f32 holds in any case.
bool isToldByFactors(MatmulOp product) {
  auto a = product.getA().getType(), b = product.getB().getType(), y = product.getY().getType();
  if (product.getBias() || y.getRank() != 2 || a.getRank() != 2 || b.getRank() != 2 ||
      !a.getElementType().isF16() || !b.getElementType().isF16() || !y.getElementType().isF32())
    return false;
  constexpr double most = 1e19;
  const auto contracted = static_cast<double>(a.getDimSize(product.getTransposeA() ? 0 : 1));
  return contracted * contracted * static_cast<double>(y.getNumElements()) < most &&
         storedBytesOf(a) + storedBytesOf(b) <= storedBytesOf(y);
}

/// The sum of squares of a matrix in f16, in f32. Rows are summed by many threads.
Value sumOfSquares(OpBuilder &builder, Location location, Value matrix, Operation *model) {
  auto rows = RankedTensorType::get({tensorType(matrix).getDimSize(0)}, builder.getF32Type());
  auto whole = RankedTensorType::get({}, builder.getF32Type());
  auto squares = ReduceSumSquaresOp::create(builder, location, rows, matrix, ArrayRef<int64_t>{1},
                                            /*keepdims=*/false);
  auto sum = ReduceSumOp::create(builder, location, whole, squares.getY(), ArrayRef<int64_t>{0},
                                 /*keepdims=*/false);
  copyPhase(model, squares);
  copyPhase(model, sum);
  return sum.getY();
}

//===-- --stow-judge-factors -----------------------------------------------------------------===//

struct JudgeFactorsPass : impl::JudgeFactorsPassBase<JudgeFactorsPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto sum : llvm::make_early_inc_range(graph.getOps<ReduceSumOp>()))
        judge(sum);
  }

private:
  void judge(ReduceSumOp sum) {
    auto squares = sum.getX().getDefiningOp<ReduceSumSquaresOp>();
    auto product = squares ? squares.getX().getDefiningOp<MatmulOp>() : nullptr;
    if (!product || sum.getY().getType().getRank() != 0 || !squares.getY().hasOneUse() ||
        !isToldByFactors(product) || !isJudgedOnly(sum.getY()))
      return;
    OpBuilder builder(product);
    Value a = sumOfSquares(builder, sum.getLoc(), product.getA(), sum);
    Value b = sumOfSquares(builder, sum.getLoc(), product.getB(), sum);
    auto both = AddOp::create(builder, sum.getLoc(), a, b);
    copyPhase(sum, both);
    sum.getY().replaceAllUsesWith(both->getResult(0));
    sum->erase();
    squares->erase();
  }
};

} // namespace

void registerPrecisionPasses() { registerPass(createJudgeFactorsPass); }

} // namespace stow
