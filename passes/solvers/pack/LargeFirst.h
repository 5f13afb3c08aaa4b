// Lowering a packing by the order of its large items alone.
//
// In steps of thousands of items few are large: state gradients and activations of a whole sequence
// beside gates of single time steps. Which of the large ones lies below which decides where bytes
// are left for the others, and a search that moves single items does not change that: all that
// lies on a large one would have to move with it. Here all items are placed first fit, the large
// ones first, the others by falling area, and only the order of the large ones is searched:
//
//   order   A B C | rest by area         B C A | rest by area
//   bytes                   x
//     ^    +--+--+----+                        +----+
//     |    | B|xx| C  |                     +--+ A  |
//     |    +--+--+----+                     |  | xx +--+
//     |    |    A     |         ...         |B |    |  |
//     +----+----------+---> t               +--+----+--+---> t
//
// A change takes up to three large items that live at one time and puts each before another one of
// that time. What comes out is kept where it is not much higher, with a threshold that falls to
// none (threshold accepting, Dueck and Scheuer 1990). Placing ends at the first item that lies
// above the threshold, so most changes cost little. One placement: O(n log s) range operations.
#pragma once

#include "passes/solvers/pack/PartSearch.h"

namespace stow::pack {

/// Lowers the packing of `incumbent` until its goal is met or the work is used up. Never makes it
/// higher.
void packLargeFirst(Incumbent &incumbent);

} // namespace stow::pack
