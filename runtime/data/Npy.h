// NumPy's array format, versions 1 to 3.
#pragma once

#include "runtime/base/Layout.h"
#include "runtime/data/Element.h"

#include <span>
#include <string>

namespace stow {

/// The header of one .npy array.
struct NpyHeader {
  ElementType type;
  Shape shape;
  size_t headerBytes = 0; ///< the elements start here, row-major
};

/// Reads the header of `bytes` and checks that the elements are all there: exactly
/// elementCount(shape) of them follow. `place` opens every message, e.g. "x.npz: x.npy". Throws
/// Error(BadInput) for what NumPy would not read either, and for big-endian, column-major and
/// structured arrays.
NpyHeader readNpyHeader(std::span<const char> bytes, const std::string &place);

} // namespace stow
