#include "compiler/Offload.h"

#include "codegen/Backend.h"
#include "runtime/base/CopyPace.h"
#include "runtime/base/Error.h"
#include "runtime/base/MemoryFlag.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/slow/MeasureFolder.h"

#include <absl/strings/str_format.h>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace stow {
namespace {

constexpr double kGiga = 1e9, kMicro = 1e3; ///< bytes a second, nanoseconds

/// A link of whole megabytes a second and whole microseconds, so that what is printed gives the same plan again.
schedule::Link linkOf(double gigabytesPerSecond, double microseconds) {
  schedule::Link link;
  link.bandwidthBytes = std::max<Bytes>(std::llround(gigabytesPerSecond * 1000), 1) * 1'000'000;
  link.perCost = 1'000'000'000;
  link.latency = std::llround(microseconds) * static_cast<schedule::Cost>(kMicro);
  return link;
}

double gigabytesPerSecond(const schedule::Link &link) {
  return static_cast<double>(link.bandwidthBytes) / kGiga;
}

int64_t microseconds(const schedule::Link &link) {
  return link.latency / static_cast<schedule::Cost>(kMicro);
}

SlowMemory statedBy(const CopySpeed &speed) {
  constexpr double kLatency = 100; // of a copy through a thread and a disk's queue
  const double latency = speed.microseconds.value_or(kLatency);
  SlowMemory slow;
  slow.out = linkOf(speed.outGigabytes, latency);
  slow.in = linkOf(speed.inGigabytes, latency);
  return slow;
}

/// What the folder does.
SlowMemory measured(const std::string &folder) {
  const slow::FolderSpeed speed = slow::measureFolder(folder);
  for (const std::string &note : speed.notes)
    absl::FPrintF(stderr, "note: %s\n", note);
  const double latency = std::max(speed.out.latencySeconds, speed.in.latencySeconds) * 1e6;
  SlowMemory slow;
  slow.out = linkOf(speed.out.bytesPerSecond / kGiga, latency);
  slow.in = linkOf(speed.in.bytesPerSecond / kGiga, latency);
  return slow;
}

/// What was measured, so that it can be stated instead.
void printMeasured(const std::string &folder, const SlowMemory &slow) {
  const double out = gigabytesPerSecond(slow.out), in = gigabytesPerSecond(slow.in);
  absl::FPrintF(stderr,
                "%s: %.3f GB/s out, %.3f GB/s in, as measured now; to plan the same again: "
                "--offload-bandwidth=%.3f,%.3f,%d --offload-capacity=%d\n",
                folder, out, in, out, in, microseconds(slow.out), slow.capacity);
}

Bytes freeIn(const std::string &folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || !std::filesystem::is_directory(folder))
    throw Error::badInput("--offload=" + folder + ": expected a folder" +
                          (error ? ": " + error.message() : "") +
                          "; a plan without it needs both --offload-bandwidth and "
                          "--offload-capacity, and no --profile=run");
  return static_cast<Bytes>(space.available);
}

} // namespace

void addOffloadFlags(CommandLine &line, OffloadOptions &options) {
  line.value("offload", "none|FOLDER",
             "where activations may travel that do not fit --memory-budget, instead of being "
             "computed again: a "
             "folder on a disk (default: none)",
             [&](const std::string &text) { options.folder = text == "none" ? "" : text; });
  line.value("offload-state", "none|optimizer|frozen|all|auto",
             "what lies in --offload from step to step: what the optimizer keeps, fetched for its "
             "update and sent back; frozen weights, fetched where they are read; both; auto: as "
             "little of both as fits the budget, the largest first (default: none)",
             [&](const std::string &text) {
               const bool isKind = text == "optimizer" || text == "frozen" || text == "all";
               if (!isKind && text != "none" && text != "auto")
                 throw Error::badInput("--offload-state=" + text +
                                       ": expected none, optimizer, frozen, all or auto");
               options.stateKinds = isKind ? text : "all";
               options.statePercent = text == "none" ? std::optional<int64_t>(0)
                                      : isKind       ? std::optional<int64_t>(100)
                                                     : std::nullopt;
             });
  line.value("offload-bandwidth", "OUT,IN",
             "gigabytes a second that copies to and from --offload are taken to pass, and perhaps "
             "the microseconds of a copy: 1.2,2.5,150 (default: measured in the folder, now)",
             [&](const std::string &text) { options.speed = statedBy(parseCopySpeed(text)); });
  line.value("offload-capacity", "BYTES",
             "what may lie in --offload at once (default: what is free there)",
             [&](const std::string &text) {
               options.capacity = parseMemoryBytes("offload-capacity", text);
             });
}

void checkOffload(const OffloadOptions &options, const std::string &target, bool isRun) {
  if (!options.isAsked()) {
    if (options.speed || options.capacity || options.statePercent != 0)
      throw Error::badInput(std::string(options.speed      ? "--offload-bandwidth"
                                        : options.capacity ? "--offload-capacity"
                                                           : "--offload-state") +
                            " is about --offload=FOLDER; give one");
    return;
  }
  if (const std::string why = whyNot(target, Feature::SlowMemory); !why.empty())
    throw Error::badInput(why + "; leave it out with --target=" + target);
  if (!options.speed || !options.capacity || isRun)
    freeIn(options.folder);
}

std::optional<SlowMemory> slowMemoryOf(const OffloadOptions &options) {
  if (!options.isAsked())
    return std::nullopt;
  std::optional<SlowMemory> &known = *options.known;
  if (known)
    return known;
  SlowMemory slow = options.speed ? *options.speed : measured(options.folder);
  slow.capacity = (options.capacity ? *options.capacity : freeIn(options.folder)) / kSlowAlignment *
                  kSlowAlignment;
  if (!options.speed)
    printMeasured(options.folder, slow);
  known = slow;
  return known;
}

} // namespace stow
