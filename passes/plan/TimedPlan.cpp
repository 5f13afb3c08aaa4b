#include "passes/plan/TimedPlan.h"

#include "ir/StepGraphs.h"
#include "passes/memory/DescribePlan.h"

using namespace mlir;

namespace stow {

Plan planOf(ModuleOp placed, const CostModel &costs) {
  // Measured times are those of the training step alone.
  Plan plan = describePlan(placed, [&](Operation *op) {
    const bool isKnown = !costs.measured || isStepGraph(op->getParentOfType<func::FuncOp>());
    return isKnown ? static_cast<double>(costs.costOf(op)) / 1e9 : 0;
  });
  CostModel::GraphTime time;
  for (auto graph : placed.getOps<func::FuncOp>())
    if (isStepGraph(graph) && graphShape(graph).empty()) {
      const CostModel::GraphTime once = costs.timeOf(graph);
      time.once += runsPerStep(graph) * once.once;
      time.extra += runsPerStep(graph) * once.extra;
    }
  plan.extraTimeFraction =
      time.once > 0 ? static_cast<double>(time.extra) / static_cast<double>(time.once) : 0;
  plan.stepSeconds = static_cast<double>(time.total()) * 1e-9;
  plan.costSource = (costs.measured ? "" : "roofline of ") + costs.device;
  return plan;
}

} // namespace stow
