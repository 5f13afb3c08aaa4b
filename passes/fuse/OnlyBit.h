// Operands of which a kernel uses one bit an element.
#pragma once

#include "ir/Stow.h"

namespace stow {

class MapOp;

/// The value of the body, an i1, that is all the kernel makes of its operand `index`: every path from
/// the operand's element leads through it, and it is computed from that element and constants alone.
/// The comparisons of a relu's, leaky relu's or clip's gradient are such. Null where there is none.
mlir::Value onlyBitOf(MapOp map, unsigned index);

/// A kernel that makes `bit`, as onlyBitOf gives it for operand `index`, of the operand itself: a mask
/// of i1 under the operand's layout. The builder says where.
MapOp computeBit(mlir::OpBuilder &builder, MapOp map, unsigned index, mlir::Value bit);

/// Has `map` read `mask`, which computeBit has made of operand `index`, in place of the operand.
void readBit(MapOp map, unsigned index, mlir::Value bit, mlir::Value mask);

} // namespace stow
