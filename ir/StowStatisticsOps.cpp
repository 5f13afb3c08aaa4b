// Constraints and costs of a batch normalization's statistics.
#include "ir/StowStatisticsOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowStatisticsOps.cpp.inc"

void stow::addStatisticsOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowStatisticsOps.cpp.inc"
      >(dialect);
}

namespace stow {

LogicalResult BatchNormStatisticsOp::verify() {
  const RankedTensorType x = getX().getType();
  if (x.getRank() < 2) // C1
    return emitOpError() << "expects x of rank 2 or more, found " << x;
  for (Value vector : {getScale(), getMean(), getVariance(), getSlope()}) // C2
    if (cast<RankedTensorType>(vector.getType()).getShape() != x.getShape().slice(1, 1))
      return emitOpError() << "expects vectors of " << x.getDimSize(1)
                           << " elements, one per channel, found " << vector.getType();
  return success();
}

double BatchNormStatisticsOp::getFlops() { return 4.0 * getX().getType().getNumElements(); }

} // namespace stow
