// Ctrl-C, termination requests and closed terminals during training.
#pragma once

#include <csignal>

namespace stow {

/// While an object lives, SIGINT, SIGTERM and SIGHUP are remembered instead of ending the process.
/// The second SIGINT or SIGTERM ends it as usual; a second SIGHUP does not, because a terminal that
/// closes sends one and its shell another. Where SIGHUP was ignored (nohup) it still is. A reader
/// of the output that goes away (`| head`) ends nothing. One object at a time.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal &) = delete;
  StopSignal &operator=(const StopSignal &) = delete;

  /// The signal received, or 0.
  int received() const;

private:
  struct sigaction previousInterrupt, previousTerminate, previousHangUp, previousPipe;
};

} // namespace stow
