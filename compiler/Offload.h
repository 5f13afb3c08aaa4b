// --offload: a folder or memory of the host as slow memory beside the arena, and how fast plans take it to be.
#pragma once

#include "codegen/Backend.h"
#include "passes/order/CostModel.h"
#include "runtime/base/CommandLine.h"

#include <memory>
#include <optional>
#include <string>

namespace stow {

/// Where what travels lies.
enum class SlowPlace : uint8_t {
  None, ///< nothing travels
  Folder,
  Host, ///< memory of the host, beside a device with memory of its own
  Auto, ///< memory of the host, values and state, as far as a budget needs it
};

/// What the flags say.
struct OffloadOptions {
  SlowPlace place = SlowPlace::None;
  std::string folder; ///< of SlowPlace::Folder
  /// The two directions as --offload-bandwidth has them; absent: as the folder is measured, or by the link to the host.
  std::optional<SlowMemory> speed;
  std::string linkName; ///< as --link has it; empty: the target's
  std::optional<HostLink>
      link; ///< to memory of the host, once the flags are checked, where no speed is stated
  std::optional<Bytes>
      capacity; ///< absent: what is free in the folder, or as much of the host as is needed
  std::optional<Bytes> hostMemory; ///< --host-memory, the capacity of memory of the host
  /// Of such state so much lies there from step to step; absent: as little as the budget needs.
  std::optional<int64_t> statePercent = 0;
  bool isStateAsked = false;
  std::string stateKinds = "all"; ///< as stow-send-states has them
  /// What plans are weighed with, once it was asked for: of these options and all copies of them.
  std::shared_ptr<std::optional<SlowMemory>> known = std::make_shared<std::optional<SlowMemory>>();

  bool isAsked() const { return place != SlowPlace::None; }
  bool isOfHost() const { return place == SlowPlace::Host || place == SlowPlace::Auto; }
};

/// Adds --offload, --offload-state, --offload-bandwidth, --offload-capacity, --host-memory and --link.
void addOffloadFlags(CommandLine &line, OffloadOptions &options);

/// Checks what the flags say together, and that the folder is there where something must be known of it: where bandwidth or
/// capacity are not stated, or the step `isRun` here. Fills in the link to the host, and what --offload=auto stands for with a budget
/// or without. Writes nothing. Throws Error(BadInput).
void finishOffload(OffloadOptions &options, const std::string &target, bool hasBudget, bool isRun);

/// "memory of the host, pinned, over pcie5 at ...": what plans say of it. Empty for a folder, and where nothing travels.
std::string noteOf(const OffloadOptions &options);

/// What plans are weighed with; none where nothing travels. The first call for a folder measures the folder where no bandwidth is stated,
/// which writes to it, and says on stderr which flags plan the same again. Throws Error(BadInput) where the folder cannot be used.
std::optional<SlowMemory> slowMemoryOf(const OffloadOptions &options);

} // namespace stow
