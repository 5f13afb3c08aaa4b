// What the commands of a plan took in a run: the file that `./model train --profile=FILE` writes.
#pragma once

#include "runtime/format/Plan.h"

#include <string>
#include <vector>

namespace stow {

/// Means of the steps that were measured, in seconds per step.
struct StepTimes {
  std::string graph; ///< GraphPlan::name
  int64_t threads = 0;
  int64_t steps = 0;       ///< measured, those to warm up left out
  double inputSeconds = 0; ///< the batch into the arena
  double restSeconds = 0;  ///< loss, log and the rest after the commands

  // By command, as GraphPlan::steps.
  std::vector<double> seconds;
  std::vector<double> leastSeconds; ///< in any step
  std::vector<double> processorSeconds;

  /// Reads the file and checks that it is of `plan`: its graph, and the number, the names and the
  /// planned times of its commands. Throws Error(BadInput) with what differs.
  static StepTimes load(const std::string &path, const Plan &plan);
};

} // namespace stow
