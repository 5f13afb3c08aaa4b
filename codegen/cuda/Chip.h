// The GPUs that programs are planned for: --target=cuda:CHIP[,CHIP...], codegen/cuda/chips/*.json.
//
// A chip's file says where its figures come from. What nobody has measured stands in none.
#pragma once

#include "runtime/base/Bytes.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stow::cuda {

/// What a process takes on the device beside its arena: context, modules, handles, by measurement.
struct FixedPart {
  std::string driver; ///< version of the driver that it was measured with
  Bytes bytes = 0;
  std::string source; ///< where and how
};

struct Chip {
  std::string name;               ///< "h100", or an architecture, "sm_90", where no chip is named
  std::string architecture;       ///< "sm_90": what kernels are compiled for
  std::string dataSheet;          ///< of --roofline
  std::string deviceJson;         ///< as cuDNN describes a device; empty for an architecture
  Bytes matmulWorkspaceBytes = 0; ///< scratch that cuBLASLt may choose its kernels for
  Bytes memoryBytes = 0;          ///< as its driver reports it; 0 for an architecture
  std::string link; ///< to its host, by the name that --link has for it; empty for an architecture
  std::string linkSource;
  Bytes desktopBytes = 0;       ///< what a desktop takes of that, where the card usually draws one
  std::vector<FixedPart> fixed; ///< measured, newest driver first; empty: not measured

  bool isNamed() const { return !deviceJson.empty(); }
};

/// Names of the chips, then of their architectures, each sorted.
std::vector<std::string> chipNames();

/// The chips of an architecture, e.g. "h100, h200".
std::string chipsOf(const std::string &architecture);

/// The chip, or the architecture without one. Throws Error(BadInput) listing the known ones.
Chip requireChip(const std::string &name);

/// The chips of a target, in its order: one name, or several with commas between. Throws as requireChip, and
/// where a name stands twice.
std::vector<Chip> requireChips(const std::string &names);

/// "a100,h100".
std::string namesOf(std::span<const Chip> chips);

/// What kernels are compiled for, without repetition: "sm_80,sm_90".
std::string architecturesOf(std::span<const Chip> chips);

} // namespace stow::cuda
