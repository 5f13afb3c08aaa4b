// --offload: a folder as slow memory beside the arena, and how fast plans take it to be.
#pragma once

#include "passes/order/CostModel.h"
#include "runtime/base/CommandLine.h"

#include <memory>
#include <optional>
#include <string>

namespace stow {

/// What the flags say.
struct OffloadOptions {
  std::string folder; ///< that holds what travels; empty: nothing does
  /// The two directions as --offload-bandwidth has them; absent: as the folder is measured.
  std::optional<SlowMemory> speed;
  std::optional<Bytes> capacity; ///< absent: what is free in the folder
  /// Of such state so much lies there from step to step; absent: as little as the budget needs.
  std::optional<int64_t> statePercent = 0;
  std::string stateKinds = "all"; ///< as stow-send-states has them
  /// What plans are weighed with, once it was asked for: of these options and all copies of them.
  std::shared_ptr<std::optional<SlowMemory>> known = std::make_shared<std::optional<SlowMemory>>();

  bool isAsked() const { return !folder.empty(); }
};

/// Adds --offload, --offload-state, --offload-bandwidth and --offload-capacity.
void addOffloadFlags(CommandLine &line, OffloadOptions &options);

/// Checks what the flags say together, and that the folder is there where something must be known of it: where bandwidth or
/// capacity are not stated, or the step `isRun` here. Writes nothing. Throws Error(BadInput).
void checkOffload(const OffloadOptions &options, const std::string &target, bool isRun);

/// What plans are weighed with; none where no folder is given. The first call measures the folder where no bandwidth is stated,
/// which writes to it, and says on stderr which flags plan the same again. Throws Error(BadInput) where the folder cannot be used.
std::optional<SlowMemory> slowMemoryOf(const OffloadOptions &options);

} // namespace stow
