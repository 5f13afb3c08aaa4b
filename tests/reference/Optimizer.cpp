#include "tests/reference/Rules.h"

#include <cmath>

using namespace mlir;

namespace stow::reference {
namespace {

using Operands = std::span<const Tensor>;

std::vector<Tensor> sgd(Operation *op, Operands operands) {
  auto typed = cast<SgdOp>(op);
  double momentum = number(typed.getMomentum()), decay = number(typed.getWeightDecay());
  double rate = operands[2].values[0];
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
  double rate = operands[2].values[0], step = operands[3].values[0];
  Tensor parameter = operands[0], first = operands[4], second = operands[5];
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
    double unbiasedSecond = v / (1 - std::pow(beta2, step));
    p -= rate * unbiasedFirst / (std::sqrt(unbiasedSecond) + epsilon);
  }
  return {parameter, first, second};
}

} // namespace

void addOptimizerRules(Rules &rules) {
  rules["stow.sgd"] = sgd;
  rules["stow.adam"] = adam;
}

} // namespace stow::reference
