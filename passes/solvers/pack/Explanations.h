// Why a canonical search failed: the decisions that a proven lower bound of a base rests on.
//
//   decision 3: p lies at 10     the base of u is at least 14, because p lies at 10 (decision 3)
//   +------+                     and u does not fit below it: it needs 6 bytes and was known to
//   |  p   |..u?                 start at 5 or above (because of decision 1)
//   +------+                     => base(u) >= 14 rests on decisions {1, 3}
//   10
//
// Each item keeps its history of rising bounds, each with the set of decisions behind it. To
// explain a bound the weakest entry that still implies it is taken, so that explanations stay
// small. A failure that does not rest on a decision stays one whatever that decision is, so the
// search can jump back over it.
#pragma once

#include "runtime/base/Bytes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stow::pack {

/// A set of decision levels.
using LevelSet = std::vector<uint64_t>;

inline bool contains(const LevelSet &set, int32_t level) {
  return set[static_cast<size_t>(level) / 64] >> (level % 64) & 1;
}
inline void insert(LevelSet &set, int32_t level) {
  set[static_cast<size_t>(level) / 64] |= uint64_t(1) << (level % 64);
}

/// Levels beyond the last one that a set can hold share it, so it stays in.
inline void remove(LevelSet &set, size_t level) {
  if (level < 64 * set.size())
    set[level / 64] &= ~(uint64_t(1) << (level % 64));
}

class Explanations {
public:
  /// Levels are in [0, levels). Nothing needs explaining up to the `ground` of an item.
  void reset(const std::vector<Bytes> &groundOfItem, int32_t levels) {
    ground = &groundOfItem;
    words = static_cast<size_t>(levels) / 64 + 1;
    newest.assign(groundOfItem.size(), -1);
    entries.clear();
    rows.clear();
    scratch.assign(words, 0);
  }

  size_t wordCount() const { return words; }

  /// Adds to `set` what base(item) >= bound rests on; the bound was recorded earlier.
  void add(int32_t item, Bytes bound, LevelSet &set) const {
    const int32_t entry = find(item, bound);
    if (entry < 0)
      return;
    const uint64_t *row = &rows[static_cast<size_t>(entry) * words];
    for (size_t w = 0; w < words; ++w)
      set[w] |= row[w];
  }

  /// Records base(item) >= bound, which rests on `level` and on base(item) >= before.
  void record(int32_t item, Bytes bound, int32_t level, Bytes before) {
    std::fill(scratch.begin(), scratch.end(), 0);
    add(item, before, scratch);
    insert(scratch, level);
    record(item, bound, scratch);
  }

  /// Records base(item) >= bound, which rests on `set`.
  void record(int32_t item, Bytes bound, const LevelSet &set) {
    entries.push_back({bound, item, newest[item]});
    newest[item] = static_cast<int32_t>(entries.size()) - 1;
    rows.insert(rows.end(), set.begin(), set.end());
  }

  /// The number of records; `forget` goes back to an earlier one.
  size_t mark() const { return entries.size(); }
  void forget(size_t mark) {
    while (entries.size() > mark) {
      newest[entries.back().item] = entries.back().previous;
      entries.pop_back();
    }
    rows.resize(entries.size() * words);
  }

private:
  struct Entry {
    Bytes bound;
    int32_t item, previous;
  };

  /// The oldest entry that implies the bound; -1 where none is needed.
  int32_t find(int32_t item, Bytes bound) const {
    if (bound <= (*ground)[item])
      return -1;
    int32_t entry = newest[item];
    while (entries[entry].previous >= 0 && entries[entries[entry].previous].bound >= bound)
      entry = entries[entry].previous;
    return entry;
  }

  const std::vector<Bytes> *ground = nullptr;
  size_t words = 0;
  std::vector<int32_t> newest; ///< by item: its last entry, or -1
  std::vector<Entry> entries;
  std::vector<uint64_t> rows; ///< `words` per entry
  LevelSet scratch;
};

} // namespace stow::pack
