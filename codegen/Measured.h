// Who measures the kernels of a target, for plans by measured times.
#pragma once

#include <string>

namespace stow {

/// True where programs for `target` measure their kernels, as they run on a device that the compiler may lack: a profile that
/// ./model train writes is then what --profile reads. False where the compiler runs kernels itself. Throws as requireTarget.
bool programsMeasure(const std::string &target);

/// Why times of the device `device`, as its driver names it ("NVIDIA H100 80GB HBM3, driver 13.0"), say nothing of a plan for
/// `target`, one whose programs measure: a sentence without its period; empty where they do. Throws as requireTarget.
std::string whyNotMeasuredOn(const std::string &target, const std::string &device);

} // namespace stow
