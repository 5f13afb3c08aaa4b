// Ranks that a launcher without MPI has started, as torchrun does: what they agree on passes connections to rank 0.
#pragma once

#include "runtime/ranks/Launcher.h"
#include "runtime/ranks/Ranks.h"

#include <memory>

namespace stow {

/// Joins the ranks of `launch`, whose size is known. Rank 0 listens at its address alone; where torchrun's agent does so already, at a
/// free port of that address, which the agent's store tells the others. For ranks whose devices exchange what a step adds up: sum(), scatter()
/// and join() are Error(Internal). Throws Error(BadInput) where the ranks do not find each other.
std::unique_ptr<Ranks> joinBySockets(const RankLaunch &launch);

} // namespace stow
