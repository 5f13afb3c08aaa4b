// The room that a schedule is given, position by position.
//
//   capacity  ------.              .------   the budget, less what is withheld in windows
//                   |______________|
//   run        a    b    c    b'   d    e    the window of b and d reaches from the first run of one
//                                            to that of the other, both included, and holds for
//                                            every run between them, reruns as well
//
// Windows are tied to first runs and not to numbers of positions: a rerun that is added somewhere
// moves all numbers behind it, but no window.
#pragma once

#include "ir/plan/schedule/Problem.h"

namespace stow::schedule {

/// Positions with less room: what a schedule cannot have there, such as the gaps that a packing of
/// its buffers leaves.
struct Window {
  OpId first = 0, last = 0; ///< the ends, in any order
  Bytes withheldBytes = 0;
  bool operator==(const Window &) const = default;
};

struct Capacity {
  Bytes budgetBytes = 0;       ///< pinned storages included
  std::vector<Window> windows; ///< what they withhold adds up where they overlap

  /// The capacity of the position with the least of it, wherever that is.
  Bytes leastBytes() const;
};

/// Checks that the ops of all windows exist and that what they withhold is not negative and, summed
/// with the budget, representable. Throws Error(BadInput) naming the window at fault.
void check(const Problem &problem, const Capacity &capacity);

} // namespace stow::schedule
