#include "compiler/ProgressLine.h"

#include "runtime/base/LongWork.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

namespace stow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSilence(2000);
constexpr std::chrono::milliseconds kRefresh(250);

struct Shown {
  std::mutex mutex;
  std::condition_variable wake;
  std::thread thread;
  bool isRunning = false, isSilenced = false, lineIsOpen = false;
} shown;

void print(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Its lock is held.
void takeLineOff() {
  if (shown.lineIsOpen)
    print("\r\033[K");
  shown.lineIsOpen = false;
}

std::string lineOf(const LongWork &work, Clock::duration elapsed) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed).count();
  return absl::StrCat(absl::StrFormat("[%d:%02d] ", seconds / 60, seconds % 60), work.stage,
                      work.tried.empty() ? "" : ": ", work.tried);
}

/// A line that wraps could not be rewritten.
std::string fitted(const std::string &line) {
  winsize size = {};
  const bool isKnown = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return line.substr(0, isKnown ? size.ws_col - 1 : 79);
}

void show(Clock::time_point start, bool isAll) {
  const bool isTerminal = ::isatty(STDERR_FILENO);
  LongWork last;
  Clock::duration next = kSilence; // when a stage that goes on gets one more line
  std::unique_lock lock(shown.mutex);
  shown.wake.wait_for(lock, isAll ? kRefresh : kSilence, [] { return !shown.isRunning; });
  for (; shown.isRunning; shown.wake.wait_for(lock, kRefresh, [] { return !shown.isRunning; })) {
    const LongWork work = longWork();
    if (shown.isSilenced || work.stage.empty())
      continue;
    const Clock::duration elapsed = Clock::now() - start;
    if (isTerminal) {
      print("\r\033[K" + fitted(lineOf(work, elapsed)));
      shown.lineIsOpen = true;
    } else if (work.stage != last.stage || elapsed >= next || (isAll && work.tried != last.tried)) {
      print(lineOf(work, elapsed) + "\n");
      next = std::max(2 * elapsed, elapsed + std::chrono::seconds(10));
      last = work;
    }
  }
}

} // namespace

ProgressLine::ProgressLine() {
  const char *given = std::getenv("STOWAGE_PROGRESS");
  const std::string_view wanted = given ? given : "";
  if (wanted == "none")
    return;
  shown.isRunning = true;
  // Signals are for the thread that works.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  shown.thread = std::thread(show, Clock::now(), wanted == "all");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressLine::~ProgressLine() {
  if (!shown.thread.joinable())
    return;
  {
    const std::lock_guard lock(shown.mutex);
    shown.isRunning = false;
    takeLineOff();
  }
  shown.wake.notify_all();
  shown.thread.join();
}

void hideProgress() {
  const std::lock_guard lock(shown.mutex);
  takeLineOff();
}

void endProgress() {
  endStage();
  hideProgress();
}

void silenceProgress() {
  const std::lock_guard lock(shown.mutex);
  shown.isSilenced = true;
  takeLineOff();
}

} // namespace stow
