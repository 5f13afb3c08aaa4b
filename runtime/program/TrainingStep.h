// One step of the training graph: the scalars it reads, its commands, its loss.
#pragma once

#include "runtime/program/Executor.h"

#include <vector>

namespace stow {

/// What a step depends on besides its batch and the state.
struct StepSettings {
  int64_t step = 0;        ///< steps done before this one
  uint64_t seed = 0;       ///< of the run; dropout is a function of it and of `step`
  double learningRate = 0; ///< of this step
};

class TrainingStep {
public:
  /// Throws Error(BadInput) when the program has no training graph with a scalar loss. `executor`
  /// outlives this.
  explicit TrainingStep(Executor &executor);

  /// Runs the training graph on the batch that lies in its inputs and returns the loss. Allocates
  /// nothing.
  double run(const StepSettings &settings, Profile *profile = nullptr);

private:
  struct ScalarInput {
    InputRole role;
    const Operand *place;
  };

  Executor &executor;
  size_t graph;
  std::vector<ScalarInput> scalars;
  const Operand *loss;
};

/// The seed that the random operations of a step get: a function of run seed and step, not
/// negative.
int64_t stepSeed(uint64_t runSeed, int64_t step);

} // namespace stow
