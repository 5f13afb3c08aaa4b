// Where the time of a run goes: per command, and on the host between graph runs.
//
// The device times the commands; nothing is allocated between construction and report. On the host
// a command's time reaches from the end of the one before it to its own end, so that the times add
// up to the graph's run. The first steps are warm-up and do not count: a quarter of them, at most
// three.
//
//   beginStep            beginRun                  endRun                 endStep
//   |-- batch to arena --|-- command 0 | command 1 --|-- loss, log, rest --|
#pragma once

#include "runtime/device/Device.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace stow {

class Profile {
public:
  using Clock = std::chrono::steady_clock;

  /// Of `graph`, which must outlive the profile, for about `steps` steps to come. With the times
  /// that `plan` states for its commands beside the measured ones, where it states them.
  Profile(const GraphProgram &graph, int64_t threads, int64_t steps, const Plan *plan = nullptr);

  // Hooks. --------------------------------------------------------------------------------------

  /// A reading of both clocks.
  struct Moment {
    Clock::time_point clock = Clock::now();
    double processor = processorSeconds();
  };

  void beginStep() { beginStep(Moment()); }
  /// At an earlier moment: which graph a batch runs in may show only when it is read.
  void beginStep(const Moment &begin) {
    stepBegin = last = begin.clock;
    lastProcessor = begin.processor;
  }
  void beginRun() { add(input); }
  /// What the device fills in between beginRun() and endRun().
  std::span<CommandTime> commandTimes() { return times; }
  /// What the device fills in likewise, by number: how long each copy to slow memory or back took.
  std::span<double> copySeconds() { return copyTimes; }
  void endRun() {
    CommandTime sum;
    for (size_t i = 0; i < commands.size(); ++i) {
      add(commands[i], times[i]);
      sum.seconds += times[i].seconds;
      sum.processorSeconds += times[i].processorSeconds;
    }
    for (size_t i = 0; i < copies.size(); ++i)
      add(copies[i].time, {copyTimes[i], 0});
    // What the run took beyond its commands belongs to the rest of the step.
    last += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(sum.seconds));
    lastProcessor += sum.processorSeconds;
  }
  void endStep() {
    add(rest);
    double seconds = std::chrono::duration<double>(last - stepBegin).count();
    if (isWarm() && stepSeconds.size() < stepSeconds.capacity())
      stepSeconds.push_back(seconds);
    ++stepsSeen;
  }

  bool hasRun() const { return stepsSeen > 0; }

  /// What a command of the graph took in the steps that count: the least time, the least processor time.
  CommandTime least(size_t command) const {
    return {commands[command].least, commands[command].leastProcessor};
  }

  // Reports. ------------------------------------------------------------------------------------

  /// Time by kind of operation, and the `rows` commands that take longest. Ends in a newline.
  std::string text(size_t rows) const;

  /// The same in full, times in milliseconds per step: {"graph", "threads", "steps", "step_ms":
  /// [..], "processor_ms", "input_ms", "rest_ms", "commands": [{"index", "kind", "phase", "name",
  /// "ms", "least_ms", "processor_ms", "planned_ms", "flops", "bytes"}], "copies": [{"number",
  /// "kind", "name", "tensor", "ms", "least_ms", "planned_ms", "waited_ms", "planned_waited_ms", "bytes"}],
  /// "planned_copies": {"hidden_ms", "exposed_ms", "extra_time_fraction", "extra_time_bound_fraction"}}; "planned_ms" and
  /// the like where the plan states it, "copies" where there are any. Of a device with memory of its own "device", its name; of
  /// commands that say it "kernels", the numbers of what they run (passes/memory/KernelNumber.h), and "implementation", in
  /// which of several ways.
  std::string json(const std::string &device = "") const;

  /// For Perfetto: the graph on the clock of the measured means, and as it was planned. Throws
  /// Error(BadInput) when no step has run, or there is no plan of these commands.
  std::string perfetto() const;

private:
  struct Time {
    double seconds = 0;                                     ///< of all steps that count
    double processor = 0;                                   ///< seconds of all threads
    double least = std::numeric_limits<double>::infinity(); ///< seconds of any step
    double leastProcessor = std::numeric_limits<double>::infinity();
  };

  bool isWarm() const { return stepsSeen >= warmupSteps; }

  void add(Time &part, const CommandTime &time) {
    if (!isWarm())
      return;
    part.seconds += time.seconds;
    part.processor += time.processorSeconds;
    part.least = std::min(part.least, time.seconds);
    part.leastProcessor = std::min(part.leastProcessor, time.processorSeconds);
  }

  /// Gives the time since the last reading to `part`.
  void add(Time &part) {
    Clock::time_point now = Clock::now();
    double nowProcessor = processorSeconds();
    add(part, {std::chrono::duration<double>(now - last).count(), nowProcessor - lastProcessor});
    last = now;
    lastProcessor = nowProcessor;
  }

  Time total() const;

  /// Of the whole process, all threads. Steadier than the wall clock beside other load.
  static double processorSeconds() {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  int64_t stepsCounted() const { return std::max<int64_t>(stepsSeen - warmupSteps, 0); }
  double perStep(double seconds) const {
    return 1e3 * seconds / static_cast<double>(stepsCounted());
  }
  /// A copy to slow memory or back, by number.
  struct Copy {
    const Command *start = nullptr;
    size_t await = 0; ///< number of the command that waits for it
    Bytes bytes = 0;
    const PlannedCopy *planned = nullptr; ///< absent where the plan does not state it
    Time time = {};
  };

  double plannedMs(size_t command) const;
  double plannedStepSeconds() const;
  struct CopyTimes;
  static const std::string &tensorOf(const Copy &copy);
  CopyTimes rowOf(const Copy &copy) const;
  std::string ofCopies(size_t rows) const;
  std::string byKind() const;
  std::string byCommand(size_t rows) const;

  const GraphProgram &graph;
  const Plan *plan;
  const GraphPlan *planned = nullptr; ///< of this graph; null where it has other commands
  int64_t threads;
  int64_t warmupSteps;
  int64_t stepsSeen = 0;
  Clock::time_point stepBegin, last;
  double lastProcessor = 0;
  Time input, rest;
  std::vector<Time> commands;
  std::vector<CommandTime> times; ///< of the run at hand
  std::vector<Copy> copies;
  std::vector<double> copyTimes; ///< of the run at hand
  std::vector<double> stepSeconds;
};

enum class ProfileFormat : uint8_t { Json, Perfetto };

/// "json" or "perfetto"; throws Error(BadInput) on others.
ProfileFormat parseProfileFormat(const std::string &text);

/// Prints profiles, at least one, of the graphs that a step may run; writes them to a file, too, unless `path` is empty: as JSON
/// several are items of "graphs", for Perfetto only the last is written. The JSON names `device`, which they ran on, as its driver
/// does.
void reportProfiles(std::span<const Profile *const> profiles, const std::string &path,
                    ProfileFormat format, const Device &device);

} // namespace stow
