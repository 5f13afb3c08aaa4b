// Runs a placed step in this process, for tests that compare bits.
#pragma once

#include "runtime/device/Device.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <vector>

namespace stow {

/// A placed step compiled once, to run in this process as often as a test wants.
class PlacedProgram {
public:
  explicit PlacedProgram(mlir::ModuleOp placed);
  ~PlacedProgram();

  /// Losses and state after three steps on fixed inputs, then the outputs of an evaluation: as
  /// bytes.
  std::vector<char> train(Poison poison = Poison::None) const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The same for a program that is trained once.
std::vector<char> trainPlaced(mlir::ModuleOp placed, Poison poison = Poison::None);

} // namespace stow
