// Matrix products by cuBLASLt, opened at run time.
//
// cuBLASLt thinks in columns: a row-major product y = a b is y^T = b^T a^T to it, so that the bias of a
// row of y lies along its first dimension, as its epilogue wants.
#pragma once

#include "runtime/cuda/LibraryCall.h"
#include "runtime/format/Program.h"

namespace stow::cuda {

/// Binds `command`, "cuda.matmul", "cuda.matmul_add", of which what is added and the result have one type and layout and
/// may lie at one place, or "cuda.matmul_epilogue" with the attributes and operands
/// of runtime/cuda/ProductEpilogue.h, sums of a factor's rows among them, to the arena at `arena`. Its algorithm is chosen now, by cuBLASLt's
/// heuristics, within the planned scratch. Throws Error(BadInput) naming the node where cuBLASLt is missing
/// or has nothing for these operands.
/// `most`: alternatives that it asks for.
std::unique_ptr<LibraryCall> bindProduct(const Command &command, Address arena, int most = 1);

/// The same of a command that has another form; null where cuBLASLt has nothing for these operands.
std::unique_ptr<LibraryCall> bindProductIfAny(const Command &command, Address arena, int most = 1);

} // namespace stow::cuda
