// What a command that takes more than two seconds is at, on standard error: on a terminal one line that is
// rewritten and goes when the command is done, elsewhere a line for every stage and now and then one more.
#pragma once

namespace stow {

class ProgressLine {
public:
  /// Shows what noteStage and noteTry say (runtime/base/LongWork.h), until the process ends or silenceProgress().
  /// The environment variable STOWAGE_PROGRESS may be "none", or "all": from the start, and of all that is tried. One object at a time.
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;
};

/// Takes the line off the terminal, for what is printed between.
void hideProgress();

/// The same, until the next stage.
void endProgress();

/// For --quiet: shows no more.
void silenceProgress();

} // namespace stow
