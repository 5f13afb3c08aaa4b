#include "runtime/slow/CopyLanes.h"

#include "tests/runtime/base/CountAllocations.h"
#include "tests/runtime/slow/DiskFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace stow::slow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Bytes fileBytes = 16 * kPieceBytes;

/// Memory at an odd address, as no disk takes it.
class Buffer {
public:
  Buffer(Bytes bytes, uint32_t seed) : storage(static_cast<size_t>(bytes) + 1) {
    for (char &byte : storage)
      byte = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
    original = storage;
  }
  char *data() { return storage.data() + 1; }
  Bytes bytes() const { return static_cast<Bytes>(storage.size()) - 1; }
  void poison() { std::fill(storage.begin() + 1, storage.end(), char(0xff)); }
  bool isWhole() const { return storage == original; }

private:
  std::vector<char> storage, original;
};

class CopyLanesTest : public testing::TestWithParam<CopyTime> {
protected:
  CopyLanesTest() : file(folder.path(), fileBytes), lanes(file, {GetParam(), 0, 0}) {}

  size_t out(Buffer &buffer, Bytes offset) {
    return lanes.add({true, buffer.data(), buffer.bytes(), offset, 0, "/relu"});
  }
  size_t in(Buffer &buffer, size_t source, Bytes offset) {
    return lanes.add({false, buffer.data(), buffer.bytes(), offset, source, "/relu"});
  }
  std::string failureOf(size_t copy) {
    try {
      lanes.await(copy);
    } catch (const CopyFailed &error) {
      return error.what();
    }
    return "no error";
  }

  test::DiskFolder folder;
  SlowFile file;
  CopyLanes lanes;
};

std::string nameOf(const testing::TestParamInfo<CopyTime> &time) {
  constexpr const char *names[] = {"Background", "Early", "Late"};
  return names[static_cast<size_t>(time.param)];
}

INSTANTIATE_TEST_SUITE_P(Times, CopyLanesTest,
                         testing::Values(CopyTime::Background, CopyTime::Early, CopyTime::Late),
                         nameOf);

// Tests that bytes of any count come back bit by bit, step after step, while others travel, and when their slow
// bytes are used again.
TEST_P(CopyLanesTest, BytesComeBack) {
  std::vector<Buffer> buffers;
  for (Bytes bytes : {Bytes{1}, Bytes{4095}, Bytes{4096}, kPieceBytes, 3 * kPieceBytes + 5})
    buffers.emplace_back(bytes, static_cast<uint32_t>(bytes));
  std::vector<size_t> outs, ins;
  Bytes offset = 0;
  for (Buffer &buffer : buffers) {
    outs.push_back(out(buffer, offset));
    ins.push_back(in(buffer, outs.back(), offset));
    offset += alignUp(buffer.bytes(), SlowFile::alignment);
  }
  Buffer late(kPieceBytes + 1, 99); // where the first ones were
  const size_t lateOut = out(late, 0), lateIn = in(late, lateOut, 0);
  Bytes total = 0;
  for (int step = 0; step < 3; ++step) {
    for (size_t copy : outs)
      lanes.start(copy);
    for (size_t i = 0; i < buffers.size(); ++i) {
      lanes.await(outs[i]);
      buffers[i].poison();
      total += buffers[i].bytes();
    }
    for (size_t copy : ins)
      lanes.start(copy);
    for (size_t copy : ins)
      lanes.await(copy);
    for (const Buffer &buffer : buffers)
      EXPECT_TRUE(buffer.isWhole()) << buffer.bytes() << " bytes, step " << step;
    lanes.start(lateOut);
    lanes.await(lateOut);
    late.poison();
    lanes.start(lateIn);
    lanes.await(lateIn);
    EXPECT_TRUE(late.isWhole());
    total += late.bytes();
  }
  EXPECT_EQ(lanes.traffic().bytesOut, total);
  EXPECT_EQ(lanes.traffic().bytesIn, total);
  EXPECT_GT(lanes.seconds(lateIn), 0);
}

// Tests that a copy in waits on its lane for the copy out that it fetches.
TEST_P(CopyLanesTest, CopiesInWaitForTheirSource) {
  Buffer from(6 * kPieceBytes, 1), to(6 * kPieceBytes, 1);
  const size_t copyOut = out(from, 4096), copyIn = in(to, copyOut, 4096);
  for (int step = 0; step < 3; ++step) {
    to.poison();
    lanes.start(copyOut);
    lanes.start(copyIn);
    lanes.await(copyIn);
    EXPECT_TRUE(to.isWhole());
    lanes.await(copyOut);
  }
}

// Tests that copies allocate nothing.
TEST_P(CopyLanesTest, AllocatesNothing) {
  if (!test::allocationsAreCounted())
    GTEST_SKIP() << "a sanitizer has the allocator";
  Buffer buffer(5 * kPieceBytes, 1);
  const size_t copyOut = out(buffer, 0), copyIn = in(buffer, copyOut, 0);
  const int64_t before = test::allocationsSoFar().calls;
  for (int step = 0; step < 4; ++step)
    for (size_t copy : {copyOut, copyIn}) {
      lanes.start(copy);
      lanes.await(copy);
    }
  EXPECT_EQ(test::allocationsSoFar().calls, before);
}

// Tests that a changed byte of the file is found, named with file and node, and that a whole copy works again.
TEST_P(CopyLanesTest, NoticesDamage) {
  Buffer buffer(3 * kPieceBytes, 1);
  const size_t copyOut = out(buffer, 0), copyIn = in(buffer, copyOut, 0);
  lanes.start(copyOut);
  lanes.await(copyOut);
  const int raw =
      ::open(("/proc/self/fd/" + std::to_string(file.descriptor())).c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(raw, 0);
  char byte = 0;
  ASSERT_EQ(::pread(raw, &byte, 1, kPieceBytes + 77), 1);
  byte = static_cast<char>(byte ^ 4);
  ASSERT_EQ(::pwrite(raw, &byte, 1, kPieceBytes + 77), 1);
  ::close(raw);
  lanes.start(copyIn);
  EXPECT_THAT(
      failureOf(copyIn),
      AllOf(HasSubstr("copy_in of node '/relu': slow memory in '" + folder.path()),
            HasSubstr("': the 1048576 bytes at 1048576 are not those that were written: expected "
                      "the checksum ")));
  lanes.cancel();
  lanes.start(copyOut);
  lanes.await(copyOut);
  buffer.poison();
  lanes.start(copyIn);
  EXPECT_EQ(failureOf(copyIn), "no error");
  EXPECT_TRUE(buffer.isWhole());
}

// Tests that what fails on the way out is told there, and of what fetches it.
TEST_P(CopyLanesTest, NoticesAFileThatTakesNoMore) {
  Buffer buffer(3 * kPieceBytes, 1);
  const size_t beyond = out(buffer, int64_t{1} << 62),
               copyIn = in(buffer, beyond, int64_t{1} << 62);
  lanes.start(beyond);
  lanes.start(copyIn);
  EXPECT_THAT(failureOf(beyond), AllOf(HasSubstr("copy_out of node '/relu': slow memory in '"),
                                       HasSubstr("expected to write 1048576 bytes at "),
                                       HasSubstr(", found 0: File too large")));
  EXPECT_THAT(failureOf(copyIn), HasSubstr("copy_in of node '/relu': "));
  EXPECT_EQ(lanes.traffic().bytesOut, 0);
}

// Tests that a forked process, which has none of the threads and shares the file, is told so, and that it can let
// go of the lanes: none of it waits for ever.
TEST_P(CopyLanesTest, RefusesAForkedProcess) {
  Buffer buffer(3 * kPieceBytes, 1);
  std::optional<CopyLanes> lanes(std::in_place, file, CopyPace{GetParam(), 0, 0});
  const size_t copy = lanes->add({true, buffer.data(), buffer.bytes(), 0, 0, "/relu"});
  lanes->start(copy);
  lanes->await(copy);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    ::alarm(20);
    std::string messages;
    for (const auto &call : {&CopyLanes::start, &CopyLanes::await})
      try {
        ((*lanes).*call)(copy);
      } catch (const CopyFailed &error) {
        messages += error.what();
      }
    lanes->cancel();
    const bool isCounted = lanes->traffic().bytesOut == buffer.bytes();
    lanes.reset();
    const std::string expected = "copy_out of node '/relu': process " + std::to_string(::getpid()) +
                                 " was forked from process " + std::to_string(parent) +
                                 ", which has the threads that copy to slow memory in '" +
                                 folder.path() +
                                 "' and the file; open the model in the process that runs it";
    ::_exit(messages == expected + expected && isCounted ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  lanes->start(copy);
  lanes->await(copy);
}

// Tests that bytes move when they are said to move.
TEST_P(CopyLanesTest, BytesMoveInTheirTime) {
  if (GetParam() == CopyTime::Background)
    GTEST_SKIP() << "at any time";
  Buffer from(8192, 1), to(8192, 1);
  const size_t copyOut = out(from, 0), copyIn = in(to, copyOut, 0);
  lanes.start(copyOut);
  const bool isLate = GetParam() == CopyTime::Late;
  EXPECT_EQ(lanes.traffic().bytesOut, isLate ? 0 : 8192);
  lanes.await(copyOut);
  EXPECT_EQ(lanes.traffic().bytesOut, 8192);
  to.poison();
  lanes.start(copyIn);
  EXPECT_EQ(to.isWhole(), !isLate);
  lanes.await(copyIn);
  EXPECT_TRUE(to.isWhole());
}

// Tests that copies keep to a bandwidth, and that they do not outlive lanes that end in the middle.
TEST(CopyLanesBandwidthTest, HoldsCopiesBack) {
  test::DiskFolder folder;
  const SlowFile file(folder.path(), fileBytes);
  Buffer buffer(8 * kPieceBytes, 1);
  {
    CopyLanes lanes(file, {CopyTime::Background, 100.0 * kPieceBytes, 0, 0.02});
    const size_t copy = lanes.add({true, buffer.data(), buffer.bytes(), 0, 0, "/relu"});
    lanes.start(copy);
    lanes.await(copy);
    EXPECT_GE(lanes.seconds(copy), 0.0999);
  }
  CopyLanes lanes(file, {CopyTime::Background, 20.0 * kPieceBytes, 0});
  const size_t copy = lanes.add({true, buffer.data(), buffer.bytes(), 0, 0, "/relu"});
  lanes.start(copy);
  lanes.cancel();
  EXPECT_LT(lanes.traffic().bytesOut, buffer.bytes());
  lanes.start(copy); // and the destructor ends it
}

} // namespace
} // namespace stow::slow
