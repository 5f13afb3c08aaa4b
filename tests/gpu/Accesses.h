// How wide the accesses of generated kernels are.
#pragma once

#include "tests/gpu/DeviceRunner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <regex>
#include <string>

namespace stow {

/// Accesses of `bytes` bytes to global memory in the text.
inline int64_t accesses(const std::string &ptx, const std::string &kind, int bytes) {
  int64_t count = 0;
  const std::regex access(kind + R"(\.global(\.v(\d))?\.\w(\d+))");
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), access), end; it != end; ++it)
    count += ((*it)[2].matched ? std::stoi((*it)[2]) : 1) * std::stoi((*it)[3]) == 8 * bytes;
  return count;
}

/// The kernels of a graph as PTX for sm_90; `info` is the last one's.
struct Module {
  explicit Module(const std::string &text, int64_t alignment = KernelModule::kAlignment) {
    context.loadDialect<StowDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
    graph = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    KernelModule kernels(&context, KernelTarget::Device);
    graph->walk([&](mlir::Operation *op) {
      if (hasGeneratedKernel(op))
        info = *kernels.add(
            op, llvm::SmallVector<int64_t>(op->getNumOperands() + op->getNumResults(), alignment));
    });
    ptx = compileToPtx(kernels, "sm_90");
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> graph;
  KernelInfo info;
  std::string ptx;
};

} // namespace stow
