// What is asked of a target by its name, before there is a backend.
#include "codegen/Backend.h"
#include "codegen/Measured.h"
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

TEST(BackendTest, WhoseTimesAPlanTakes) {
  EXPECT_FALSE(programsMeasure("host"));
  EXPECT_TRUE(programsMeasure("cuda:a100,h100"));
  EXPECT_THROW(programsMeasure("tpu"), Error);
  const char *h100 = "NVIDIA H100 80GB HBM3, driver 13.0";
  for (const char *gpu : {"cuda:h100", "cuda:a100,h100", "sm_90"})
    EXPECT_THAT(whyNotMeasuredOn(gpu, h100), IsEmpty()) << gpu;
  EXPECT_THAT(whyNotMeasuredOn("rtx4090", "NVIDIA GeForce RTX 4090, driver 12.4"), IsEmpty());
  EXPECT_EQ(whyNotMeasuredOn("cuda:h200", h100),
            "was measured on NVIDIA H100 80GB HBM3, driver 13.0, and the plan is for cuda:h200");
  EXPECT_THAT(whyNotMeasuredOn("cuda:sm_80", h100), HasSubstr("for cuda:sm_80"));
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
