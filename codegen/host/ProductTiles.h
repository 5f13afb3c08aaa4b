// How the host runs stow.product_map: the library makes some rows of the product in scratch, a
// generated kernel uses them up, and so on down the rows.
//
// Sums must not depend on the tiles, nor on whether there are any. Loops of the host's own
// (runtime/host/loops/ProductRows.h) sum alike whatever the tiles, but not always like the library: in a step over several
// batches or devices they sum all products of their shapes (kSumsAlikeAttr). Of the library that is nobody's promise: tiles are
// chosen such that what is known of it (oneDNN 2.6) sums alike, and are taken where they do so on drawn
// numbers (ProductProofs.h); else the product stays whole.
//
// What is known: sgemm sums alike whatever rows a product has as long as it packs its operands first, which it
// does for 1/rows + 1/columns below 0.0038 (AVX2) or 0.00196 (AVX-512); below that, and for few rows per
// thread, it walks them as they lie, in other orders. So tiles are large enough for the former. Products that the
// library walks run in the host's own loops; those between the two, too small for two tiles and packed, stay whole.
//
// 16-bit factors are multiplied in pieces (runtime/host/pieces/Pieces.h). Tiles are chosen such that these sum
// as the pieces of the whole product do.
//
// A product that is only added to something of its own shape needs no scratch where the library adds it
// itself. It adds what it has contracted so far, 384 at a time (256 were tried): up to 256 that is the
// whole sum, and the bits are those of the product and an addition.
#pragma once

#include "codegen/kernels/Kernels.h"
#include "runtime/format/Program.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace stow {
class ProductMapOp;
} // namespace stow

namespace stow::host {

/// How a product_map can run.
enum class ProductForm : uint8_t {
  Added, ///< by the library, to where the result lies
  Rows,  ///< in loops of the host's own, rows at a time
  Tiles, ///< by the library, a tile of rows at a time
};

/// What the op runs as, for HostTarget::libraryCall.
CommandOp callOf(ProductForm form);

/// The forms that the op can have, the best first, as far as its shapes say.
llvm::SmallVector<ProductForm> formsOf(ProductMapOp op);

/// A product, and how to make it in a form that the library has a part in.
struct ProductTrial {
  Command whole;
  std::vector<Command>
      parts; ///< Added: one, which adds to its result; Tiles: one of each kind of tile
  std::vector<int64_t> firstRows; ///< of each part
  int64_t ofRows = 0;             ///< that the product has; `whole` may have fewer

  int64_t rows() const { return whole.operands.back().shape.end()[-2]; }
};

/// What shows whether the op gives the same bits in `form` as whole; of a large product as many rows as take
/// `most` multiplications or elements, two tiles at least. None where there are no such rows.
std::optional<ProductTrial> trialOf(ProductMapOp op, ProductForm form, double most);

/// Scratch and heap bytes of the op.
struct ProductNeeds {
  Bytes workspaceBytes = 0, heapBytes = 0;
};
ProductNeeds productNeeds(ProductMapOp op, ProductForm form, int64_t threads);

/// The command that the op runs as, without what all commands have, and its operands; tiles lie from `workspace` on, which has
/// `workspaceBytes`, values where `offsetOf` says.
mlir::FailureOr<Command> productCommand(ProductMapOp op, ProductForm form,
                                        llvm::function_ref<Bytes(mlir::Value)> offsetOf,
                                        Bytes workspace, Bytes workspaceBytes,
                                        KernelModule &kernels);

} // namespace stow::host
