// Arithmetic on the values of an elementwise body, written as formulas.
//
// A Term is an SSA value, scalar or vector, with the operators of arith and math. Constants take
// the shape of the term they meet, so that one formula serves scalars and vectors of any length.
// 16-bit floats are computed in f32: `widened` enters a formula, `Body::finish` rounds once on the
// way out.
#pragma once

#include "ir/Stow.h"

namespace stow {

class Term {
public:
  Term(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value)
      : builder(&builder), location(location), value(value) {}

  mlir::Value get() const { return value; }
  mlir::Type element() const;

  /// A constant of this term's type; integers are truncated to the type's width.
  Term constant(double number) const;
  Term constantInt(uint64_t bits) const;

  bool isFloat() const;

  /// The term in another element type: floats are rounded to nearest even, i1 and unsigned
  /// comparisons are 0 or 1, other integers are signed.
  Term as(mlir::Type element) const;
  /// As it enters a formula: 16-bit floats become f32.
  Term widened() const;

  Term operator-() const;
  Term operator+(Term other) const;
  Term operator-(Term other) const;
  Term operator*(Term other) const;
  /// Quotients of integers are rounded towards zero; by 0 they are 0.
  Term operator/(Term other) const;
  Term operator+(double other) const { return *this + constant(other); }
  Term operator-(double other) const { return *this - constant(other); }
  Term operator*(double other) const { return *this * constant(other); }
  Term operator/(double other) const { return *this / constant(other); }

  /// Ordered comparisons: false when either side is NaN. Integers are signed.
  Term operator>(Term other) const;
  Term operator>=(Term other) const;
  Term operator<(Term other) const { return other > *this; }
  Term operator<=(Term other) const { return other >= *this; }
  Term operator>(double other) const { return *this > constant(other); }
  Term operator>=(double other) const { return *this >= constant(other); }
  Term operator<(double other) const { return *this < constant(other); }
  Term operator<=(double other) const { return *this <= constant(other); }
  Term equals(Term other) const;
  /// True for NaN.
  Term isNan() const;
  Term operator&(Term other) const;
  /// Not this term, of element type i1.
  Term complement() const;

  /// This term, of element type i1, chooses.
  Term choose(Term ifTrue, Term ifFalse) const;

  /// NaN in either operand gives NaN, as PyTorch's maximum and minimum.
  Term maximum(Term other) const;
  Term minimum(Term other) const;
  /// this * factor + summand with one rounding, as PyTorch's vectorized `add(alpha=)`.
  Term fma(Term factor, Term summand) const;

  template <typename MathOp> Term unary() const {
    return with(MathOp::create(*builder, location, value));
  }

  Term with(mlir::Value other) const { return Term(*builder, location, other); }
  mlir::OpBuilder &getBuilder() const { return *builder; }
  mlir::Location getLocation() const { return location; }

private:
  mlir::OpBuilder *builder;
  mlir::Location location;
  mlir::Value value;
};

inline Term operator*(double left, Term right) { return right.constant(left) * right; }
inline Term operator-(double left, Term right) { return right.constant(left) - right; }
inline Term operator/(double left, Term right) { return right.constant(left) / right; }

/// The operands of one body as terms, and its results.
class Body {
public:
  Body(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange elements)
      : builder(builder), op(op), elements(elements) {}

  /// Operand `i` as stored.
  Term raw(unsigned i) const { return Term(builder, op->getLoc(), elements[i]); }
  /// Operand `i` as it enters a formula.
  Term operator[](unsigned i) const { return raw(i).widened(); }
  /// The results, rounded to the op's element types.
  llvm::SmallVector<mlir::Value> finish(llvm::ArrayRef<Term> results) const;

private:
  mlir::OpBuilder &builder;
  mlir::Operation *op;
  mlir::ValueRange elements;
};

} // namespace stow
