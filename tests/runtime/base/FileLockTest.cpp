#include "runtime/base/FileLock.h"

#include "runtime/base/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace stow {
namespace {

class FileLockTest : public testing::Test {
protected:
  FileLockTest() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  ~FileLockTest() override { std::filesystem::remove_all(folder); }

  std::string errorOf(const std::string &path) {
    try {
      FileLock lock(path);
    } catch (const Error &error) {
      return error.what();
    }
    return "no error";
  }

  const std::string folder = testing::TempDir() + "FileLockTest" + std::to_string(::getpid());
  const std::string path = folder + "/w.safetensors";
};

TEST_F(FileLockTest, OneAtATime) {
  std::optional<FileLock> lock(path);
  EXPECT_EQ(errorOf(path),
            "another run (process " + std::to_string(::getpid()) + ") saves to '" + path +
                "'; expected one run for a file: name another, or let that one end first");
  EXPECT_EQ(errorOf(folder + "/other"), "no error");
  lock.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(errorOf(path), "no error");
}

// Tests that what a killed process leaves holds nobody up.
TEST_F(FileLockTest, AKilledOwnersLockIsFree) {
  const pid_t child = ::fork();
  if (child == 0) {
    new FileLock(path);
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(std::filesystem::exists(path + ".lock"));
  EXPECT_EQ(errorOf(path), "no error");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// Tests that of several at once no two have the lock, though each removes the file that it locked.
TEST_F(FileLockTest, RemovedLocksAreNotTaken) {
  std::atomic<int> holders = 0, most = 0, taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j)
        try {
          FileLock lock(path);
          ++taken;
          most = std::max<int>(most, ++holders);
          --holders;
        } catch (const Error &) {
        }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(taken, 0);
}

TEST_F(FileLockTest, AFolderThatIsNotThere) {
  EXPECT_THAT(errorOf(folder + "/none/w"),
              testing::HasSubstr("cannot lock '" + folder + "/none/w': No such file"));
}

} // namespace
} // namespace stow
