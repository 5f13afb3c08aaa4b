// When and how fast bytes travel between an arena and slow memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stow {

/// When the bytes of a copy move. A program allows any time from its start to its await; tests, and
/// --check, take either end.
enum class CopyTime : uint8_t {
  Background, ///< on threads of their own, from the start on
  Early,      ///< at the start, before the next command runs
  Late,       ///< at the await
};

struct CopyPace {
  CopyTime time = CopyTime::Background;
  /// In the background copies take at least as long as with these bandwidths; 0: as they are.
  double outBytesPerSecond = 0, inBytesPerSecond = 0;
  double latencySeconds = 0; ///< of each copy beside them
};

/// How fast copies are said to be.
struct CopySpeed {
  double outGigabytes = 0, inGigabytes = 0; ///< a second
  std::optional<double> microseconds;       ///< of each copy beside them
};

/// The value of --offload-bandwidth: "OUT", which is that of both, "OUT,IN" or "OUT,IN,MICROSECONDS". Throws Error(BadInput).
CopySpeed parseCopySpeed(const std::string &text);

} // namespace stow
