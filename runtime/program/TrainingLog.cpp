#include "runtime/program/TrainingLog.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Error.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <unistd.h>

namespace stow {

namespace {

std::string_view headerOf(bool scaled) {
  return scaled ? "step,epoch,lr,loss,loss_scale,skipped\n" : "step,epoch,lr,loss\n";
}

/// Longer than any row.
constexpr size_t longestRow = 192;

/// Step number at the start of a row, or -1.
int64_t stepOf(const std::string &row) {
  int64_t step = -1;
  std::from_chars(row.data(), row.data() + row.size(), step);
  return step;
}

/// Length of the part of an old log up to the row of step `keepSteps`; 0 when there is no log yet.
int64_t keptBytes(const std::string &path, int64_t keepSteps, std::string_view header) {
  std::ifstream old(path, std::ios::binary);
  if (!old)
    return 0;
  auto fail = [&](const std::string &problem) {
    throw Error::badInput(path + ": " + problem +
                          "; the log does not belong to this checkpoint, use another --log=FILE");
  };
  std::string line;
  if (!std::getline(old, line) || line + "\n" != header)
    fail("expected the first line '" + std::string(header.substr(0, header.size() - 1)) +
         "', found something else");
  auto bytes = static_cast<int64_t>(header.size());
  int64_t previous = -1;
  // A last line without its end was cut off by whatever ended the run; getline then meets the end
  // of the file.
  while (std::getline(old, line) && !old.eof()) {
    int64_t step = stepOf(line);
    // A log may start late, when an earlier part of the run was not logged.
    if (step < 1 || (previous >= 0 && step != previous + 1))
      fail(concat("expected step ", previous + 1, ", found the row '", line, "'"));
    if (step > keepSteps)
      return bytes;
    previous = step;
    bytes += static_cast<int64_t>(line.size()) + 1;
  }
  if (previous >= 0 && previous < keepSteps)
    fail(concat("it ends at step ", previous, ", the checkpoint is at step ", keepSteps));
  return bytes;
}

} // namespace

TrainingLog::TrainingLog(const std::string &path, int64_t keepSteps, bool scaled) : path(path) {
  waiting.reserve(longestRow);
  const std::string_view header = headerOf(scaled);
  int64_t kept = keepSteps > 0 ? keptBytes(path, keepSteps, header) : 0;
  file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    throw Error::badInput(failure("open"));
  if (::ftruncate(file, kept) != 0)
    throw Error::badInput(failure("shorten"));
  if (kept == 0 &&
      ::write(file, header.data(), header.size()) != static_cast<ssize_t>(header.size()))
    throw Error::badInput(failure("write"));
}

TrainingLog::~TrainingLog() {
  if (file >= 0)
    ::close(file);
}

std::string TrainingLog::failure(const char *what) const {
  return "cannot " + std::string(what) + " '" + path + "': " + std::strerror(errno);
}

void TrainingLog::append(int64_t step, int64_t epoch, double rate, double loss,
                         std::optional<LossScaleState> scale) {
  char row[longestRow];
  auto add = [&](const char *format, auto... values) {
    int size = std::snprintf(row, sizeof(row), format, values...);
    waiting.append(row, static_cast<size_t>(size));
  };
  add("%lld,%lld,%.9g,%.9g", static_cast<long long>(step), static_cast<long long>(epoch), rate,
      loss);
  if (scale)
    add(",%.9g,%lld", scale->scale, static_cast<long long>(scale->skippedSteps));
  waiting += '\n';
  writeWaiting();
}

void TrainingLog::writeWaiting() {
  while (!waiting.empty()) {
    ssize_t written = ::write(file, waiting.data(), waiting.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      lastProblem = failure("write");
      return;
    }
    waiting.erase(0, static_cast<size_t>(written));
  }
  lastProblem.clear();
}

void TrainingLog::writeThrough() {
  writeWaiting();
  if (lastProblem.empty() && ::fsync(file) != 0 && errno != EINVAL &&
      errno != EROFS) // a pipe has nothing to write to
    lastProblem = failure("write through");
}

} // namespace stow
