// What a process on the host takes beside its arena, as plans state it and runs report it.
#pragma once

#include "runtime/base/Bytes.h"

namespace stow::host {

/// Code, libraries and thread stacks: 10 to 15 MiB were measured over the models of the suite.
inline constexpr Bytes kProcessBytes = Bytes{24} << 20;

/// Code that oneDNN generates for one call: up to 32 KiB over the same models, 11 to 1,145 calls.
inline constexpr Bytes kBytesPerCall = Bytes{32} << 10;

} // namespace stow::host
