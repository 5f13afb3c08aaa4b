// The training run: data, state, steps, saves and what the user is told about them.
#pragma once

#include "runtime/program/Checkpoint.h"
#include "runtime/program/Executor.h"
#include "runtime/program/LearningRate.h"
#include "runtime/program/Profile.h"
#include "runtime/program/Samples.h"

#include <optional>
#include <string>

namespace stow {

/// Absent settings take the program's or, when resuming, the saved run's value.
struct TrainOptions {
  std::string data;
  KeyChoice keys;
  std::optional<int64_t> epochs, steps;
  std::optional<double> learningRate;
  std::optional<LearningRate::Kind> schedule;
  std::optional<double> decay;
  std::optional<int64_t> decayEpochs, warmupSteps;
  std::optional<uint64_t> seed;
  std::optional<double> validationSplit;
  std::optional<bool> shuffle;
  std::optional<std::string> save, saveTrained, resume, initFrom, trained, log;
  int64_t saveEvery = 0; ///< steps; 0 = at the end only
  bool othersSave =
      false; ///< rank 0 has a file to save to, to which this rank may have to give its shards
  int64_t threads = 0;
  bool poison = false;
  RunCheck check = RunCheck::None;
  SlowMemoryOptions slow;
  std::optional<int64_t> gpu; ///< as DeviceOptions has it
  Algorithms algorithms;      ///< those of a resumed run are its checkpoint's
  bool quiet = false;
  std::optional<std::string>
      profile; ///< print where the time goes; not empty: write a file there too
  ProfileFormat profileFormat = ProfileFormat::Json; ///< of that file
  bool allowNonFinite = false;
  std::optional<int64_t> timeout; ///< seconds that a rank waits for others; 0: none is too long

  bool isSaved() const { return save || othersSave; }
  /// As RankGroup::compareRun takes them.
  int64_t stepsToSave() const { return isSaved() ? saveEvery : -1; }
};

/// Trains; returns the process's exit code: 0, or 128 + the signal that stopped it (after finishing
/// the step and saving). Throws Error for everything else. From the first step to the last nothing
/// is allocated per step.
int train(const Program &program, ProgramImage image, const TrainOptions &options);

} // namespace stow
