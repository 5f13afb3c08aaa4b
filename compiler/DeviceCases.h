// The ways to run a step that `frontier` and `max-batch` compare: --devices=1,2,4, with whole state and in shards.
#pragma once

#include "compiler/Options.h"

namespace stow {

/// Of a way: what lies in shards, as --shard-state names it.
const char *shardsOf(const CompileOptions &options);

/// The flags of each way, by rising number of devices: of several devices what --shard-state says, and each of its kinds where it says
/// auto. Throws Error(BadInput) as finishOptions, which each has been through.
std::vector<CompileOptions> deviceCases(const CompileOptions &asked);

} // namespace stow
