// What one canonical search reads: the items of one leaf, prepared so that neither memory nor a
// step depends on the number of overlapping pairs.
//
// Items are numbered by begin. The items that overlap item i are then those that are live in its
// first section, which a list per section (or per block of sections) names, and a contiguous index
// range: those that begin inside it.
//
// Fixed items that lie on the bottom or on each other are the ground. Those with free bytes under
// them are *anchors*: items to come with one permitted base, over which others are lifted.
#pragma once

#include "passes/solvers/pack/Model.h"

namespace stow::pack {

struct SearchData {
  int32_t count = 0;      ///< free items, and each piece of an anchor
  int32_t total = 0;      ///< items with the fixed ones
  int32_t sections = 0;   ///< numbered from 0
  Bytes grain = 1;        ///< every base is a multiple of this
  bool complete = true;   ///< see SearchInstance::isComplete
  bool rectangles = true; ///< every free item is one piece

  bool anchored = false; ///< some items are anchors

  std::vector<int32_t> source;   ///< item -> position in the list the instance was made of
  std::vector<Bytes> fixedBases; ///< by position; -1 for free items
  Bytes fixedTop = 0;            ///< highest end of a fixed item

  // By item, in the order (begin, position):
  std::vector<int32_t> begin, end; ///< hulls
  std::vector<Bytes> size, alignment;
  std::vector<Bytes> step; ///< size rounded up to `grain`: what stacking on the item costs
  std::vector<char> isAnchor;
  std::vector<Bytes> ground; ///< lowest base on the ground that no anchor is in the way of
  std::vector<Time> lifetime, birth;
  std::vector<int64_t> overlaps;
  std::vector<Bytes> load;         ///< largest load of the item's sections
  std::vector<int32_t> twinBefore; ///< previous item with equal sections, alignment, ground; or -1
  std::vector<int32_t> twinAfter;  ///< next one, or -1; larger items come first
  std::vector<int32_t> firstPiece; ///< count + 1 entries
  std::vector<ModelPiece>
      pieces; ///< at most one per section and item: hulls, rounded up to `grain`

  std::vector<int32_t> firstFrom; ///< by section, + 1 entry: first item that begins there or later
  int32_t blockShift = 0;         ///< sections per block = 2^blockShift
  std::vector<int64_t> blockStart;
  std::vector<int32_t> blockItem; ///< items that touch each block, ascending

  SearchData(const Model &model, const std::vector<int32_t> &items, Bytes groundLevel);

  /// The lowest aligned base from `base` on at which `item` meets no anchor.
  Bytes clear(int32_t item, Bytes base) const;

  /// True when `item` is live in `section`; `low` is then the free height under it.
  bool isLive(int32_t item, int32_t section, Bytes &low) const {
    low = 0;
    if (section < begin[item] || section >= end[item])
      return false;
    if (firstPiece[item + 1] - firstPiece[item] == 1)
      return true;
    for (int32_t p = firstPiece[item]; p < firstPiece[item + 1]; ++p)
      if (pieces[p].begin <= section && section < pieces[p].end) {
        low = pieces[p].low;
        return true;
      }
    return false;
  }

  /// How far the base of `upper` must be above the base of `lower` when it lies above it; nullopt
  /// when they never meet. Both hulls overlap.
  std::optional<Bytes> lift(int32_t lower, int32_t upper) const;

  /// Calls `visit(other)` for every item whose hull overlaps that of `item`; returns the number of
  /// items looked at.
  template <typename Visit> int64_t forNeighbours(int32_t item, Visit visit) const {
    const int32_t section = begin[item];
    const int32_t block = section >> blockShift;
    for (int64_t e = blockStart[block]; e < blockStart[block + 1]; ++e) {
      const int32_t other = blockItem[e];
      if (begin[other] <= section && section < end[other] && other != item)
        visit(other);
    }
    const int32_t first = firstFrom[section + 1], last = firstFrom[end[item]];
    for (int32_t other = first; other < last; ++other)
      visit(other);
    return blockStart[block + 1] - blockStart[block] + std::max(0, last - first);
  }

private:
  std::vector<int32_t> anchors; ///< by base
  /// By item: the overlapping anchors, [firstAnchor[item], firstAnchor[item + 1]) of anchorsOf.
  std::vector<int32_t> firstAnchor, anchorsOf;

  void addItem(const Model &model, const Item &item, int32_t firstSection);
  void addAnchor(const Item &item, const ModelPiece &piece, int32_t firstSection);
  void findAnchors();
  void findGrounds(const std::vector<Bytes> &groundOf, Bytes groundLevel);
  void buildBlocks();
  void buildTwins();
};

} // namespace stow::pack
