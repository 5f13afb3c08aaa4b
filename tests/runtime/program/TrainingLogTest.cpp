#include "runtime/program/TrainingLog.h"

#include "runtime/base/Error.h"
#include "tests/runtime/data/DataFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sys/resource.h>

namespace stow {
namespace {

using namespace testfiles;
using testing::HasSubstr;

class TrainingLogTest : public testing::Test {
protected:
  void append(int64_t keep, std::initializer_list<int64_t> steps) {
    TrainingLog log(path, keep);
    for (int64_t step : steps)
      log.append(step, 1, 0.5, 1.0 / 3);
    log.writeThrough();
  }

  std::string errorOf(int64_t keep) {
    try {
      TrainingLog log(path, keep);
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  }

  static std::string rows(std::initializer_list<int64_t> steps) {
    std::string text = "step,epoch,lr,loss\n";
    for (int64_t step : steps)
      text += std::to_string(step) + ",1,0.5,0.333333333\n";
    return text;
  }

  TempDir dir;
  std::string path = dir.path("run.csv");
};

TEST_F(TrainingLogTest, StartsAnew) {
  append(0, {1, 2});
  append(0, {1});
  EXPECT_EQ(readFile(path), rows({1}));
}

TEST_F(TrainingLogTest, ContinuesAndDropsLaterRows) {
  append(0, {1, 2, 3, 4, 5});
  append(3, {4});
  EXPECT_EQ(readFile(path), rows({1, 2, 3, 4}));
}

// Tests that a row that was cut off is dropped even when its number would do.
TEST_F(TrainingLogTest, CutRow) {
  writeFile(path, rows({1, 2}) + "3,1,0.5,0.33");
  append(2, {3});
  EXPECT_EQ(readFile(path), rows({1, 2, 3}));
  writeFile(path, rows({1, 2}) + "3,1,0.5,0.33");
  EXPECT_THAT(errorOf(3), HasSubstr("it ends at step 2, the checkpoint is at step 3"));
}

// Tests that a log may begin in the middle of a run.
TEST_F(TrainingLogTest, LateStart) {
  append(10, {11, 12});
  EXPECT_EQ(readFile(path), rows({11, 12}));
  append(12, {13});
  EXPECT_EQ(readFile(path), rows({11, 12, 13}));
}

TEST_F(TrainingLogTest, ForeignFilesAreNotTouched) {
  writeFile(path, "my notes\n");
  EXPECT_THAT(errorOf(1), HasSubstr("expected the first line 'step,epoch,lr,loss'"));
  EXPECT_EQ(readFile(path), "my notes\n");
  std::string gap = rows({1, 3, 4});
  writeFile(path, gap);
  EXPECT_THAT(errorOf(4), HasSubstr("expected step 2, found the row '3,1,"));
  EXPECT_EQ(readFile(path), gap);
}

TEST_F(TrainingLogTest, FullPrecision) {
  TrainingLog log(path, 0);
  log.append(1, 1, 0.1, 1.23456789012);
  EXPECT_THAT(readFile(path), HasSubstr("\n1,1,0.1,1.23456789\n"));
}

// Tests that rows which the disk does not take wait, and reach it in order once there is room.
TEST_F(TrainingLogTest, FullDisk) {
  TrainingLog log(path, 0);
  log.append(1, 1, 0.5, 1.0 / 3);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = {readFile(path).size() + 5, before.rlim_max}; // the next row fits in part
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  log.append(2, 1, 0.5, 1.0 / 3);
  log.append(3, 1, 0.5, 1.0 / 3);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(log.problem(), "cannot write '" + path + "': File too large");
  EXPECT_EQ(readFile(path), rows({1}) + "2,1,0");
  log.append(4, 1, 0.5, 1.0 / 3);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(log.problem(), "");
  EXPECT_EQ(readFile(path), rows({1, 2, 3, 4}));
}

TEST_F(TrainingLogTest, UnwritableFolder) {
  path = dir.path("missing/run.csv");
  EXPECT_THAT(errorOf(0), HasSubstr("cannot open"));
}

} // namespace
} // namespace stow
