// Sums over ranks as commands of the host.
#pragma once

#include "runtime/host/ExchangeLane.h"
#include "runtime/ranks/Ranks.h"

#include <memory>

namespace stow::host {

/// Binds an all_reduce to `arena`. Throws Error(BadInput) naming the command where this process has joined no ranks, or another
/// number of them, and where operands or scratch are not as the command needs them. A command that is started has its sums made in
/// `laneScratch`, of laneScratchBytes().
std::unique_ptr<Exchange> bindAllReduce(const Command &command, char *arena, Ranks *ranks,
                                        char *laneScratch = nullptr);

} // namespace stow::host
