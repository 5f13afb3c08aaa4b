// The learning rate of each step.
#pragma once

#include <cstdint>
#include <string>

namespace stow {

/// A rate as a function of the step alone, so that a resumed run continues the same curve.
///
///   constant     base
///   cosine       base * (1 + cos(pi * progress)) / 2        from base to 0 over the run
///   linear       base * (1 - progress)                      likewise
///   step         base * decay ^ floor(epoch / decayEpochs)
///   exponential  base * decay ^ epoch
///   one-cycle    half a cosine from base / 25 to base, another to base / 25 / 10^4
///                (torch.optim.lr_scheduler.OneCycleLR with its defaults, without the momentum)
///
/// During the first warmupSteps the rate also rises linearly from base / warmupSteps; progress
/// counts from their end. The rise of one-cycle is its warm-up: warmupSteps long, by default 30 %
/// of the run.
struct LearningRate {
  enum class Kind : uint8_t { Constant, Cosine, Linear, Step, Exponential, OneCycle };
  Kind kind = Kind::Constant;
  double base = 0;
  int64_t totalSteps = 1;
  int64_t stepsPerEpoch = 1;
  int64_t decayEpochs = 1; ///< Step
  double decay = 0.1;      ///< Step, Exponential
  int64_t warmupSteps = 0;

  /// Rate of `step`, counted from 0.
  double at(int64_t step) const;

private:
  double oneCycle(int64_t step) const;
};

std::string nameOf(LearningRate::Kind kind);
/// "constant, cosine, ...".
std::string learningRateKinds();
LearningRate::Kind parseLearningRateKind(const std::string &name); ///< throws Error(BadInput)

} // namespace stow
