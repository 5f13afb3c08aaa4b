// Packing outward from the most crowded instant.
//
//   bytes         peak               The items that live at the peak (a, b, c) have to lie on each
//     ^    +-------|-----------+     other without a gap. Once they do, what comes after the peak
//     |    |     c |           |     (e, f) meets nothing of what came before it (d), and each side
//     +----+-------|--+---+----+     is the work of an allocator: after the peak it plays time
//     |      b     |  | f |          forward, before the peak backward. Where neighbours in the
//     +-----+-+----|--+---+----+     stack die one after the other, the bytes they free stay in
//     |  d  | | a  |  |   e    |     one piece.
//     +-----+-+----|--+--------+> time
//
// An item that ends above the goal was placed too late, when the free bytes lay scattered. It is
// moved part of its way to the peak in the order, and all are placed again, a few times over (the
// squeaky wheel method of Joslin and Clements, JAIR 1999).
//
// Training steps have such a peak, where the backward pass begins, and lives that nest around it:
// of tens of thousands of buffers mostly a few passes reach the load.
#pragma once

#include "passes/solvers/pack/Greedy.h"

namespace stow::pack {

/// Which items lie low among those that live at the peak.
enum class PeakStack {
  FirstToDie,
  LastBorn,
};

/// Sections between each item and the most crowded one, the first of equals; -1 for items that live
/// there.
std::vector<int32_t> distancesFromPeak(const Model &model);

/// The placing order: first the stack, from the bottom up, then the others by distance, the larger
/// ones first.
std::vector<int32_t> outwardOrder(const Model &model, PeakStack stack,
                                  const std::vector<int32_t> &distances);

/// Placed outward until `goal` is met, for about `budget` range operations (1e8 take one to four
/// seconds). No bases when not even one pass was completed or when fixed offsets collide; `done` is
/// left at 0.
GreedyResult packOutward(const Model &model, Bytes goal, int64_t budget,
                         const std::function<bool()> &stop);

/// One pass with best fit, by an allocator: O(n log n) whatever is live at a time. For models of
/// rectangles without fixed offsets. Padding between items of the stack is lost.
GreedyResult allocateOutward(const Model &model, PeakStack stack);

} // namespace stow::pack
