// The learning rate of each step.
#pragma once

#include <cstdint>
#include <string>

namespace stow {

/// A rate as a function of the step alone, so that a resumed run continues the same curve.
///
///   constant   base
///   cosine     base * (1 + cos(pi * progress)) / 2        from base to 0 over the run
///   step       base * decay ^ floor(epoch / decayEpochs)
///
/// During the first warmupSteps the rate also rises linearly from base / warmupSteps.
struct LearningRate {
  enum class Kind : uint8_t { Constant, Cosine, Step };
  Kind kind = Kind::Constant;
  double base = 0;
  int64_t totalSteps = 1;
  int64_t stepsPerEpoch = 1;
  int64_t decayEpochs = 1; ///< Step
  double decay = 0.1;      ///< Step
  int64_t warmupSteps = 0;

  /// Rate of `step`, counted from 0.
  double at(int64_t step) const;
};

std::string nameOf(LearningRate::Kind kind);
LearningRate::Kind parseLearningRateKind(const std::string &name); ///< throws Error(BadInput)

} // namespace stow
