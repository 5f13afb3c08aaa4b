// Storages as rigid bodies: the disjoint rectangles in time and bytes that the buffers of one
// storage cover together.
//
//   bytes
//     ^        +-------+      An operand x written straight into the result r of a concatenation:
//     |        |       |      x occupies its slice before r is live, r the whole afterwards. The
//     |  +-----+   r   |      storage {r, x} has two pieces, [begin of x, begin of r) x slice and
//     |  |  x  |       |      the lifetime of r x its size.
//     |  +-----+-------+
//     +----------------------> time
#pragma once

#include "ir/plan/pack/Problem.h"

namespace stow::pack {

/// A rectangle of a storage; bytes are relative to the storage's first byte.
struct Piece {
  Interval life;
  Bytes low = 0;
  Bytes high = 0;

  bool operator==(const Piece &) const = default;
};

/// One rigid body. Its base (the offset of its root buffer) is a multiple of `alignment`.
struct Storage {
  BufferId root = 0;
  Bytes alignment = 1;            ///< least common multiple over the members
  std::optional<Bytes> fixedBase; ///< from the members' fixed offsets
  int32_t firstPiece = 0;         ///< pieces are [firstPiece, lastPiece) of StorageTable::pieces
  int32_t lastPiece = 0;
};

struct StorageTable {
  std::vector<Storage> storages; ///< in the order of their roots
  std::vector<Piece> pieces;     ///< per storage by (begin, low); none for empty storages
  std::vector<int32_t> ofBuffer; ///< by BufferId: index of its storage
  std::vector<Bytes> relative;   ///< by BufferId: offset above the storage's base
};

/// Builds the table. Requires that `check` found nothing. Linear for lone buffers; for a storage
/// of k members O(k^2 log k).
StorageTable storageTable(const Problem &problem);

/// The same with buffers tied as `resolved` says, whatever sameAs and inside do. The bases of
/// storages are those that `relative` counts from.
StorageTable storageTable(const Problem &problem, Storages resolved);

} // namespace stow::pack
