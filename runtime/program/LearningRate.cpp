#include "runtime/program/LearningRate.h"

#include "runtime/base/Error.h"

#include <cmath>
#include <numbers>

namespace stow {

double LearningRate::at(int64_t step) const {
  double rate = base;
  if (kind == Kind::Cosine) {
    // The warm-up is not part of the half wave.
    double span = static_cast<double>(totalSteps - warmupSteps);
    double progress = span > 0 ? static_cast<double>(step - warmupSteps) / span : 0;
    if (progress > 0)
      rate *= 0.5 * (1 + std::cos(std::numbers::pi * std::fmin(progress, 1)));
  }
  if (kind == Kind::Step)
    rate *= std::pow(decay, static_cast<double>(step / stepsPerEpoch / decayEpochs));
  if (step < warmupSteps)
    rate *= static_cast<double>(step + 1) / static_cast<double>(warmupSteps);
  return rate;
}

std::string nameOf(LearningRate::Kind kind) {
  switch (kind) {
  case LearningRate::Kind::Constant:
    return "constant";
  case LearningRate::Kind::Cosine:
    return "cosine";
  case LearningRate::Kind::Step:
    break;
  }
  return "step";
}

LearningRate::Kind parseLearningRateKind(const std::string &name) {
  for (auto kind :
       {LearningRate::Kind::Constant, LearningRate::Kind::Cosine, LearningRate::Kind::Step})
    if (nameOf(kind) == name)
      return kind;
  throw Error::badInput("--lr-schedule: expected constant, cosine or step, found '" + name + "'");
}

} // namespace stow
