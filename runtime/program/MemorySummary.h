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

/// "memory of NVIDIA H100, driver 13.0: 1.52 GiB (1632087572 bytes) of 79.10 GiB in use by all processes =
/// arena 1.00 GiB (1073741824 bytes) + fixed part not measured + unaccounted 532.48 MiB (558345748
/// bytes); context 500.00 MiB (524288000 bytes), code and libraries ..., graphs ..., together ...". The fixed
/// part is what the plan states beside the arena; what is unaccounted is negative where it states too
/// much.
std::string driverMemorySummary(const Plan &plan, const DriverMemory &memory);

/// What closes a run on `device`: the first, with slow memory where there is any, or the process's peak and the second; before it what
/// a step waited for the network, where it does.
std::string memorySummary(const Plan &plan, const Device &device);

/// "slow memory: 1.50 GiB out and 1.50 GiB in, a file in '/scratch' of 96.00 MiB".
std::string slowMemorySummary(const SlowTraffic &traffic);

/// "network: a step waited 1.204 ms for what was started ahead, planned 1.150 ms".
std::string exchangeSummary(const Plan &plan, const ExchangeWaits &waits);

} // namespace stow
