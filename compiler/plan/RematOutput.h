// What `stowage remat` prints and asks alike with slow memory and without.
#pragma once

#include "passes/solvers/schedule/PlanSchedule.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/Bytes.h"

#include <cstdio>
#include <string>

namespace stow {

/// "optimal", "bounded", "infeasible" or "not found".
inline const char *nameOf(schedule::Status status) {
  switch (status) {
  case schedule::Status::Optimal:
    return "optimal";
  case schedule::Status::Bounded:
    return "bounded";
  case schedule::Status::Infeasible:
    return "infeasible";
  case schedule::Status::NotFound:
    return "not found";
  }
  return "";
}

/// The bytes of a budget, of which a percentage is of `peakBytes`.
inline Bytes bytesOf(const ByteBudget &budget, Bytes peakBytes) {
  return budget.bytes ? *budget.bytes : schedule::percentOf(peakBytes, *budget.peakPercent);
}

/// To the file, or to standard output where it is "-".
inline void writeOutput(const std::string &path, const std::string &text) {
  if (path == "-")
    std::fwrite(text.data(), 1, text.size(), stdout);
  else
    writeFile(path, text);
}

} // namespace stow
