// Folds over the threads of a team, which share a row (DeviceRows.h).
#pragma once

#include "codegen/kernels/IndexMath.h"
#include "codegen/kernels/device/DeviceTeams.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace stow {

/// The function that a device's frame writes into.
mlir::gpu::GPUFuncOp functionOf(const KernelFrame &frame);

/// Every fold associates in an order that static extents decide: by shuffles over the warp, then over warps, or
/// over groups of threads where rows lie side by side.
class TeamFolds {
public:
  /// `member`: the thread's number in the team.
  TeamFolds(const KernelFrame &frame, const Team &team, mlir::Value member);

  /// Joins what the threads of the team have found.
  llvm::SmallVector<mlir::Value> joined(llvm::SmallVector<mlir::Value> partial,
                                        llvm::ArrayRef<Reducer> reducers);
  /// What a thread has found in the lanes of a vector.
  mlir::Value foldVector(mlir::Value vector, const Reducer &reducer);
  /// Whether the next row's first fold would write where the only fold so far has read.
  bool needsBarrier() const { return foldsOfWarps == 1; }

private:
  Term term(mlir::Value value) const { return Term(builder, location, value); }
  mlir::Value sharedMemory(mlir::Type element, int64_t count);
  mlir::Value foldHalves(llvm::SmallVector<mlir::Value> parts, const Reducer &reducer);
  mlir::Value foldOver(mlir::Value partial, int64_t threads, const Reducer &reducer);
  llvm::SmallVector<mlir::Value> foldWarps(llvm::ArrayRef<mlir::Value> partials,
                                           llvm::ArrayRef<Reducer> reducers);
  llvm::SmallVector<mlir::Value> foldGroups(llvm::ArrayRef<mlir::Value> partials,
                                            llvm::ArrayRef<Reducer> reducers);

  const KernelFrame &frame;
  const Team &team;
  mlir::Value member;
  Lanes &lanes;
  mlir::OpBuilder &builder;
  mlir::Location location;
  const IndexMath math;
  int64_t foldsOfWarps = 0;
};

} // namespace stow
