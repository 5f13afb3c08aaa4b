#include "ir/StowDetachOps.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowDetachOps.cpp.inc"

namespace stow {

LogicalResult DetachOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getX().getType());
  return success();
}

bool DetachOp::isCompatibleReturnTypes(TypeRange left, TypeRange right) {
  return sameLogicalTypes(left, right);
}

} // namespace stow
