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
  EXPECT_THAT(whyNot("host", Feature::FolderMemory), IsEmpty());
  EXPECT_THAT(whyNot("host", Feature::HostMemory), HasSubstr("--offload=FOLDER"));
  EXPECT_THAT(whyNot("cpu", Feature::Tf32), HasSubstr("--tf32 is about GPUs"));
  EXPECT_THAT(whyNot("host", Feature::Epilogues), HasSubstr("say --target=cuda:CHIP"));
  for (const char *gpu : {"cuda:h100", "RTX 4090", "cuda:a100,h100"}) {
    EXPECT_THAT(whyNot(gpu, Feature::FolderMemory), HasSubstr("--offload=host")) << gpu;
    EXPECT_THAT(whyNot(gpu, Feature::HostMemory), IsEmpty()) << gpu;
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

TEST(BackendTest, LinksToTheHost) {
  // 64 GB/s each way, of which 128 bits in 130 and 256 bytes in 280 are bytes of a copy.
  EXPECT_NEAR(requireHostLink("cuda:h100", "").gigabytesPerSecond, 57.6, 0.1);
  EXPECT_EQ(requireHostLink("cuda:h100", "").name, "pcie5");
  EXPECT_EQ(requireHostLink("cuda:h100,a100", "").name, "pcie4") << "the slowest";
  EXPECT_EQ(requireHostLink("cuda:h100", "nvlink-c2c").gigabytesPerSecond, 450);
  EXPECT_EQ(requireHostLink("cuda:sm_90", "12.5").gigabytesPerSecond, 12.5);
  EXPECT_GT(requireHostLink("cuda:sm_90", "12.5").microseconds, 0);
  auto refusal = [](const char *target, const char *named) {
    try {
      requireHostLink(target, named);
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("cuda:sm_90", ""), HasSubstr("say --link=pcie4"));
  EXPECT_THAT(refusal("cuda:h100", "pcie6"), HasSubstr("pcie4, pcie5, nvlink-c2c"));
  EXPECT_THAT(refusal("cuda:h100", "0"), HasSubstr("from 0.001"));
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
