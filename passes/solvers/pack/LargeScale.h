// Packing hundreds of thousands of buffers in seconds.
//
//   +-----------------------------+   Most buffers of a long trace are small: together they need a
//   | small ones, outward         |   few thousandths of the arena, but as much time as all others.
//   +-----------------------------+   So they get a band of their own on top, filled by simulating
//   |  large ones, first fit by   |   an allocator, and only the large ones are placed by first fit
//   |  size, then repaired where  |   with all that is known about time. Where those reach too high
//   |  they reach too high        |   they are packed anew (HotSpots.h).
//   +-----------------------------+
#pragma once

#include "passes/solvers/pack/Greedy.h"

namespace stow::pack {

/// From this number of items on packLargeScale takes the place of the greedy pairs.
constexpr size_t veryManyItems = 200'000;

/// Packs rectangles without fixed offsets. Stops at `goal`. Where an allocator's packing is within
/// one percent of it, the time is left to other methods. Adds the steps of repairs to `work`.
GreedyResult packLargeScale(const Model &model, Bytes goal, int64_t &work,
                            const std::function<bool()> &stop);

/// True for models that packLargeScale and lowerHotSpots take.
bool isPlain(const Model &model);

} // namespace stow::pack
