// Passes over generated kernels.
#pragma once

#include "mlir/Pass/Pass.h"

namespace stow {

/// stow-emit-kernels: replaces the module's functions by the kernels of their ops, for tests.
std::unique_ptr<mlir::Pass> createEmitKernelsPass();

/// stow-expand-math: replaces math functions by polynomials that work on vectors; with `bf16`, also
/// conversions to bf16, for targets that have no instruction for them.
std::unique_ptr<mlir::Pass> createExpandMathPass(bool bf16 = false);

/// stow-share-kernels: kernels of little work that differ in numbers alone become calls of one function, whose name begins
/// with kSharedKernelPrefix.
std::unique_ptr<mlir::Pass> createShareKernelsPass();
constexpr llvm::StringLiteral kSharedKernelPrefix = "shared_";

/// All of these, for stowage-opt.
void registerKernelPasses();

/// On a host's kernel: bytes that a run moves and operations that it does; absent where that is not known.
constexpr llvm::StringLiteral kKernelWorkAttr = "stow.work";

} // namespace stow
