#include "ir/StowOptimizerOps.h"
#include "tests/reference/Rules.h"

#include <cmath>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

std::vector<Tensor> sgd(Operation *op, Operands operands) {
  auto typed = cast<SgdOp>(op);
  double momentum = number(typed.getMomentum()), decay = number(typed.getWeightDecay());
  double rate = operands[2].values[0] * number(typed.getLrScale());
  Tensor parameter = operands[0];
  Tensor velocity = operands.size() == 4 ? operands[3] : Tensor(parameter.shape);
  for (int64_t i = 0; i < parameter.size(); ++i) {
    double &p = parameter.values[i], &m = velocity.values[i];
    double g = operands[1].values[i] + decay * p;
    if (operands.size() == 4) {
      m = momentum * m + g;
      g = typed.getNesterov() ? g + momentum * m : m;
    }
    p -= rate * g;
  }
  if (operands.size() == 4)
    return {parameter, velocity};
  return {parameter};
}

std::vector<Tensor> adam(Operation *op, Operands operands) {
  auto typed = cast<AdamOp>(op);
  double beta1 = number(typed.getBeta1()), beta2 = number(typed.getBeta2());
  double epsilon = number(typed.getEpsilon()), decay = number(typed.getWeightDecay());
  double rate = operands[2].values[0] * number(typed.getLrScale());
  double step = operands[3].values[0];
  Tensor parameter = operands[0], first = operands[4], second = operands[5];
  bool isAmsgrad = operands.size() > 6;
  Tensor largest = isAmsgrad ? operands[6] : second;
  for (int64_t i = 0; i < parameter.size(); ++i) {
    double &p = parameter.values[i], &m = first.values[i], &v = second.values[i];
    double g = operands[1].values[i];
    if (typed.getDecoupled())
      p *= 1 - rate * decay;
    else
      g += decay * p;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    double unbiasedFirst = m / (1 - std::pow(beta1, step));
    largest.values[i] = isAmsgrad ? std::max(largest.values[i], v) : v;
    double unbiasedSecond = largest.values[i] / (1 - std::pow(beta2, step));
    p -= rate * unbiasedFirst / (std::sqrt(unbiasedSecond) + epsilon);
  }
  if (isAmsgrad)
    return {parameter, first, second, largest};
  return {parameter, first, second};
}

std::vector<Tensor> rmsprop(Operation *op, Operands operands) {
  auto typed = cast<RmspropOp>(op);
  double alpha = number(typed.getAlpha()), momentum = number(typed.getMomentum());
  double rate = operands[2].values[0] * number(typed.getLrScale());
  std::vector<Tensor> results = {operands[0]};
  results.insert(results.end(), operands.begin() + 3, operands.end());
  for (int64_t i = 0; i < operands[0].size(); ++i) {
    double &p = results[0].values[i], &v = results[1].values[i];
    double g = operands[1].values[i] + number(typed.getWeightDecay()) * p;
    v = alpha * v + (1 - alpha) * g * g;
    double variance = v;
    if (typed.getCentered()) {
      double &mean = results.back().values[i];
      mean = alpha * mean + (1 - alpha) * g;
      variance -= mean * mean;
    }
    double move = g / (std::sqrt(variance) + number(typed.getEpsilon()));
    if (momentum != 0)
      move = results[2].values[i] = momentum * results[2].values[i] + move;
    p -= rate * move;
  }
  return results;
}

std::vector<Tensor> adagrad(Operation *op, Operands operands) {
  auto typed = cast<AdagradOp>(op);
  double rate = operands[2].values[0] * number(typed.getLrScale()) /
                (1 + (operands[3].values[0] - 1) * number(typed.getLrDecay()));
  Tensor parameter = operands[0], sum = operands[4];
  for (int64_t i = 0; i < parameter.size(); ++i) {
    double &p = parameter.values[i];
    double g = operands[1].values[i] + number(typed.getWeightDecay()) * p;
    sum.values[i] += g * g;
    p -= rate * g / (std::sqrt(sum.values[i]) + number(typed.getEpsilon()));
  }
  return {parameter, sum};
}

std::vector<Tensor> lion(Operation *op, Operands operands) {
  auto typed = cast<LionOp>(op);
  double beta1 = number(typed.getBeta1()), beta2 = number(typed.getBeta2());
  double rate = operands[2].values[0] * number(typed.getLrScale());
  Tensor parameter = operands[0], velocity = operands[3];
  for (int64_t i = 0; i < parameter.size(); ++i) {
    double &p = parameter.values[i], &m = velocity.values[i], g = operands[1].values[i];
    double mixed = beta1 * m + (1 - beta1) * g;
    p -= rate * ((mixed > 0) - (mixed < 0) + number(typed.getWeightDecay()) * p);
    m = beta2 * m + (1 - beta2) * g;
  }
  return {parameter, velocity};
}

std::vector<Tensor> movingAverage(Operation *op, Operands operands) {
  double weight = std::pow(operands[2].values[0], number(cast<MovingAverageOp>(op).getExponent()));
  Tensor average = operands[0];
  for (int64_t i = 0; i < average.size(); ++i)
    average.values[i] = (1 - weight) * average.values[i] + weight * operands[1].values[i];
  return {average};
}

std::vector<Tensor> adafactor(Operation *op, Operands operands) {
  auto typed = cast<AdafactorOp>(op);
  double rate = operands[2].values[0] * number(typed.getLrScale());
  Tensor parameter = operands[0];
  auto rms = [&](const Tensor &squares) {
    return std::sqrt(squares.values[0] / static_cast<double>(parameter.size()));
  };
  double length = std::min(rate, 1 / std::sqrt(operands[3].values[0])) *
                  std::max(number(typed.getEpsilon()), rms(operands[4])) /
                  std::max(1.0, rms(operands[5]) / number(typed.getThreshold()));
  for (int64_t i = 0; i < parameter.size(); ++i)
    parameter.values[i] = parameter.values[i] * (1 - rate * number(typed.getWeightDecay())) -
                          length * operands[1].values[i];
  return {parameter};
}

} // namespace

void addOptimizerRules(Rules &rules) {
  rules["stow.sgd"] = sgd;
  rules["stow.adam"] = adam;
  rules["stow.rmsprop"] = rmsprop;
  rules["stow.adagrad"] = adagrad;
  rules["stow.lion"] = lion;
  rules["stow.moving_average"] = movingAverage;
  rules["stow.adafactor"] = adafactor;
}

} // namespace stow::reference
