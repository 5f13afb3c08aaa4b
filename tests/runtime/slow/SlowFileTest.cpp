#include "runtime/slow/SlowFile.h"

#include "runtime/base/Error.h"
#include "tests/runtime/slow/DiskFolder.h"
#include "tests/runtime/slow/FailingCalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stow::slow {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Bytes page = SlowFile::alignment;

struct Free {
  void operator()(char *memory) const { std::free(memory); }
};
using Pages = std::unique_ptr<char, Free>;

Pages pagesOf(char value, Bytes count) {
  Pages pages(static_cast<char *>(std::aligned_alloc(page, count * page)));
  std::fill_n(pages.get(), count * page, value);
  return pages;
}

template <typename Action> std::string errorOf(const Action &action) {
  try {
    action();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    return error.what();
  }
  return "no error";
}

// Tests that bytes come back from where they were put, and that nobody sees a file in the folder.
TEST(SlowFileTest, HoldsBytesWithoutAName) {
  test::DiskFolder folder;
  {
    const SlowFile file(folder.path(), 8 * page);
    EXPECT_EQ(file.bytes(), 8 * page);
    EXPECT_TRUE(folder.isEmpty());
    const Pages a = pagesOf('a', 2), b = pagesOf('b', 1), read = pagesOf(0, 2);
    file.write(6 * page, a.get(), 2 * page);
    file.write(0, b.get(), page);
    file.read(6 * page, read.get(), 2 * page);
    EXPECT_EQ(std::string(read.get(), 2 * page), std::string(2 * page, 'a'));
    file.read(0, read.get(), page);
    EXPECT_EQ(std::string(read.get(), page), std::string(page, 'b'));
  }
  EXPECT_TRUE(folder.isEmpty());
}

// Tests that a process that is killed leaves nothing in the folder.
TEST(SlowFileTest, LeavesNothingBehindAKilledProcess) {
  test::DiskFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const SlowFile file(folder.path(), 8 * page);
    file.write(0, pagesOf('a', 1).get(), page);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_TRUE(folder.isEmpty());
}

// Tests that folders in which no file can be made are refused by name, with the reason and the flag.
TEST(SlowFileTest, RefusesFoldersThatTakeNoFile) {
  test::DiskFolder folder;
  EXPECT_THAT(errorOf([&] { SlowFile(folder.path("missing"), page); }),
              AllOf(HasSubstr("cannot make the file of slow memory in '" + folder.path("missing")),
                    HasSubstr("': No such file or directory; name a folder on a disk with room: "
                              "--offload=FOLDER")));
  std::ofstream(folder.path("file")) << "x";
  EXPECT_THAT(errorOf([&] { SlowFile(folder.path("file"), page); }),
              HasSubstr("': Not a directory"));
  EXPECT_THAT(errorOf([&] { SlowFile("/proc", page); }),
              HasSubstr("cannot make the file of slow memory in '/proc'"));
}

// Tests that a disk without room is found before anything is written, with the bytes needed and found.
TEST(SlowFileTest, RefusesAFullDisk) {
  test::DiskFolder folder;
  struct statvfs system = {};
  ASSERT_EQ(::statvfs(folder.path().c_str(), &system), 0);
  const Bytes room = static_cast<Bytes>(system.f_blocks) * static_cast<Bytes>(system.f_frsize);
  const Bytes size = alignUp(room + page, page);
  EXPECT_THAT(errorOf([&] { SlowFile(folder.path(), size); }),
              AllOf(HasSubstr("needs " + formatBytesExact(size) + ", but there is "),
                    HasSubstr(" of room; name a folder on a disk with room")));
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {2 * page, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = errorOf([&] { SlowFile(folder.path(), 8 * page); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("needs 32.00 KiB (32768 bytes), but this process may write files "
                                 "of 8.00 KiB (8192 bytes) at most (ulimit -f)"));
}

// Tests that a file that has become shorter is an error with what was expected and found.
TEST(SlowFileTest, NoticesAShortFile) {
  test::DiskFolder folder;
  const SlowFile file(folder.path(), 8 * page);
  ASSERT_EQ(::ftruncate(file.descriptor(), 3 * page), 0);
  const Pages read = pagesOf(0, 2);
  EXPECT_THAT(errorOf([&] { file.read(2 * page, read.get(), 2 * page); }),
              HasSubstr("expected to read 8192 bytes at 8192, found 4096: the file is shorter than "
                        "what was reserved"));
}

/// Calls fail while an object lives.
class Failing {
public:
  explicit Failing(const test::FailingCalls &calls) { test::failingCalls = calls; }
  ~Failing() { test::failingCalls = {}; }
};

// Tests file systems that lack something: files without names, O_DIRECT at once or at the first write, room that is
// reserved. The file holds bytes all the same, nothing is seen in the folder, and a note says what is different.
TEST(SlowFileTest, GetsAlongWithLess) {
  auto notesWith = [](const test::FailingCalls &calls, bool isDirect) {
    const Failing failing(calls);
    test::DiskFolder folder;
    const SlowFile file(folder.path(), 8 * page);
    EXPECT_TRUE(folder.isEmpty());
    EXPECT_TRUE(file.isDirect() == isDirect || file.isInMemory());
    const Pages a = pagesOf('a', 2), read = pagesOf(0, 2);
    file.write(6 * page, a.get(), 2 * page);
    file.read(6 * page, read.get(), 2 * page);
    EXPECT_EQ(std::string(read.get(), 2 * page), std::string(2 * page, 'a'));
    return file.isInMemory() ? "" : testing::PrintToString(file.notes());
  };
  if (notesWith({}, true).empty())
    GTEST_SKIP() << "temporary files lie in memory here";
  EXPECT_EQ(notesWith({}, true), "{}");
  EXPECT_EQ(notesWith({.nameless = EOPNOTSUPP}, true), "{}");
  EXPECT_THAT(notesWith({.direct = EINVAL}, false),
              HasSubstr("has no O_DIRECT: copies pass through the page cache"));
  EXPECT_THAT(notesWith({.directWrite = EINVAL}, false), HasSubstr("has no O_DIRECT"));
  EXPECT_THAT(notesWith({.reserve = EOPNOTSUPP}, true), HasSubstr("reserves no room"));
}

// Tests that room that is gone when it is reserved, quotas and a disk that fails are told as what they are.
TEST(SlowFileTest, NamesWhatFails) {
  test::DiskFolder folder;
  auto refusalWith = [&](int reserve) {
    const Failing failing({.reserve = reserve});
    return errorOf([&] { SlowFile(folder.path(), 8 * page); });
  };
  EXPECT_THAT(refusalWith(ENOSPC), HasSubstr("needs 32.00 KiB (32768 bytes), but there is "));
  EXPECT_THAT(refusalWith(EDQUOT), HasSubstr("but the quota of this user leaves less"));
  EXPECT_THAT(refusalWith(EIO), HasSubstr("but it cannot be reserved: Input/output error"));
  const SlowFile file(folder.path(), 8 * page);
  const Failing failing({.read = EIO});
  const Pages read = pagesOf(0, 1);
  EXPECT_THAT(errorOf([&] { file.read(page, read.get(), page); }),
              HasSubstr("expected to read 4096 bytes at 4096, found 0: Input/output error"));
}

// Tests that a disk that does not take what stands in the page cache is told at the write, and not found as damage
// when the bytes are back.
TEST(SlowFileTest, NoticesAFailedWriteBack) {
  const Failing failing({.direct = EINVAL, .writeBack = ENOSPC});
  test::DiskFolder folder;
  const SlowFile file(folder.path(), 8 * page);
  const Pages pages = pagesOf('a', 2);
  EXPECT_THAT(errorOf([&] { file.write(page, pages.get(), 2 * page); }),
              HasSubstr("expected to write 8192 bytes at 4096, found 0: No space left on device"));
}

// Tests that memory that calls itself a folder is called memory.
TEST(SlowFileTest, NamesATmpfs) {
  if (!std::filesystem::exists("/dev/shm"))
    GTEST_SKIP() << "no /dev/shm";
  const SlowFile file("/dev/shm", page);
  EXPECT_TRUE(file.isInMemory());
  EXPECT_THAT(file.notes(), testing::Contains(HasSubstr("'/dev/shm' is a tmpfs, which is memory")));
}

} // namespace
} // namespace stow::slow
