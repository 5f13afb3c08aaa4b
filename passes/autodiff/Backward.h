// The backward of a graph, built from its ops' gradients.
#pragma once

#include "ir/Gradients.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <vector>

namespace stow {

/// The gradients of one graph. Those of parameters are asked for, and of `inputs`.
class GraphGradients : public Gradients {
public:
  GraphGradients(mlir::func::FuncOp graph, llvm::ArrayRef<mlir::BlockArgument> inputs);

  mlir::Value of(mlir::Value value) override { return gradients.lookup(value); }
  bool isNeeded(mlir::Value value) override { return needed.contains(value); }
  void add(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
           mlir::Value gradient) override;
  llvm::StringRef chosenAlternative(mlir::Operation *op) override { return choices.lookup(op); }

  /// What `op` is to save from now on.
  void choose(mlir::Operation *op, llvm::StringRef alternative) { choices[op] = alternative; }

  /// Ends the sum of `value`'s gradients: all its readers have been visited. The gradients of
  /// slices are zero outside their boxes. Boxes that touch become one by a concat, so that a tensor
  /// that is split gets its gradient joined, not as a sum of padded tensors.
  void finish(mlir::OpBuilder &builder, mlir::Value value);

private:
  /// A gradient that is `inner` in a box and zero around it, as stow.pad counts.
  struct Box {
    mlir::Value inner;
    llvm::SmallVector<int64_t> before, after;
  };

  void addWhole(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                mlir::Value gradient);
  static bool joinBoxes(mlir::OpBuilder &builder, mlir::Location location, Box &low,
                        const Box &high);

  llvm::DenseSet<mlir::Value> needed;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Box>> boxes; ///< not in `gradients` yet
  llvm::DenseMap<mlir::Operation *, llvm::StringRef> choices;
};

/// What the backward does for one op of the forward.
struct BuiltGradient {
  mlir::Operation *forward = nullptr;
  llvm::StringRef saved;                    ///< one of its alternatives; empty: it has no choice
  llvm::SmallVector<mlir::Operation *> ops; ///< of the backward
};

/// Names the alternatives for which the gradient of an op with a choice is built.
using AlternativesOf = llvm::function_ref<llvm::SmallVector<llvm::StringRef>(mlir::Operation *)>;

/// Appends the backward of `loss` to `graph`. The forward is a list of ops in topological order;
/// visiting it backwards, every reader of a value has added its contribution before the op that
/// defines the value is asked for its own gradient. Linear in ops and uses. An op for which
/// `alternativesOf` names several gets its gradient several times, and the sums mean nothing: that
/// is to see what each would read. `seed` is the gradient of the loss; 1 where it is null. Emits an error
/// where an op has no gradient.
mlir::FailureOr<std::vector<BuiltGradient>>
buildBackward(mlir::func::FuncOp graph, mlir::Value loss, GraphGradients &gradients,
              AlternativesOf alternativesOf, mlir::Value seed = {});

} // namespace stow
