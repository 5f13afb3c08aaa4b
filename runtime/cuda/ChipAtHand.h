// Which of the chips that a program was planned for the device at hand is.
#pragma once

#include "runtime/format/Program.h"

#include <string_view>

namespace stow::cuda {

/// The number of the chip, in the order of the program's target: the one of the device's architecture (90:
/// compute capability 9.0), and where several are of it, the one whose name stands in the device's ("h200" in
/// "NVIDIA H200"), else the first of them. 0 where nothing differs between the chips, so also for programs
/// without convolutions and for one chip alone. Throws Error(BadInput) naming both sides where the device is none
/// of them.
size_t chipAtHand(const Program &program, std::string_view deviceName, uint32_t architecture);

} // namespace stow::cuda
