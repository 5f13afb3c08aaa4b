// Which bytes are taken during a span of sections, without any list of overlapping pairs.
//
// A segment tree over the sections. Each node keeps two sets of byte ranges, coalesced:
//   cover  the union of all placed pieces that touch the node's sections;
//   span   the union of those that fill all of the node's sections, stored at the highest such
//          node.
// The bytes taken in [begin, end) are the union of `cover` over the O(log s) nodes that make up
// [begin, end) and `span` over their ancestors. Dense packings coalesce into few ranges, so a
// query costs about O(log s) whatever the number of overlapping buffers.
#pragma once

#include "runtime/base/Bytes.h"

#include <cstdint>
#include <vector>

namespace stow::pack {

/// The half-open byte range [low, high).
struct ByteRange {
  Bytes low, high;
};

/// Disjoint, non-touching ranges in increasing order.
using RangeList = std::vector<ByteRange>;

class OccupancyTree {
public:
  /// No insert and no query spans more than `longest` sections: larger nodes are never looked at.
  OccupancyTree(int32_t sections, int32_t longest);

  /// Takes [low, high) during sections [begin, end).
  void insert(int32_t begin, int32_t end, Bytes low, Bytes high);

  /// Appends the lists whose union is taken during [begin, end). They are valid until the next
  /// insert.
  void collect(int32_t begin, int32_t end, std::vector<const RangeList *> &lists) const;

private:
  struct Node {
    RangeList cover, span;
  };

  int32_t leaves;
  int32_t widest;          ///< sections of the largest node in use
  std::vector<Node> nodes; ///< heap layout; node 1 is the root
};

} // namespace stow::pack
