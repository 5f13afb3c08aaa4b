#include "compiler/Registration.h"

#include "ir/Stow.h"
#if __has_include("passes/autodiff/Passes.h")
#include "passes/autodiff/Passes.h"
#endif
#if __has_include("passes/verify/Passes.h")
#include "passes/verify/Passes.h"
#endif
#if __has_include("passes/layout/Passes.h")
#include "passes/layout/Passes.h"
#endif
#if __has_include("passes/memory/Passes.h")
#include "passes/memory/Passes.h"
#endif
#if __has_include("codegen/Passes.h")
#include "codegen/Passes.h"
#endif

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void stow::registerDialects(DialectRegistry &registry) {
  registry.insert<stow::StowDialect, arith::ArithDialect, func::FuncDialect, gpu::GPUDialect,
                  LLVM::LLVMDialect, NVVM::NVVMDialect, math::MathDialect, memref::MemRefDialect,
                  scf::SCFDialect, vector::VectorDialect>();
}

void stow::registerPasses() {
  registerTransformsPasses();
#if __has_include("passes/autodiff/Passes.h")
  registerAutodiffPasses();
#endif
#if __has_include("passes/verify/Passes.h")
  registerVerifyPasses();
#endif
#if __has_include("passes/layout/Passes.h")
  registerLayoutPasses();
#endif
#if __has_include("passes/memory/Passes.h")
  registerMemoryPasses();
#endif
#if __has_include("codegen/Passes.h")
  registerCodegenPasses();
#endif
}
