// Optimizer updates in PyTorch's order of operations (torch.optim, the paths for one tensor):
// scalars are combined in double and rounded once to the parameter's type, as Python does before it
// calls a tensor function; `add(alpha=)` rounds once, as its vectorized kernel.
#include "ir/StowOptimizerOps.h"
#include "ir/bodies/Term.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace stow {
namespace {

double number(const APFloat &value) { return value.convertToDouble(); }

/// The learning rate of the op's group, in double.
template <typename Op> Term groupRate(Op op, Term rate) {
  Term wide = rate.as(rate.getBuilder().getF64Type());
  double scale = number(op.getLrScale());
  return scale == 1 ? wide : wide * scale;
}

/// g + weight_decay * p.
Term decayed(Term gradient, Term parameter, double decay) {
  return decay == 0 ? gradient : parameter.fma(parameter.constant(decay), gradient);
}

/// PyTorch's `lerp(start, end, weight)`: the form depends on the weight, to be exact at both ends.
Term lerp(Term start, Term end, double weight) {
  Term difference = end - start;
  return weight < 0.5 ? difference.fma(start.constant(weight), start)
                      : difference.fma(start.constant(weight - 1), end);
}

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

/// The results of an update: the old values where the op may be skipped and does not apply.
template <typename Op>
SmallVector<Value> finishUpdate(Op op, const Body &body, SmallVector<Term> results, Term applies) {
  if (op.getSkippable())
    for (const Sharing &sharing : op.getSharings())
      if (sharing.kind == SharingKind::Update ||
          sharing.kind == SharingKind::Overwrite) // a parameter's shard
        results[sharing.result] = applies.choose(results[sharing.result], body[sharing.operand]);
  return body.finish(results);
}

/// The same for an update with a learning rate, operand 2.
template <typename Op>
SmallVector<Value> finishUpdate(Op op, const Body &body, SmallVector<Term> results) {
  return finishUpdate(op, body, std::move(results), body[2].isNan().complement());
}

} // namespace

SmallVector<Value> SgdOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], gradient = body[1];
  Term rate = groupRate(*this, body[2]).as(parameter.element());
  gradient = decayed(gradient, parameter, number(getWeightDecay()));
  if (!getVelocity())
    return finishUpdate(*this, body, {(-rate).fma(gradient, parameter)});

  Term momentum = parameter.constant(number(getMomentum()));
  Term velocity = body[3] * momentum + gradient;
  Term direction = getNesterov() ? velocity.fma(momentum, gradient) : velocity;
  return finishUpdate(*this, body, {(-rate).fma(direction, parameter), velocity});
}

SmallVector<Value> AdamOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], gradient = body[1], first = body[4], second = body[5];
  Type element = parameter.element();
  Term rate = groupRate(*this, body[2]), step = body.raw(3).as(builder.getI64Type());
  double beta1 = number(getBeta1()), beta2 = number(getBeta2()), decay = number(getWeightDecay());

  if (decay != 0 && getDecoupled())
    parameter = parameter * (1.0 - rate * decay).as(element);
  else
    gradient = decayed(gradient, parameter, decay);

  first = lerp(first, gradient, 1 - beta1);
  second = second * beta2 + (gradient * (1 - beta2)) * gradient;

  Term stepSize = rate / biasCorrection(beta1, step);
  Term root = biasCorrection(beta2, step).unary<math::SqrtOp>().as(element);
  SmallVector<Term> results = {first, second};
  Term moment = second;
  if (getLargestMoment())
    results.push_back(moment = body[6].maximum(second));
  Term denominator = moment.unary<math::SqrtOp>() / root + number(getEpsilon());
  Term moved = parameter + ((-stepSize).as(element) * first) / denominator;
  results.insert(results.begin(), moved);
  return finishUpdate(*this, body, results);
}

SmallVector<Value> RmspropOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], square = body[3];
  Term rate = groupRate(*this, body[2]).as(parameter.element());
  Term gradient = decayed(body[1], parameter, number(getWeightDecay()));
  double alpha = number(getAlpha());
  square = square * alpha + (gradient * (1 - alpha)) * gradient;
  SmallVector<Term> state = {square};
  Term deviation = square;
  if (getCentered()) {
    Term average = lerp(body[3 + getState().size() - 1], gradient, 1 - alpha);
    deviation = square - average * average;
    state.push_back(average);
  }
  Term denominator = deviation.unary<math::SqrtOp>() + number(getEpsilon());
  Term moved = parameter + ((-rate) * gradient) / denominator;
  if (double momentum = number(getMomentum()); momentum != 0) {
    Term velocity = body[4] * momentum + gradient / denominator;
    state.insert(state.begin() + 1, velocity);
    moved = (-rate).fma(velocity, parameter);
  }
  state.insert(state.begin(), moved);
  return finishUpdate(*this, body, state);
}

SmallVector<Value> AdagradOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], rate = groupRate(*this, body[2]);
  Term gradient = decayed(body[1], parameter, number(getWeightDecay()));
  if (double decay = number(getLrDecay()); decay != 0) {
    Term step = body.raw(3).as(builder.getI64Type()).as(builder.getF64Type());
    rate = rate / ((step - 1.0) * decay + 1.0);
  }
  Term sum = body[4] + gradient * gradient;
  Term denominator = sum.unary<math::SqrtOp>() + number(getEpsilon());
  Term moved = parameter + ((-rate).as(parameter.element()) * gradient) / denominator;
  return finishUpdate(*this, body, {moved, sum});
}

SmallVector<Value> LionOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], gradient = body[1], velocity = body[3];
  Term rate = groupRate(*this, body[2]);
  double beta1 = number(getBeta1()), beta2 = number(getBeta2());
  if (double decay = number(getWeightDecay()); decay != 0)
    parameter = parameter * (1.0 - rate * decay).as(parameter.element());
  Term mixed = velocity * beta1 + gradient * (1 - beta1);
  Term zero = mixed.constant(0);
  Term sign =
      (mixed > zero).choose(mixed.constant(1), (mixed < zero).choose(mixed.constant(-1), zero));
  sign = mixed.isNan().choose(mixed, sign);
  Term moved = (-rate).as(parameter.element()).fma(sign, parameter);
  return finishUpdate(*this, body,
                      {moved, gradient.fma(gradient.constant(1 - beta2), velocity * beta2)});
}

SmallVector<Value> MovingAverageOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term average = body[0], x = body[1];
  Term step = body.raw(2).as(builder.getI64Type()).as(average.element());
  // The power as exp and log, for which kernels have their own code on every device.
  Term weight = (step.unary<math::LogOp>() * number(getExponent())).unary<math::ExpOp>();
  return finishUpdate(*this, body, {(x - average).fma(weight, average)},
                      body.raw(2).equals(body.raw(2).constantInt(0)).complement());
}

SmallVector<Value> AdafactorOp::emitBody(OpBuilder &builder, ValueRange elements) {
  Body body(builder, *this, elements);
  Term parameter = body[0], update = body[1];
  Type element = parameter.element(), wide = builder.getF64Type();
  Term rate = groupRate(*this, body[2]);
  Term step = body.raw(3).as(builder.getI64Type()).as(wide);
  auto count = static_cast<double>(getParameter().getType().getNumElements());
  auto rms = [&](unsigned squares) {
    return (body[squares].as(wide) / count).unary<math::SqrtOp>();
  };
  Term length = rms(4).maximum(rate.constant(number(getEpsilon()))) *
                rate.minimum(1.0 / step.unary<math::SqrtOp>());
  Term excess = (rms(5) / number(getThreshold())).maximum(rate.constant(1));
  if (double decay = number(getWeightDecay()); decay != 0)
    parameter = parameter * (1.0 - rate * decay).as(element);
  return finishUpdate(*this, body, {(-(length / excess)).as(element).fma(update, parameter)});
}

} // namespace stow
