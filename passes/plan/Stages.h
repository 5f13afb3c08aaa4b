// The stages between a step with kernels and the placed form, each named once. The pipeline's story
// (compiler/Pipeline.cpp) ends where these begin; every candidate plan runs through them.
//
//   step with kernels --bind--> state at its place --share--> ordered (F2) --place--> placed (F3)
//                                                     |                        |
//                                             inside, in place          packed, then replayed
#pragma once

#include "passes/memory/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

namespace stow {

/// Runs passes on a module and verifies it behind the last of them, not behind each as stowage-opt does.
/// Throws Error(BadInput) naming `stage` when one fails.
void runStage(mlir::ModuleOp module, const char *stage,
              llvm::function_ref<void(mlir::PassManager &)> addPasses);

/// State bound to its place: the order of execution as it is.
void addBindPasses(mlir::PassManager &manager);

/// A copy of a prepared step with state bound; and with what is produced inside other values, in
/// program order: what schedules are made for.
mlir::OwningOpRef<mlir::ModuleOp> withStateBound(mlir::ModuleOp prepared);
mlir::OwningOpRef<mlir::ModuleOp> withPlacesInside(mlir::ModuleOp prepared, const Target &target);

/// Parts inside their wholes and in-place sharing on an ordered step whose state is bound, and the check of the
/// ordered form. `wantedLive`: bytes that the order of the training graph was made for (placeInside).
void addSharePasses(mlir::PassManager &manager, const Target &target,
                    Bytes wantedLive = std::numeric_limits<Bytes>::max());

/// Notes in `into`, which is planned beside `other` in one arena, the larger arena, bounds and slow memory of the two.
void takeLargerBytes(mlir::ModuleOp other, mlir::ModuleOp into);

/// Buffers and workspaces as `target` wants them aligned.
PackBuffersPassOptions packingFor(const Target &target);

/// Packing alone; addPlacedChecks replays what it gives.
void addPackPasses(mlir::PassManager &manager, PackBuffersPassOptions options = {});
void addPlacedChecks(mlir::PassManager &manager);

/// F2 -> F3: every buffer gets its place, and the checks hold. Beyond this point, every offset is
/// final.
void addPlacePasses(mlir::PassManager &manager, PackBuffersPassOptions options = {});

} // namespace stow
