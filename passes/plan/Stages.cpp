#include "passes/plan/Stages.h"

#include "ir/StowOffloadOps.h"
#include "passes/verify/Passes.h"
#include "runtime/base/Error.h"

#include "mlir/IR/Verifier.h"

#include <algorithm>

using namespace mlir;

namespace stow {

void runStage(ModuleOp module, const char *stage,
              llvm::function_ref<void(PassManager &)> addPasses) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  addPasses(manager);
  if (failed(manager.run(module)) || failed(verify(module)))
    throw Error::badInput(std::string("compilation stopped in stage ") + stage);
}

void takeLargerBytes(ModuleOp other, ModuleOp into) {
  for (StringRef name : {StringRef(kArenaBytesAttr), StringRef(kLowerBoundAttr),
                         StringRef(kLogicalBoundAttr), StringRef(kSlowBytesAttr)})
    if (name != kSlowBytesAttr || other->hasAttr(name)) // where nothing travels
      into->setAttr(name, Builder(into).getI64IntegerAttr(
                              std::max(bytesAttr(other, name), bytesAttr(into, name))));
}

void addBindPasses(PassManager &manager) { manager.addPass(createBindStatePass()); }

OwningOpRef<ModuleOp> withStateBound(ModuleOp prepared) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->clone());
  runStage(*module, "order", addBindPasses);
  return module;
}

OwningOpRef<ModuleOp> withPlacesInside(ModuleOp prepared, const Target &target) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(prepared->clone());
  runStage(*module, "order", [&](PassManager &manager) {
    addBindPasses(manager);
    manager.addPass(createPlaceInsidePass(target));
  });
  return module;
}

void addSharePasses(PassManager &manager, const Target &target, Bytes wantedLive) {
  manager.addPass(createPlaceInsidePass(target, {.wantedLive = wantedLive}));
  manager.addPass(createShareInPlacePass());
  manager.addPass(createVerifyOrderedPass());
}

PackBuffersPassOptions packingFor(const Target &target) {
  PackBuffersPassOptions packing;
  packing.alignment = target.alignment();
  packing.workspaceAlignment = target.workspaceAlignment();
  return packing;
}

void addPackPasses(PassManager &manager, PackBuffersPassOptions options) {
  manager.addPass(createPackBuffersPass(options));
}

void addPlacedChecks(PassManager &manager) { manager.addPass(createVerifyPlacedPass()); }

void addPlacePasses(PassManager &manager, PackBuffersPassOptions options) {
  addPackPasses(manager, options);
  addPlacedChecks(manager);
}

} // namespace stow
