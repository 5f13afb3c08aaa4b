// State that is stored quantized, given as numbers.
#pragma once

#include "runtime/data/Element.h"
#include "runtime/format/Program.h"

namespace stow {

/// What is stored of `elements`, row-major numbers of a quantized tensor, in any type that converts to f32.
std::vector<char> quantizedBytes(const QuantizedTensor &tensor, const ElementType &type,
                                 const char *elements);

/// True when an array of this type and shape holds the numbers of `tensor`.
bool isNumbersOf(const StateTensor &tensor, const ElementType &type, const Shape &shape);

} // namespace stow
