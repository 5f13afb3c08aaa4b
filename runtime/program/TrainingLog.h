// The loss curve as a CSV file: step,epoch,lr,loss.
#pragma once

#include <cstdint>
#include <string>

namespace stow {

/// One row per step, each appended by one write, so that a process that dies leaves whole rows. The
/// log is written through to the disk before each save: it never lags behind a checkpoint.
class TrainingLog {
public:
  /// Starts a new log, or, with `keepSteps`, keeps the rows of the first `keepSteps` steps of the
  /// old one, if there is one, and drops the rest: they will be trained again. Throws
  /// Error(BadInput) when the old log has a gap or is something else.
  TrainingLog(const std::string &path, int64_t keepSteps);
  ~TrainingLog();
  TrainingLog(const TrainingLog &) = delete;
  TrainingLog &operator=(const TrainingLog &) = delete;

  /// `step` counts from 1, `epoch` from 1. Allocates nothing.
  void append(int64_t step, int64_t epoch, double rate, double loss);

  void writeThrough();

private:
  [[noreturn]] void fail(const char *what) const;

  std::string path;
  int file = -1;
};

} // namespace stow
