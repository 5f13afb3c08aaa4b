// Why a problem has no packing: a smallest set of buffers that already has none.
#pragma once

#include "passes/solvers/pack/PackBuffers.h"

namespace stow::pack {

struct Conflict {
  std::vector<BufferId> buffers; ///< ascending; empty when nothing was proven
  /// Leaving out any buffer of the set makes the rest packable, and this was checked for each.
  bool isMinimal = false;
};

/// An irreducible set of buffers that does not fit into `capacity` (without one: whose fixed
/// offsets collide), given that the whole problem was proven not to. What is left of a storage
/// stays rigid: its members keep their distances, even without the buffer that contained them.
/// First the live set at one instant that exceeds the capacity with the fewest storages; where
/// loads are not to blame, all buffers. Then halves, quarters, ... and single buffers are left out
/// as long as what remains is still proven infeasible, each proof with `workPerProof` steps.
Conflict findConflict(const Problem &problem, std::optional<Bytes> capacity, int64_t workPerProof,
                      const PackOptions &options);

} // namespace stow::pack
