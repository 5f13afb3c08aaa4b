// Shards of a value as commands of the host: reduce_scatter, shard and all_gather.
#pragma once

#include "runtime/host/ExchangeLane.h"
#include "runtime/ranks/Ranks.h"

#include <memory>

namespace stow::host {

/// The ranks that a command between them asks for. Throws Error(BadInput) naming the command where this process has joined none, or
/// another number of them.
Ranks &ranksOf(const Command &command, Ranks *ranks);

/// Binds one of the three to `arena`. Throws as ranksOf(), and where operands or scratch are not as the command needs them. A command
/// that is started makes its sums in `laneScratch`, of laneScratchBytes().
std::unique_ptr<Exchange> bindShards(const Command &command, char *arena, Ranks *ranks,
                                     char *laneScratch = nullptr);

} // namespace stow::host
