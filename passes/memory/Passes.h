// Storage: who shares whose bytes, how much scratch, and where everything lies.
#pragma once

#include "passes/Target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace stow {

#define GEN_PASS_DECL
#include "passes/memory/Passes.h.inc"

/// Registers the passes of this folder that need no target.
void registerMemoryPasses();

// `target` must outlive the pass.
std::unique_ptr<mlir::Pass> createPlanWorkspacesPass(const Target &target);
std::unique_ptr<mlir::Pass> createPlaceInsidePass(const Target &target,
                                                  const PlaceInsidePassOptions &options = {});
std::unique_ptr<mlir::Pass> createFuseBiasGradientPass(const Target &target);

// Attributes that stow-pack-buffers puts on the module.
inline constexpr llvm::StringLiteral kArenaBytesAttr = "stow.arena_bytes";
inline constexpr llvm::StringLiteral kPersistentBytesAttr = "stow.persistent_bytes";
inline constexpr llvm::StringLiteral kLowerBoundAttr = "stow.lower_bound_bytes";
inline constexpr llvm::StringLiteral kAlignmentAttr = "stow.alignment";
/// On the module, where workspaces begin at larger multiples than other buffers.
inline constexpr llvm::StringLiteral kWorkspaceAlignmentAttr = "stow.workspace_alignment";

/// Lower bound of the same packing problem with no layout padding in it.
inline constexpr llvm::StringLiteral kLogicalBoundAttr = "stow.logical_bound_bytes";

/// Heap bytes that the library may take beside its workspaces, set by stow-plan-workspaces.
inline constexpr llvm::StringLiteral kLibraryHeapAttr = "stow.library_heap_bytes";

/// On the module: what a process takes beside the arena, as the device's backend or the user says,
/// and either a sentence on what that is, or what each library call adds. A note without bytes: not
/// known.
inline constexpr llvm::StringLiteral kOutsideBytesAttr = "stow.outside_bytes";
inline constexpr llvm::StringLiteral kOutsidePerCallAttr = "stow.outside_bytes_per_call";
inline constexpr llvm::StringLiteral kOutsideNoteAttr = "stow.outside_note";

/// On an op that runs as one call of the device's library, set by stow-plan-workspaces.
inline constexpr llvm::StringLiteral kLibraryCallAttr = "stow.library_call";

/// On a library call, set by stow-plan-workspaces: the library has only its slow reference code for
/// these operands.
inline constexpr llvm::StringLiteral kReferenceAttr = "stow.reference";

/// On an argument of a step's graph: where a device may put what it holds in the next run; on the op from
/// which on it may. Set by stow-place-next-inputs.
inline constexpr llvm::StringLiteral kNextOffsetAttr = "stow.next_offset";
inline constexpr llvm::StringLiteral kNextInputsAttr = "stow.next_inputs";

/// One of these and of the offsets, in bytes; 0 where `op` does not have it.
inline Bytes bytesAttr(mlir::Operation *op, llvm::StringRef name) {
  auto attr = op->getAttrOfType<mlir::IntegerAttr>(name);
  return attr ? attr.getInt() : 0;
}

} // namespace stow
