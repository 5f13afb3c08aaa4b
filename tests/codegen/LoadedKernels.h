// The kernels of a graph, compiled for where they are tested, run on plain arrays.
#pragma once

#include "ir/StowKernelOps.h"
#include "tests/codegen/KernelRunner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <stdexcept>

namespace stow {

/// The kernels of the ops of all functions in `text`, in order, ready to run.
class LoadedKernels {
public:
  explicit LoadedKernels(const std::string &text, const std::string &cpu = "native") {
    context.loadDialect<StowDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect>();
    graph = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!graph)
      throw std::runtime_error("the graph does not parse");
    mapElementwise();
    runner = makeKernelRunner(&context, cpu);
    graph->walk([&](mlir::Operation *op) {
      if (hasGeneratedKernel(op))
        infos.push_back(runner->add(op));
    });
    runner->compile();
  }

  const KernelInfo &info(size_t op) const { return infos.at(op); }
  size_t size() const { return infos.size(); }

  /// Runs all tasks of op `op`, in one call or, with `step`, in several of `step` tasks.
  void run(size_t op, const std::vector<void *> &arguments, int64_t step = 0) const {
    const KernelInfo &kernel = infos.at(op);
    std::vector<char *> pointers;
    for (void *argument : arguments)
      pointers.push_back(static_cast<char *>(argument));
    if (step == 0)
      step = kernel.tasks;
    for (int64_t begin = 0; begin < kernel.tasks; begin += step)
      runner->run(op, begin, std::min(begin + step, kernel.tasks), pointers);
  }

private:
  /// Replaces every elementwise op by the map of its body.
  void mapElementwise() {
    std::vector<mlir::Operation *> found;
    graph->walk([&](ElementwiseOpInterface op) { found.push_back(op); });
    for (mlir::Operation *op : found) {
      mlir::OpBuilder builder(op);
      auto map = MapOp::create(builder, op->getLoc(), op->getResultTypes(), op->getOperands(),
                               llvm::ArrayRef<int64_t>{});
      mlir::Block &block = map.getBody().emplaceBlock();
      for (mlir::Value operand : op->getOperands())
        block.addArgument(mlir::getElementTypeOrSelf(operand.getType()), op->getLoc());
      builder.setInsertionPointToStart(&block);
      auto values = mlir::cast<ElementwiseOpInterface>(op).emitBody(builder, block.getArguments());
      YieldOp::create(builder, op->getLoc(), values);
      op->replaceAllUsesWith(map);
      op->erase();
    }
    if (failed(mlir::verify(*graph)))
      throw std::runtime_error("the maps do not verify");
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> graph;
  std::vector<KernelInfo> infos;
  std::unique_ptr<KernelRunner> runner;
};

/// A deterministic stream of numbers in [-scale, scale).
inline std::vector<float> someFloats(size_t count, float scale = 1, uint64_t seed = 1) {
  std::vector<float> values(count);
  uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (float &value : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    value = scale * (static_cast<float>(state >> 40) / (1 << 23) - 1);
  }
  return values;
}

} // namespace stow
