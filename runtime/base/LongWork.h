// What a command that takes long is at: shown to whoever waits (compiler/ProgressLine.h), and where Ctrl-C reaches it.
#pragma once

#include <string>

namespace stow {

/// Thrown by noteStage and noteTry where Ctrl-C was pressed while an Interruptible lives. Whoever catches it to give
/// the best so far calls acknowledgeInterruption().
struct Interrupted {};

/// From now on the process is at this stage ("import"). Throws Interrupted.
void noteStage(const std::string &stage);

/// It is at none.
void endStage();

/// What the stage tries now ("a schedule within 1.20 GiB"). Throws Interrupted.
void noteTry(const std::string &what);

/// Both, for a line: "order: a schedule within 1.20 GiB".
struct LongWork {
  std::string stage, tried;
};
LongWork longWork();

/// While one lives, the first Ctrl-C is left to whoever works; the second ends the process as usual.
class Interruptible {
public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible &) = delete;
  Interruptible &operator=(const Interruptible &) = delete;
};

/// Ctrl-C was pressed, and nobody has caught it yet: what can be ended early, should be.
bool isInterrupted();

/// Work ends with what there is: nothing throws Interrupted any more.
void acknowledgeInterruption();

/// Ctrl-C has ended work early in this process.
bool wasInterrupted();

/// The exit code of a process that Ctrl-C has ended early.
constexpr int kInterruptedCode = 130;

} // namespace stow
