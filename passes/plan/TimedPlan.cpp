#include "passes/plan/TimedPlan.h"

#include "ir/StepGraphs.h"
#include "passes/memory/DescribePlan.h"

#include <algorithm>

using namespace mlir;

namespace stow {

Plan planOf(ModuleOp placed, const CostModel &costs) {
  // Where something travels, an await takes the time that it holds what is behind it.
  llvm::DenseMap<Operation *, schedule::Cost> waits;
  for (auto graph : placed.getOps<func::FuncOp>())
    for (const auto &[await, wait] : costs.waitsIn(graph))
      waits[await] = wait;
  // Measured times are those of the training step alone.
  Plan plan = describePlan(placed, [&](Operation *op) {
    const bool isKnown = !costs.measured || isStepGraph(op->getParentOfType<func::FuncOp>());
    return isKnown ? static_cast<double>(costs.costOf(op) + waits.lookup(op)) / 1e9 : 0;
  });
  for (auto [graph, planned] : llvm::zip_equal(placed.getOps<func::FuncOp>(), plan.graphs))
    if (planned.copies) {
      const CostModel::GraphTime time = costs.timeOf(graph);
      planned.copies->exposedSeconds = static_cast<double>(time.waits) / 1e9;
      planned.copies->hiddenSeconds =
          static_cast<double>(std::max<schedule::Cost>(time.copies - time.waits, 0)) / 1e9;
    }
  CostModel::GraphTime time;
  for (auto graph : placed.getOps<func::FuncOp>())
    if (isStepGraph(graph) && graphShape(graph).empty()) {
      const CostModel::GraphTime once = costs.timeOf(graph);
      time.once += runsPerStep(graph) * once.once;
      time.extra += runsPerStep(graph) * once.extra;
      time.waits += runsPerStep(graph) * once.waits;
    }
  plan.extraTimeFraction =
      time.once > 0 ? static_cast<double>(time.extra + time.waits) / static_cast<double>(time.once)
                    : 0;
  plan.stepSeconds = static_cast<double>(time.total()) * 1e-9;
  plan.costSource = (costs.measured ? "" : "roofline of ") + costs.device;
  return plan;
}

} // namespace stow
