// Exact search for storages of several pieces, with overhangs, slices and alignments.
//
//   bytes
//     ^   +---+--------+   x and y are written into their places in r, and b is gone before r
//     |   | y |        |   begins. The base of b less that of r must not lie in two open intervals,
//     |   +---+        |   one for each two pieces that meet in time (intervals that overlap are
//     |   | b |   r    |   joined): b lies under x, between the two, or over y. Intervals are
//     |   +---+        |   widened to what both alignments permit.
//     |   | x |        |
//     |   +---+--------+
//     +--------------------> time
//
// A node holds, for all pairs of storages and the ground, how far the base of one is at least above
// that of the other: a matrix that is kept closed under addition and rounded up to what both
// alignments permit. An interval of which only one side is left is decided; a section fails when
// pieces have more bytes than the window they must lie in. When the lowest bases the matrix
// permits keep all distances, they are a packing. Else an interval that they break is branched
// upon: below it, or above. Both branches together are complete, so the search ends with a packing
// or with the proof that there is none; nothing is assumed of shapes, alignments or fixed offsets.
//
// The matrix is that of disjunctive scheduling (Carlier and Pinson, 1989), with bytes for time and
// sections for machines; the branching that of Cheng and Smith (1997).
#pragma once

#include "passes/solvers/pack/PartSearch.h"

namespace stow::pack {

/// True where some storage has several pieces, so that the canonical search may be incomplete, and
/// there are at most 64 storages of 512 pieces: a step costs their number squared.
bool isForPieces(const Model &model);

/// Bisects between the bound and the best packing, or decides the capacity, until nothing is open
/// or the work is used up. Never makes the packing higher; raises the bound where it proves more.
void searchPieces(Incumbent &incumbent);

} // namespace stow::pack
