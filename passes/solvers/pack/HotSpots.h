// Lowering a packing whose top is reached at few places in time.
//
//   bytes
//     ^      +--+                  A million buffers with short lives crowd at a few instants only.
//     |......|##|......... target  An allocator that knows nothing of the future packs all the rest
//     |   +--+##+-+   +-+          below the target; what lies above it is repaired where it lies:
//     | +-+  ####  +--+ +--        the buffers of the crowded sections (#) are packed anew by the
//     +-------------------> time   canonical search, as if alone, and their neighbours in time are
//            hot                   put around them, first fit. Everything else stays.
#pragma once

#include "passes/solvers/pack/Model.h"

#include <functional>

namespace stow::pack {

/// Moves items until none reaches above `goal`, or as low as that goes; never higher than `bases`.
/// For models of rectangles without fixed offsets. Adds the steps taken to `work`, and stops after
/// about `workLimit` of them. Crowds of more than 20,000 items are left as they are.
std::vector<Bytes> lowerHotSpots(const Model &model, std::vector<Bytes> bases, Bytes goal,
                                 int64_t workLimit, int64_t &work,
                                 const std::function<bool()> &stop);

} // namespace stow::pack
