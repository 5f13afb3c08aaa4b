// What a user sees while training: one line that is redrawn on a terminal, plain lines otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stow {

/// "1:02:03", "02:03".
std::string formatDuration(double seconds);

/// Writes `text` and a line end to standard output, past all buffers.
void printLine(const std::string &text);

/// From here on neither lines nor warnings are written: of several ranks that train together one speaks.
void keepSilent();

/// Writes `text` as a warning to standard error.
void printWarning(const std::string &text);

class Progress {
public:
  using Clock = std::chrono::steady_clock;

  struct Run {
    int64_t firstStep = 0; ///< steps done before this process
    int64_t totalSteps = 0;
    int64_t stepsPerEpoch = 1;
    int64_t batch = 1;
    std::string arena = ""; ///< its size for the line; empty: not shown
  };
  enum class Style : uint8_t { Quiet, Plain, Bar };

  /// Bar on a terminal, Plain otherwise.
  static Style styleFor(int fileDescriptor);

  Progress(const Run &run, Style style);

  /// After each step, `done` of the whole run's steps being complete. Draws at most ten times a
  /// second (Bar), or at the first step, every two seconds and at the end of epochs (Plain).
  /// Allocates nothing.
  void step(int64_t done, double rate, double loss);

  /// Prints a line of its own. Keeps the bar intact.
  void line(const std::string &text);

  /// Prints a warning to standard error, in every style.
  void warn(const std::string &text);

  /// Ends the bar.
  void finish();

  /// Takes time out of the account: evaluations and saves are no training.
  void exclude(Clock::duration time) { start += time; }

  /// Since the construction, without what was excluded.
  double seconds() const;
  double samplesPerSecond(int64_t done) const;

private:
  void draw(int64_t done, double rate, double loss);

  Run run;
  Style style;
  Clock::time_point start;
  Clock::time_point lastDrawn;
  bool drewAny = false;
  bool barIsOpen = false;
};

} // namespace stow
