// What the bytes of a memory hold while a placed graph is replayed.
//
// What lies inside a larger tensor is a comb: runs of `width` bytes, repeated at one or more
// levels.
//
//   concat of a (2 columns) and b (1):   aab aab aab aab      a: width 2, 4 times every 3 bytes
//   b itself a concat of rows c and d:   aac aac aad aad      c: width 1, 2 times every 3 bytes
//
// Whether two combs share a byte is answered exactly, whatever their levels.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace stow {

/// A comb: `levels[0].count` copies, `levels[0].stride` bytes apart, of what the further levels
/// say, down to runs of `width` bytes. A copy ends before the next one begins. A dense tensor is
/// one run.
struct Comb {
  struct Level {
    int64_t stride = 0, count = 0;
    bool operator==(const Level &) const = default;
  };

  int64_t begin = 0, end = 0, width = 0;
  llvm::SmallVector<Level, 2> levels = {};

  bool operator==(const Comb &) const = default;
  bool isDense() const { return levels.empty(); }
  bool isEmpty() const { return begin == end; }

  bool overlaps(const Comb &other) const {
    return !isEmpty() && !other.isEmpty() &&
           meet(levels, width, other.levels, other.width, begin - other.begin);
  }

private:
  static int64_t extent(llvm::ArrayRef<Level> levels, int64_t width) {
    for (const Level &level : levels)
      width += (level.count - 1) * level.stride;
    return width;
  }
  static int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

  /// True when two combs share a byte, the left one beginning `distance` bytes behind the right
  /// one.
  static bool meet(llvm::ArrayRef<Level> left, int64_t leftWidth, llvm::ArrayRef<Level> right,
                   int64_t rightWidth, int64_t distance) {
    if (distance >= extent(right, rightWidth) || -distance >= extent(left, leftWidth))
      return false;
    if (left.empty() && right.empty())
      return true;
    if (left.empty() || (!right.empty() && right.front().stride > left.front().stride))
      return meet(right, rightWidth, left, leftWidth, -distance);
    // Copies of the left one, or, where both repeat alike, differences of copies: the pair of the
    // i-th and the j-th is like all others with the same i - j.
    const auto [stride, count] = left.front();
    left = left.drop_front();
    int64_t first = 0;
    if (!right.empty() && right.front().stride == stride) {
      first = 1 - right.front().count;
      right = right.drop_front();
    }
    first = std::max(first, floorDivide(-extent(left, leftWidth) - distance, stride) + 1);
    const int64_t last =
        std::min(count - 1, floorDivide(extent(right, rightWidth) - 1 - distance, stride));
    for (int64_t copy = first; copy <= last; ++copy)
      if (meet(left, leftWidth, right, rightWidth, distance + copy * stride))
        return true;
    return false;
  }
};

/// Number of a write.
using Event = size_t;

/// Which writes are still whole.
class ArenaContent {
public:
  Event write(Comb comb) {
    Event event = whole.size();
    whole.push_back(true);
    end(comb);
    if (comb.isEmpty())
      return event;
    if (comb.isDense())
      dense[comb.begin] = {comb.end, event};
    else
      combs.push_back({comb, event});
    return event;
  }

  bool isWhole(Event event) const { return whole[event]; }

  /// The event alive at the lowest byte that `comb` touches; dense ones come first.
  std::optional<Event> met(const Comb &comb) const {
    auto piece = dense.upper_bound(comb.begin);
    if (piece != dense.begin())
      --piece;
    for (; piece != dense.end() && piece->first < comb.end; ++piece)
      if (comb.overlaps(combOf(*piece)))
        return piece->second.event;
    for (const auto &[other, event] : combs)
      if (other.overlaps(comb))
        return event;
    return std::nullopt;
  }

private:
  struct Dense {
    int64_t end;
    Event event;
  };

  static Comb combOf(const std::pair<const int64_t, Dense> &piece) {
    return {piece.first, piece.second.end, piece.second.end - piece.first};
  }

  /// Ends every event that `comb` touches. Dense events alive never overlap each other.
  void end(const Comb &comb) {
    auto piece = dense.upper_bound(comb.begin);
    if (piece != dense.begin())
      --piece;
    while (piece != dense.end() && piece->first < comb.end) {
      if (comb.overlaps(combOf(*piece))) {
        whole[piece->second.event] = false;
        piece = dense.erase(piece);
      } else {
        ++piece;
      }
    }
    llvm::erase_if(combs, [&](const std::pair<Comb, Event> &other) {
      bool ends = other.first.overlaps(comb);
      if (ends)
        whole[other.second] = false;
      return ends;
    });
  }

  std::map<int64_t, Dense> dense; ///< by first byte
  std::vector<std::pair<Comb, Event>> combs;
  std::vector<bool> whole; ///< by event
};

} // namespace stow
