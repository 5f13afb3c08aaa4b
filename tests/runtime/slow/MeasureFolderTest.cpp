#include "runtime/slow/MeasureFolder.h"

#include "runtime/base/Error.h"
#include "tests/runtime/slow/DiskFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace stow::slow {
namespace {

// Tests that both directions are measured and that nothing stays.
TEST(MeasureFolderTest, MeasuresBothDirections) {
  test::DiskFolder folder;
  const FolderSpeed speed = measureFolder(folder.path());
  for (const LinkSpeed &link : {speed.out, speed.in}) {
    EXPECT_GT(link.bytesPerSecond, 0);
    EXPECT_GT(link.latencySeconds, 0);
  }
  EXPECT_TRUE(folder.isEmpty());
}

TEST(MeasureFolderTest, RefusesAFolderThatIsNone) {
  test::DiskFolder folder;
  try {
    measureFolder(folder.path("missing"));
    FAIL();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file or directory"));
  }
}

} // namespace
} // namespace stow::slow
