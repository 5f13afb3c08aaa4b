// Attention where PyTorch has no fused kernel for it.
#pragma once

#include "compiler/eager/Program.h"

namespace stow::eager {

/// On a CPU attention with a dropout, or a mask that asks for a gradient, runs as what it is made of: the program with these calls in
/// its place. On GPUs fused kernels take both.
Program withAttentionExpanded(const Program &program, Device device);

} // namespace stow::eager
