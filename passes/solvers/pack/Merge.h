// Items that can only lie in one place after another.
//
//   C  +-------+-------+   Where the sections on both sides of a boundary are full, what ends there
//      |   c   |       |   and what begins there cover the same bytes. So where one item ends (a)
//      +---+---+   d   |   and one begins (b), both have the same base in every packing: they are
//      | a | b |       |   one item. From b and c to d nothing follows but that d takes the bytes
//      +---+---+-------+   of both.
#pragma once

#include "passes/solvers/pack/Model.h"

namespace stow::pack {

struct Merged {
  Model model;                          ///< the items after merging
  std::vector<std::vector<int32_t>> of; ///< by item: positions in the list it was made from
  Bytes load = 0;                       ///< bytes of the full sections
};

/// Merges `items` of the model for packings of exactly their load; nullopt where nothing merges, or
/// where items are fixed or not rectangles. O(n + sections of the items).
std::optional<Merged> mergeFull(const Model &model, const std::vector<int32_t> &items);

} // namespace stow::pack
