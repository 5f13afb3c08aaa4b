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

  /// Starts the training graph on the batch that lies in its inputs. The next batch may be brought
  /// there from then on. Allocates nothing.
  void start(const StepSettings &settings, Profile *profile = nullptr);

  /// Waits for the step that was started, and for nothing that was asked of the device later, and
  /// returns its loss. Allocates nothing.
  double finish();

  /// As the last step left it, or the state at first; none where the program does not scale its
  /// loss.
  std::optional<LossScaleState> lossScale() const;

private:
  struct ScalarInput {
    InputRole role;
    const Operand *place;
  };

  /// A scalar of the arena and the bytes that a step left there.
  struct ScalarResult {
    const Operand *place = nullptr; ///< null: the program has none
    alignas(8) char stored[8] = {};

    Readback readback();
    double value() const;
  };

  Executor &executor;
  size_t graph;
  std::vector<ScalarInput> scalars;
  ScalarResult loss, scale, skippedSteps;
  bool hasRun = false;
};

/// The seed that the random operations of a step get: a function of run seed and step, not
/// negative.
int64_t stepSeed(uint64_t runSeed, int64_t step);

} // namespace stow
