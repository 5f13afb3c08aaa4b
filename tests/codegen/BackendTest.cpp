// What is asked of a target by its name, before there is a backend.
#include "codegen/Backend.h"
#include "runtime/base/Error.h"

#include <gmock/gmock.h>

namespace stow {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(BackendTest, FeaturesOfTargets) {
  EXPECT_THAT(whyNot("host", Feature::SlowMemory), IsEmpty());
  EXPECT_THAT(whyNot("host", Feature::Ranks), IsEmpty());
  EXPECT_THAT(whyNot("cpu", Feature::Tf32), HasSubstr("--tf32 is about GPUs"));
  EXPECT_THAT(whyNot("host", Feature::Epilogues), HasSubstr("say --target=cuda:CHIP"));
  for (const char *gpu : {"cuda:h100", "RTX 4090", "cuda:a100,h100"}) {
    EXPECT_THAT(whyNot(gpu, Feature::SlowMemory), HasSubstr("threads of the host")) << gpu;
    EXPECT_THAT(whyNot(gpu, Feature::Ranks), HasSubstr("NCCL")) << gpu;
    EXPECT_THAT(whyNot(gpu, Feature::Tf32), IsEmpty()) << gpu;
    EXPECT_THAT(whyNot(gpu, Feature::Epilogues), IsEmpty()) << gpu;
  }
  EXPECT_THROW(whyNot("rtx4080", Feature::Tf32), Error);
}

TEST(BackendTest, DevicesAsPyTorchNamesThem) {
  EXPECT_EQ(torchDevice(kDefaultTarget), "cpu");
  EXPECT_EQ(torchDevice("cuda:sm_90"), "cuda");
  EXPECT_THROW(torchDevice("tpu"), Error);
}

TEST(BackendTest, TargetsOfPrograms) {
  EXPECT_EQ(targetOfProgram("host:avx2"), "host");
  EXPECT_EQ(targetOfProgram("host"), "host");
  EXPECT_EQ(targetOfProgram("cuda:a100,h100"), "cuda:a100,h100");
}

} // namespace
} // namespace stow
