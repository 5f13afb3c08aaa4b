// Attributes of a convolution, read and checked.
#pragma once

#include "runtime/host/Primitive.h"

namespace stow::host {

/// One number per spatial dimension; `dilates` as oneDNN counts, 0 is dense.
struct ConvolutionGeometry {
  dnnl::memory::dims strides, dilates, padBegin, padEnd;
  int64_t groups;
};

/// Attributes of a call whose weights-like operand is `weights` and activations `input`, `output`
/// (positions). Fails unless the shapes belong together.
ConvolutionGeometry convolutionGeometry(const Call &call, size_t input, size_t weights,
                                        size_t output);

} // namespace stow::host
