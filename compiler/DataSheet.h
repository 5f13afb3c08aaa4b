// Data sheets of devices: the figures that costs are made of (--roofline, compiler/sheets/*.json).
#pragma once

#include "passes/order/CostModel.h"

#include <string>
#include <vector>

namespace stow {

/// Names of the data sheets inside the compiler, sorted.
std::vector<std::string> deviceNames();

/// The figures of a data sheet by its name, or of a JSON file of the same form. The CPU's figures are per thread.
/// With `tf32` products of f32 values run at the sheet's rate of TF32, if it has one.
/// Throws Error(BadInput) for unknown names and malformed files.
CostModel loadDevice(const std::string &nameOrFile, int64_t threads, bool tf32 = false);

} // namespace stow
