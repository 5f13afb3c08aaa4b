// Sums over ranks as commands of the host.
#pragma once

#include "runtime/host/Library.h"
#include "runtime/ranks/Ranks.h"

#include <memory>

namespace stow::host {

/// Binds an all_reduce to `arena`. Throws Error(BadInput) naming the command where this process has joined no ranks, or another
/// number of them, and where operands or scratch are not as the command needs them.
std::unique_ptr<LibraryCall> bindAllReduce(const Command &command, char *arena, Ranks *ranks);

} // namespace stow::host
