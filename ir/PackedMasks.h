// Masks of one bit an element, as stow.map reads and writes them.
//
// A packed mask is a tensor<Nxi8> where the kernel's body has an i1: bit k % 8 of byte k / 8 belongs to
// element k of the iteration space, counted in the order in which the space lies in memory, gaps left
// out. The space has a multiple of 64 elements, so that no two vectors of lanes share a byte.
#pragma once

#include "ir/Stow.h"

namespace stow {

class MapOp;

constexpr int64_t kPackedElements = 64;

/// True for what is stored as `stored` and computed with as `element` where it is a packed mask.
inline bool isPackedMask(mlir::Type stored, mlir::Type element) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(stored);
  return tensor && tensor.getRank() == 1 && tensor.getElementType().isInteger(8) &&
         element.isInteger(1);
}

/// The same of a map's operand or result number `position`, operands first.
bool isPackedMask(MapOp map, unsigned position);

/// What the map's body runs over: the type of its first result that is no packed mask, of the first
/// operand that is none where all results are.
mlir::RankedTensorType spaceOf(MapOp map);

/// The packed mask over a space of that type.
mlir::RankedTensorType packedMaskOver(mlir::RankedTensorType space);

} // namespace stow
