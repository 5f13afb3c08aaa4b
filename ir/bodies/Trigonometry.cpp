#include "ir/bodies/Trigonometry.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>
#include <numbers>

using namespace mlir;

namespace stow {
namespace {

/// The polynomial with these coefficients, the constant one first.
Term polynomial(Term x, ArrayRef<double> coefficients) {
  Term sum = x.constant(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = sum.fma(x, x.constant(coefficient));
  return sum;
}

/// sin(x + quarters * pi / 2).
Term shiftedSine(Term x, double quarters) {
  constexpr double sine[] = {-1.66666666666666324348e-01, 8.33333333332248946124e-03,
                             -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                             -2.50507602534068634195e-08, 1.58969099521155010221e-10};
  constexpr double cosine[] = {4.16666666666666019037e-02, -1.38888888888741095749e-03,
                               2.48015872894767294178e-05, -2.75573143513906633035e-07,
                               2.08757232129817482790e-09, -1.13596475577881948265e-11};
  constexpr double twoOverPi = 6.36619772367581382433e-01;
  constexpr double halfPi[] = {1.57079632679489655800e+00, 6.12323399573676603587e-17,
                               -1.49738490485916983294e-33};
  Type element = x.element();
  x = x.as(x.getBuilder().getF64Type());
  Term turns = (x * twoOverPi).unary<math::RoundEvenOp>();
  Term rest = x;
  for (double part : halfPi)
    rest = turns.fma(turns.constant(-part), rest);
  Term quarter = turns + quarters;
  quarter = quarter - (quarter * 0.25).unary<math::FloorOp>() * 4.0;

  Term square = rest * rest;
  Term odd = (rest * square).fma(polynomial(square, sine), rest);
  Term even = (square * square).fma(polynomial(square, cosine), 1.0 - square * 0.5);
  Term swaps = (quarter - (quarter * 0.5).unary<math::FloorOp>() * 2.0) > 0.5;
  Term value = swaps.choose(even, odd);
  return (quarter > 1.5).choose(-value, value).as(element);
}

} // namespace

Term sine(Term x) { return shiftedSine(x, 0); }
Term cosine(Term x) { return shiftedSine(x, 1); }

/// arctan(x) = arctan(c) + arctan((x - c) / (1 + c x)) with c = 0, 1/2, 1, 3/2 or infinity.
Term arcTangent(Term x) {
  constexpr double coefficients[] = {
      3.33333333333329318027e-01,  -1.99999999998764832476e-01, 1.42857142725034663711e-01,
      -1.11111104054623557880e-01, 9.09088713343650656196e-02,  -7.69187620504482999495e-02,
      6.66107313738753120669e-02,  -5.83357013379057348645e-02, 4.97687799461593236017e-02,
      -3.65315727442169155270e-02, 1.62858201153657823623e-02};
  struct Interval {
    double above, center, angle;
  };
  constexpr Interval intervals[] = {{0.4375, 0.5, 4.63647609000806093515e-01},
                                    {0.6875, 1.0, 7.85398163397448278999e-01},
                                    {1.1875, 1.5, 9.82793723247329054082e-01}};
  Type element = x.element();
  Term wide = x.as(x.getBuilder().getF64Type());
  Term size = wide.unary<math::AbsFOp>();
  Term numerator = size, denominator = size.constant(1), angle = size.constant(0);
  for (const Interval &interval : intervals) {
    Term inside = size >= interval.above;
    numerator = inside.choose(size - interval.center, numerator);
    denominator = inside.choose(size * interval.center + 1.0, denominator);
    angle = inside.choose(size.constant(interval.angle), angle);
  }
  Term far = size >= 2.4375;
  numerator = far.choose(size.constant(-1), numerator);
  denominator = far.choose(size, denominator);
  angle = far.choose(size.constant(1.57079632679489655800e+00), angle);
  Term t = numerator / denominator, square = t * t;
  Term value = angle + (t - t * square * polynomial(square, coefficients));
  return (wide < 0.0).choose(-value, value).as(element);
}

Term angle(Term y, Term x) {
  Type element = y.element();
  Term wideY = y.as(y.getBuilder().getF64Type()), wideX = x.as(x.getBuilder().getF64Type());
  auto signedBy = [](Term size, Term sign) {
    return size.with(
        math::CopySignOp::create(size.getBuilder(), size.getLocation(), size.get(), sign.get()));
  };
  Term height = wideY.unary<math::AbsFOp>(), width = wideX.unary<math::AbsFOp>();
  // Of zeros and of infinities no quotient says anything.
  Term one = height.constant(1), zero = height.constant(0);
  Term diagonal = height.equals(height.constant(std::numeric_limits<double>::infinity()));
  Term ratio = height.equals(width).choose(diagonal.choose(one, height / width), height / width);
  ratio = (height.equals(zero) & width.equals(zero)).choose(zero, ratio);
  Term acute = arcTangent(ratio);
  Term isLeft = signedBy(one, wideX) < 0.0;
  return signedBy(isLeft.choose(std::numbers::pi - acute, acute), wideY).as(element);
}

} // namespace stow
