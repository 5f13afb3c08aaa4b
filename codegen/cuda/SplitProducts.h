// What a program runs where cuBLASLt has no algorithm for a product with what stands behind it.
//
//   y = f(a b + m + bias)         y = a b + m          y = f(y + bias)       a kernel, in place
//   y = a b gelu'(x)              y = a b              y = y gelu'(x)        the same
//   y = a b, s = rows of a        y = a b              s = rows of a         the kernel of the sum
//
// The library says at load what it has. Both forms have the same operands and the product's scratch, so that no plan
// changes with the one that runs; the product is rounded to y's type in between.
#pragma once

#include "codegen/kernels/Kernels.h"
#include "runtime/format/Program.h"

namespace stow::cuda {

/// Adds the split form to `command` as its parts, the command of `op` with all that it does and the places of its
/// operands; nothing to commands that are products alone, or none. Emits an error at the op and fails.
mlir::LogicalResult addSplitForm(mlir::Operation *op, Command &command, KernelModule &kernels);

} // namespace stow::cuda
