// The smallest height by trying everything: the oracle for small problems.
//
// In some lowest packing no set of storages can be pushed down together, so each storage rests, up
// to alignment, on the bottom or on one that was put before it. Trying all sequences and all
// resting places is therefore exhaustive, save for interlocking storages of different alignment.
// Shares only the storage table with the solvers.
#pragma once

#include "ir/plan/pack/Bound.h"
#include "ir/plan/pack/Storage.h"

#include <algorithm>
#include <vector>

namespace stow::pack::test {

class BruteForce {
public:
  explicit BruteForce(const Problem &problem)
      : problem(problem), table(storageTable(problem)), bases(table.storages.size(), -1),
        load(maxLoad(problem)) {
    for (const Storage &storage : table.storages)
      inOrder &= storage.lastPiece - storage.firstPiece == 1 && !storage.fixedBase;
  }

  /// nullopt when fixed offsets collide.
  std::optional<Bytes> height() {
    best = std::nullopt;
    Bytes top = 0;
    for (size_t i = 0; i < bases.size(); ++i) {
      const Storage &storage = table.storages[i];
      if (storage.fixedBase) {
        if (collides(i, *storage.fixedBase))
          return std::nullopt;
        bases[i] = *storage.fixedBase;
        top = std::max(top, bases[i] + sizeOf(i));
      }
    }
    descend(top, 0);
    return best;
  }

private:
  Bytes sizeOf(size_t index) const {
    Bytes size = 0;
    for (BufferId id = 0; id < static_cast<BufferId>(problem.buffers.size()); ++id)
      if (table.ofBuffer[id] == static_cast<int32_t>(index))
        size = std::max(size, table.relative[id] + problem.buffers[id].size);
    return size;
  }

  template <typename Visit> void forMeetingPieces(size_t a, size_t b, Visit visit) const {
    for (int32_t p = table.storages[a].firstPiece; p < table.storages[a].lastPiece; ++p)
      for (int32_t q = table.storages[b].firstPiece; q < table.storages[b].lastPiece; ++q)
        if (table.pieces[p].life.overlaps(table.pieces[q].life))
          visit(table.pieces[p], table.pieces[q]);
  }

  bool collides(size_t index, Bytes base) const {
    bool hit = false;
    for (size_t other = 0; other < bases.size(); ++other)
      if (bases[other] >= 0)
        forMeetingPieces(index, other, [&](const Piece &mine, const Piece &its) {
          hit |= base + mine.low < bases[other] + its.high &&
                 bases[other] + its.low < base + mine.high;
        });
    return hit;
  }

  /// With rectangles only, sequences from below upwards are enough.
  void descend(Bytes top, Bytes last) {
    if (best && (top >= *best || *best == load))
      return;
    bool any = false;
    for (size_t i = 0; i < bases.size(); ++i) {
      if (bases[i] >= 0)
        continue;
      any = true;
      const Bytes size = sizeOf(i);
      std::vector<Bytes> places{0};
      for (size_t other = 0; other < bases.size(); ++other)
        if (bases[other] >= 0)
          forMeetingPieces(i, other, [&](const Piece &mine, const Piece &its) {
            places.push_back(alignUp(std::max<Bytes>(0, bases[other] + its.high - mine.low),
                                     table.storages[i].alignment));
          });
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
      for (Bytes place : places) {
        if ((best && place + size >= *best) || (inOrder && place < last) || collides(i, place))
          continue;
        bases[i] = place;
        descend(std::max(top, place + size), place);
        bases[i] = -1;
      }
    }
    if (!any)
      best = top;
  }

  const Problem &problem;
  StorageTable table;
  std::vector<Bytes> bases;
  std::optional<Bytes> best;
  Bytes load;
  bool inOrder = true;
};

} // namespace stow::pack::test
