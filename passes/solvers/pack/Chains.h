// Lowering a packing by taking items out and putting them back.
//
// A packing pushed down as far as it goes is given by an order of its items alone: each lies on the
// highest of those before it that it meets. Its height is that of the tallest chain of items that
// lie on each other.
//
//   bytes
//     ^   +------+             base of c   the tallest chain that c rests on (a)
//     |   |  c   +---+         reach of c  the tallest chain that starts with c (c alone)
//     |   +------+ d |         An item put between those below and those above it makes a chain as
//     |   | a  | +---+         tall as the tallest one under it, itself, and the tallest one over
//     +---+----+-| b |----> t  it: for all places along the order known from one look at each item
//                              that it meets.
//
// So items of a chain that is too tall are taken out, some with their neighbours, and put back one
// by one where they make the least tall chain; what comes out is kept where it is not much higher
// (ruin and recreate, Schrimpf et al. 2000, with a falling threshold of annealing). Heads and tails
// of chains to judge insertions with are those of job shops (Werner and Winkler, 1995).
//
// What is put in or taken out is followed along the order: a block that meets no section whose skyline
// is another one keeps its chain, and where there is no such section left, so do all further ones. Work
// is counted as for a look at all of them, so that how far one had to look decides nothing.
//
// For rectangles of one alignment without fixed offsets. Sizes count rounded up to it, but for
// what lies on top.
#pragma once

#include "passes/solvers/pack/Model.h"

#include <functional>

namespace stow::pack {

/// True when chains can describe every packing of `model`.
bool isChainable(const Model &model);

/// A packing of some items of a model.
struct ChainPacking {
  std::vector<int32_t> order; ///< from the bottom up: every item after all that it lies on
  std::vector<Bytes> bases;   ///< by position in the order
  Bytes height = 0;
};

struct ChainOptions {
  Bytes goal = 0;    ///< enough
  uint64_t seed = 0; ///< of the choices
  int64_t workLimit = 0;
  std::function<bool()> stop;
};

/// Puts `added` into the packing of the items in `order` and lowers what comes out until the goal
/// is met or the work, elementary steps as in PackOptions, is used up. Never higher than right
/// after the items were put in.
ChainPacking packByChains(const Model &model, std::vector<int32_t> order,
                          std::vector<int32_t> added, const ChainOptions &options, int64_t &work);

} // namespace stow::pack
