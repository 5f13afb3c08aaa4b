// Lowering a packing by the canonical search, part by part.
//
// The problem is split into parts that share nothing but the ground they stand on (Reduce.h), and
// each is searched with the settings of the portfolio in turn, with limits that double from round
// to round, until it is as low as the others or the bound.
#pragma once

#include "passes/solvers/pack/Model.h"

#include <algorithm>
#include <functional>
#include <string>

namespace stow::pack {

/// The lowest packing known of a model, and what may still be spent on it.
struct Incumbent {
  const Model &model;
  std::optional<Bytes> capacity; ///< decide, instead of minimizing; see PackOptions
  std::function<bool()> stop;
  std::vector<Bytes> bases;
  Bytes height = 0;
  std::string method;   ///< that found the bases
  Bytes lowerBound = 0; ///< proven: no packing is lower
  int64_t work = 0;     ///< elementary steps used
  int64_t workLimit = 0;

  /// Nothing lower than this is looked for.
  Bytes goal() const { return std::max(lowerBound, capacity.value_or(0)); }
  bool isOpen() const { return height > goal() && !(capacity && *capacity < lowerBound); }
  bool isExhausted() const { return work >= workLimit || stop(); }
};

/// Effort of a first search, in nodes beyond one straight descent.
constexpr int64_t firstEffort = 500;

constexpr int64_t workPerLostPair = 30; ///< what a search of many items may take

/// Searches until the goal is met, the work is used up, or nothing is left to try. Never makes the
/// packing higher; raises the bound where it proves more.
void searchParts(Incumbent &incumbent);

} // namespace stow::pack
