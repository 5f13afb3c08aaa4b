// How much time recomputation may take where no budget is given.
#pragma once

#include <cstdint>
#include <limits>

namespace stow {

/// How much longer a step may take for a smaller arena where no budget says how small it is to be.
struct Allowance {
  double share = 0; ///< most extra time, as a share of that of the step with everything kept
  double worth = 0; ///< what is saved of the arena is worth so many times its share in time
  /// Whether steps with library calls that can run in several ways may pay for slower ways, too. Where
  /// not they keep everything: what a way takes is a guess on devices that have several.
  bool paysForWays = true;
  int64_t mostOps = std::numeric_limits<int64_t>::max(); ///< larger steps keep everything

  bool operator==(const Allowance &) const = default;

  /// Whether the smallest arena is wanted, whatever of the share it takes.
  bool isForSmallest() const { return worth == 0 && share > 0; }

  /// Less than a clock tells from one run to the next, and only where it buys much
  /// (docs/decisions/2026-11-23-spare-time.md).
  static Allowance usual() { return {0.015, 5, false, 10'000}; }
};

} // namespace stow
