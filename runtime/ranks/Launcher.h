// What launchers tell a process about the ranks, in variables of its environment.
#pragma once

#include "runtime/ranks/Ranks.h"

#include <cstdint>
#include <optional>
#include <string>

namespace stow {

/// MPI libraries whose handles differ: a process takes the one of its launcher. None: the launcher brings none along.
enum class MpiKind : uint8_t { OpenMpi, Mpich, None };

struct RankLaunch {
  MpiKind kind = MpiKind::OpenMpi;
  int64_t rank = 0;
  std::optional<int64_t> size;      ///< where the launcher says it
  std::string variable;             ///< by which it was told
  std::optional<int64_t> localRank; ///< among the ranks of its machine, where the launcher says it
  std::string localVariable = {};   ///< by which that was told
  // Without MPI: where rank 0 listens, and whether an agent does so there already, which keeps keys for the ranks.
  std::string address = {};
  int port = 0;
  bool hasAgent = false;
  std::string attempt = {}; ///< which of its starts of all ranks this is, by torchrun
};

/// The launch that this process is part of; none where no launcher has started it that goes with `sums`. Throws Error(BadInput) that
/// names a variable which holds no number.
std::optional<RankLaunch> launchOfEnvironment(SumsBy sums);

/// What is said of a process without a launch: which launcher has started it that knows no MPI, if any.
std::string whyNoLaunch(SumsBy sums);

} // namespace stow
