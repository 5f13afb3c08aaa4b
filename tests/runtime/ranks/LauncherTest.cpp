#include "runtime/ranks/Launcher.h"

#include "runtime/base/Error.h"
#include "runtime/ranks/Ranks.h"

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stow {
namespace {

class LauncherTest : public ::testing::Test {
protected:
  LauncherTest() { clear(); }
  ~LauncherTest() override { clear(); }

  static void clear() {
    for (const char *name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
          "RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "MASTER_ADDR",
          "MASTER_PORT", "LOCAL_RANK", "TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_LOCAL_RANK",
          "MPI_LOCALRANKID", "SLURM_LOCALID"})
      unsetenv(name);
  }

  static std::string refusal(int64_t size, SumsBy sums = SumsBy::Ranks) {
    try {
      joinRanks(size, sums);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }
};

// Tests which launcher is recognized by which variables; Open MPI sets PMIX_RANK as well.
TEST_F(LauncherTest, ReadsTheVariables) {
  EXPECT_FALSE(launchOfEnvironment(SumsBy::Ranks));
  setenv("PMIX_RANK", "2", 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->kind, MpiKind::OpenMpi);
  EXPECT_FALSE(launchOfEnvironment(SumsBy::Ranks)->size);
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "4", 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->kind, MpiKind::Mpich);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->rank, 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->size, 4);
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->kind, MpiKind::OpenMpi);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->rank, 3);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->size, 8);
}

// Tests that a process knows its place on its machine where the launcher says it.
TEST_F(LauncherTest, ReadsThePlaceOnTheMachine) {
  setenv("PMI_RANK", "5", 1);
  EXPECT_FALSE(launchOfEnvironment(SumsBy::Ranks)->localRank);
  setenv("SLURM_LOCALID", "1", 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->localRank, 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->localVariable, "SLURM_LOCALID");
  setenv("MPI_LOCALRANKID", "2", 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Ranks)->localRank, 2);
}

// Tests that a process without a launcher is told the command, and that another number of ranks is refused
// before any library is opened.
TEST_F(LauncherTest, RefusesBeforeItJoins) {
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("mpirun -n 3"));
  setenv("PMI_RANK", "0", 1);
  setenv("PMI_SIZE", "4", 1);
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("compiled for 3 devices"));
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("started 4 processes"));
  setenv("PMI_RANK", "first", 1);
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("the variable PMI_RANK of the launcher is 'first'"));
}

// Tests that launchers which bring no MPI along are refused by their name.
TEST_F(LauncherTest, NamesLaunchersWithoutMpi) {
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("no launcher has started this process"));
  setenv("SLURM_PROCID", "0", 1);
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("give srun --mpi=pmix"));
  setenv("RANK", "0", 1);
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("give srun --mpi=pmix"));
  setenv("WORLD_SIZE", "3", 1);
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("torchrun has started this process"));
  EXPECT_THAT(refusal(3), ::testing::HasSubstr("mpirun -n 3"));
}

// Tests that such a launch is one of programs whose devices add up, where rank 0 has a place to listen at.
TEST_F(LauncherTest, DevicesNeedNoMpi) {
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "4", 1);
  EXPECT_THAT(refusal(4, SumsBy::Devices),
              ::testing::HasSubstr("not where rank 0 listens: MASTER_ADDR and MASTER_PORT"));
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "29500", 1);
  setenv("LOCAL_RANK", "3", 1);
  EXPECT_FALSE(launchOfEnvironment(SumsBy::Ranks));
  const std::optional<RankLaunch> launch = launchOfEnvironment(SumsBy::Devices);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->kind, MpiKind::None);
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->localRank, 3);
  EXPECT_EQ(launch->port, 29500);
  EXPECT_FALSE(launch->hasAgent);
  EXPECT_THAT(refusal(3, SumsBy::Devices), ::testing::HasSubstr("started 4 processes"));
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  EXPECT_TRUE(launchOfEnvironment(SumsBy::Devices)->hasAgent);
  setenv("MASTER_PORT", "0", 1);
  EXPECT_THAT(refusal(4, SumsBy::Devices),
              ::testing::HasSubstr("MASTER_PORT of the launcher is 0, expected 1 to 65535"));
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  EXPECT_EQ(launchOfEnvironment(SumsBy::Devices)->kind, MpiKind::OpenMpi);
  clear();
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  EXPECT_THAT(refusal(2, SumsBy::Devices), ::testing::HasSubstr("scontrol show hostnames"));
}

} // namespace
} // namespace stow
