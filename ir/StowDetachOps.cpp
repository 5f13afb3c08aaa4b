#include "ir/StowDetachOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowDetachOps.cpp.inc"

void stow::addDetachOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowDetachOps.cpp.inc"
      >(dialect);
}

namespace stow {

LogicalResult DetachOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getX().getType());
  return success();
}

bool DetachOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}

LogicalResult InTrainingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                                             Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Type training = adaptor.getTraining().getType(), evaluation = adaptor.getEvaluation().getType();
  if (!sameLogicalTypes(TypeRange(training), TypeRange(evaluation))) // C1
    return emitOptionalError(location, "expects one type in training and in evaluation, found ",
                             training, " and ", evaluation);
  types.push_back(training);
  return success();
}

bool InTrainingOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}

} // namespace stow
