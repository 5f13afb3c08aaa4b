// Order and recomputation under a budget, by passes/solvers/schedule.
#include "passes/order/Passes.h"
#include "passes/order/ScheduleProblem.h"

#include "ir/Graphs.h"
#include "passes/solvers/schedule/PlanSchedule.h"
#include "passes/solvers/schedule/search/Segments.h"
#include "runtime/base/Error.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "passes/order/Passes.h.inc"

namespace {

//===-- --stow-schedule ----------------------------------------------------------------------===//

struct SchedulePass : impl::SchedulePassBase<SchedulePass> {
  using SchedulePassBase::SchedulePassBase;

  void runOnOperation() override {
    auto form = getOperation()->getAttrOfType<StringAttr>(kFormAttr);
    if (!form || form != "ordered") {
      getOperation().emitError() << "expects stow.form = \"ordered\"; run stow-bind-state first";
      return signalPassFailure();
    }
    if (budget < 0 || flopsPerSecond <= 0 || bytesPerSecond <= 0 || launchSeconds < 0) {
      getOperation().emitError() << "expects a budget and device figures above zero";
      return signalPassFailure();
    }
    if (checkpoint != "none" && checkpoint != "sqrt") {
      getOperation().emitError() << "unknown checkpoint mode \"" << checkpoint
                                 << "\"; expected none or sqrt";
      return signalPassFailure();
    }
    for (auto graph : getOperation().getOps<func::FuncOp>())
      if (roleOf(graph) == Role::Train && failed(schedule(graph)))
        return signalPassFailure();
  }

private:
  LogicalResult schedule(func::FuncOp graph) {
    CostModel costs;
    costs.flopsPerSecond = {{DType::F32, flopsPerSecond}};
    costs.bytesPerSecond = bytesPerSecond;
    costs.launchSeconds = launchSeconds;
    try {
      StepProblem step = buildStepProblem(graph, costs, alignment);
      if (checkpoint == "sqrt") {
        applySchedule(graph, step, schedule::planSegments(step.problem, /*effort=*/1));
        return success();
      }
      schedule::PlanResult result = schedule::planSchedule(step.problem, budget);
      if (!result.solution)
        return graph.emitError() << "no order within " << budget.getValue()
                                 << " bytes found; the smallest peak found is "
                                 << result.smallestPeak << " bytes, none is below "
                                 << result.peakBound;
      applySchedule(graph, step, *result.solution);
    } catch (const Error &error) {
      return graph.emitError() << error.what();
    }
    return success();
  }
};

} // namespace
} // namespace stow
