#include "ir/Stow.h"

using namespace mlir;

#include "ir/StowInterfaces.cpp.inc"

namespace stow {

PrecisionClass precisionClassOf(Operation *op) {
  return op->hasTrait<LowPrecision>()    ? PrecisionClass::Low
         : op->hasTrait<FullPrecision>() ? PrecisionClass::Full
         : op->hasTrait<SamePrecision>() ? PrecisionClass::Same
                                         : PrecisionClass::Widest;
}

Walk walkOf(Operation *op) {
  return op->hasTrait<WalksImages>()     ? Walk::Images
         : op->hasTrait<WalksMatrices>() ? Walk::Matrices
         : op->hasTrait<WalksRows>()     ? Walk::Rows
         : op->hasTrait<WalksApart>()    ? Walk::Apart
                                         : Walk::Alike;
}

double defaultFlops(Operation *op) {
  double elements = 0;
  for (Type type : op->getResultTypes())
    elements += static_cast<double>(cast<RankedTensorType>(type).getNumElements());
  return elements;
}

int64_t defaultBytesMoved(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += ownBytesOf(type);
  for (Type type : op->getResultTypes())
    bytes += ownBytesOf(type);
  return bytes;
}

} // namespace stow
