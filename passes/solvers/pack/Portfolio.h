// The order in which the canonical search is tried with different settings.
//
// Search times are heavy-tailed: each setting solves some instances within a few hundred nodes and
// others never, so many settings with small node limits, doubled round by round, beat any single
// one.
#pragma once

#include "passes/solvers/pack/CanonicalSearch.h"

namespace stow::pack {

/// The settings, the most broadly successful first. Limits are left at their defaults.
const std::vector<SearchOptions> &searchPortfolio();

/// "lowest TCA", "tightest TEC": the pick and the initials of the order's keys.
std::string describe(const SearchOptions &options);

} // namespace stow::pack
