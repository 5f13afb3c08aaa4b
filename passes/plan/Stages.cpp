#include "passes/plan/Stages.h"

#include "passes/verify/Passes.h"
#include "runtime/base/Error.h"

using namespace mlir;

namespace stow {

void runStage(ModuleOp module, const char *stage,
              llvm::function_ref<void(PassManager &)> addPasses) {
  PassManager manager(module.getContext());
  addPasses(manager);
  if (failed(manager.run(module)))
    throw Error::badInput(std::string("compilation stopped in stage ") + stage);
}

void addBindPasses(PassManager &manager) { manager.addPass(createBindStatePass()); }

void addSharePasses(PassManager &manager, const Target &target) {
  manager.addPass(createPlaceInsidePass(target));
  manager.addPass(createShareInPlacePass());
  manager.addPass(createVerifyOrderedPass());
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
