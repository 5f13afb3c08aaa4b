// Results of @eval where it runs on parts of a batch.
#pragma once

#include "runtime/base/Joining.h"

#include "llvm/ADT/StringRef.h"

namespace stow {

/// On results: the name of a Joining; absent: rows.
inline constexpr llvm::StringLiteral kJoiningAttr = "stow.joining";

} // namespace stow
