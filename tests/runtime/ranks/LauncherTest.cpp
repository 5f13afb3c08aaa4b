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
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                             "PMIX_RANK", "RANK", "WORLD_SIZE", "SLURM_PROCID",
                             "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
      unsetenv(name);
  }

  static std::string refusal(int64_t size) {
    try {
      joinRanks(size);
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }
};

// Tests which launcher is recognized by which variables; Open MPI sets PMIX_RANK as well.
TEST_F(LauncherTest, ReadsTheVariables) {
  EXPECT_FALSE(launchOfEnvironment());
  setenv("PMIX_RANK", "2", 1);
  EXPECT_EQ(launchOfEnvironment()->kind, MpiKind::OpenMpi);
  EXPECT_FALSE(launchOfEnvironment()->size);
  setenv("PMI_RANK", "1", 1);
  setenv("PMI_SIZE", "4", 1);
  EXPECT_EQ(launchOfEnvironment()->kind, MpiKind::Mpich);
  EXPECT_EQ(launchOfEnvironment()->rank, 1);
  EXPECT_EQ(launchOfEnvironment()->size, 4);
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
  EXPECT_EQ(launchOfEnvironment()->kind, MpiKind::OpenMpi);
  EXPECT_EQ(launchOfEnvironment()->rank, 3);
  EXPECT_EQ(launchOfEnvironment()->size, 8);
}

// Tests that a process knows its place on its machine where the launcher says it.
TEST_F(LauncherTest, ReadsThePlaceOnTheMachine) {
  setenv("PMI_RANK", "5", 1);
  EXPECT_FALSE(launchOfEnvironment()->localRank);
  setenv("SLURM_LOCALID", "1", 1);
  EXPECT_EQ(launchOfEnvironment()->localRank, 1);
  EXPECT_EQ(launchOfEnvironment()->localVariable, "SLURM_LOCALID");
  setenv("MPI_LOCALRANKID", "2", 1);
  EXPECT_EQ(launchOfEnvironment()->localRank, 2);
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

} // namespace
} // namespace stow
