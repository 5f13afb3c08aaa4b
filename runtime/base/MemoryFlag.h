// Flags that name an amount of memory: a number that nobody can mean is refused.
#pragma once

#include "runtime/base/Bytes.h"

namespace stow {

/// Bytes, or a share, as parseByteBudget. Throws Error(BadInput) also for a small number without a unit, with what may be meant: of
/// `--card=24`, 24GiB. `flag` is without dashes.
ByteBudget parseMemory(std::string_view flag, std::string_view text);

/// The same of a flag that takes no share.
Bytes parseMemoryBytes(std::string_view flag, std::string_view text);

} // namespace stow
