// Which sum of rows a product makes beside itself.
#pragma once

#include "ir/Stow.h"

namespace stow {

class ReduceSumOp;

/// The factor of the product `op`, 0 or 1, whose rows `sum` sums: a matrix of whole rows that the product
/// contracts over its rows. None where it is neither.
std::optional<unsigned> summedFactor(mlir::Operation *op, ReduceSumOp sum);

/// The sum that runs in the launch of the product `op`, which stow-fuse-bias-gradient put there; null for none.
ReduceSumOp sumBeside(mlir::Operation *op);

} // namespace stow
