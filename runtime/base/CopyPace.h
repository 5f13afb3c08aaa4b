// When and how fast bytes travel between an arena and slow memory.
#pragma once

#include <cstdint>

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

} // namespace stow
