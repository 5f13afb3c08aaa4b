// The table of GPUs, and what is said where cuDNN is missing.
#include "codegen/cuda/Chip.h"
#include "runtime/base/Error.h"
#include "runtime/cuda/CudnnApi.h"

#include <gmock/gmock.h>

namespace stow::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ChipTest, ChipsAndTheirArchitectures) {
  EXPECT_THAT(chipNames(), ElementsAre("a100", "b200", "h100", "h200", "rtx4090", "sm_100", "sm_80",
                                       "sm_89", "sm_90"));
  const Chip h100 = requireChip("h100");
  EXPECT_EQ(h100.architecture, "sm_90");
  EXPECT_THAT(h100.deviceJson, HasSubstr("\"multiProcessorCount\":132"));
  EXPECT_EQ(h100.matmulWorkspaceBytes, 32 << 20);
  EXPECT_EQ(requireChip("a100").matmulWorkspaceBytes, 4 << 20);
}

TEST(ChipTest, AnArchitectureIsNoChip) {
  const Chip chip = requireChip("sm_90");
  EXPECT_EQ(chip.name, "sm_90");
  EXPECT_FALSE(chip.isNamed());
  EXPECT_TRUE(chip.fixed.empty());
}

TEST(ChipTest, AChipKnowsItsMemory) {
  for (const char *name : {"a100", "b200", "h100", "h200", "rtx4090"}) {
    const Chip chip = requireChip(name);
    EXPECT_GT(chip.memoryBytes, Bytes{23} << 30) << name;
    EXPECT_LT(chip.desktopBytes, Bytes{1} << 30) << name;
  }
  EXPECT_GT(requireChip("rtx4090").desktopBytes, 0); // which draws one
  EXPECT_EQ(requireChip("sm_89").memoryBytes, 0);
}

TEST(ChipTest, SeveralOfATarget) {
  const std::vector<Chip> chips = requireChips("a100,h100,h200");
  EXPECT_EQ(namesOf(chips), "a100,h100,h200");
  EXPECT_EQ(architecturesOf(chips), "sm_80,sm_90");
  EXPECT_EQ(architecturesOf(requireChips("sm_80,sm_90")), "sm_80,sm_90");
  EXPECT_EQ(requireChips("h100").size(), 1);
  for (const char *names : {"a100,", ",h100", "a100,sm_20", "", "h100,a100,h100"})
    EXPECT_THROW(requireChips(names), Error) << names;
}

TEST(ChipTest, NamesAreReadWhateverTheirSpelling) {
  EXPECT_EQ(requireChip("RTX 4090").name, "rtx4090");
  EXPECT_EQ(namesOf(requireChips("H100,SM90")), "h100,sm_90");
}

TEST(ChipTest, UnknownChipsAreRefusedWithTheList) {
  try {
    requireChip("sm_20");
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(),
                 "unknown GPU \"sm_20\" for --target=cuda:GPU; known are a100, b200, "
                 "h100, h200, rtx4090, sm_100, sm_80, sm_89, sm_90; did you mean sm_80?");
  }
}

TEST(ChipTest, AMissingLibraryIsNamedWithTheWayToGetIt) {
  try {
    CudnnLibrary::open("/nowhere");
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(),
                HasSubstr("cuDNN 9 is not installed (/nowhere/libcudnn_graph.so.9: "));
    EXPECT_THAT(error.what(), HasSubstr("pip install nvidia-cudnn-cu13"));
    EXPECT_THAT(error.what(), HasSubstr("--cudnn=FOLDER"));
  }
}

} // namespace
} // namespace stow::cuda
