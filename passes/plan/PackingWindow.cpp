#include "passes/plan/PackingWindow.h"

#include "ir/StepGraphs.h"
#include "passes/memory/DescribePlan.h"
#include "passes/memory/Liveness.h"
#include "passes/memory/PlanWords.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

namespace stow {

using FirstRuns = std::vector<std::optional<schedule::OpId>>;

FirstRuns firstRuns(mlir::ModuleOp placed, const StepProblem &step) {
  llvm::DenseMap<mlir::Operation *, schedule::OpId> idOf;
  for (size_t i = 0; i < step.ops.size(); ++i)
    idOf[step.ops[i]] = static_cast<schedule::OpId>(i);
  FirstRuns found;
  auto graph = stepGraph(placed);
  for (mlir::Operation &op : graph.getBody().front()) {
    if (launchesNothing(&op))
      continue;
    auto id = idOf.find(&op);
    found.push_back(id == idOf.end() ? std::nullopt : std::optional(id->second));
  }
  return found;
}

std::vector<schedule::Window> windowsAbove(mlir::ModuleOp placed, const FirstRuns &firstRuns,
                                           Bytes target, Bytes withheldBytes) {
  std::vector<char> above(firstRuns.size(), 0);
  const GraphRole role = graphRoleOf(stepGraph(placed));
  for (const GraphPlan &graph : describePlan(placed).graphs)
    if (graph.role == role && graph.stepCount == static_cast<int64_t>(above.size()))
      for (const PlannedBuffer &buffer : graph.buffers)
        if (buffer.offset + buffer.size > target)
          std::fill(above.begin() + buffer.begin, above.begin() + buffer.end, 1);
  std::vector<schedule::Window> windows;
  std::optional<schedule::OpId> before; // the last first run so far
  bool isOpen = false, isPending = false;
  for (size_t command = 0; command < above.size(); ++command) {
    const std::optional<schedule::OpId> here = firstRuns[command];
    if (here)
      before = here;
    if (above[command] && before) {
      if (!isOpen)
        windows.push_back({*before, *before, withheldBytes});
      isOpen = isPending = true;
    } else if (!isPending) {
      isOpen = false;
    }
    if (isPending && here) {
      windows.back().last = *here;
      isPending = false;
    }
  }
  return windows;
}

} // namespace stow
