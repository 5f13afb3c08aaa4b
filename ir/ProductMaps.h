// What passes say of stow.product_map beyond its definition.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace stow {

/// Unit, on stow.product_map: its results lie in nothing that it reads. Some libraries read operands of an
/// elementwise function while other elements are written.
inline constexpr llvm::StringLiteral kApartAttr = "stow.apart";

} // namespace stow
