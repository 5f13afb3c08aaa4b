#include "compiler/Offload.h"

#include "runtime/base/CopyPace.h"
#include "runtime/base/Error.h"
#include "runtime/base/MemoryFlag.h"
#include "runtime/format/SlowCopies.h"
#include "runtime/slow/MeasureFolder.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
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

SlowMemory over(const HostLink &link) {
  SlowMemory slow;
  slow.out = slow.in = linkOf(link.gigabytesPerSecond, link.microseconds);
  return slow;
}

/// More than a plan can need, and whole blocks.
constexpr Bytes kUnlimited =
    std::numeric_limits<Bytes>::max() / 4 / kSlowAlignment * kSlowAlignment;

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
  line.value(
      "offload", "none|host|auto|FOLDER",
      "where activations may travel that do not fit --memory-budget, instead of being "
      "computed again: a folder on a disk; on GPUs host, pinned memory of the host, or auto, "
      "the same for state, too, as far as the budget needs it (default: none)",
      [&](const std::string &text) {
        options.place = text == "none"   ? SlowPlace::None
                        : text == "host" ? SlowPlace::Host
                        : text == "auto" ? SlowPlace::Auto
                                         : SlowPlace::Folder;
        options.folder = options.place == SlowPlace::Folder ? text : "";
      });
  line.value(
      "offload-state", "none|optimizer|parameters|frozen|all|auto",
      "what lies in --offload from step to step: what the optimizer keeps, fetched for its "
      "update and sent back; trained weights, fetched where they are read and sent back; "
      "frozen weights, fetched where they are read; all; auto: as little as fits the budget, "
      "the largest first, trained weights last (default: none)",
      [&](const std::string &text) {
        const bool isKind =
            text == "optimizer" || text == "parameters" || text == "frozen" || text == "all";
        if (!isKind && text != "none" && text != "auto")
          throw Error::badInput("--offload-state=" + text +
                                ": expected none, optimizer, parameters, frozen, all or "
                                "auto");
        options.isStateAsked = true;
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
  line.value(
      "host-memory", "BYTES",
      "most pinned memory of the host that --offload=host or auto may take (default: as much "
      "as the plan needs, which it states)",
      [&](const std::string &text) { options.hostMemory = parseMemoryBytes("host-memory", text); });
  line.value(
      "link", "pcie4|pcie5|nvlink-c2c|GB/S",
      "how --offload=host or auto reaches it: a kind of link, or gigabytes a second each way "
      "(default: that of the target's data sheet)",
      [&](const std::string &text) { options.linkName = text; });
}

namespace {

/// What is said of slow memory of another kind than --offload names, or of none.
void refuseStray(const OffloadOptions &options) {
  if (!options.isOfHost() && (options.hostMemory || !options.linkName.empty()))
    throw Error::badInput(std::string(options.hostMemory ? "--host-memory" : "--link") +
                          " is about --offload=host or auto; give one");
  if (options.isAsked())
    return;
  if (options.speed || options.capacity || options.isStateAsked)
    throw Error::badInput(std::string(options.speed      ? "--offload-bandwidth"
                                      : options.capacity ? "--offload-capacity"
                                                         : "--offload-state") +
                          " is about --offload=FOLDER; give one");
}

void finishHostMemory(OffloadOptions &options, const std::string &target, bool hasBudget) {
  if (options.speed && !options.link && !options.linkName.empty())
    throw Error::badInput("--offload-bandwidth and --link both say how fast copies are; give one "
                          "of them");
  if (options.capacity && options.hostMemory && options.capacity != options.hostMemory)
    throw Error::badInput("--offload-capacity and --host-memory both limit what travels; give one "
                          "of them");
  if (options.hostMemory)
    options.capacity = options.hostMemory;
  if (!options.speed || options.link) {
    options.link = requireHostLink(target, options.linkName);
    options.speed = over(*options.link);
  }
  if (options.place == SlowPlace::Auto && !options.isStateAsked)
    options.statePercent = hasBudget ? std::nullopt : std::optional<int64_t>(0);
}

} // namespace

std::string noteOf(const OffloadOptions &options) {
  if (!options.isOfHost())
    return "";
  const SlowMemory &speed = *options.speed;
  return absl::StrCat(
      "what travels does so to pinned memory of the host",
      options.capacity ? absl::StrCat(" of at most ", formatBytesExact(*options.capacity)) : "",
      absl::StrFormat(", taken to pass %.1f GB/s out and %.1f in", gigabytesPerSecond(speed.out),
                      gigabytesPerSecond(speed.in)),
      options.link ? absl::StrCat(" over ", options.link->name, " (", options.link->source, ")")
                   : " as --offload-bandwidth says");
}

void finishOffload(OffloadOptions &options, const std::string &target, bool hasBudget, bool isRun) {
  refuseStray(options);
  if (!options.isAsked())
    return;
  const Feature feature = options.isOfHost() ? Feature::HostMemory : Feature::FolderMemory;
  if (const std::string why = whyNot(target, feature); !why.empty())
    throw Error::badInput(why);
  if (options.isOfHost())
    finishHostMemory(options, target, hasBudget);
  else if (!options.speed || !options.capacity || isRun)
    freeIn(options.folder);
}

std::optional<SlowMemory> slowMemoryOf(const OffloadOptions &options) {
  if (!options.isAsked())
    return std::nullopt;
  std::optional<SlowMemory> &known = *options.known;
  if (known)
    return known;
  SlowMemory slow = options.speed ? *options.speed : measured(options.folder);
  const Bytes capacity = options.capacity     ? *options.capacity
                         : options.isOfHost() ? kUnlimited
                                              : freeIn(options.folder);
  slow.capacity = capacity / kSlowAlignment * kSlowAlignment;
  if (!options.speed)
    printMeasured(options.folder, slow);
  known = slow;
  return known;
}

} // namespace stow
