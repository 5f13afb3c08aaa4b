#include "runtime/program/MemorySummary.h"

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

} // namespace stow
