// The independent judge of packing solutions. It shares no code with any solver and looks only at
// what Problem.h promises; O(n log n) apart from storages of many members.
#pragma once

#include "ir/plan/pack/Problem.h"

namespace stow::pack {

enum class ViolationKind {
  Shape,     ///< the number of offsets is not the number of buffers
  Range,     ///< a negative offset
  Alignment, ///< an offset that is not a multiple of the alignment
  Fixed,     ///< a fixed offset that was not kept
  Link,      ///< a sameAs / inside relation that was not kept
  Overlap,   ///< two buffers of different storages share a byte at the same time
  Height,    ///< the height is not the largest end of a buffer
};

struct Violation {
  ViolationKind kind;
  BufferId first = 0;
  BufferId second = 0; ///< equals `first` where only one buffer is concerned
  std::string message;
};

/// Every way in which `solution` breaks `problem`, at most 20; empty when it is correct.
/// Requires a problem for which `check` found nothing.
std::vector<Violation> verify(const Problem &problem, const Solution &solution);

} // namespace stow::pack
