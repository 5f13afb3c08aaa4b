#include "runtime/base/Signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace stow {
namespace {

namespace fs = std::filesystem;

class SignalsTest : public testing::Test {
protected:
  SignalsTest() : folder(fs::path(testing::TempDir()) / ("signals-" + std::to_string(getpid()))) {
    fs::create_directories(folder / "unfinished");
    for (const char *name : {"file", "unfinished/a", "unfinished/b", "done"})
      std::ofstream(folder / name) << name;
  }
  ~SignalsTest() override { fs::remove_all(folder); }

  /// How a process ends that notes what is unfinished and gets the signal.
  template <typename Before> int statusAfter(int signal, const Before &before) {
    const pid_t child = fork();
    if (child == 0) {
      before();
      takeSignals();
      for (const char *name : {"file", "unfinished", "done"})
        addUnfinished(folder / name);
      forgetUnfinished(folder / "done");
      std::raise(signal);
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  const fs::path folder;
};

TEST_F(SignalsTest, RemovesWhatIsUnfinishedAndEndsByTheSignal) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    fs::create_directories(folder / "unfinished");
    std::ofstream(folder / "unfinished/a") << "a";
    std::ofstream(folder / "file") << "file";
    const int status = statusAfter(signal, [signal] { std::signal(signal, SIG_DFL); });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_FALSE(fs::exists(folder / "file"));
    EXPECT_FALSE(fs::exists(folder / "unfinished"));
    EXPECT_TRUE(fs::exists(folder / "done"));
  }
}

TEST_F(SignalsTest, LeavesIgnoredSignalsIgnored) {
  const int status = statusAfter(SIGHUP, [] { std::signal(SIGHUP, SIG_IGN); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  EXPECT_TRUE(fs::exists(folder / "file"));
}

TEST_F(SignalsTest, TooLargeFilesAreErrorsOfTheWrite) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    takeSignals();
    const rlimit tight = {1, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &tight);
    std::ofstream file(folder / "large");
    file << "large" << std::flush;
    _exit(file ? 1 : 7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

} // namespace
} // namespace stow
