// What one element is of the functions that few models call.
#include "ir/StowFunctionOps.h"
#include "ir/bodies/Logarithm.h"
#include "ir/bodies/Trigonometry.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace stow {

/// The polynomial that floats get (stow-expand-math) takes what is below the least normal number for that: such an x is
/// scaled by 2^23 into its range.
Term logarithm(Term x) {
  if (!x.element().isF32())
    return x.unary<math::LogOp>();
  Term isSmall = x < static_cast<double>(std::numeric_limits<float>::min());
  Term scaled = isSmall.choose(x * 8388608.0, x);
  Term shift = isSmall.choose(x.constant(23 * std::numbers::ln2), x.constant(0));
  return scaled.unary<math::LogOp>() - shift;
}

SmallVector<Value> Expm1Op::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  return body.finish({body[0].unary<math::ExpM1Op>()});
}

SmallVector<Value> Log1pOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  return body.finish({body[0].unary<math::Log1pOp>()});
}

SmallVector<Value> HardTanhOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term x = body[0];
  Term low = x.constant(getLow().convertToDouble()), high = x.constant(getHigh().convertToDouble());
  return body.finish({x.maximum(low).minimum(high)});
}

SmallVector<Value> Atan2Op::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  return body.finish({angle(body[0], body[1])});
}

SmallVector<Value> BinaryCrossEntropyOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term p = body[0], t = body[1], least = p.constant(-100);
  Term ofComplement = (-p).unary<math::Log1pOp>().maximum(least);
  return body.finish({(t - 1.0) * ofComplement - t * logarithm(p).maximum(least)});
}

} // namespace stow
