#include "runtime/program/MemorySummary.h"

#include <sys/resource.h>

namespace stow {

std::string memorySummary(const Plan &plan, const OutsideMemory &outside) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  Bytes peak = Bytes{usage.ru_maxrss} * 1024; // Linux counts in KiB
  std::string text =
      "memory: process peak " + formatBytes(peak) + ", arena " + formatBytesExact(plan.arenaBytes);
  if (peak >= plan.arenaBytes)
    text += ", the rest " + formatBytes(peak - plan.arenaBytes);
  if (plan.outsideArenaBytes > 0)
    text += " (stated: " + formatBytes(plan.outsideArenaBytes) +
            (outside.total() > plan.outsideArenaBytes
                 ? ", on this machine up to " + formatBytes(outside.total()) + ","
                 : std::string()) +
            " and the data file)";
  return text;
}

} // namespace stow
