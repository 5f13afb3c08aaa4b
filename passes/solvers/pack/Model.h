// The solvers' view of a packing problem: rigid items over an axis of sections.
//
// Time is cut into *sections*: maximal sets of pieces that are live together. Two pieces overlap in
// time exactly when they share a section, so nothing else about time matters.
//
//   a |-----|            sections   0     1   2
//   b   |------|         a          [0,1)
//   c         |---|      b          [0,   2)
//   d           |--|     c, d             [1,   3) and [2, 3)
#pragma once

#include "ir/plan/pack/Storage.h"

#include <vector>

namespace stow::pack {

/// A rectangle of an item: sections [begin, end), bytes [low, high) above the item's base.
struct ModelPiece {
  int32_t begin, end;
  Bytes low, high;
};

/// A storage that occupies bytes.
struct Item {
  int32_t begin, end;            ///< hull of its pieces' sections
  int32_t firstPiece, lastPiece; ///< [firstPiece, lastPiece) of Model::pieces, by (begin, low)
  Bytes low, size;               ///< lowest piece begin, highest piece end
  Bytes alignment;
  std::optional<Bytes> fixedBase;
  Time lifetime; ///< end of the last piece minus begin of the first
  Time birth;

  bool isRectangle() const { return lastPiece - firstPiece == 1 && low == 0; }
};

struct Model {
  const Problem *problem = nullptr;
  std::vector<Item> items;
  std::vector<ModelPiece> pieces;
  int32_t sections = 0;
  std::vector<int32_t> itemOfBuffer; ///< -1 for storages without bytes
  std::vector<Bytes> relative;       ///< by BufferId: offset above the item's base
  std::vector<Bytes> emptyBase;      ///< by BufferId: base of a storage without bytes

  /// Offsets of all buffers from the bases of the items.
  Solution solution(const std::vector<Bytes> &bases) const;
};

/// Builds the model. Requires that `check` found nothing; keeps a pointer to `problem`.
Model makeModel(const Problem &problem);
Model makeModel(const Problem &problem, StorageTable table);

/// Some items of a model of rectangles, in their order, with sections of their own.
Model restrictTo(const Model &model, const std::vector<int32_t> &items);

/// The number of other items that share a section with each item, in O(n log n) (counted by hulls).
std::vector<int64_t> overlapDegrees(const Model &model);

/// The number of pairs among `items` that share a section (counted by hulls), in O(n + sections).
int64_t overlappingPairs(const Model &model, const std::vector<int32_t> &items);

/// By section, the sum of item bytes.
std::vector<Bytes> sectionLoads(const Model &model);

/// The largest of them.
Bytes modelLoad(const Model &model);

/// By item, the largest load of its sections, in O(n log s) (counted by hulls).
std::vector<Bytes> largestLoads(const Model &model);

} // namespace stow::pack
