// stow-emit-kernels: shows the kernels of a graph.
//
// Replaces every function by the kernels of its ops, in order of first use. The pipeline does not
// run it: the program builder adds ops to a KernelModule itself and keeps the indices.
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace stow {
namespace {

//===-- --stow-emit-kernels -------------------------------------------------------------------===//

struct EmitKernelsPass : PassWrapper<EmitKernelsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmitKernelsPass)

  StringRef getArgument() const override { return "stow-emit-kernels"; }
  StringRef getDescription() const override {
    return "Replace functions by the kernels of their ops";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registerKernelDialects(registry);
  }

  void runOnOperation() override {
    KernelModule kernels(&getContext());
    auto graphs = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp graph : graphs)
      for (Operation &op : graph.getBody().front())
        if (hasGeneratedKernel(&op)) {
          auto info = kernels.add(&op);
          if (failed(info))
            return signalPassFailure();
          auto function = kernels.module().lookupSymbol<func::FuncOp>(info->symbol);
          function->setAttr("stow.tasks", Builder(&getContext()).getI64IntegerAttr(info->tasks));
        }
    for (func::FuncOp graph : graphs)
      graph.erase();
    getOperation().getBody()->getOperations().splice(getOperation().getBody()->end(),
                                                     kernels.module().getBody()->getOperations());
  }
};

} // namespace

std::unique_ptr<Pass> createEmitKernelsPass() { return std::make_unique<EmitKernelsPass>(); }

void registerKernelPasses() {
  registerPass(createEmitKernelsPass);
  registerPass([] { return createExpandMathPass(); });
  registerPass(createShareKernelsPass);
}

} // namespace stow
