// Dynamic loss scaling, inside the graph: for gradients in f16.
//
// The loss's gradient starts as a factor that keeps small gradients representable; a step whose
// gradients are not all finite changes nothing but the factor, which is halved, and doubled after 2,000
// good steps in a row (Micikevicius et al., "Mixed Precision Training", 2018; the numbers are those of
// torch.amp.GradScaler). The factor is a power of 2: scaling back is exact.
//
//   dynamic   all updates wait until all gradients are known to be finite
//   delayed   an update waits for its own gradient alone: the factor in use was found by earlier
//             steps (delayed scaling, as NVIDIA's Transformer Engine does for FP8), and a parameter
//             whose gradient is not finite is passed over by itself
#pragma once

#include "passes/autodiff/Graph.h"

#include <optional>

namespace stow {

enum class LossScaleMode { None, Dynamic, Delayed };

/// What the updates of one step read.
class LossScale {
public:
  /// Finds the state that stow-autodiff made; none where the graph has none.
  static std::optional<LossScale> of(mlir::func::FuncOp train, LossScaleMode mode);

  LossScale(mlir::func::FuncOp train, mlir::BlockArgument scale, LossScaleMode mode)
      : train(train), scale(scale), mode(mode) {}

  bool waits() const { return mode == LossScaleMode::Dynamic; }

  /// Sums the squares of every gradient, scaled as they are. Fails with an error where the graph has
  /// state of the names that are added.
  mlir::LogicalResult judge(mlir::OpBuilder &builder, llvm::ArrayRef<GraphResult> gradients);

  /// What is known of gradient number `gradient`: the sum of its squares, behind it.
  mlir::Value judged(size_t gradient) const { return squaresOf[gradient]; }

  /// The squares of all gradients together, as they are without the factor; at the terminator.
  mlir::Value squares(mlir::OpBuilder &builder);

  /// A gradient without the factor.
  mlir::Value unscaled(mlir::OpBuilder &builder, mlir::Value gradient);

  /// `rate`, or NaN where gradient number `gradient` must not be applied.
  mlir::Value rate(mlir::OpBuilder &builder, mlir::Value rate, size_t gradient);

  /// The number of steps that were applied, this one included; 0 where it must not be.
  mlir::Value step(mlir::OpBuilder &builder, mlir::Value step, size_t gradient);

  /// Keeps the state in `results` as it is in a skipped step, and adds that of the factor.
  void finish(mlir::OpBuilder &builder, llvm::SmallVectorImpl<GraphResult> &results);

private:
  mlir::Value isFinite(mlir::OpBuilder &builder, mlir::Value squares);
  mlir::Value applies(mlir::OpBuilder &builder, size_t gradient);
  mlir::Value select(mlir::OpBuilder &builder, mlir::Value condition, mlir::Value a, mlir::Value b);

  mlir::func::FuncOp train;
  mlir::BlockArgument scale;
  mlir::Value goodSteps, skippedSteps;
  LossScaleMode mode;
  llvm::SmallVector<mlir::Value> squaresOf; ///< by gradient
  mlir::Value inverse;                      ///< 1 / scale
  mlir::Value total;                        ///< sum of squaresOf
  mlir::Value allFinite;
  mlir::Value commonRate, commonStep; ///< of all updates, where all of them wait
};

} // namespace stow
