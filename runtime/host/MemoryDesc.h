// Between the plan's layouts and oneDNN's memory descriptors.
#pragma once

#include "runtime/format/Program.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <optional>

namespace stow::host {

/// oneDNN's element type; empty for types it does not compute with (f64, i64). I1 is a byte.
std::optional<dnnl::memory::data_type> dataTypeOf(DType type);

/// The descriptor of a stored tensor in the dimensions of layoutDims (grouped weights have one
/// dimension more than their shape). Throws Error(BadInput) for element types and ranks oneDNN
/// lacks.
dnnl::memory::desc descOf(DType type, const Shape &shape, const Layout &layout);

/// A descriptor whose layout the library chooses.
dnnl::memory::desc anyDesc(DType type, const Shape &dims);

/// The layout of a descriptor, `groups` > 1 when its first dimension is a group count. Row-major
/// order is returned as the empty order. Empty for descriptors that no Layout can express: packed
/// or compensated weights, gaps between elements, padding beyond whole blocks.
std::optional<Layout> layoutOf(const dnnl::memory::desc &desc, int64_t groups);

/// The descriptor's dimensions.
Shape dimsOf(const dnnl::memory::desc &desc);

} // namespace stow::host
