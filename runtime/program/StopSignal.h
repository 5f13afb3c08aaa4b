// Ctrl-C and termination requests during training.
#pragma once

#include <csignal>

namespace stow {

/// While an object lives, SIGINT and SIGTERM are remembered instead of ending the process; the
/// second one of a kind ends it as usual. A reader of the output that goes away (`| head`) ends
/// nothing. One object at a time.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal &) = delete;
  StopSignal &operator=(const StopSignal &) = delete;

  /// The signal received, or 0.
  int received() const;

private:
  struct sigaction previousInterrupt, previousTerminate, previousPipe;
};

} // namespace stow
