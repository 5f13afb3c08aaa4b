// Which products with a kernel behind them are one call of cuBLASLt.
#pragma once

#include "ir/Stow.h"
#include "runtime/cuda/ProductEpilogue.h"

namespace stow::cuda {

/// The call that computes `op`, or none: the body is one of the library's functions, and types and
/// extents are those that its documentation allows with it. A function is known by what it computes, not
/// by how the body writes it: at some hundred points, in f64, within 1e-6 where it is GELU or its
/// gradient, else exactly.
std::optional<ProductEpilogue> epilogueOf(ProductMapOp op);

} // namespace stow::cuda
