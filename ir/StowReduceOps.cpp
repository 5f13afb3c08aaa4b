// Types and constraints of reductions and softmax.
#include "ir/StowReduceOps.h"
#include "ir/OpGroup.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowReduceOps.cpp.inc"

void stow::addReduceOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowReduceOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

template <typename Adaptor>
LogicalResult inferReduce(std::optional<Location> location, Adaptor adaptor,
                          SmallVectorImpl<Type> &types) {
  auto x = tensor(adaptor.getX());
  ArrayRef<int64_t> axes = adaptor.getAxes();
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= x.getRank() || (i > 0 && axes[i] <= axes[i - 1])) // C1
      return emitOptionalError(location, "expects sorted, distinct axes of ", x, ", found ",
                               llvm::interleaved_array(axes));
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < x.getRank(); ++dim) {
    if (!llvm::is_contained(axes, dim))
      shape.push_back(x.getDimSize(dim));
    else if (adaptor.getKeepdims())
      shape.push_back(1);
  }
  types.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}

template <typename Op> LogicalResult verifyAxis(Op op) {
  int64_t axis = op.getAxis(), rank = cast<RankedTensorType>(op->getOperand(0).getType()).getRank();
  if (axis < 0 || axis >= rank) // C1
    return op.emitOpError() << "axis " << axis << " lies outside rank " << rank;
  return success();
}

/// The result may overwrite any operand: a row is read whole before it is written.
Sharings overwritesOfAll(Operation *op) {
  Sharings sharings;
  for (unsigned operand : llvm::seq(0u, op->getNumOperands()))
    sharings.push_back({SharingKind::Overwrite, 0, operand});
  return sharings;
}

} // namespace

#define STOW_REDUCE(OpName)                                                                        \
  LogicalResult OpName::inferReturnTypes(MLIRContext *, std::optional<Location> location,          \
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {          \
    return inferReduce(location, adaptor, types);                                                  \
  }                                                                                                \
  bool OpName::isCompatibleReturnTypes(TypeRange left, TypeRange right) {                          \
    return compatibleTypes(left, right);                                                           \
  }                                                                                                \
  LogicalResult OpName::verify() {                                                                 \
    return getX().getType().getRank() == 0 ? emitOpError("expects a tensor of rank 1 or more")     \
                                           : success();                                            \
  }

STOW_REDUCE(ReduceSumOp)
STOW_REDUCE(ReduceMeanOp)
STOW_REDUCE(ReduceMaxOp)
STOW_REDUCE(ReduceSumSquaresOp)
#undef STOW_REDUCE

#define STOW_SOFTMAX_LIKE(OpName)                                                                  \
  LogicalResult OpName::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,  \
                                         SmallVectorImpl<Type> &types) {                           \
    types.push_back(withoutLayout(tensor(adaptor.getOperands().front())));                         \
    return success();                                                                              \
  }                                                                                                \
  bool OpName::isCompatibleReturnTypes(TypeRange left, TypeRange right) {                          \
    return compatibleTypes(left, right);                                                           \
  }                                                                                                \
  Sharings OpName::getSharings() { return overwritesOfAll(*this); }                                \
  LogicalResult OpName::verify() { return verifyAxis(*this); }

STOW_SOFTMAX_LIKE(SoftmaxOp)
STOW_SOFTMAX_LIKE(LogSoftmaxOp)
STOW_SOFTMAX_LIKE(SoftmaxGradOp)
STOW_SOFTMAX_LIKE(LogSoftmaxGradOp)
#undef STOW_SOFTMAX_LIKE

} // namespace stow
