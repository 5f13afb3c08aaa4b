// Layouts of convolution weights: what the library's calls take without padding the state.
#pragma once

#include "passes/Target.h"
#include "passes/layout/Views.h"

namespace stow {

class Conv2dGradWeightOp;
class Conv2dOp;

/// Most that a layout may add to a tensor's own bytes where the tensor is state: a hundredth.
bool isPadded(mlir::RankedTensorType type);

/// `image`, an operand or result of the convolution `call`, in the order that the target wishes for
/// it: channels last or row-major.
mlir::RankedTensorType imageType(const Target &target, mlir::Operation *call,
                                 mlir::RankedTensorType image);

/// Asks the target about the convolutions of a graph whose types are being assigned: images lie as
/// it wishes in its questions, whatever their types are by now.
class WeightLayouts {
public:
  explicit WeightLayouts(const Target &target) : target(target) {}

  /// Layout for state that convolutions read as their weight, as it is or cast: of the layouts that
  /// the calls on it like and that do not pad it, the one that most of them take with fast code.
  mlir::FailureOr<mlir::RankedTensorType> forState(mlir::Value weight);

  /// Layout in which `call` reads or writes its weight, stored as `stored`: as it is where the
  /// library has fast code for that, else as the library likes best, padded or not.
  mlir::FailureOr<mlir::RankedTensorType> forCall(mlir::Operation *call,
                                                  mlir::RankedTensorType stored);

  /// The convolutions and gradients of inputs that read `weight` as theirs, as it is or cast.
  static llvm::SmallVector<mlir::Operation *> readersOf(mlir::Value weight);

  /// The gradient of the weight that `convolution` reads, where the graph has one.
  static Conv2dGradWeightOp gradientOf(Conv2dOp convolution);

private:
  struct Answer {
    mlir::RankedTensorType weight;
    bool isReference, isConverted;
  };
  bool isGenerated(mlir::Operation *call) const { return !target.libraryCall(call); }

  /// What the library says about `call` with its weight in the layout of `stored`, or free.
  mlir::FailureOr<Answer> ask(mlir::Operation *call, std::optional<mlir::RankedTensorType> stored);

  /// Whether the library has fast code for `call` with its weight in the layout of `stored`: no reference
  /// code, and none on converted operands where it has code for them as they are in another layout.
  mlir::FailureOr<bool> isFast(mlir::Operation *call, mlir::RankedTensorType stored);

  const Target &target;
};

} // namespace stow
