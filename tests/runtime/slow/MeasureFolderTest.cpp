#include "runtime/slow/MeasureFolder.h"

#include "runtime/base/Error.h"
#include "runtime/slow/SlowFile.h"
#include "tests/runtime/slow/DiskFolder.h"
#include "tests/runtime/slow/FailingCalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <malloc.h>

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

// Tests that a disk that fails is an error, and that copies that stand behind the failed one, which come to their
// bytes when the error is on its way, find them still there.
TEST(MeasureFolderTest, AFailingDiskEndsTheMeasurement) {
  ASSERT_EQ(::mallopt(M_MMAP_THRESHOLD, 1 << 20), 1) << "what is freed is to be unmapped at once";
  test::DiskFolder folder;
  if (!SlowFile(folder.path(), SlowFile::alignment).isDirect())
    GTEST_SKIP() << "temporary files pass through the page cache here";
  test::failingCalls.directWrite = EIO;
  test::failingCalls.microseconds = 20'000;
  std::string message;
  try {
    measureFolder(folder.path());
  } catch (const Error &error) {
    message = error.what();
  }
  test::failingCalls = {};
  EXPECT_THAT(message, testing::HasSubstr("found 0: Input/output error"));
}

} // namespace
} // namespace stow::slow
