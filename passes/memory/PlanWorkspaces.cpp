// Records which ops are library calls, the ways to run them and their scratch bytes: one query per
// call.
#include "passes/memory/Implementations.h"
#include "passes/memory/Passes.h"

#include "ir/StepGraphs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_PLANWORKSPACESPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// Scratch is weighed against time in the training step alone: evaluation takes what needs least, so
/// that the arena is the step's.
bool isTraining(Operation *op) {
  auto graph = op->getParentOfType<func::FuncOp>();
  return graph && isStepGraph(graph);
}

//===-- --stow-plan-workspaces ---------------------------------------------------------------===//

struct PlanWorkspacesPass : impl::PlanWorkspacesPassBase<PlanWorkspacesPass> {
  explicit PlanWorkspacesPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    Bytes heapBytes = 0;
    WalkResult result = getOperation().walk([&](Operation *op) {
      op->removeAttr(kLibraryCallAttr);
      op->removeAttr(kWorkspaceAttr);
      op->removeAttr(kReferenceAttr);
      op->removeAttr(kImplementationsAttr);
      op->removeAttr(kImplementationAttr);
      if (!target.libraryCall(op))
        return WalkResult::advance();
      op->setAttr(kLibraryCallAttr, Builder(op).getUnitAttr());
      SmallVector<bool> free(op->getNumOperands() + op->getNumResults(), false);
      auto requirements = target.query(op, free);
      if (failed(requirements))
        return WalkResult::interrupt();
      heapBytes = std::max(heapBytes, requirements->heapBytes);
      if (requirements->isReference)
        op->setAttr(kReferenceAttr, Builder(op).getUnitAttr());
      if (!requirements->choices.empty()) {
        setImplementations(op, requirements->choices, target.alignment());
        if (!isTraining(op))
          chooseImplementation(op, implementationsOf(op).size() - 1);
      } else if (Bytes bytes = requirements->workspaceBytes) {
        op->setAttr(kWorkspaceAttr, Builder(op).getI64IntegerAttr(bytes));
      }
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    getOperation()->setAttr(kLibraryHeapAttr, Builder(&getContext()).getI64IntegerAttr(heapBytes));
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createPlanWorkspacesPass(const Target &target) {
  return std::make_unique<PlanWorkspacesPass>(target);
}

} // namespace stow
