// Vectors of results on a device, and what their lanes read around them.
//
// Lanes along a row read parts of it that overlap. They are read in pieces, each once, and the lanes take
// their elements from registers:
//
//   row      |. . a b|c d e f|g h . .|...      sums over 5 around each position
//   lane 0       |- - - - -|
//   lane 1         |- - - - -|                 three pieces of 16 bytes instead of twenty elements
//   lane 2           |- - - - -|
//   lane 3             |- - - - -|
#pragma once

#include "codegen/kernels/device/SharedMemory.h"

#include <functional>
#include <map>

namespace stow {

/// Elements that a thread moves at once.
inline int64_t accessLanes(const Buffer &buffer) { return kAccessBytes / buffer.elementBytes(); }

/// What the strides of a tensor are multiples of, but for its contiguous dimension; 0: of anything.
int64_t stepOf(llvm::ArrayRef<int64_t> strides);

/// A vector of `lanes`; of one the scalar itself.
mlir::Value vectorOfLanes(mlir::OpBuilder &builder, mlir::Location location,
                          llvm::ArrayRef<mlir::Value> lanes);

/// Number of a position's piece and its lane in there.
std::pair<int64_t, int64_t> pieceOf(int64_t position, int64_t lanes);

/// The row around a vector. Pieces of `lanes` elements lie whole inside the row or whole outside it.
class RowPieces {
public:
  /// Whether piece `number` exists: i1. Null where it does; zeros are read where it does not.
  using Exists = std::function<mlir::Value(int64_t number)>;

  /// Piece 0 begins with element `first`, at a multiple of `lanes`.
  RowPieces(mlir::OpBuilder &builder, mlir::Location location, const Buffer &buffer,
            mlir::Value first, int64_t lanes, Exists exists)
      : builder(builder), location(location), buffer(buffer), first(first), lanes(lanes),
        exists(std::move(exists)) {}

  /// The elements at `positions`, one a lane, counted from `first`.
  mlir::Value at(llvm::ArrayRef<int64_t> positions);

private:
  mlir::Value piece(int64_t number);

  mlir::OpBuilder &builder;
  mlir::Location location;
  const Buffer &buffer;
  mlir::Value first;
  int64_t lanes;
  Exists exists;
  std::map<int64_t, mlir::Value> pieces;
};

} // namespace stow
