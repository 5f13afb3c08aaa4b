// What a process has really used, beside what was planned.
#pragma once

#include "runtime/format/Plan.h"

namespace stow {

/// "memory: process peak 61.20 MiB, arena 50.00 MiB (52428800 bytes), the rest 11.20 MiB (stated:
/// 16.00 MiB and the data file)". The peak is the largest resident memory of the process so far.
std::string memorySummary(const Plan &plan);

} // namespace stow
