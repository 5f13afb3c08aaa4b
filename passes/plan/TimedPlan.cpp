#include "passes/plan/TimedPlan.h"

#include "ir/StepGraphs.h"
#include "passes/memory/DescribePlan.h"

#include <algorithm>

using namespace mlir;

namespace stow {

namespace {

/// Both have the copies in the order in which they start.
void setCopyTimes(PlannedCopies &planned, func::FuncOp graph, const CostModel &costs) {
  const CostModel::LaneTimes lanes = costs.lanesIn(graph);
  auto copy = planned.each.begin();
  for (Operation &op : graph.getBody().front())
    if (auto known = lanes.copies.find(&op); known != lanes.copies.end()) {
      const auto [begin, end] = known->second;
      copy->beginSeconds = static_cast<double>(begin) / 1e9;
      copy++->seconds = static_cast<double>(end - begin) / 1e9;
    }
}

} // namespace

Plan planOf(ModuleOp placed, const CostModel &costs) {
  // Where something travels, or ranks exchange, an await takes the time that it holds what is behind it.
  llvm::DenseMap<Operation *, schedule::Cost> waits;
  for (auto graph : placed.getOps<func::FuncOp>()) {
    const CostModel::LaneTimes lanes = costs.lanesIn(graph);
    waits.insert(lanes.waits.begin(), lanes.waits.end());
  }
  // Measured times are those of the training step alone.
  Plan plan = describePlan(placed, [&](Operation *op) {
    const bool isKnown = !costs.measured || isStepGraph(op->getParentOfType<func::FuncOp>());
    return isKnown ? static_cast<double>(costs.costOf(op) + waits.lookup(op)) / 1e9 : 0;
  });
  for (auto [graph, planned] : llvm::zip_equal(placed.getOps<func::FuncOp>(), plan.graphs)) {
    const CostModel::GraphTime time = costs.timeOf(graph);
    if (planned.reductions && costs.network) {
      planned.reductions->seconds = static_cast<double>(time.exchanges) / 1e9;
      planned.reductions->exposedSeconds = static_cast<double>(time.exposed) / 1e9;
    }
    if (planned.copies) {
      planned.copies->exposedSeconds = static_cast<double>(time.waits) / 1e9;
      planned.copies->hiddenSeconds =
          static_cast<double>(std::max<schedule::Cost>(time.copies - time.waits, 0)) / 1e9;
      setCopyTimes(*planned.copies, graph, costs);
    }
  }
  CostModel::GraphTime time;
  for (auto graph : placed.getOps<func::FuncOp>())
    if (isStepGraph(graph) && graphShape(graph).empty()) {
      const CostModel::GraphTime once = costs.timeOf(graph);
      time.once += runsPerStep(graph) * once.once;
      time.extra += runsPerStep(graph) * once.extra;
      time.waits += runsPerStep(graph) * once.waits;
      time.exposed += runsPerStep(graph) * once.exposed;
    }
  plan.extraTimeFraction =
      time.once > 0 ? static_cast<double>(time.extra + time.waits) / static_cast<double>(time.once)
                    : 0;
  plan.stepSeconds = static_cast<double>(time.total() + time.exposed) * 1e-9;
  plan.costSource = (costs.measured ? "" : "roofline of ") + costs.device;
  return plan;
}

} // namespace stow
