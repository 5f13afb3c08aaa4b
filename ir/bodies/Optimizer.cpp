// Optimizer updates in PyTorch's order of operations (torch.optim.SGD, Adam and AdamW, the paths
// for one tensor): scalars are combined in double and rounded once to the parameter's type, as
// Python does before it calls a tensor function; `add(alpha=)` rounds once, as its vectorized
// kernel.
#include "ir/bodies/Term.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace stow {
namespace {

double number(const APFloat &value) { return value.convertToDouble(); }

/// 1 - beta^t in double, t an i64 term. beta^t is the product of beta^(2^k) over the bits k of t:
/// constants, so that no power function is called and every machine gets the same bits.
Term biasCorrection(double beta, Term step) {
  OpBuilder &builder = step.getBuilder();
  Location location = step.getLocation();
  Term one = step.as(builder.getF64Type()).constant(1);
  Term power = one;
  for (int bit = 0; bit < 63; ++bit) {
    double factor = std::pow(beta, std::ldexp(1.0, bit));
    // A power that has vanished stays zero for all higher bits together.
    bool last = factor == 0 || bit == 62;
    uint64_t bits = last ? ~uint64_t{0} << bit : uint64_t{1} << bit;
    Term masked = step.with(
        arith::AndIOp::create(builder, location, step.get(), step.constantInt(bits).get()));
    power = power * masked.equals(step.constantInt(0)).choose(one, one.constant(factor));
    if (last)
      break;
  }
  return 1.0 - power;
}

} // namespace

SmallVector<Value> SgdOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], gradient = body[1];
  Term rate = body[2].as(parameter.element());
  if (double decay = number(getWeightDecay()); decay != 0)
    gradient = parameter.fma(parameter.constant(decay), gradient);
  if (!getVelocity())
    return body.finish({(-rate).fma(gradient, parameter)});

  Term momentum = parameter.constant(number(getMomentum()));
  Term velocity = body[3] * momentum + gradient;
  Term direction = getNesterov() ? velocity.fma(momentum, gradient) : velocity;
  return body.finish({(-rate).fma(direction, parameter), velocity});
}

SmallVector<Value> AdamOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], gradient = body[1], first = body[4], second = body[5];
  Type element = parameter.element(), wide = builder.getF64Type();
  Term rate = body[2].as(wide), step = body.raw(3).as(builder.getI64Type());
  double beta1 = number(getBeta1()), beta2 = number(getBeta2()), decay = number(getWeightDecay());

  if (decay != 0 && getDecoupled())
    parameter = parameter * (1.0 - rate * decay).as(element);
  else if (decay != 0)
    gradient = parameter.fma(parameter.constant(decay), gradient);

  // PyTorch's lerp: the form depends on the weight, to be exact at both ends.
  Term difference = gradient - first;
  first = 1 - beta1 < 0.5 ? difference.fma(parameter.constant(1 - beta1), first)
                          : difference.fma(parameter.constant(-beta1), gradient);
  second = second * beta2 + (gradient * (1 - beta2)) * gradient;

  Term stepSize = rate / biasCorrection(beta1, step);
  Term root = biasCorrection(beta2, step).unary<math::SqrtOp>().as(element);
  Term denominator = second.unary<math::SqrtOp>() / root + number(getEpsilon());
  Term moved = parameter + ((-stepSize).as(element) * first) / denominator;
  return body.finish({moved, first, second});
}

} // namespace stow
