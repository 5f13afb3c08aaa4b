// One step of the training graph: the scalars it reads, its commands, its loss.
#pragma once

#include "runtime/program/Executor.h"

#include <optional>
#include <vector>

namespace stow {

/// What a step depends on besides its batch and the state.
struct StepSettings {
  int64_t step = 0;        ///< steps done before this one
  uint64_t seed = 0;       ///< of the run; dropout is a function of it and of `step`
  double learningRate = 0; ///< of this step
};

/// Where the program scales its loss (--precision=fp16): what its state says after a step.
struct LossScaleState {
  double scale = 0; ///< of the next step
  int64_t skippedSteps =
      0; ///< so far: their gradients were not finite, and they changed nothing else
};

class TrainingStep {
public:
  /// Throws Error(BadInput) when the program has no training graph with a scalar loss. `executor`
  /// outlives this.
  explicit TrainingStep(Executor &executor);

  /// Runs the training graph on the batch that lies in its inputs and returns the loss. Allocates
  /// nothing.
  double run(const StepSettings &settings, Profile *profile = nullptr);

  /// None where the program does not scale its loss. Allocates nothing.
  std::optional<LossScaleState> lossScale() const;

private:
  struct ScalarInput {
    InputRole role;
    const Operand *place;
  };

  Executor &executor;
  size_t graph;
  std::vector<ScalarInput> scalars;
  const Operand *loss;
  const Operand *scale = nullptr, *skippedSteps = nullptr; ///< null without loss scaling
};

/// The seed that the random operations of a step get: a function of run seed and step, not
/// negative.
int64_t stepSeed(uint64_t runSeed, int64_t step);

} // namespace stow
