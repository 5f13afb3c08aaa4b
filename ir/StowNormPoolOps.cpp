// Constraints and costs of batch normalization together with max pooling.
#include "ir/StowNormPoolOps.h"
#include "ir/OpGroup.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowNormPoolOps.cpp.inc"

void stow::addNormPoolOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowNormPoolOps.cpp.inc"
      >(dialect);
}

namespace stow {
namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// C1 and C2: `pooled` is x under the op's windows, `saved` has a position for each element, and
/// `vectors` have an element per channel.
template <typename Op>
LogicalResult verifyPooled(Op op, Value pooled, Value saved, ValueRange vectors) {
  const RankedTensorType x = tensor(op.getX());
  if (x.getRank() < 3 || x.getRank() > 5)
    return op.emitOpError() << "expects x [N,C,H,W], or one or three spatial dimensions, found "
                            << x;
  auto spatial = windowOutput(op.getLoc(), x.getShape().drop_front(2), op.getKernel(),
                              op.getStrides(), op.getPads(), op.getDilations());
  if (failed(spatial))
    return failure();
  SmallVector<int64_t> shape(x.getShape().take_front(2));
  llvm::append_range(shape, *spatial);
  const auto positions = positionsShape(shape, llvm::product_of(op.getKernel()));
  if (tensor(pooled).getShape() != ArrayRef(shape) ||
      tensor(saved).getShape() != ArrayRef(positions)) { // C1
    auto expected = [](ArrayRef<int64_t> shape, Value found) {
      return RankedTensorType::get(shape, tensor(found).getElementType());
    };
    return op.emitOpError() << "expects pooled elements and positions of types "
                            << expected(shape, pooled) << " and " << expected(positions, saved)
                            << ", found " << pooled.getType() << " and " << saved.getType();
  }
  for (Value vector : vectors) // C2
    if (tensor(vector).getShape() != x.getShape().slice(1, 1))
      return op.emitOpError() << "expects vectors of " << x.getDimSize(1)
                              << " elements, one per channel, found " << vector.getType();
  return success();
}

} // namespace

SmallVector<int64_t> positionsShape(ArrayRef<int64_t> pooled, int64_t elements) {
  SmallVector<int64_t> shape(pooled);
  if (elements <= 16 && shape[1] % 16 == 0)
    shape[1] /= 2;
  return shape;
}

LogicalResult BatchNormMaxPoolOp::verify() {
  return verifyPooled(*this, getY(), getSaved(), {getScale(), getBias(), getMean(), getVariance()});
}
/// The normalization's, and a comparison for each element of each window.
double BatchNormMaxPoolOp::getFlops() {
  return 7.0 * getX().getType().getNumElements() +
         static_cast<double>(llvm::product_of(getKernel())) * getY().getType().getNumElements();
}

LogicalResult BatchNormMaxPoolGradientOp::verify() {
  if (getDx().getType().getShape() != getX().getType().getShape()) // C3
    return emitOpError() << "expects dx of type " << getX().getType() << ", found "
                         << getDx().getType();
  return verifyPooled(*this, getDy(), getSaved(),
                      {getMean(), getVariance(), getScale(), getDscale(), getDbias()});
}
Sharings BatchNormMaxPoolGradientOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }
/// The normalization's, and twice an addition for each element of each window.
double BatchNormMaxPoolGradientOp::getFlops() {
  return 11.0 * getX().getType().getNumElements() +
         2.0 * static_cast<double>(llvm::product_of(getKernel())) *
             getDy().getType().getNumElements();
}

} // namespace stow
