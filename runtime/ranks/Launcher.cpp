#include "runtime/ranks/Launcher.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/ranks/Ranks.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace stow {

namespace {

struct Variables {
  MpiKind kind;
  const char *rank, *size;
};

/// Open MPI's mpirun; PMIx, by which Slurm starts Open MPI; PMI, by which MPICH's mpiexec and Slurm start MPICH. The
/// first comes first, since it sets the second as well.
constexpr Variables known[] = {
    {MpiKind::OpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {MpiKind::Mpich, "PMI_RANK", "PMI_SIZE"},
    {MpiKind::OpenMpi, "PMIX_RANK", nullptr},
};

/// Open MPI's, MPICH's and Slurm's.
constexpr const char *localRanks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                      "SLURM_LOCALID"};

std::optional<int64_t> numberIn(const char *name) {
  const char *text = name ? std::getenv(name) : nullptr;
  if (!text)
    return std::nullopt;
  int64_t number = 0;
  const char *end = text + std::strlen(text);
  const auto [rest, problem] = std::from_chars(text, end, number);
  if (problem != std::errc() || rest != end || number < 0)
    throw Error::badInput(concat("the variable ", name, " of the launcher is '", text,
                                 "', expected a number of 0 or more"));
  return number;
}

} // namespace

std::optional<RankLaunch> launchOfEnvironment() {
  for (const Variables &variables : known) {
    const std::optional<int64_t> rank = numberIn(variables.rank);
    if (!rank)
      continue;
    RankLaunch launch{variables.kind, *rank, numberIn(variables.size), variables.rank, {}};
    for (const char *name : localRanks)
      if (!launch.localRank && (launch.localRank = numberIn(name)))
        launch.localVariable = name;
    return launch;
  }
  return std::nullopt;
}

std::string whyNoLaunch() {
  if (std::getenv("RANK") && std::getenv("WORLD_SIZE"))
    return "torchrun has started this process (RANK, WORLD_SIZE), which brings no MPI along, by "
           "which processors are connected";
  if (std::getenv("SLURM_PROCID"))
    return "srun has started this process without MPI (SLURM_PROCID is set, neither PMI_RANK nor "
           "PMIX_RANK is): give srun --mpi=pmix or --mpi=pmi2, or take mpirun";
  return "no launcher has started this process (none of OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK "
         "is set)";
}

bool isLaunched() { return launchOfEnvironment().has_value(); }

} // namespace stow
