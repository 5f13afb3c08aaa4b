// Splitting a packing problem into smaller, independent ones.
//
//   | c |      | e |   An item that lives throughout (a) can lie at the bottom of some best
//   packing.
//   +---+ +----+---+   Without it the rest may fall apart where no item crosses a point in time
//   | b | |   d    |   ({b, c} and {d, e}); each part again has items that live throughout it.
//   +---+-+--------+   What is left are leaves that share nothing but the ground they stand on.
//   |      a       |
//   +--------------+
#pragma once

#include "passes/solvers/pack/Model.h"

namespace stow::pack {

/// Items to be packed above `ground`, independently of all other leaves.
struct Leaf {
  std::vector<int32_t> items; ///< of the model, ascending
  Bytes ground = 0;
  /// False when padding under `ground` may cost height: then a failure on the leaf proves nothing.
  bool exact = true;
};

/// Splits the model and writes the bases of the items that form the ground to `bases` (sized by
/// item). With fixed offsets only the split in time is done. At most `maxDepth` levels.
std::vector<Leaf> reduce(const Model &model, std::vector<Bytes> &bases, int32_t maxDepth = 64);

} // namespace stow::pack
