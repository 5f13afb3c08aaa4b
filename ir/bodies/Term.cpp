#include "ir/bodies/Term.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace stow {
namespace {

/// `element` in the shape of `like`.
Type typeLike(Type like, Type element) {
  if (auto vector = dyn_cast<VectorType>(like))
    return VectorType::get(vector.getShape(), element);
  return element;
}

TypedAttr splat(Type type, Attribute scalar) {
  if (auto vector = dyn_cast<VectorType>(type))
    return cast<TypedAttr>(DenseElementsAttr::get(vector, scalar));
  return cast<TypedAttr>(scalar);
}

} // namespace

Type Term::element() const { return getElementTypeOrSelf(value.getType()); }
bool Term::isFloat() const { return isa<FloatType>(element()); }

Term Term::constant(double number) const {
  if (!isFloat())
    return constantInt(static_cast<uint64_t>(static_cast<int64_t>(number)));
  auto scalar = builder->getFloatAttr(element(), number);
  return with(arith::ConstantOp::create(*builder, location, splat(value.getType(), scalar)));
}

Term Term::constantInt(uint64_t bits) const {
  auto type = cast<IntegerType>(element());
  auto scalar = IntegerAttr::get(type, APInt(64, bits).trunc(type.getWidth()));
  return with(arith::ConstantOp::create(*builder, location, splat(value.getType(), scalar)));
}

Term Term::as(Type to) const {
  Type from = element();
  if (from == to)
    return *this;
  Type type = typeLike(value.getType(), to);
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    // Between f16 and bf16 through f32, which holds both. From f64 to them as PyTorch does, and as runtimes of all compilers have it.
    if (fromBits == toBits || (fromBits == 64 && toBits == 16))
      return as(builder->getF32Type()).as(to);
    return toBits > fromBits ? with(arith::ExtFOp::create(*builder, location, type, value))
                             : with(arith::TruncFOp::create(*builder, location, type, value));
  }
  if (isa<FloatType>(to))
    return from.isInteger(1) ? with(arith::UIToFPOp::create(*builder, location, type, value))
                             : with(arith::SIToFPOp::create(*builder, location, type, value));
  if (to.isInteger(1)) {
    auto zero = constant(0);
    if (isa<FloatType>(from))
      return with(
          arith::CmpFOp::create(*builder, location, arith::CmpFPredicate::UNE, value, zero.get()));
    return with(
        arith::CmpIOp::create(*builder, location, arith::CmpIPredicate::ne, value, zero.get()));
  }
  if (isa<FloatType>(from))
    return with(arith::FPToSIOp::create(*builder, location, type, value));
  if (toBits < fromBits)
    return with(arith::TruncIOp::create(*builder, location, type, value));
  return from.isInteger(1) ? with(arith::ExtUIOp::create(*builder, location, type, value))
                           : with(arith::ExtSIOp::create(*builder, location, type, value));
}

Term Term::widened() const {
  return isFloat() && element().getIntOrFloatBitWidth() < 32 ? as(builder->getF32Type()) : *this;
}

Term Term::operator-() const {
  return isFloat() ? with(arith::NegFOp::create(*builder, location, value)) : constant(0) - *this;
}

Term Term::operator+(Term other) const {
  return isFloat() ? with(arith::AddFOp::create(*builder, location, value, other.value))
                   : with(arith::AddIOp::create(*builder, location, value, other.value));
}
Term Term::operator-(Term other) const {
  return isFloat() ? with(arith::SubFOp::create(*builder, location, value, other.value))
                   : with(arith::SubIOp::create(*builder, location, value, other.value));
}
Term Term::operator*(Term other) const {
  return isFloat() ? with(arith::MulFOp::create(*builder, location, value, other.value))
                   : with(arith::MulIOp::create(*builder, location, value, other.value));
}
Term Term::operator/(Term other) const {
  if (isFloat())
    return with(arith::DivFOp::create(*builder, location, value, other.value));
  // The processor stops at a division by 0, and of the least number by -1.
  Term zero = constant(0), one = constant(1);
  Term none = other.equals(zero), negates = other.equals(constant(-1));
  Term divisor = none.choose(one, negates.choose(one, other));
  Term quotient = with(arith::DivSIOp::create(*builder, location, value, divisor.value));
  return none.choose(zero, negates.choose(zero - *this, quotient));
}

Term Term::operator>(Term other) const {
  if (!isFloat())
    return with(
        arith::CmpIOp::create(*builder, location, arith::CmpIPredicate::sgt, value, other.value));
  return with(
      arith::CmpFOp::create(*builder, location, arith::CmpFPredicate::OGT, value, other.value));
}
Term Term::operator>=(Term other) const {
  if (!isFloat())
    return with(
        arith::CmpIOp::create(*builder, location, arith::CmpIPredicate::sge, value, other.value));
  return with(
      arith::CmpFOp::create(*builder, location, arith::CmpFPredicate::OGE, value, other.value));
}
Term Term::equals(Term other) const {
  if (!isFloat())
    return with(
        arith::CmpIOp::create(*builder, location, arith::CmpIPredicate::eq, value, other.value));
  return with(
      arith::CmpFOp::create(*builder, location, arith::CmpFPredicate::OEQ, value, other.value));
}
Term Term::isNan() const {
  return with(arith::CmpFOp::create(*builder, location, arith::CmpFPredicate::UNO, value, value));
}
Term Term::operator&(Term other) const {
  return with(arith::AndIOp::create(*builder, location, value, other.value));
}

Term Term::complement() const { return equals(constantInt(0)); }

Term Term::choose(Term ifTrue, Term ifFalse) const {
  return with(arith::SelectOp::create(*builder, location, value, ifTrue.value, ifFalse.value));
}

Term Term::maximum(Term other) const {
  if (!isFloat())
    return with(arith::MaxSIOp::create(*builder, location, value, other.value));
  return with(arith::MaximumFOp::create(*builder, location, value, other.value));
}
Term Term::minimum(Term other) const {
  if (!isFloat())
    return with(arith::MinSIOp::create(*builder, location, value, other.value));
  return with(arith::MinimumFOp::create(*builder, location, value, other.value));
}
Term Term::fma(Term factor, Term summand) const {
  return with(math::FmaOp::create(*builder, location, value, factor.value, summand.value));
}

SmallVector<Value> Body::finish(ArrayRef<Term> results) const {
  SmallVector<Value> values;
  for (auto [term, type] : llvm::zip_equal(results, op->getResultTypes()))
    values.push_back(term.as(getElementTypeOrSelf(type)).get());
  return values;
}

} // namespace stow
