// The host's answers to the passes' questions: which ops oneDNN runs, and how.
#pragma once

#include "codegen/host/ProductProofs.h"
#include "passes/Target.h"
#include "runtime/format/Program.h"

namespace stow::host {

class HostTarget : public Target {
public:
  /// Workspaces are those of `threads` threads; `run` computes what shows which products run in tiles.
  explicit HostTarget(int64_t threads, RunCall run = runCall)
      : threads(threads), proofs(threads, run) {}

  /// All but depthwise convolutions and reorders between layouts without blocks. The library pads
  /// the weights of the former up to 256 times for gradients of windows beyond 3x3, and channels to
  /// its vectors everywhere.
  std::optional<CommandOp> libraryCall(mlir::Operation *op) const override;

  /// Normalizations of concats of channels: the library's call passes over them for the statistics
  /// of every layer anew, and is fast only where they are dense.
  bool decomposes(mlir::Operation *op) const override;

  mlir::FailureOr<Requirements> query(mlir::Operation *op,
                                      llvm::ArrayRef<bool> freeLayouts) const override;

  /// The position of each maximum in its window, in an order of the library's own: a byte for
  /// windows of up to 255 elements, else four.
  mlir::RankedTensorType savedType(MaxPoolOp pool) const override;

  /// oneDNN has no such product.
  bool sumsRows(mlir::Operation *, unsigned, mlir::RankedTensorType) const override {
    return false;
  }

  int64_t productRowStep(MatmulOp) const override;

  /// A command of the thread pool begins within microseconds, in which caches do not move much.
  Bytes launchBytes() const override { return 0; }

  OrderWish orderWish(mlir::Operation *op) const override;

  /// Generated kernels run in all types, calls of the library in f32 and 16 bits, but for the
  /// vectors of normalizations, which are f32.
  bool takesType(mlir::Operation *op, unsigned position, mlir::FloatType type) const override;

  bool takesWide(mlir::Operation *op, unsigned position, mlir::FloatType low) const override;

  /// A cache line, which is also the widest vector.
  Bytes alignment() const override { return 64; }

  /// What its generated kernel takes. Of the calls only attention takes tensors with gaps.
  bool takesPart(mlir::Operation *op, unsigned position,
                 mlir::RankedTensorType part) const override;

  /// How a product that is a call runs.
  std::optional<ProductForm> formOf(ProductMapOp op) const;

  /// What was found of products in tiles.
  std::string note() const { return proofs.note(); }

private:
  int64_t threads;
  ProductProofs proofs;
};

} // namespace stow::host
