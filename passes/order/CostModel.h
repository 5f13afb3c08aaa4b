// What a kernel costs on a device: what was measured, or a roofline over the op's own counts.
//
//   seconds = launch + max(operations / peak of the element type, bytes moved / bandwidth)
//
// Calls of a library's reference code have a peak some hundred times lower.
//
// The roofline ranks recomputations against each other; it does not predict a clock. Costs are
// whole nanoseconds, at least 1, so that sums are exact and plans do not depend on rounding.
#pragma once

#include "ir/plan/schedule/Lanes.h"
#include "runtime/base/DType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace stow {

/// On an op: its measured nanoseconds. Clones inherit it.
inline constexpr llvm::StringLiteral kCostAttr = "stow.cost_ns";

/// A larger memory beside the arena, to which buffers may be copied while ops run.
struct SlowMemory {
  schedule::Link out, in; ///< in nanoseconds
  Bytes capacity = 0;

  /// Nanoseconds of a copy, which is of whole blocks.
  static schedule::Cost durationOf(const schedule::Link &link, Bytes bytes);
};

/// The network between the ranks of a step. Collectives pass on a lane of their own, one after the other, each in one or more exchanges.
struct Network {
  schedule::Link link; ///< in nanoseconds; the latency is that of an exchange

  /// Nanoseconds that a collective takes on its lane.
  schedule::Cost durationOf(mlir::Operation *collective) const;
};

struct CostModel {
  std::string device = "cpu"; ///< where costs come from, for reports
  bool measured =
      false; ///< ops carry kCostAttr; others, copies of state, cost as the roofline says
  std::map<DType, double> flopsPerSecond = {{DType::F32, 1e11}}; ///< by element type of the results
  double f32ProductsPerSecond =
      0; ///< flops of products of f32 values, where these run at another rate (TF32); 0: at that of f32
  double bytesPerSecond = 1e10;
  double launchSeconds = 1e-6;
  std::optional<SlowMemory> slow; ///< absent: nothing travels
  std::optional<Network> network; ///< absent: what ranks exchange takes no time that is known

  /// Nanoseconds of one execution: kCostAttr, or the roofline, times the slowdown of the chosen
  /// implementation (passes/memory/Implementations.h). Types without a peak of their own count as f32.
  schedule::Cost costOf(mlir::Operation *op) const;

  /// The same in another implementation.
  schedule::Cost costOf(mlir::Operation *op, unsigned implementation) const;

  /// Nanoseconds of one run of a graph: every op once, in its fastest way, and what the plan pays on
  /// top to need less memory: recomputation, slower ways, and waiting for copies.
  struct GraphTime {
    schedule::Cost once = 0, extra = 0, waits = 0;
    schedule::Cost copies = 0;    ///< what all copies take on their lanes, whoever waits
    schedule::Cost exchanges = 0; ///< what all collectives take on the network's lane
    schedule::Cost exposed = 0;   ///< what ops wait for them
    /// Without what is exposed.
    schedule::Cost total() const { return once + extra + waits; }
  };
  GraphTime timeOf(mlir::func::FuncOp graph) const;

  /// A graph by the clock of the lanes (ir/plan/schedule/Lanes.h).
  struct LaneTimes {
    /// What each await of a copy or of a collective, and each collective that nothing awaits, holds the ops behind it.
    llvm::DenseMap<mlir::Operation *, schedule::Cost> waits;
    /// When each copy begins on its lane and ends, from the graph's start, by the op that starts it.
    llvm::DenseMap<mlir::Operation *, std::pair<schedule::Cost, schedule::Cost>> copies;
    /// Likewise of each collective.
    llvm::DenseMap<mlir::Operation *, std::pair<schedule::Cost, schedule::Cost>> exchanges;
  };
  LaneTimes lanesIn(mlir::func::FuncOp graph) const;

  /// The waits alone.
  llvm::DenseMap<mlir::Operation *, schedule::Cost> waitsIn(mlir::func::FuncOp graph) const {
    return lanesIn(graph).waits;
  }

private:
  schedule::Cost costOfFastest(mlir::Operation *op) const;
};

} // namespace stow
