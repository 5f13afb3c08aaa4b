// Checks the form "model" (F0), constraints M1 to M7 of Passes.td.
#include "ir/StowCollectiveOps.h"
#include "ir/StowElementwiseOps.h"
#include "ir/StowKernelOps.h"
#include "ir/StowShapeOps.h"
#include "passes/verify/GraphChecks.h"
#include "passes/verify/Passes.h"

using namespace mlir;

namespace stow {

#define GEN_PASS_DEF_VERIFYMODELPASS
#include "passes/verify/Passes.h.inc"

namespace {

bool hasLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getEncoding();
}

LogicalResult checkModelOp(Operation &op) {
  if (isTrainingOp(&op) ||
      isa<MapOp, ProductMapOp, Conv2dMapOp, ReorderOp, DrawOp, UnshardOp>(op)) // M6
    return op.emitError() << "'" << op.getName() << "' has no place in the form \"model\"";
  for (StringRef name : {kPhaseAttr, kRecomputeAttr, kInPlaceAttr, kInsideAttr, kWorkspaceAttr,
                         kOffsetsAttr, kWorkspaceOffsetAttr})
    if (op.hasAttr(name)) // M7
      return op.emitError() << name << " belongs to a later form than \"model\"";
  if (llvm::any_of(op.getResultTypes(), hasLayout))
    return op.emitError() << "layouts belong to a later form than \"model\"";
  return success();
}

//===--------------------------------------------------------------------------------------------===//
// --stow-verify-model
//===--------------------------------------------------------------------------------------------===//

struct VerifyModel : impl::VerifyModelPassBase<VerifyModel> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkModule(getOperation(), "model", {Role::Model}))) // M1, M2
      return signalPassFailure();
    auto model = findGraph(getOperation(), Role::Model);
    bool ok =
        succeeded(checkArguments(model, {ArgumentKind::Input, ArgumentKind::Parameter,
                                         ArgumentKind::Frozen, ArgumentKind::Statistic})); // M3, M4
    ok &= succeeded(checkOutputs(model));                                                  // M5
    for (BlockArgument argument : model.getArguments())
      if (hasLayout(argument.getType())) {
        model.emitError() << "@" << model.getSymName() << ": argument " << argument.getArgNumber()
                          << " has a layout; layouts belong to a later form than \"model\"";
        ok = false;
      }
    for (Operation &op : model.front().without_terminator())
      ok &= succeeded(checkModelOp(op));
    if (!ok)
      signalPassFailure();
  }
};

} // namespace
} // namespace stow
