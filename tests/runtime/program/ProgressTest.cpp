#include "runtime/program/Progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>

namespace stow {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string outputOf(Progress::Style style, int64_t steps) {
  testing::internal::CaptureStdout();
  Progress progress({0, 20, 10, 4}, style);
  for (int64_t step = 1; step <= steps; ++step)
    progress.step(step, 0.1, 2.5);
  progress.line("epoch 1: done");
  progress.finish();
  return testing::internal::GetCapturedStdout();
}

TEST(ProgressTest, Durations) {
  EXPECT_EQ(formatDuration(0), "00:00");
  EXPECT_EQ(formatDuration(59.6), "01:00");
  EXPECT_EQ(formatDuration(3723), "1:02:03");
  EXPECT_EQ(formatDuration(-5), "00:00");
}

// Tests that plain output has a line for the first step and for each end of an epoch.
TEST(ProgressTest, PlainLines) {
  std::string out = outputOf(Progress::Style::Plain, 20);
  EXPECT_THAT(out, StartsWith("epoch 1/2  step 1/20  loss 2.5  lr 0.1  "));
  EXPECT_THAT(out, HasSubstr("\nepoch 1/2  step 10/20  "));
  EXPECT_THAT(out, HasSubstr("\nepoch 2/2  step 20/20  "));
  EXPECT_EQ(std::ranges::count(out, '\n'), 4);
  EXPECT_EQ(out.find('\r'), std::string::npos);
}

// Tests that the bar is redrawn in place and that other lines start on a line of their own.
TEST(ProgressTest, Bar) {
  std::string out = outputOf(Progress::Style::Bar, 10);
  EXPECT_THAT(out, StartsWith("\r\033[Kepoch 1/2 "));
  EXPECT_THAT(out, HasSubstr("step 10/20"));
  EXPECT_THAT(out, HasSubstr("\nepoch 1: done\n"));
}

// Tests that the line names the arena.
TEST(ProgressTest, Arena) {
  testing::internal::CaptureStdout();
  Progress progress({0, 20, 10, 4, "4.21 MiB"}, Progress::Style::Plain);
  progress.step(1, 0.1, 2.5);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::ContainsRegex("samples/s  ETA [0-9:]+  arena 4.21 MiB\n"));
}

TEST(ProgressTest, QuietSaysNothing) { EXPECT_EQ(outputOf(Progress::Style::Quiet, 20), ""); }

TEST(ProgressTest, FilesGetPlainLines) {
  int file = open("/dev/null", O_WRONLY);
  EXPECT_EQ(Progress::styleFor(file), Progress::Style::Plain);
  close(file);
}

} // namespace
} // namespace stow
