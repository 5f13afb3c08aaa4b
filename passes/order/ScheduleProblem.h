// A training step as a schedule problem, and a schedule as a training step.
//
//   graph                        problem                         schedule           graph again
//   %1 = conv %x                 op 0: {x} -> {1}                0 1 2 0 3          %1 = conv %x
//   %2 = map %1                  op 1: {1} -> {2}                                   ...
//   %3 = reshape %2 (a view)     readers of %3 read value 2                         %1' = conv %x
//
// Views launch nothing: they are no ops of the problem and are made again wherever a reader of them
// needs one; so are a concat whose inputs are produced inside it and a slice that is a view
// (stow-place-inside). What lies inside a concat shares one storage of the problem. After the graph
// has been rewritten placement is decided again, for the order it then has. State is pinned; an op
// that updates it runs once, after the state's last reader.
#pragma once

#include "passes/order/CostModel.h"

#include "ir/plan/schedule/Lanes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace stow {

/// The ways to run `op`, numbered as its implementations are: scratch rounded up to `alignment`.
std::vector<schedule::Alternative> alternativesOf(mlir::Operation *op, const CostModel &costs,
                                                  Bytes alignment);

struct StepProblem {
  schedule::Problem problem;
  std::vector<mlir::Operation *> ops; ///< by OpId: the op of the graph
  std::vector<mlir::Value> values;    ///< by ValueId: the value of the graph
};

/// Reads the problem off a graph whose state is bound (stow-bind-state). Sizes are bytes as stored,
/// rounded up to `alignment`, so that peaks are comparable with packed arenas. O(values + uses).
StepProblem buildStepProblem(mlir::func::FuncOp graph, const CostModel &costs, Bytes alignment);

/// Storages of the step that never travel to slow memory, ascending: pinned ones; arguments; those that hold several values,
/// as concats do, or parts with gaps; and those below a block of slow memory, which would take more of it than they free of
/// the arena.
std::vector<schedule::StorageId> stayingStorages(const StepProblem &step);

/// Rewrites `graph`, which `step` was built from, to run as `solution` says. The first run of an op
/// that something reads moves it; every further one is a clone with stow.recompute. Each runs in the
/// implementation that its alternative names. Every reader gets the latest result in front of it. In-place marks are left to stow-share-in-place. Returns
/// the number of clones.
unsigned applySchedule(mlir::func::FuncOp graph, const StepProblem &step,
                       const schedule::Solution &solution);

/// The same with copies between the arena and slow memory, which are ops as well: readers behind the await of a copy in
/// read what it has brought.
unsigned applySchedule(mlir::func::FuncOp graph, const StepProblem &step,
                       const schedule::LaneSolution &solution);

/// By how much less than `problem` says a schedule of about `bytes` may take. What lies inside a concat, or in
/// what a slice looks at, the problem takes from program order; in a schedule it is decided anew, and may need
/// up to 5 % less on random networks.
Bytes placementSlack(const schedule::Problem &problem, Bytes bytes);

} // namespace stow
