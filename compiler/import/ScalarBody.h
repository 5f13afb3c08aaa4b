// An elementwise computation on known numbers, bit for bit what its kernel computes.
#pragma once

#include "ir/Stow.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <optional>
#include <vector>

namespace stow::onnx {

/// The body of the kernel that elementwise ops between tensors of rank 0 would be one of, with the same
/// polynomials for the same functions, evaluated one operation after the other in its element type.
class ScalarBody {
public:
  /// Of `result`, which ops in `graph`'s block compute from its arguments. Absent where one of them is no
  /// elementwise op and no constant.
  static std::optional<ScalarBody> of(mlir::func::FuncOp graph, mlir::Value result);
  ~ScalarBody();
  ScalarBody(ScalarBody &&) noexcept;

  /// The results for `count` elements; one vector of floats for each argument of the graph. A float of 16
  /// or 32 bits is held as the double of its value.
  std::vector<double> run(const std::vector<std::vector<double>> &arguments, int64_t count) const;

private:
  struct Program;
  explicit ScalarBody(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program;
};

} // namespace stow::onnx
