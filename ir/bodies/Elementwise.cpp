// What one element of each elementwise op is.
#include "ir/StowElementwiseOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowShapeOps.h"
#include "ir/bodies/Logarithm.h"
#include "ir/bodies/Trigonometry.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace stow {
namespace {

double number(const APFloat &value) { return value.convertToDouble(); }

} // namespace

// One formula over the operands x (or a and b), which are terms.
#define STOW_UNARY(OpName, formula)                                                                \
  SmallVector<Value> OpName::emitBody(OpBuilder &builder, ValueRange elements) {                   \
    Body body(builder, *this, elements);                                                           \
    Term x = body[0];                                                                              \
    return body.finish({formula});                                                                 \
  }
#define STOW_BINARY(OpName, formula)                                                               \
  SmallVector<Value> OpName::emitBody(OpBuilder &builder, ValueRange elements) {                   \
    Body body(builder, *this, elements);                                                           \
    Term a = body[0], b = body[1];                                                                 \
    return body.finish({formula});                                                                 \
  }

//===-- One operand ---------------------------------------------------------------------------===//

STOW_UNARY(NegOp, -x)
STOW_UNARY(AbsOp, x.isFloat() ? x.unary<math::AbsFOp>() : (x < 0.0).choose(-x, x))
STOW_UNARY(ExpOp, x.unary<math::ExpOp>())
STOW_UNARY(LogOp, logarithm(x))
STOW_UNARY(SqrtOp, x.unary<math::SqrtOp>())
STOW_UNARY(ReciprocalOp, 1.0 / x)
STOW_UNARY(SigmoidOp, 1.0 / ((-x).unary<math::ExpOp>() + 1.0))
STOW_UNARY(TanhOp, x.unary<math::TanhOp>())
STOW_UNARY(ErfOp, x.unary<math::ErfOp>())
STOW_UNARY(SinOp, sine(x))
STOW_UNARY(CosOp, cosine(x))
STOW_UNARY(AtanOp, arcTangent(x))
// exp of a negative number only: no overflow for large x.
STOW_UNARY(SoftplusOp, x.maximum(x.constant(0)) +
                           (-x.unary<math::AbsFOp>()).unary<math::ExpOp>().unary<math::Log1pOp>())
STOW_UNARY(HardSwishOp, x *(x / 6.0 + 0.5).maximum(x.constant(0)).minimum(x.constant(1)))
STOW_UNARY(ReluOp, x.maximum(x.constant(0)))
STOW_UNARY(PositiveMaskOp, x > 0.0)
STOW_UNARY(LeakyReluOp, (x > 0.0).choose(x, x *number(getAlpha())))
STOW_UNARY(ThresholdedReluOp, (x > number(getAlpha())).choose(x, x.constant(0)))
STOW_UNARY(EluOp, (x > 0.0).choose(x, x.unary<math::ExpM1Op>() * number(getAlpha())))
STOW_UNARY(
    HardSigmoidOp,
    (x * number(getAlpha()) + number(getBeta())).maximum(x.constant(0)).minimum(x.constant(1)))
STOW_UNARY(ClipOp, x.maximum(x.constant(number(getLow()))).minimum(x.constant(number(getHigh()))))

SmallVector<Value> CastOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term x = body.raw(0);
  if (x.element().isInteger(8)) { // bytes are 0 to 255, and other integers have signs
    Value bytes = x.get();
    Type wide = builder.getI32Type();
    if (auto lanes = dyn_cast<VectorType>(bytes.getType()))
      wide = lanes.clone(wide);
    x = Term(builder, getLoc(), arith::ExtUIOp::create(builder, getLoc(), wide, bytes));
  }
  return body.finish({x});
}

SmallVector<Value> BroadcastToOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  return body.finish({body.raw(0)});
}

SmallVector<Value> SelectOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  return body.finish({body.raw(0).choose(body[1], body[2])});
}

SmallVector<Value> CompareOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term a = body[0], b = body[1];
  StringRef predicate = getPredicate();
  return body.finish({predicate == "eq"   ? a.equals(b)
                      : predicate == "ne" ? a.equals(b).complement()
                      : predicate == "lt" ? a < b
                      : predicate == "le" ? a <= b
                      : predicate == "gt" ? a > b
                                          : a >= b});
}

SmallVector<Value> SignOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term x = body[0];
  Term sign = (x > 0.0).choose(x.constant(1), (x < 0.0).choose(x.constant(-1), x.constant(0)));
  return body.finish({x.isFloat() ? x.isNan().choose(x, sign) : sign});
}

SmallVector<Value> RoundOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term x = body[0];
  if (getMode() == "even")
    return body.finish({x.unary<math::RoundEvenOp>()});
  if (getMode() == "zero")
    return body.finish({x.unary<math::TruncOp>()});
  return body.finish({getMode() == "floor" ? x.unary<math::FloorOp>() : x.unary<math::CeilOp>()});
}

//===-- Two operands --------------------------------------------------------------------------===//

STOW_BINARY(AddOp, a + b)
STOW_BINARY(SubOp, a - b)
STOW_BINARY(MulOp, a *b)
STOW_BINARY(DivOp, a / b)
STOW_BINARY(MaximumOp, a.maximum(b))
STOW_BINARY(MinimumOp, a.minimum(b))
STOW_BINARY(PowOp, a.with(math::PowFOp::create(builder, getLoc(), a.get(), b.get())))

SmallVector<Value> PlaneNormalizeOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  return body.finish({(body[0] - body[1]) * body[2] + body[3]});
}

//===-- Gradients: dy first, then what was saved ----------------------------------------------===//

STOW_BINARY(LeakyReluGradOp, (b > 0.0).choose(a, a *number(getAlpha())))
STOW_BINARY(EluGradOp, (b > 0.0).choose(a, a *(b + number(getAlpha()))))
STOW_BINARY(HardSwishGradOp,
            (b <= -3.0).choose(a.constant(0), (b >= 3.0).choose(a, a *(b / 3.0 + 0.5))))

SmallVector<Value> ReluGradOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term dy = body[0], saved = body[1];
  Term positive = saved.element().isInteger(1) ? saved : saved > 0.0;
  return body.finish({positive.choose(dy, dy.constant(0))});
}

SmallVector<Value> RangeGradOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term dy = body[0], x = body[1];
  double low = number(getLow()), high = number(getHigh());
  Term inside = getClosed() ? (x >= low) & (x <= high) : (x > low) & (x < high);
  return body.finish({inside.choose(dy * number(getSlope()), dy.constant(0))});
}

SmallVector<Value> SelectGradOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term dy = body[0], a = body[1], b = body[2];
  return body.finish({(a > b).choose(dy, a.equals(b).choose(dy * 0.5, dy.constant(0)))});
}

#undef STOW_UNARY
#undef STOW_BINARY

} // namespace stow
