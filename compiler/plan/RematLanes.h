// `stowage remat` with slow memory: the lanes of a file or of flags, the plan, and its report.
#pragma once

#include "ir/plan/schedule/Json.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "runtime/base/Bytes.h"

namespace stow {

/// What the command line says of slow memory.
struct LaneFlags {
  std::optional<double> bandwidth; ///< bytes per unit of the file's costs, in both directions
  std::optional<double> latency;   ///< in units of the file's costs
  std::optional<Bytes> slowBytes;

  bool any() const { return bandwidth || latency || slowBytes; }
};

/// The lanes to plan with: those of the file, with what the flags say in their place; absent if
/// neither has any. Slow memory that nobody limits takes as much as asked. Throws Error(BadInput)
/// where there is a flag but no bandwidth.
std::optional<schedule::Lanes> lanesOf(const schedule::ProblemFile &file, const LaneFlags &flags);

struct LaneRequest {
  ByteBudget budget; ///< a percentage is of the input order's peak
  schedule::PlanOptions options;
  bool json = false;
  std::string output; ///< the schedule goes there; empty: nowhere, "-": standard output
};

/// Plans, prints the report to standard output and writes the schedule. Returns the exit code: 0, or
/// 2 if the budget cannot be kept or nothing was found within it, with the reason on standard error.
int rematLanes(const schedule::Problem &problem, const schedule::Lanes &lanes,
               const LaneRequest &request);

} // namespace stow
