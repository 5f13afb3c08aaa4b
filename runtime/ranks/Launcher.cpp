#include "runtime/ranks/Launcher.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"
#include "runtime/ranks/Ranks.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

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

/// Open MPI's, MPICH's, torchrun's and Slurm's.
constexpr const char *localRanks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK",
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

/// torchrun's; Slurm's beside MASTER_ADDR and MASTER_PORT, which a batch script sets for it.
constexpr Variables withoutMpi[] = {
    {MpiKind::None, "RANK", "WORLD_SIZE"},
    {MpiKind::None, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};
constexpr const char *kAddress = "MASTER_ADDR", *kPort = "MASTER_PORT";
constexpr int64_t kMostPort = 65535;

/// Whether rank 0 has a place to listen at; says so to `launch`.
bool hasMeetingPlace(RankLaunch &launch) {
  const char *address = std::getenv(kAddress), *agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const std::optional<int64_t> port = numberIn(kPort);
  if (!address || !port)
    return false;
  if (*port < 1 || *port > kMostPort)
    throw Error::badInput(concat("the variable ", kPort, " of the launcher is ", *port,
                                 ", expected 1 to ", kMostPort));
  launch.address = address;
  launch.port = static_cast<int>(*port);
  const char *attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  launch.attempt = attempt ? attempt : "0";
  launch.hasAgent = agent && std::string_view(agent) == "True";
  return true;
}

std::optional<RankLaunch> launchBy(const Variables &variables) {
  const std::optional<int64_t> rank = numberIn(variables.rank), size = numberIn(variables.size);
  if (!rank || (variables.kind == MpiKind::None && !size))
    return std::nullopt;
  RankLaunch launch{variables.kind, *rank, size, variables.rank, {}};
  for (const char *name : localRanks)
    if (!launch.localRank && (launch.localRank = numberIn(name)))
      launch.localVariable = name;
  return launch;
}

} // namespace

std::optional<RankLaunch> launchOfEnvironment(SumsBy sums) {
  for (const Variables &variables : known)
    if (std::optional<RankLaunch> launch = launchBy(variables))
      return launch;
  for (const Variables &variables : withoutMpi)
    if (std::optional<RankLaunch> launch = launchBy(variables);
        launch && sums == SumsBy::Devices && hasMeetingPlace(*launch))
      return launch;
  return std::nullopt;
}

std::string whyNoLaunch(SumsBy sums) {
  const bool isTorchrun = std::getenv("RANK") && std::getenv("WORLD_SIZE"),
             isSlurm = !isTorchrun && std::getenv("SLURM_PROCID");
  if (sums == SumsBy::Devices && (isTorchrun || isSlurm))
    return concat(
        isTorchrun ? "RANK and WORLD_SIZE are" : "SLURM_PROCID is",
        " set, but not where rank 0 listens: MASTER_ADDR and MASTER_PORT",
        isSlurm ? ", as in MASTER_ADDR=$(scontrol show hostnames | head -n 1) MASTER_PORT=29500"
                : "");
  if (isTorchrun)
    return "torchrun has started this process (RANK, WORLD_SIZE), which brings no MPI along, by "
           "which processors are connected";
  if (isSlurm)
    return "srun has started this process without MPI (SLURM_PROCID is set, neither PMI_RANK nor "
           "PMIX_RANK is): give srun --mpi=pmix or --mpi=pmi2, or take mpirun";
  return concat(
      "no launcher has started this process (none of OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK",
      sums == SumsBy::Devices ? ", RANK" : "", " is set)");
}

bool isLaunched(SumsBy sums) { return launchOfEnvironment(sums).has_value(); }

} // namespace stow
