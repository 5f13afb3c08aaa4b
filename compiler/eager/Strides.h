// Where the elements of a tensor lie: what decides whether a reshape is a view or a copy.
#pragma once

#include "runtime/base/Layout.h"

#include <optional>

namespace stow::eager {

/// Elements between neighbours along each dimension.
using Strides = Shape;

Strides rowMajor(const Shape &shape);

/// True where no gap and no repetition lies between the elements, in whatever order the dimensions are.
bool isDense(const Shape &shape, const Strides &strides);

/// The strides of the same elements as `target`, as PyTorch's view has them; absent where only a copy can have that shape.
std::optional<Strides> viewed(const Shape &shape, const Strides &strides, const Shape &target);

} // namespace stow::eager
