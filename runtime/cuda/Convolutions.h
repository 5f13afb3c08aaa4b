// Convolutions and their gradients by cuDNN, opened at run time.
#pragma once

#include "runtime/cuda/ConvolutionPlan.h"
#include "runtime/cuda/LibraryCall.h"

namespace stow::cuda {

/// Binds `command` (isConvolution) to the arena at `arena`: builds the plan of the engine that the
/// compiler chose for chip number `chip` (chipAtHand) on the device at hand, holds its scratch to the planned bytes and its operands to
/// their alignment. Under another version of cuDNN than the one that planned, the engine of that number must
/// be there, as exact and deterministic as any that is chosen, and within the planned scratch. Throws
/// Error(BadInput) naming command, node, bytes and versions; there is no second choice.
std::unique_ptr<LibraryCall> bindConvolution(const Command &command, size_t chip, Address arena);

} // namespace stow::cuda
