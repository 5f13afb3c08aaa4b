// How the host runs stow.product_map: the library makes some rows of the product in scratch, a
// generated kernel uses them up, and so on down the rows.
//
// Sums must not depend on the tiles, nor on whether there are any. The library (oneDNN 2.6, sgemm)
// sums alike whatever rows a product has as long as it packs its operands first, which it does for
// 1/rows + 1/columns below 0.0038 (AVX2) or 0.00196 (AVX-512); below that, and for few rows per thread,
// it walks them as they lie, in other orders. So tiles are large enough for the former. Products that the
// library walks run in loops of the host's own instead (runtime/host/ProductRows.h), which sum alike
// whatever the tiles; those between the two, too small for two tiles and packed, stay whole.
//
// 16-bit factors are multiplied in pieces (runtime/host/Pieces.h). Tiles are chosen such that these sum
// as the pieces of the whole product do.
//
// A product that is only added to something of its own shape needs no scratch where the library adds it
// itself. It adds what it has contracted so far, 384 at a time (256 were tried): up to 256 that is the
// whole sum, and the bits are those of the product and an addition.
#pragma once

#include "codegen/kernels/Kernels.h"
#include "runtime/format/Program.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace stow::host {

struct ProductTiles {
  int64_t rows = 0;     ///< of a tile
  bool isAdded = false; ///< by the library, to where the result lies; then there is one tile
  bool isSummedHere =
      false; ///< by loops of the host's own; the last tile has the rows that are left
  bool isOfWholePieces = false; ///< the last tile has the rows that are left, however few
  Shape piece =
      {}; ///< rows, columns and contracted elements of a tile's pieces; empty: as they come
};

/// True where the body adds the only input, which has the result's type, to the product, and does
/// nothing else.
bool addsToProduct(ProductMapOp op);

/// False where the op would not give the bits of a product and a kernel, or save nothing.
bool runsByTiles(ProductMapOp op);

/// The tiles of an op that runs by them.
ProductTiles productTilesOf(ProductMapOp op);

/// Scratch and heap bytes of the op, which has tiles.
struct ProductNeeds {
  Bytes workspaceBytes = 0, heapBytes = 0;
};
ProductNeeds productNeeds(ProductMapOp op, int64_t threads);

/// The command that the op, which has tiles, runs as, without what all commands have; tiles lie from
/// `workspace` on, which has `workspaceBytes`, values where `offsetOf` says.
mlir::FailureOr<Command> productCommand(ProductMapOp op,
                                        llvm::function_ref<Bytes(mlir::Value)> offsetOf,
                                        Bytes workspace, Bytes workspaceBytes,
                                        KernelModule &kernels);

} // namespace stow::host
