// Runs a placed step in this process, for tests that compare bits.
#pragma once

#include "runtime/device/Device.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace stow {

/// Losses and state after three steps on fixed inputs, then the outputs of an evaluation: as bytes.
std::vector<char> trainPlaced(mlir::ModuleOp placed, Poison poison = Poison::None);

} // namespace stow
