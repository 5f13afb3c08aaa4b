#include "runtime/base/LongWork.h"

#include "runtime/base/Signals.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace stow {
namespace {

enum class Interruption : int { None, Pending, Acknowledged };

std::atomic<Interruption> interruption = Interruption::None;
struct sigaction usualAction;

/// Whoever presses Ctrl-C twice does not want to wait.
void remember(int signal) {
  Interruption none = Interruption::None;
  if (!interruption.compare_exchange_strong(none, Interruption::Pending))
    endBySignal(signal);
}

std::mutex mutex;
LongWork work;

void stopWhereInterrupted() {
  if (isInterrupted())
    throw Interrupted();
}

} // namespace

void noteStage(const std::string &stage) {
  stopWhereInterrupted();
  const std::lock_guard lock(mutex);
  work = {stage, ""};
}

void endStage() {
  const std::lock_guard lock(mutex);
  work = {};
}

void noteTry(const std::string &what) {
  stopWhereInterrupted();
  const std::lock_guard lock(mutex);
  work.tried = what;
}

LongWork longWork() {
  const std::lock_guard lock(mutex);
  return work;
}

Interruptible::Interruptible() {
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, nullptr, &usualAction);
  if (usualAction.sa_handler != SIG_IGN)
    sigaction(SIGINT, &action, nullptr);
}

Interruptible::~Interruptible() { sigaction(SIGINT, &usualAction, nullptr); }

bool isInterrupted() { return interruption == Interruption::Pending; }
void acknowledgeInterruption() { interruption = Interruption::Acknowledged; }
bool wasInterrupted() { return interruption != Interruption::None; }

} // namespace stow
