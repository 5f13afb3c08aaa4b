// Ops that a device runs as several kernels, one after the other, with numbers that one leaves to the next: folds in
// parts and the gradient of attention.
#pragma once

#include "codegen/kernels/Kernels.h"

namespace stow {

struct KernelSequence {
  int64_t scratchElements = 0; ///< in f32, which the kernels leave to each other
  std::string words;           ///< how the op is cut, for a plan

  Bytes scratchBytes() const { return scratchElements * Bytes{sizeof(float)}; }
};

/// Nothing for an op of one kernel, or of none.
std::optional<KernelSequence> kernelSequence(mlir::Operation *op);

/// Adds the kernels of an op of a device in the order in which they run: one, or those of its sequence. These are given
/// the op's operands and results and, last, the scratch. Alignments are as in KernelModule::add. Fails with a
/// diagnostic at the op.
mlir::FailureOr<llvm::SmallVector<KernelInfo>>
addKernels(KernelModule &kernels, mlir::Operation *op, llvm::ArrayRef<int64_t> alignments = {});

// The sequence of stow.attention_gradient (AttentionKernels.cpp); no scratch for other ops, and where it has no kernel.
std::optional<int64_t> attentionScratch(mlir::Operation *op);
mlir::FailureOr<llvm::SmallVector<KernelInfo>>
addAttentionGradient(KernelModule &kernels, mlir::Operation *op,
                     llvm::ArrayRef<int64_t> alignments);

} // namespace stow
