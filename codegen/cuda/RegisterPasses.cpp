#include "codegen/cuda/Passes.h"
#include "codegen/kernels/Kernels.h"
#include "codegen/kernels/Passes.h"

void stow::registerCodegenPasses() {
  mlir::registerPass(createEmitKernelsPass);
  mlir::registerPass([] { return createExpandMathPass(); });
  mlir::registerPass(createShareKernelsPass);
  mlir::registerPass(createKernelsToNvvmPass);
}
