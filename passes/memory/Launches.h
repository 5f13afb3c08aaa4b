// What the launches of a placed graph touch, for passes that change which launch runs when.
#pragma once

#include "passes/memory/Liveness.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace stow {

/// Bytes [begin, end) of the arena.
struct ArenaRange {
  Bytes begin = 0, end = 0;
  bool operator==(const ArenaRange &) const = default;
  bool overlaps(const ArenaRange &other) const { return begin < other.end && other.begin < end; }
};

struct PlacedLaunch {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<ArenaRange> reads, writes; ///< scratch is written

  /// True when the two give the same in either order.
  bool commutesWith(const PlacedLaunch &other) const;
};

/// Every op of `graph` that launches something, in order; ops that run in the launch of another count alone.
/// A part with gaps counts as all of what it is a part of.
std::vector<PlacedLaunch> launchesOf(mlir::func::FuncOp graph);

/// Emits an error at `module` and fails where that is not placed.
mlir::LogicalResult requirePlaced(mlir::ModuleOp module);

/// Raises the lower bounds of `module` and its graphs to the bytes that are live now: no placement of values
/// that live so takes less.
void raiseLowerBounds(mlir::ModuleOp module);

} // namespace stow
