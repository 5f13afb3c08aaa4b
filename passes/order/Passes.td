#ifndef STOW_ORDER_PASSES_TD
#define STOW_ORDER_PASSES_TD

include "mlir/Pass/PassBase.td"

def SchedulePass : Pass<"stow-schedule", "::mlir::ModuleOp"> {
  let summary = "Order the training step and recompute values so that it fits a budget";
  let description = [{
    Chooses the order of the training step's ops and what to compute again, any number of times, so
    that the sum of live bytes never exceeds `budget` and the time by the device's roofline is least
    (passes/solvers/schedule). State counts as live throughout. Views move to their readers; clones
    carry `stow.recompute` and every reader gets the latest result in front of it, so results are
    equal bit for bit. Updates of state run once, behind the last reader of the old value.

    Fails, naming the smallest peak found and the least possible one, when no order fits. Packing may
    need more than the sum of live bytes: `stowage compile --memory-budget` asks one planner for
    schedules of many budgets, applies those (passes/order/ScheduleProblem.h) as this pass does, and
    takes the fastest whose packed arena fits (passes/plan). So this pass, one question to a planner
    of its own, is no step of that pipeline; it is for one schedule by hand.

    `checkpoint=sqrt` takes no budget: segments of the forward run again in the backward (Chen et al.
    2016, at the articulation points of any graph), those with the smallest peak of the whole step.

    Requires: the ordered form with state bound and without in-place marks.
    Ensures: the same.

    ```mlir
    %y = stow.conv2d %x, %w ...
    %z = stow.map %y ...                                       // %y dies
    %y2 = stow.conv2d %x, %w {stow.phase = #stow.phase<backward>, stow.recompute} ...
    %g = stow.map %y2, %gz ...
    ```
  }];
  let options = [
    Option<"budget", "budget", "int64_t", "0", "bytes, state included">,
    Option<"checkpoint", "checkpoint", "std::string", "\"none\"", "none or, without a budget, sqrt">,
    Option<"alignment", "alignment", "int64_t", "64", "buffers are rounded up to this many bytes">,
    Option<"flopsPerSecond", "flops-per-second", "double", "1e11", "the device's peak">,
    Option<"bytesPerSecond", "bytes-per-second", "double", "1e10", "the device's memory bandwidth">,
    Option<"launchSeconds", "launch-seconds", "double", "1e-6", "fixed cost of every op">,
  ];
  let dependentDialects = ["::stow::StowDialect"];
}

#endif // STOW_ORDER_PASSES_TD
