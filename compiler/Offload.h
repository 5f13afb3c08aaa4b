// --offload: a folder as slow memory beside the arena, and how fast plans take it to be.
#pragma once

#include "passes/order/CostModel.h"
#include "runtime/base/CommandLine.h"

#include <optional>
#include <string>

namespace stow {

/// What the flags say.
struct OffloadOptions {
  std::string folder; ///< that holds what travels; empty: nothing does
  /// The two directions as --offload-bandwidth has them; absent: as the folder is measured.
  std::optional<SlowMemory> speed;
  std::optional<Bytes> capacity;       ///< absent: what is free in the folder
  std::optional<SlowMemory> slow = {}; ///< what plans are weighed with; by `finish`

  bool isAsked() const { return !folder.empty(); }
};

/// Adds --offload, --offload-bandwidth and --offload-capacity.
void addOffloadFlags(CommandLine &line, OffloadOptions &options);

/// Checks what the flags say together and fills in `slow`: measures the folder where no bandwidth is given, and says on stderr which
/// flag plans the same again. Throws Error(BadInput).
void finishOffload(OffloadOptions &options, const std::string &target);

} // namespace stow
