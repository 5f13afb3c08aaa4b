// What an op's gradient builder sees of automatic differentiation (GradientOpInterface).
#pragma once

#include "ir/Stow.h"

namespace stow {

/// Gradients of the values of one graph, filled in reverse order of execution.
class Gradients {
public:
  virtual ~Gradients() = default;

  /// Gradient of the loss with respect to `value`, or null when none has been added.
  virtual mlir::Value of(mlir::Value value) = 0;

  /// True when `value` depends on a parameter (or on another value asked for).
  virtual bool isNeeded(mlir::Value value) = 0;

  /// Adds `gradient` to that of `value`. A gradient of the broadcast shape is summed over the
  /// broadcast dimensions first.
  virtual void add(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                   mlir::Value gradient) = 0;

  /// The value `op` is to save, one of its getSavedAlternatives().
  virtual llvm::StringRef chosenAlternative(mlir::Operation *op) = 0;
};

} // namespace stow
