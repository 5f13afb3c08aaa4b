// Takes rows before a product computes them: O(n^2) for n ops between product and slice.
//
//   x [B,T,d] -> product [B,T,V] -> mul 0.5 -> slice [B,T-1,V]
//   x [B,T,d] -> slice [B,T-1,d] -> product [B,T-1,V] -> mul 0.5
//
// Losses of a language model leave out its last position, whose next word is not known, and do so on the logits, the widest
// value of all. Between the product and the slice may stand elementwise ops and softmax along the columns.
#include "passes/rewrite/Passes.h"

#include "ir/StowElementwiseOps.h"
#include "ir/StowLinearOps.h"
#include "ir/StowReduceOps.h"
#include "ir/StowShapeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_TAKEROWSFIRSTPASS
#include "passes/rewrite/Passes.h.inc"

namespace {

struct Box {
  SmallVector<int64_t> starts, sizes;
};

/// The part of an operand of `type` that makes `box` of a result, by NumPy's rule: all of what is repeated.
Box boxOfOperand(RankedTensorType type, const Box &box) {
  const size_t missing = box.sizes.size() - type.getRank();
  Box part = {SmallVector<int64_t>(ArrayRef(box.starts).drop_front(missing)),
              SmallVector<int64_t>(ArrayRef(box.sizes).drop_front(missing))};
  for (auto [dim, extent] : llvm::enumerate(type.getShape()))
    if (extent == 1) {
      part.starts[dim] = 0;
      part.sizes[dim] = 1;
    }
  return part;
}

bool isWhole(RankedTensorType type, const Box &box) {
  return type.getShape() == ArrayRef(box.sizes);
}

/// True for an op of one result, each element of which is made of the same elements of operands, or each row along its last dimension
/// of the same rows.
bool keepsRows(Operation *op) {
  if (isa<ElementwiseOpInterface>(op))
    return op->getNumResults() == 1 && !isa<DropoutTrainingOp, DrawOp>(op);
  return isa<SoftmaxOp, LogSoftmaxOp>(op) && op->getAttrOfType<IntegerAttr>("axis").getInt() ==
                                                 tensorType(op->getResult(0)).getRank() - 1;
}

/// A product that is wider than what it reads, of rows that do not meet.
bool isWideProduct(MatmulOp product) {
  return !product.getTransposeA() && product.getB().getType().getRank() == 2 &&
         product.getY().getType().getShape().back() > product.getA().getType().getShape().back();
}

/// True where nothing but the slice reads `value`, and a product that is wide makes it or what it is made of.
bool isOfProduct(Value value) {
  Operation *maker = value.getDefiningOp();
  if (!maker || !value.hasOneUse())
    return false;
  if (auto product = dyn_cast<MatmulOp>(maker))
    return isWideProduct(product);
  return keepsRows(maker) && llvm::any_of(maker->getOperands(), isOfProduct);
}

/// `box` of `value`, computed from parts of what makes that.
Value partOf(OpBuilder &builder, Value value, const Box &box) {
  if (isWhole(tensorType(value), box))
    return value;
  if (DenseElementsAttr numbers; matchPattern(value, m_Constant(&numbers)) && numbers.isSplat())
    return ConstantOp::create(
               builder, value.getLoc(),
               numbers.resizeSplat(RankedTensorType::get(box.sizes, numbers.getElementType())))
        .getY();
  if (!isOfProduct(value))
    return SliceOp::create(builder, value.getLoc(), value, box.starts, box.sizes).getY();
  Operation *maker = value.getDefiningOp();
  IRMapping parts;
  if (auto product = dyn_cast<MatmulOp>(maker)) {
    Box rows = box;
    rows.sizes.back() = product.getA().getType().getShape().back();
    parts.map(product.getA(), partOf(builder, product.getA(), rows));
  } else {
    for (Value operand : maker->getOperands())
      parts.map(operand, partOf(builder, operand, boxOfOperand(tensorType(operand), box)));
  }
  Operation *part = builder.clone(*maker, parts);
  part->getResult(0).setType(RankedTensorType::get(box.sizes, tensorType(value).getElementType()));
  return part->getResult(0);
}

/// Erases `op` and what only it has read.
void eraseUnread(Operation *first) {
  SmallVector<Operation *> unread = {first};
  while (!unread.empty()) {
    Operation *op = unread.pop_back_val();
    llvm::SetVector<Operation *> makers; // each once, also where the op reads it twice
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        makers.insert(maker);
    op->erase();
    for (Operation *maker : makers)
      if (maker->use_empty())
        unread.push_back(maker);
  }
}

//===-- --stow-take-rows-first ---------------------------------------------------------------===//

struct TakeRowsFirstPass : impl::TakeRowsFirstPassBase<TakeRowsFirstPass> {
  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto slice : llvm::to_vector(graph.getOps<SliceOp>())) {
        Value x = slice.getX();
        const int64_t columns = tensorType(x).getRank() - 1;
        if (columns < 1 || slice.getSizes()[columns] != tensorType(x).getDimSize(columns) ||
            !isOfProduct(x))
          continue;
        OpBuilder builder(slice);
        slice.getY().replaceAllUsesWith(partOf(
            builder, x,
            {SmallVector<int64_t>(slice.getStarts()), SmallVector<int64_t>(slice.getSizes())}));
        eraseUnread(slice);
      }
  }
};

} // namespace
} // namespace stow
