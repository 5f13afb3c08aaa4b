#include "ir/StowFunctionOps.h"
#include "ir/OpGroup.h"

#include "ir/Broadcast.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowFunctionOps.cpp.inc"

void stow::addFunctionOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowFunctionOps.cpp.inc"
      >(dialect);
}

namespace stow {

#define STOW_FUNCTION(OpName)                                                                      \
  LogicalResult OpName::inferReturnTypes(MLIRContext *, std::optional<Location> location,          \
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {          \
    auto element = commonElement(location, adaptor.getOperands()); /* C2 */                        \
    if (failed(element))                                                                           \
      return failure();                                                                            \
    return inferBroadcast(location, adaptor.getOperands(), *element, types); /* C1 */              \
  }                                                                                                \
  bool OpName::isCompatibleReturnTypes(TypeRange left, TypeRange right) {                          \
    return compatibleTypes(left, right);                                                           \
  }                                                                                                \
  Sharings OpName::getSharings() { return overwritesOfOneType(*this); }

STOW_FUNCTION(Expm1Op)
STOW_FUNCTION(Log1pOp)
STOW_FUNCTION(HardTanhOp)
STOW_FUNCTION(Atan2Op)
STOW_FUNCTION(BinaryCrossEntropyOp)
#undef STOW_FUNCTION

LogicalResult HardTanhOp::verify() {
  if (getLow().convertToDouble() > getHigh().convertToDouble()) // C1
    return emitOpError() << "expects low <= high";
  return success();
}

} // namespace stow
