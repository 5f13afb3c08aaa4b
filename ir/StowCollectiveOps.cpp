// Constraints and costs of what ranks do together.
#include "ir/StowCollectiveOps.h"
#include "ir/OpGroup.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/StowCollectiveOps.cpp.inc"

void stow::addCollectiveOps(StowDialect &dialect) {
  addOps<
#define GET_OP_LIST
#include "ir/StowCollectiveOps.cpp.inc"
      >(dialect);
}

namespace stow {

LogicalResult AllReduceOp::verify() {
  if (static_cast<int64_t>(getRanks()) < 2) // C1
    return emitOpError() << "expects 2 ranks or more, found " << static_cast<int64_t>(getRanks());
  if (!tensorType(getX()).getElementType().isF32() || getX().getType() != getY().getType()) // C2
    return emitOpError() << "expects x of f32 and y of its type, found " << getX().getType()
                         << " and " << getY().getType();
  return success();
}

/// An addition for each rank; every rank does its share of them.
double AllReduceOp::getFlops() { return tensorType(getX()).getNumElements(); }

Sharings AllReduceOp::getSharings() { return {{SharingKind::Overwrite, 0, 0}}; }

bool AllReduceOp::isRecomputable() { return false; }

} // namespace stow
