// The code for GPUs inside executables: what is packed is found, and a device gets what runs on it.
#include "runtime/format/DeviceCode.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace stow;
using Kind = DeviceImage::Kind;

namespace {

const std::vector<DeviceImage> kImages = {{Kind::Cubin, 80, "c80"},
                                          {Kind::Cubin, 90, "c90"},
                                          {Kind::Ptx, 80, "p80"},
                                          {Kind::Ptx, 90, "p90"}};

std::vector<std::string> loadable(uint32_t architecture) {
  std::vector<std::string> found;
  for (const DeviceImage &image : loadableOn(kImages, architecture))
    found.emplace_back(image.bytes);
  return found;
}

TEST(DeviceCode, IsFoundAgain) {
  const std::string code = packDeviceCode(kImages);
  const auto images = unpackDeviceCode(code);
  ASSERT_EQ(images.size(), kImages.size());
  for (size_t i = 0; i < images.size(); ++i) {
    EXPECT_EQ(images[i].kind, kImages[i].kind);
    EXPECT_EQ(images[i].architecture, kImages[i].architecture);
    EXPECT_EQ(images[i].bytes, kImages[i].bytes);
    EXPECT_EQ((images[i].bytes.data() - code.data()) % 64, 0);
  }
  EXPECT_EQ(describe(images), "cubins for sm_80, sm_90, PTX for sm_80, sm_90");
  EXPECT_TRUE(unpackDeviceCode(packDeviceCode({})).empty());
}

// Tests that every beginning of the code, and another magic, is refused and not read beyond its end.
TEST(DeviceCode, Damaged) {
  const std::string code = packDeviceCode(kImages);
  for (size_t length = 0; length < code.size(); ++length)
    EXPECT_THROW(unpackDeviceCode(std::span(code.data(), length)), Error) << length;
  std::string other = code;
  other[0] = 's';
  EXPECT_THROW(unpackDeviceCode(other), Error);
}

TEST(DeviceCode, WhatADeviceLoads) {
  using testing::ElementsAre;
  EXPECT_THAT(loadable(80), ElementsAre("c80", "p80"));
  EXPECT_THAT(loadable(89), ElementsAre("c80", "p80")); // same generation
  EXPECT_THAT(loadable(90), ElementsAre("c90", "p90", "p80"));
  EXPECT_THAT(loadable(100), ElementsAre("p90", "p80")); // later ones translate
  EXPECT_THAT(loadable(75), ElementsAre());
}

TEST(DeviceCode, Architectures) {
  EXPECT_EQ(architectureNumber("sm_90"), 90u);
  EXPECT_EQ(architectureNumber("sm_100"), 100u);
  for (const char *name : {"", "sm_", "sm_9x", "h100", "sm_90000"})
    EXPECT_THROW(architectureNumber(name), Error) << name;
}

} // namespace
