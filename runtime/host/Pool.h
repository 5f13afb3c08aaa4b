// The windows of a pooling call.
#pragma once

#include "runtime/host/Primitive.h"

namespace stow::host {

/// Per spatial dimension. Dilations are oneDNN's: 0 is dense.
struct PoolGeometry {
  dnnl::memory::dims kernel, strides, dilates, padBegin, padEnd;
};

/// The geometry of a call whose operand `input` is pooled to operand `output`. Throws where their
/// shapes do not follow from one another.
PoolGeometry poolGeometry(const Call &call, size_t input, size_t output);

} // namespace stow::host
