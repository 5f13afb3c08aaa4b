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
// same, and the right one does not need the product, which can be used up by tiles, and where updates wait
// for all gradients is made when they no longer do.
//
// The weight's gradient of a convolution is such a sum too, as long as its windows pass over no position
// of the image and no window lies in the padding alone.
#include "passes/precision/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <utility>

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

/// The two tensors that the elements of a gradient are sums of products of; none for other ops.
std::optional<std::pair<Value, Value>> factorsOf(Operation *op) {
  if (auto product = dyn_cast_or_null<MatmulOp>(op); product && !product.getBias())
    return {{product.getA(), product.getB()}};
  if (auto weight = dyn_cast_or_null<Conv2dGradWeightOp>(op))
    return {{weight.getX(), weight.getDy()}};
  return std::nullopt;
}

/// True when along one dimension each position of an image of `size` meets some position of the result and
/// each of `resultSize` positions of the result some of the image: strides pass over none.
bool meetsAll(int64_t size, int64_t resultSize, int64_t kernel, int64_t stride, int64_t dilation,
              int64_t pad) {
  SmallVector<bool> isMet(size, false);
  for (int64_t y = 0; y < resultSize; ++y) {
    bool meets = false;
    for (int64_t k = 0; k < kernel; ++k)
      if (const int64_t x = y * stride - pad + k * dilation; x >= 0 && x < size)
        isMet[x] = meets = true;
    if (!meets)
      return false;
  }
  return llvm::all_of(isMet, [](bool met) { return met; });
}

/// True when each element of both factors is in some product.
bool readsAll(Operation *op) {
  auto weight = dyn_cast<Conv2dGradWeightOp>(op);
  if (!weight)
    return true;
  auto x = tensorType(weight.getX()), dy = tensorType(weight.getDy()),
       dw = tensorType(weight.getDweight());
  return llvm::all_of(llvm::seq<int64_t>(0, x.getRank() - 2), [&](int64_t i) {
    return meetsAll(x.getDimSize(2 + i), dy.getDimSize(2 + i), dw.getDimSize(2 + i),
                    weight.getStrides()[i], weight.getDilations()[i], weight.getPads()[i]);
  });
}

/// Elements of one of them that an element of the result is summed over.
int64_t contractedOf(Operation *op) {
  if (auto product = dyn_cast<MatmulOp>(op))
    return tensorType(product.getA()).getDimSize(product.getTransposeA() ? 0 : 1);
  auto dy = tensorType(cast<Conv2dGradWeightOp>(op).getDy());
  return dy.getNumElements() / dy.getDimSize(1);
}

/// True for a gradient made of f16 tensors, larger than both, with sums that f32 holds in any case.
bool isToldByFactors(Operation *op) {
  auto factors = factorsOf(op);
  if (!factors)
    return false;
  auto a = tensorType(factors->first), b = tensorType(factors->second),
       y = tensorType(op->getResult(0));
  if (isa<MatmulOp>(op) && (y.getRank() != 2 || a.getRank() != 2 || b.getRank() != 2))
    return false;
  constexpr double most = 1e19;
  const auto contracted = static_cast<double>(contractedOf(op));
  return a.getElementType().isF16() && b.getElementType().isF16() && y.getElementType().isF32() &&
         contracted * contracted * static_cast<double>(y.getNumElements()) < most &&
         storedBytesOf(a) + storedBytesOf(b) <= storedBytesOf(y) && readsAll(op);
}

/// The sum of squares of a tensor in f16, in f32. Rows, or samples, are summed by many threads.
Value sumOfSquares(OpBuilder &builder, Location location, Value tensor, Operation *model) {
  auto type = tensorType(tensor);
  auto rows = RankedTensorType::get({type.getDimSize(0)}, builder.getF32Type());
  auto whole = RankedTensorType::get({}, builder.getF32Type());
  auto inner = llvm::to_vector(llvm::seq<int64_t>(1, type.getRank()));
  auto squares = ReduceSumSquaresOp::create(builder, location, rows, tensor, inner,
                                            /*keepdims=*/false);
  auto sum = ReduceSumOp::create(builder, location, whole, squares.getY(), ArrayRef<int64_t>{0},
                                 /*keepdims=*/false);
  copyPhase(model, squares);
  copyPhase(model, sum);
  return sum.getY();
}

/// Puts `gradient` in front of what reads it first. Until then its factors, which are no larger, wait.
void moveToReader(Operation *gradient) {
  Operation *first = nullptr;
  for (Operation *user : gradient->getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  if (first)
    gradient->moveBefore(first);
}

//===-- --stow-judge-factors -----------------------------------------------------------------===//

struct JudgeFactorsPass : impl::JudgeFactorsPassBase<JudgeFactorsPass> {
  using JudgeFactorsPassBase::JudgeFactorsPassBase;

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto squares : llvm::make_early_inc_range(graph.getOps<ReduceSumSquaresOp>()))
        judge(squares);
  }

private:
  /// A matrix' squares are summed in two steps.
  void judge(ReduceSumSquaresOp squares) {
    Operation *gradient = squares.getX().getDefiningOp(), *last = squares;
    if (squares.getY().getType().getRank() == 1 && squares.getY().hasOneUse())
      last = dyn_cast<ReduceSumOp>(*squares.getY().getUsers().begin());
    if (!last || tensorType(last->getResult(0)).getRank() != 0 || !isToldByFactors(gradient) ||
        tensorType(gradient->getResult(0)).getNumElements() < leastElements ||
        !isJudgedOnly(last->getResult(0)))
      return;
    OpBuilder builder(gradient);
    const auto factors = *factorsOf(gradient);
    Value a = sumOfSquares(builder, last->getLoc(), factors.first, last);
    Value b = sumOfSquares(builder, last->getLoc(), factors.second, last);
    auto both = AddOp::create(builder, last->getLoc(), a, b);
    copyPhase(last, both);
    last->getResult(0).replaceAllUsesWith(both->getResult(0));
    if (last != squares)
      last->erase();
    squares->erase();
    moveToReader(gradient);
  }
};

} // namespace

void registerPrecisionPasses() {
  registerPass([] { return createJudgeFactorsPass(); });
  registerPass([] { return createQuantizeFrozenPass(); });
  registerPass([] { return createQuantizeStatesPass(); });
  registerPass([] { return createStoreFrozenPass(); });
}

} // namespace stow
