// A hash table of sets, for searches over sets of ops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stow::schedule {

/// A set of sets of ops, each of a fixed number of words. Compares whole sets: what it says is
/// certain.
class SetTable {
public:
  explicit SetTable(size_t words) : words(words), slots(1024, 0) {}

  /// False if the set is known already.
  bool insert(const uint64_t *set) {
    if (2 * (count + 1) > slots.size())
      grow();
    const size_t slot = find(set);
    if (slots[slot])
      return false;
    sets.insert(sets.end(), set, set + words);
    slots[slot] = static_cast<uint32_t>(++count);
    return true;
  }
  size_t size() const { return count; }

private:
  size_t find(const uint64_t *set) const {
    uint64_t hash = 0;
    for (size_t w = 0; w < words; ++w) {
      hash = (hash ^ set[w]) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    size_t slot = hash & (slots.size() - 1);
    while (slots[slot] && !std::equal(set, set + words, &sets[(slots[slot] - 1) * words]))
      slot = (slot + 1) & (slots.size() - 1);
    return slot;
  }
  void grow() {
    slots.assign(2 * slots.size(), 0);
    for (size_t i = 0; i < count; ++i)
      slots[find(&sets[i * words])] = static_cast<uint32_t>(i + 1);
  }
  size_t words, count = 0;
  std::vector<uint64_t> sets;
  std::vector<uint32_t> slots; ///< index + 1, or 0
};

} // namespace stow::schedule
