// The update of one parameter by each optimizer, as ops of the dialect.
#pragma once

#include "ir/Stow.h"
#include "runtime/format/Optimizer.h"

#include <string>

namespace stow {

/// One tensor that the optimizer keeps of a parameter.
struct OptimizerState {
  std::string suffix; ///< of the parameter's name
  mlir::RankedTensorType type;
  double init = 0;
  bool isNeverNegative = false;
};

/// What an update reads beside parameter, gradient and state.
struct UpdateInputs {
  mlir::Value learningRate, step; ///< scalars; step is null where it is not read
  double rateScale = 1;           ///< of the parameter's group
  double weightDecay = 0;
  bool skippable = false; ///< the rate may be NaN and the step 0: then nothing changes
};

/// True when updates read the number of the step.
bool readsStep(OptimizerSpec::Kind optimizer);

/// The state that the optimizer keeps of a parameter of this type.
llvm::SmallVector<OptimizerState> stateOf(const OptimizerSpec &optimizer,
                                          mlir::RankedTensorType parameter);

/// Builds the update; returns the new parameter and then the new states.
llvm::SmallVector<mlir::Value> buildUpdate(mlir::OpBuilder &builder, const OptimizerSpec &optimizer,
                                           mlir::Value parameter, mlir::Value gradient,
                                           llvm::ArrayRef<mlir::Value> state,
                                           const UpdateInputs &inputs);

/// The sum of the squares of all elements, a scalar.
mlir::Value sumOfSquares(mlir::OpBuilder &builder, mlir::Location location, mlir::Value x);

} // namespace stow
