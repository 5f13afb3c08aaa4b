// Element types of data files and their conversion to the types of the arena.
#pragma once

#include "runtime/base/DType.h"

#include <string>

namespace stow {

/// A type as NumPy knows it: a kind and a size. BFloat exists in safetensors only.
struct ElementType {
  enum class Kind : uint8_t { Float, BFloat, Signed, Unsigned, Boolean };
  Kind kind = Kind::Float;
  int64_t bytes = 4;

  bool operator==(const ElementType &) const = default;
  bool isInteger() const { return kind != Kind::Float && kind != Kind::BFloat; }
};

/// The file type with the same bits as a stored type.
ElementType elementTypeOf(DType type);

/// "f32", "u16", "bool", ...
std::string nameOf(const ElementType &type);

/// Whether values may be converted without a change of meaning: everything to floating point, whole
/// numbers to whole numbers. Real numbers never become labels by rounding.
bool isConvertible(const ElementType &from, DType to);

/// Converts `count` elements between buffers that need no alignment. Floats are rounded to nearest
/// even. Throws Error(BadInput) naming the element when an integer does not fit. Allocates nothing
/// otherwise.
void convertElements(const ElementType &from, const char *source, DType to, char *target,
                     int64_t count);

/// As convertElements to F64, for reading results back.
void toDoubles(DType from, const char *source, double *target, int64_t count);

} // namespace stow
