// Splitting a packing problem into smaller, independent ones.
//
//   | c |      | e |   Some best packing has an item that lives throughout (a) at the bottom.
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
};

struct Reduction {
  std::vector<Leaf> leaves;
  std::vector<Bytes> bases; ///< by item: those of the ground; 0 for items of leaves
  /// The leaves have a packing within a capacity that is a multiple of this exactly if the model
  /// has one. Above 1 only where padding lies under the ground.
  Bytes grain = 1;
};

/// Splits the model. Items sink when all alignments are equal, or when their size is a multiple of
/// all of them, so that nothing is lost. With fixed offsets only the split in time is done. At most
/// `maxDepth` levels.
Reduction reduce(const Model &model, int32_t maxDepth = 64);

} // namespace stow::pack
