// What a kernel costs on a device: what was measured, or a roofline over the op's own counts.
//
//   seconds = launch + max(operations / peak of the element type, bytes moved / bandwidth)
//
// Calls of a library's reference code have a peak some hundred times lower.
//
// The roofline ranks recomputations against each other; it does not predict a clock. Costs are
// whole nanoseconds, at least 1, so that sums are exact and plans do not depend on rounding.
#pragma once

#include "ir/plan/schedule/Problem.h"
#include "runtime/base/DType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"

#include <map>
#include <string>

namespace stow {

/// On an op: its measured nanoseconds. Clones inherit it.
inline constexpr llvm::StringLiteral kCostAttr = "stow.cost_ns";

struct CostModel {
  std::string device = "cpu"; ///< where costs come from, for reports
  bool measured =
      false; ///< ops carry kCostAttr; others, copies of state, cost as the roofline says
  std::map<DType, double> flopsPerSecond = {{DType::F32, 1e11}}; ///< by element type of the results
  double bytesPerSecond = 1e10;
  double launchSeconds = 1e-6;

  /// Nanoseconds of one execution: kCostAttr, or the roofline, times the slowdown of the chosen
  /// implementation (passes/memory/Implementations.h). Types without a peak of their own count as f32.
  schedule::Cost costOf(mlir::Operation *op) const;

  /// The same in another implementation.
  schedule::Cost costOf(mlir::Operation *op, unsigned implementation) const;

  /// Nanoseconds of one run of a graph: every op once, in its fastest way, and what the plan pays on
  /// top to need less memory: recomputation, slower ways.
  struct GraphTime {
    schedule::Cost once = 0, extra = 0;
    schedule::Cost total() const { return once + extra; }
  };
  GraphTime timeOf(mlir::func::FuncOp graph) const;

private:
  schedule::Cost costOfFastest(mlir::Operation *op) const;
};

} // namespace stow
