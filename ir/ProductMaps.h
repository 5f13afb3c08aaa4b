// What passes say of stow.product_map beyond its definition.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace stow {

/// Unit, on stow.product_map: stow-fuse-epilogues made it of a product and the kernel behind it, which it may
/// become again; and on the stow.map that casts its bias. Its results lie in nothing that it reads: some of
/// their elements may be written while operands are still read for others.
inline constexpr llvm::StringLiteral kEpilogueAttr = "stow.epilogue";

} // namespace stow
