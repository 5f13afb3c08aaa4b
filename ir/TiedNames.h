// Names that one tensor has in a module beside that which the file gives it: tied weights, as an embedding's table that is the head's
// matrix as well.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"

namespace stow {

/// On arguments that are state: the other names, an array of strings.
inline constexpr llvm::StringLiteral kOtherNamesAttr = "stow.other_names";

} // namespace stow
