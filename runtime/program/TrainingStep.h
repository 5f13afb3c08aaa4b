// One step of training: the scalars its graphs read, their commands, its loss.
//
//   one batch          train
//   several            sums = 0   accumulate   accumulate  ...  commit
//                                 batch 0      batch 1          the last
//
// Of several ranks the first alone goes on from the sums: those of the others are zero before every batch, whose graph adds up over the ranks
// what each has together with its sum.
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
  int64_t rank = 0;        ///< of this device among those of the program
};

/// Where the program scales its loss (--precision=fp16): what its state says after a step.
struct LossScaleState {
  double scale = 0; ///< of the next step
  int64_t skippedSteps =
      0; ///< so far: their gradients were not finite, and they changed nothing else
};

class TrainingStep {
public:
  /// Throws Error(BadInput) when a graph of the step is missing, or its scalar loss. `executor`
  /// outlives this.
  explicit TrainingStep(Executor &executor);

  /// Starts the graph of batch number `batch` of the step, counted from 0, in a shape of the program, on what lies in its inputs
  /// (stepGraphIndex); batches come in order, all of them, each in the shape that it needs. The next one may be brought there from
  /// then on. Allocates nothing.
  void start(const StepSettings &settings, Profile *profile = nullptr, int64_t batch = 0,
             size_t shape = 0);

  /// Waits for what was started, and for nothing that was asked of the device later. Returns the
  /// step's loss after its last batch, else that of the batch. Allocates nothing.
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

  /// What the host writes and reads of one graph.
  struct StepGraph {
    size_t index = 0;
    std::vector<ScalarInput> scalars;
    ScalarResult loss;
  };
  static StepGraph describe(const Program &program, size_t index);

  Executor &executor;
  struct StepGraphs {
    StepGraph first, last; ///< accumulate and commit, or train twice
  };
  std::vector<StepGraphs> graphs;    ///< by shape
  StepGraph *started = nullptr;      ///< the one that runs or ran last
  std::vector<const Operand *> sums; ///< of gradients; empty where a step is one batch
  ScalarResult scale, skippedSteps;
  bool hasRun = false;
};

/// The seed that the random operations of a step get: a function of run seed and step, not
/// negative.
int64_t stepSeed(uint64_t runSeed, int64_t step);

} // namespace stow
