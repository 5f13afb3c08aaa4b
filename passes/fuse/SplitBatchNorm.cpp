// Batch normalizations whose elements the kernels that read them compute: O(ops).
//
//   %y, %m, %v = batch_norm_training %x     3 passes     %m, %v, %k = batch_norm_statistics %x   1 pass
//   %r = relu %y                            2            %r = map %x, %m, %k, %b {max((x - m) * k + b, 0)}   2
//
// %x is kept for the normalization's gradient, %r for that of the next convolution's weight. Where %r
// is computed again, the left side takes all of its passes, statistics included; the right side takes
// two, since the vectors %m and %k are there. Kernels of the backward that read %y, as the gradients of
// SiLU or of hard swish do, compute it from %x in their own loops (stow-rederive-saved): it is not
// kept beside %x.
#include "passes/fuse/Passes.h"

#include "ir/Graphs.h"
#include "ir/StowKernelOps.h"
#include "ir/StowNormOps.h"
#include "ir/StowShapeOps.h"
#include "ir/StowStatisticsOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace stow {
#define GEN_PASS_DEF_SPLITBATCHNORMPASS
#include "passes/fuse/Passes.h.inc"

namespace {

/// True when kernels read the normalized elements, and nothing else does before the backward.
bool isReadByKernels(BatchNormTrainingOp norm) {
  bool isRead = false;
  for (Operation *user : norm.getY().getUsers()) {
    if (phaseOf(user) == Phase::Backward)
      continue;
    if (!isa<ElementwiseOpInterface>(user))
      return false;
    isRead = true;
  }
  return isRead;
}

/// A vector with an element per channel over the dimensions of x.
Value spread(OpBuilder &builder, BatchNormTrainingOp norm, Value vector) {
  SmallVector<int64_t> shape(tensorType(norm.getX()).getRank(), 1);
  shape[1] = tensorType(vector).getNumElements();
  auto type = RankedTensorType::get(shape, tensorType(vector).getElementType());
  auto view = ReshapeOp::create(builder, norm.getLoc(), type, vector);
  copyPhase(norm, view);
  return view.getY();
}

/// The normalization's elements as the loops of the runtime compute them: in f32, the product rounded
/// together with the sum.
MapOp normalize(OpBuilder &builder, BatchNormTrainingOp norm, BatchNormStatisticsOp statistics) {
  const Location location = norm.getLoc();
  SmallVector<Value> inputs = {norm.getX()};
  for (Value vector : {statistics.getMean(), statistics.getSlope(), norm.getBias()})
    inputs.push_back(spread(builder, norm, vector));
  auto map = MapOp::create(builder, location, TypeRange(norm.getY().getType()), inputs,
                           builder.getDenseI64ArrayAttr({}));
  copyPhase(norm, map);
  OpBuilder::InsertionGuard guard(builder);
  Block &block = map.getBody().emplaceBlock();
  builder.setInsertionPointToStart(&block);
  for (Value input : inputs)
    block.addArgument(tensorType(input).getElementType(), location);
  const Type single = builder.getF32Type();
  Value x = block.getArgument(0);
  if (x.getType() != single)
    x = arith::ExtFOp::create(builder, location, single, x);
  Value centred = arith::SubFOp::create(builder, location, x, block.getArgument(1));
  Value y =
      math::FmaOp::create(builder, location, centred, block.getArgument(2), block.getArgument(3));
  if (const Type element = norm.getY().getType().getElementType(); element != single)
    y = arith::TruncFOp::create(builder, location, element, y);
  YieldOp::create(builder, location, y);
  return map;
}

//===-- --stow-split-batch-norm --------------------------------------------------------------===//

struct SplitBatchNormPass : impl::SplitBatchNormPassBase<SplitBatchNormPass> {
  explicit SplitBatchNormPass(const Target &target) : target(target) {}

  void runOnOperation() override {
    for (auto graph : getOperation().getOps<func::FuncOp>())
      for (auto norm : llvm::make_early_inc_range(graph.getOps<BatchNormTrainingOp>()))
        if (isReadByKernels(norm))
          split(norm);
  }

private:
  void split(BatchNormTrainingOp norm) {
    // A reader of another layout has a reorder in front of it, and is no kernel.
    if (layoutOf(norm.getX().getType()) != layoutOf(norm.getY().getType()))
      return;
    OpBuilder builder(norm);
    auto statistics = BatchNormStatisticsOp::create(
        builder, norm.getLoc(), norm.getMean().getType(), norm.getVariance().getType(),
        norm.getMean().getType(), norm.getX(), norm.getScale(), norm.getEpsilonAttr());
    copyPhase(norm, statistics);
    if (!target.libraryCall(statistics)) {
      statistics->erase();
      return;
    }
    MapOp map = normalize(builder, norm, statistics);
    norm.getY().replaceAllUsesWith(map.getResult(0));
    norm.getMean().replaceAllUsesWith(statistics.getMean());
    norm.getVariance().replaceAllUsesWith(statistics.getVariance());
    norm->erase();
  }

  const Target &target;
};

} // namespace

std::unique_ptr<Pass> createSplitBatchNormPass(const Target &target) {
  return std::make_unique<SplitBatchNormPass>(target);
}

} // namespace stow
