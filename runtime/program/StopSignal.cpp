#include "runtime/program/StopSignal.h"

namespace stow {

namespace {

volatile std::sig_atomic_t receivedSignal = 0;

void remember(int signal) { receivedSignal = signal; }

} // namespace

StopSignal::StopSignal() {
  receivedSignal = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  // The handler is used once: whoever presses Ctrl-C twice does not want to wait for the step.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previousInterrupt);
  sigaction(SIGTERM, &action, &previousTerminate);
  action.sa_flags = SA_RESTART;
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
