// A lower bound on the height of any packing, from sizes, alignments and lifetimes alone.
#pragma once

#include "ir/plan/pack/Storage.h"

namespace stow::pack {

/// The load: the largest sum over time of the bytes that live storages cover, without alignment.
/// A height equal to it is optimal.
Bytes maxLoad(const Problem &problem);

/// The largest of
///   - the load;
///   - for every alignment m in use (the 16 most frequent where there are more): take the storages
///     whose alignment is a multiple of m. Each starts at a multiple of m, so all but the topmost
///     one take their bytes rounded up to m. The sum of rounded sizes less the largest single
///     rounding, over time;
///   - the end of every fixed buffer.
/// Valid for every problem for which `check` finds nothing. O(n log n) per alignment, apart from
/// storages of many members.
Bytes lowerBound(const Problem &problem);
Bytes lowerBound(const Problem &problem, const StorageTable &table);

} // namespace stow::pack
