// The meaning of the stow ops, spelled out: an interpreter of the forms "model" and "step" on
// tensors of doubles in row-major order. It is slow and plain on purpose and shares no code with
// code generation, so that gradients and generated kernels can be checked against it.
#pragma once

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <array>
#include <functional>
#include <span>
#include <vector>

namespace stow::reference {

using Index = std::vector<int64_t>;

/// Elements in row-major order. Integers and masks are doubles too (exact up to 2^53).
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;

  Tensor() = default;
  explicit Tensor(std::vector<int64_t> shape, double fill = 0);
  Tensor(std::vector<int64_t> shape, std::vector<double> values);

  int64_t size() const { return static_cast<int64_t>(values.size()); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }

  /// Row-major number of an element.
  int64_t offset(const Index &index) const;
  double &operator()(const Index &index) { return values[offset(index)]; }
  double operator()(const Index &index) const { return values[offset(index)]; }

  /// The element that NumPy's rule pairs with element `index` of a larger tensor.
  double broadcast(const Index &index) const;
};

/// Calls `visit` with every index of `shape`, the last dimension fastest.
void forEachIndex(const std::vector<int64_t> &shape,
                  const std::function<void(const Index &)> &visit);

/// Shape of a value.
std::vector<int64_t> shapeOf(mlir::Value value);

/// Computes the results of one op; absent optional operands are left out.
using Rule = std::vector<Tensor> (*)(mlir::Operation *op, std::span<const Tensor> operands);

/// The rule of an op, or null when the evaluator has none.
Rule ruleFor(mlir::Operation *op);
Rule ruleFor(llvm::StringRef opName);

/// The output words of Philox4x32-10 for element `element` of a random op; stow.dropout_training
/// compares the first.
std::array<uint32_t, 4> randomWords(uint64_t element, uint64_t stream, uint64_t seed);

/// Runs a graph on its arguments and returns its results. Throws stow::Error for an op without a
/// rule.
std::vector<Tensor> evaluate(mlir::func::FuncOp graph, std::vector<Tensor> arguments);

} // namespace stow::reference
