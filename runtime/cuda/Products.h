// Matrix products by cuBLASLt, opened at run time.
//
// cuBLASLt thinks in columns: a row-major product y = a b is y^T = b^T a^T to it, so that the bias of a
// row of y lies along its first dimension, as its epilogue wants.
#pragma once

#include "runtime/cuda/Driver.h"
#include "runtime/format/Program.h"

#include <memory>

namespace stow::cuda {

/// One product bound to its places. Its algorithm is chosen at load, by cuBLASLt's heuristics, within the
/// planned scratch.
class Product {
public:
  virtual ~Product() = default;
  /// Puts it on `stream`.
  virtual void submit(Stream stream) = 0;
};

/// Binds `command`, "cuda.matmul" with the operands and attributes of "dnnl.matmul"
/// (runtime/host/Library.h), to the arena at `arena`. Throws Error(BadInput) naming the node where
/// cuBLASLt is missing or has nothing for these operands.
std::unique_ptr<Product> bindProduct(const Command &command, Address arena);

} // namespace stow::cuda
