// Arithmetic on positions and counts, which are indices and never negative; what constants make trivial is left out.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace stow {

struct IndexMath {
  mlir::OpBuilder &builder;
  mlir::Location location;

  mlir::Value constant(int64_t value) const {
    return mlir::arith::ConstantIndexOp::create(builder, location, value);
  }
  mlir::Value times(mlir::Value a, int64_t factor) const {
    return factor == 1
               ? a
               : mlir::Value(mlir::arith::MulIOp::create(builder, location, a, constant(factor)));
  }
  mlir::Value plus(mlir::Value a, mlir::Value b) const {
    return mlir::arith::AddIOp::create(builder, location, a, b);
  }
  mlir::Value plus(mlir::Value a, int64_t b) const { return b == 0 ? a : plus(a, constant(b)); }
  mlir::Value minus(mlir::Value a, mlir::Value b) const {
    return mlir::arith::SubIOp::create(builder, location, a, b);
  }
  mlir::Value quotient(mlir::Value a, int64_t by) const {
    return by == 1 ? a
                   : mlir::Value(mlir::arith::DivUIOp::create(builder, location, a, constant(by)));
  }
  mlir::Value remainder(mlir::Value a, int64_t by) const {
    return mlir::arith::RemUIOp::create(builder, location, a, constant(by));
  }
  mlir::Value smaller(mlir::Value a, mlir::Value b) const {
    return mlir::arith::MinUIOp::create(builder, location, a, b);
  }
  mlir::Value larger(mlir::Value a, mlir::Value b) const {
    return mlir::arith::MaxUIOp::create(builder, location, a, b);
  }
  /// a < bound: i1.
  mlir::Value isBelow(mlir::Value a, mlir::Value bound) const {
    return mlir::arith::CmpIOp::create(builder, location, mlir::arith::CmpIPredicate::ult, a,
                                       bound);
  }
};

} // namespace stow
