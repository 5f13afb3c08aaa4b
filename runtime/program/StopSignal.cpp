#include "runtime/program/StopSignal.h"

#include "runtime/base/Signals.h"

namespace stow {

namespace {

volatile std::sig_atomic_t receivedSignal = 0, wasInterrupted = 0, wasTerminated = 0;

/// Whoever presses Ctrl-C twice does not want to wait for the step.
void remember(int signal) {
  volatile std::sig_atomic_t &isSecond = signal == SIGINT ? wasInterrupted : wasTerminated;
  if (signal != SIGHUP && isSecond)
    endBySignal(signal);
  if (signal != SIGHUP)
    isSecond = 1;
  receivedSignal = signal;
}

} // namespace

StopSignal::StopSignal() {
  receivedSignal = 0;
  wasInterrupted = 0;
  wasTerminated = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previousInterrupt);
  sigaction(SIGTERM, &action, &previousTerminate);
  sigaction(SIGHUP, nullptr, &previousHangUp);
  if (previousHangUp.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &previousPipe);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &previousInterrupt, nullptr);
  sigaction(SIGTERM, &previousTerminate, nullptr);
  sigaction(SIGHUP, &previousHangUp, nullptr);
  sigaction(SIGPIPE, &previousPipe, nullptr);
}

int StopSignal::received() const { return receivedSignal; }

} // namespace stow
