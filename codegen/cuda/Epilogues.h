// Which products with a kernel behind them are one call of cuBLASLt, which convolutions one of cuDNN.
#pragma once

#include "ir/Stow.h"
#include "runtime/cuda/ProductEpilogue.h"

namespace stow {
class Conv2dMapOp;
class ProductMapOp;
} // namespace stow

namespace stow::cuda {

/// The call that computes `op`, or none: the body is one of the library's functions, and types and
/// extents are those that its documentation allows with it. A function is known by what it computes, not
/// by how the body writes it: at some hundred points, in f64, within 1e-6 where it is GELU or its
/// gradient, else exactly.
std::optional<ProductEpilogue> epilogueOf(ProductMapOp op);

/// The same of cuDNN: with a bias, and with that a sum, ReLU or both. Whether an engine takes it at the op's
/// extents, cuDNN says.
std::optional<ProductEpilogue> epilogueOf(Conv2dMapOp op);

} // namespace stow::cuda
