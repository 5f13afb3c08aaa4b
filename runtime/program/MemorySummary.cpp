#include "runtime/program/MemorySummary.h"

#include <cstdio>
#include <fstream>

namespace stow {

std::optional<Bytes> peakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (Bytes kibibytes = 0; word == "VmHWM:" && status >> kibibytes)
      return kibibytes * 1024;
  return std::nullopt;
}

std::string memorySummary(const Plan &plan, const OutsideMemory &outside) {
  const std::optional<Bytes> peak = peakResidentBytes();
  std::string text = "memory: process peak " +
                     (peak ? formatBytes(*peak) : "not known without /proc/self/status") +
                     ", arena " + formatBytesExact(plan.arenaBytes);
  if (peak && *peak >= plan.arenaBytes)
    text += ", the rest " + formatBytes(*peak - plan.arenaBytes);
  if (plan.outsideArenaBytes > 0)
    text += " (stated: " + formatBytes(plan.outsideArenaBytes) +
            (outside.total() > plan.outsideArenaBytes
                 ? ", on this machine up to " + formatBytes(outside.total()) + ","
                 : std::string()) +
            " and the data file)";
  return text;
}

std::string memorySummary(const Plan &plan, const Device &device) {
  const std::optional<DriverMemory> memory = device.driverMemory();
  const std::optional<SlowTraffic> traffic = device.slowTraffic();
  const std::optional<ExchangeWaits> waits = device.exchangeWaits();
  if (waits && waits->runs > 0 && !memory)
    return exchangeSummary(plan, *waits) + "\n" + memorySummary(plan, device.outsideMemory());
  if (!memory)
    return memorySummary(plan, device.outsideMemory()) +
           (traffic ? "\n" + slowMemorySummary(*traffic) : "");
  const std::optional<Bytes> peak = peakResidentBytes();
  return driverMemorySummary(plan, *memory) + "\nmemory of the host: process peak " +
         (peak ? formatBytes(*peak) : "not known without /proc/self/status") + ", of it pinned " +
         formatBytes(device.outsideMemory().fixed) +
         (traffic ? "\n" + slowMemorySummary(*traffic) : "");
}

std::string slowMemorySummary(const SlowTraffic &traffic) {
  return "slow memory: " + formatBytesExact(traffic.bytesOut) + " out and " +
         formatBytesExact(traffic.bytesIn) + " in, " + traffic.place + " of " +
         formatBytes(traffic.slowBytes);
}

std::string exchangeSummary(const Plan &plan, const ExchangeWaits &waits) {
  double planned = 0;
  for (const GraphPlan &graph : plan.graphs)
    if (graph.reductions)
      planned +=
          graph.reductions->exposedSeconds.value_or(0) *
          static_cast<double>(graph.role == GraphRole::Accumulate ? plan.batchesPerStep - 1 : 1);
  char text[120];
  std::snprintf(text, sizeof(text),
                "network: a step waited %.3f ms for what was started ahead, planned %.3f ms",
                1e3 * waits.seconds * static_cast<double>(plan.batchesPerStep) /
                    static_cast<double>(waits.runs),
                1e3 * planned);
  return text;
}

/// What the load found beside the arena, by what the plan states.
static std::string besideArena(const Plan &plan, const DriverMemory &memory) {
  const Bytes measured = memory.contexts + memory.code + memory.graphs;
  const std::string flag = "--outside=" + std::to_string(measured) +
                           " when compiling states it, where no other process is on the device)";
  return "together " + formatBytesExact(measured) +
         (plan.outsideArenaBytes >= measured ? " (within what the plan states)"
          : plan.outsideArenaBytes > 0       ? " (more than the plan states; " + flag
                                             : " (the plan states nothing; " + flag);
}

std::string driverMemorySummary(const Plan &plan, const DriverMemory &memory) {
  const Bytes unaccounted = memory.inUse - plan.arenaBytes - plan.outsideArenaBytes;
  return "memory of " + memory.device + ": " + formatBytesExact(memory.inUse) + " of " +
         formatBytes(memory.total) + " in use by all processes = arena " +
         formatBytesExact(plan.arenaBytes) + " + fixed part " +
         (plan.outsideArenaBytes > 0 ? formatBytesExact(plan.outsideArenaBytes) : "not measured") +
         " + unaccounted " + (unaccounted < 0 ? "-" : "") +
         formatBytesExact(unaccounted < 0 ? -unaccounted : unaccounted) + "; context " +
         formatBytesExact(memory.contexts) + ", code and libraries " +
         formatBytesExact(memory.code) + ", graphs " + formatBytesExact(memory.graphs) + ", " +
         besideArena(plan, memory);
}

} // namespace stow
