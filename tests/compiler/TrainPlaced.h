// Runs a placed step in this process, for tests that compare bits.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace stow {

enum class Poison { No, Yes }; ///< whether every buffer is filled with NaN at its death

/// Losses and state after three steps on fixed inputs, then the outputs of an evaluation: as bytes.
std::vector<char> trainPlaced(mlir::ModuleOp placed, Poison poison = Poison::No);

} // namespace stow
