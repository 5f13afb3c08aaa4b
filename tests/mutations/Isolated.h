// Work in a process of its own, so that a crash or a hang of it is a result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace stow::test {

/// How far a process came.
struct Ending {
  int64_t next = 0;       ///< the first item that was not finished; the limit where all were
  int64_t accepted = 0;   ///< items for which the work gave true
  bool isFailure = false; ///< of item `next`; otherwise memory ran out in it
  std::string cause;      ///< "signal 11 (Segmentation fault)", or what was thrown
  std::string words;      ///< the last it wrote to standard error
  double processorSeconds = 0;
};

/// Calls work(i) for i in [first, limit) in a process of its own, until one of them crashes, throws,
/// takes 60 s of processor time or 10 minutes. Memory that runs out, where no sanitizer counts it for
/// itself, ends the process too and is no failure: the tools say so and end with an error.
Ending runIsolated(int64_t first, int64_t limit, const std::function<bool(int64_t)> &work);

} // namespace stow::test
