#include "runtime/program/Progress.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

namespace stow {

namespace {

constexpr int output = STDOUT_FILENO;

bool isSilent = false;

void print(const char *text, size_t size) {
  if (isSilent)
    return;
  // Progress that cannot be shown is no reason to stop training.
  while (size > 0) {
    ssize_t written = ::write(output, text, size);
    if (written <= 0)
      return;
    text += written;
    size -= static_cast<size_t>(written);
  }
}

int terminalColumns() {
  winsize size = {};
  bool known = ::ioctl(output, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void writeDuration(double seconds, char *text, size_t size) {
  auto total = static_cast<long long>(std::clamp(seconds, 0.0, 3.6e9) + 0.5);
  long long hours = total / 3600, minutes = total / 60 % 60;
  if (hours > 0)
    std::snprintf(text, size, "%lld:%02lld:%02lld", hours, minutes, total % 60);
  else
    std::snprintf(text, size, "%02lld:%02lld", minutes, total % 60);
}

} // namespace

void keepSilent() { isSilent = true; }

void printLine(const std::string &text) {
  std::string whole = text + "\n";
  print(whole.data(), whole.size());
}

std::string formatDuration(double seconds) {
  char text[32];
  writeDuration(seconds, text, sizeof(text));
  return text;
}

Progress::Style Progress::styleFor(int fileDescriptor) {
  return ::isatty(fileDescriptor) ? Style::Bar : Style::Plain;
}

Progress::Progress(const Run &run, Style style)
    : run(run), style(style), start(Clock::now()), lastDrawn(start) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Progress::samplesPerSecond(int64_t done) const {
  double elapsed = seconds();
  return elapsed > 0 ? static_cast<double>((done - run.firstStep) * run.batch) / elapsed : 0;
}

void Progress::step(int64_t done, double rate, double loss) {
  if (style == Style::Quiet)
    return;
  Clock::time_point now = Clock::now();
  bool isEnd = done % run.stepsPerEpoch == 0 || done == run.totalSteps;
  auto pause = std::chrono::milliseconds(style == Style::Bar ? 100 : 2000);
  if (drewAny && !isEnd && now - lastDrawn < pause)
    return;
  drewAny = true;
  lastDrawn = now;
  draw(done, rate, loss);
}

void Progress::draw(int64_t done, double rate, double loss) {
  int64_t epochs = (run.totalSteps + run.stepsPerEpoch - 1) / run.stepsPerEpoch;
  int64_t epoch = (done - 1) / run.stepsPerEpoch + 1;
  double speed = samplesPerSecond(done);
  double left = speed > 0 ? static_cast<double>((run.totalSteps - done) * run.batch) / speed : 0;
  char eta[32], facts[200];
  writeDuration(left, eta, sizeof(eta));
  int factSize = std::snprintf(
      facts, sizeof(facts), "step %lld/%lld  loss %.6g  lr %.4g  %.1f samples/s  ETA %s",
      static_cast<long long>(done), static_cast<long long>(run.totalSteps), loss, rate, speed, eta);
  char arena[48] = {};
  if (!run.arena.empty())
    std::snprintf(arena, sizeof(arena), "  arena %s", run.arena.c_str());
  char text[512];
  int size;
  if (style == Style::Plain) {
    size =
        std::snprintf(text, sizeof(text), "epoch %lld/%lld  %s%s\n", static_cast<long long>(epoch),
                      static_cast<long long>(epochs), facts, arena);
  } else {
    char front[64];
    int frontSize = std::snprintf(front, sizeof(front), "epoch %lld/%lld ",
                                  static_cast<long long>(epoch), static_cast<long long>(epochs));
    // What the terminal has left between the two texts, brackets and spaces taken off. A line that
    // wraps could not be redrawn: the arena is shown where there is room.
    int columns = std::min(terminalColumns(), 160) - frontSize - factSize - 5;
    auto arenaSize = static_cast<int>(std::strlen(arena));
    if (columns < arenaSize)
      arena[arenaSize = 0] = 0;
    int width = std::clamp(columns - arenaSize, 0, 40);
    int64_t inEpoch = (done - 1) % run.stepsPerEpoch + 1;
    auto filled = static_cast<int>(inEpoch * width / run.stepsPerEpoch);
    char bar[48] = {};
    for (int i = 0; i < width; ++i)
      bar[i] = i < filled ? '#' : '.';
    size = std::snprintf(text, sizeof(text), "\r\033[K%s%s%s%s %s%s", front, width ? "[" : "", bar,
                         width ? "]" : "", facts, arena);
    barIsOpen = true;
  }
  print(text, static_cast<size_t>(size));
}

void printWarning(const std::string &text) {
  if (!isSilent)
    std::fprintf(stderr, "warning: %s\n", text.c_str());
}

void Progress::line(const std::string &text) {
  if (style == Style::Quiet)
    return;
  finish();
  printLine(text);
}

void Progress::warn(const std::string &text) {
  finish();
  printWarning(text);
}

void Progress::finish() {
  if (barIsOpen)
    print("\n", 1);
  barIsOpen = false;
}

} // namespace stow
