#include "runtime/slow/SlowFile.h"

#include "runtime/base/Error.h"
#include "tests/runtime/slow/DiskFolder.h"

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
