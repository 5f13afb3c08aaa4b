// The loss curve as a CSV file: step,epoch,lr,loss; where the loss is scaled also loss_scale,skipped.
#pragma once

#include "runtime/program/TrainingStep.h"

#include <cstdint>
#include <optional>
#include <string>

namespace stow {

/// One row per step, each appended by one write, so that a process that dies leaves whole rows. The
/// log is written through to the disk before each save: it never lags behind a checkpoint. Where
/// the disk takes no more, rows wait in memory and are written with the next row or save that finds
/// room: a run is worth more than its log.
class TrainingLog {
public:
  /// `scaled` says whether rows have a loss scale. Starts a new log, or, with `keepSteps`, keeps the rows of the first `keepSteps` steps of the
  /// old one, if there is one, and drops the rest: they will be trained again. Throws
  /// Error(BadInput) when the old log has a gap or is something else.
  TrainingLog(const std::string &path, int64_t keepSteps, bool scaled = false);
  ~TrainingLog();
  TrainingLog(const TrainingLog &) = delete;
  TrainingLog &operator=(const TrainingLog &) = delete;

  /// `step` counts from 1, `epoch` from 1. Allocates nothing while rows reach the file.
  void append(int64_t step, int64_t epoch, double rate, double loss,
              std::optional<LossScaleState> scale = {});

  void writeThrough();

  /// What keeps rows from the file, as "cannot write 'run.csv': No space left on device"; empty
  /// while it holds all of them.
  const std::string &problem() const { return lastProblem; }

private:
  /// "cannot write 'run.csv': ", and what errno says.
  std::string failure(const char *what) const;
  void writeWaiting();

  std::string path;
  std::string waiting; ///< bytes that the file has not taken yet
  std::string lastProblem;
  int file = -1;
};

} // namespace stow
