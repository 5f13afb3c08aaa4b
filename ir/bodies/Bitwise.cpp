// What one element of arithmetic on bits is.
#include "ir/StowBitwiseOps.h"
#include "ir/bodies/Term.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace stow {
namespace {

template <typename ArithOp> Term joined(Term a, Term b) {
  return a.with(ArithOp::create(a.getBuilder(), a.getLocation(), a.get(), b.get()));
}

/// arith leaves open what a shift by as many places as there are bits gives.
Term shifted(Term a, Term b, bool left) {
  const double bits = a.element().getIntOrFloatBitWidth();
  Term inside = (b >= 0.0) & (b < bits);
  Term places = inside.choose(b, b.constantInt(0));
  if (left)
    return inside.choose(joined<arith::ShLIOp>(a, places), a.constantInt(0));
  Term fill = joined<arith::ShRSIOp>(a, a.constantInt(uint64_t(bits) - 1));
  return inside.choose(joined<arith::ShRSIOp>(a, places), fill);
}

} // namespace

SmallVector<Value> BitwiseOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term a = body[0], b = body[1];
  StringRef kind = getKind();
  return body.finish({kind == "and"   ? joined<arith::AndIOp>(a, b)
                      : kind == "or"  ? joined<arith::OrIOp>(a, b)
                      : kind == "xor" ? joined<arith::XOrIOp>(a, b)
                                      : shifted(a, b, kind == "shift_left")});
}

} // namespace stow
