// What a process has really used, beside what was planned.
#pragma once

#include "runtime/device/Device.h"

namespace stow {

/// The largest resident memory of this program so far; absent where the system does not say. What
/// getrusage gives is no answer: it counts the process that started this one, too.
std::optional<Bytes> peakResidentBytes();

/// "memory: process peak 61.20 MiB, arena 50.00 MiB (52428800 bytes), the rest 11.20 MiB (stated:
/// 16.00 MiB and the data file)". The peak is peakResidentBytes(). Where the device of this machine
/// takes more than the plan states for the one that it was made for, that is said, too.
std::string memorySummary(const Plan &plan, const OutsideMemory &outside);

} // namespace stow
